"""What a profile holds, by section: how many figures, and how well they are known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from simcg.hardware.profile import Figure, HardwareProfile
from simcg.provenance import Provenance


@dataclass(frozen=True, slots=True)
class Section:
    """``entries`` figures or curves with ``points`` numbers; how many are of each provenance."""

    name: str
    entries: int
    points: int
    provenance: dict[Provenance, int]
    sources: tuple[str, ...]


def sections(profile: HardwareProfile) -> list[Section]:
    """GPU and host figures by field, then curves by op, then grids by type of weights."""
    out = []
    for name in ("gpu", "host", "gaps", "roofline", "memory", "startup", "burst"):
        if getattr(profile, name) is None:
            continue
        figures = list(_figures(getattr(profile, name)))
        known = Counter(figure.provenance for figure in figures)
        out.append(Section(name, len(figures), len(figures), dict(known), _sources(figures)))
    for op in dict.fromkeys(curve.key.op for curve in profile.curves):
        curves = [curve for curve in profile.curves if curve.key.op == op]
        known = Counter(curve.provenance for curve in curves)
        points = sum(len(curve.ns) for curve in curves)
        out.append(Section(f"curves: {op}", len(curves), points, dict(known), _sources(curves)))
    for grid in profile.grids:
        known = Counter([grid.provenance])
        sources = _sources([grid])
        out.append(Section(f"grid: {grid.weights}", 1, len(grid.ns), dict(known), sources))
    return out


def _figures(value: object) -> Iterator[Figure]:
    if isinstance(value, Figure):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _figures(inner)
    elif isinstance(value, tuple):
        for inner in value:
            yield from _figures(inner)
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from _figures(getattr(value, name))


def _sources(entries: Sequence[object]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(getattr(entry, "source", "")) for entry in entries))
