"""What a step's time rests on, part by part: how well each is known, and from where."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from simcg.cost.kernels import Work
from simcg.cost.step import OpTimes, StepCost
from simcg.model.ops import AllReduce, BatchedGemm, Gemm, GroupedGemm, Op
from simcg.provenance import ORDER, Provenance

HOW: dict[Provenance, str] = {
    "measured": "",
    "interpolated": "between measured sizes",
    "fitted": "carried over from measured kernels of other sizes",
    "published": "roofline",
    "datasheet": "roofline",
    "assumed": "as on another GPU or kernel, or a roofline",
}
"""Where the time of a kernel is from, by its provenance."""


@dataclass(frozen=True, slots=True)
class Ground:
    """One part of a step: ``provenance`` of what it costs, ``source`` in words."""

    part: str
    provenance: Provenance
    source: str


def step_grounds(cost: StepCost, work: Work) -> list[Ground]:
    """Every part of these steps: kernels by kind of op, and what host and gaps are of.

    The weakest of them is the provenance of ``StepTimes``.
    """
    times = OpTimes(cost.profile, work)
    decodes = not work.tokens.any()
    out = []
    for op in cost.forward.numbered[0]:
        where = times.of(op).provenance
        out.append(Ground(_kernel(op, decodes=decodes), where, HOW[where]))
    return out + [Ground(part, f.provenance, f.source) for part, f in cost.figures()]


def weakest_first(grounds: Iterable[Ground]) -> list[Ground]:
    """Each part once, by its weakest ground; the weakest parts first."""
    parts: dict[str, Ground] = {}
    for one in grounds:
        known = parts.setdefault(one.part, one)
        if ORDER.index(one.provenance) > ORDER.index(known.provenance):
            parts[one.part] = one
    return sorted(parts.values(), key=lambda g: -ORDER.index(g.provenance))


def _kernel(op: Op, *, decodes: bool) -> str:
    if op.part_of is not None:
        return "expert layers"
    if isinstance(op.shape, Gemm | GroupedGemm | BatchedGemm):
        return "matrix products"
    if isinstance(op.shape, AllReduce):
        return f"all-reduces of {op.shape.ranks} ranks"
    when = "decode" if decodes else "prompt"
    if op.kind == "attention":
        return f"{when} attention"
    if op.kind in ("linear_attention", "indexer"):
        return f"{when} {op.kind.replace('_', ' ')}"
    return "small kernels"
