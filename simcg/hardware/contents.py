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


@dataclass(frozen=True, slots=True)
class Named:
    """A figure in the words of its reader: ``value`` counts ``unit``."""

    name: str
    figure: Figure
    value: float
    unit: str


def named_figures(profile: HardwareProfile) -> list[Named]:
    """The GPU's sizes and rates, what the host costs, gaps and the burst, in that order."""
    gpu, host, gaps = profile.gpu, profile.host, profile.gaps
    named: list[tuple[str, Figure, float, str]] = [
        ("SMs", gpu.sms, 1, ""),
        ("memory", gpu.memory_bytes, 1e9, "GB"),
        ("memory bandwidth", gpu.memory_bandwidth, 1e12, "TB/s"),
        ("link bandwidth", gpu.link_bandwidth, 1e9, "GB/s"),
        *((f"peak {name}", peak, 1e12, "TFLOP/s") for name, peak in gpu.peak_flops.items()),
        *(
            (f"dispatch of {kind}" if kind else "dispatch", figure, 1e3, "us")
            for kind, figure in host.dispatch.items()
        ),
        ("compiled dispatch", host.compiled_dispatch, 1e3, "us"),
        ("break body", host.break_body, 1e3, "us"),
        ("piece", host.piece, 1e3, "us"),
        ("launch latency", host.launch_latency, 1e3, "us"),
        *(
            (f"replay of {nodes} nodes", figure, 1e3, "us")
            for nodes, figure in zip(host.replay_nodes, host.replay, strict=True)
        ),
        ("gap in a stream", gaps.stream, 1e3, "us"),
        ("gap in a graph", gaps.node, 1e3, "us"),
        ("gap before a graph", gaps.graph_start, 1e3, "us"),
        ("gap after a break", gaps.after_break, 1e3, "us"),
        *_burst_figures(profile),
    ]
    return [Named(name, figure, figure.value / scale, unit) for name, figure, scale, unit in named]


def _burst_figures(profile: HardwareProfile) -> list[tuple[str, Figure, float, str]]:
    """How fast compute-bound work runs after work that draws less power; nothing if unmeasured."""
    burst = profile.burst
    if burst is None:
        return []
    return [
        ("speed of a burst at first", burst.fresh, 1, "times the curves'"),
        ("speed of a burst in the end", burst.settled, 1, "times the curves'"),
        ("time constant of its fall", burst.fall_ns, 1e6, "ms"),
        ("time constant of its rise", burst.rise_ns, 1e6, "ms"),
    ]


@dataclass(frozen=True, slots=True)
class Pair:
    """One figure on two profiles; None where one of them has none of that name."""

    name: str
    unit: str
    first: Named | None
    second: Named | None

    @property
    def ratio(self) -> float | None:
        """The second over the first; None without both, or where the first is 0."""
        if self.first is None or self.second is None or self.first.value == 0:
            return None
        return self.second.value / self.first.value

    @property
    def differs(self) -> bool:
        """Whether their values do; a figure that one side lacks differs."""
        if self.first is None or self.second is None:
            return True
        return self.first.value != self.second.value


def paired_figures(first: HardwareProfile, second: HardwareProfile) -> list[Pair]:
    """Every named figure of either profile. A kind of op without dispatch of its own has that of
    all others, as when steps are priced.
    """
    one, two = ({n.name: n for n in named_figures(p)} for p in (first, second))
    out = []
    for name in dict.fromkeys((*one, *two)):
        a, b = (names.get(name) or _dispatched(name, names) for names in (one, two))
        out.append(Pair(name, (a or b or one[name]).unit, a, b))
    return out


def _dispatched(name: str, names: dict[str, Named]) -> Named | None:
    return names["dispatch"] if name.startswith("dispatch of ") else None


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
