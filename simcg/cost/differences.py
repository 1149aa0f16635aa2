"""Two profiles op by op: what the same kernels of the same models take on both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from simcg.arrays import Floats
from simcg.cost.kernels import Kernels, Work
from simcg.hardware.profile import HardwareProfile
from simcg.model.catalog import architecture_named
from simcg.model.forward import forward_pass
from simcg.model.ops import AllReduce, Attention, ForwardPass, Gemm, GroupedGemm, Op
from simcg.provenance import Provenance, weakest

Family = Literal[
    "dense", "routers", "experts", "prompt attention", "decode attention", "all-reduces",
    "small kernels",
]  # fmt: skip
FAMILIES: tuple[Family, ...] = (
    "dense", "routers", "experts", "prompt attention", "decode attention", "all-reduces",
    "small kernels",
)  # fmt: skip

MODELS = (("qwen3-8b", 1), ("llama-3.1-8b", 1), ("qwen3-30b-a3b", 1), ("gpt-oss-20b", 1),
          ("gpt-oss-120b", 4))  # fmt: skip
"""Models and ranks whose ops are held against each other: those that `simcg calibrate` times, and
one with collectives."""
TOKENS = (1, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
REQUESTS, KEYS = (1, 8, 64, 256), (512, 2048, 8192)


@dataclass(frozen=True, slots=True)
class Point:
    """One op at one size on both profiles: ns with gaps inside fused layers, and provenances."""

    family: Family
    model: str
    op: str
    size: str
    first_ns: int
    second_ns: int
    first: Provenance
    second: Provenance

    @property
    def ratio(self) -> float:
        """The second over the first."""
        return self.second_ns / self.first_ns


@dataclass(frozen=True, slots=True)
class Difference:
    """One family: ratios of the second profile over the first at ``points`` sizes.

    ``low``, ``high``: where 80 % of them lie. ``worst``: furthest from 1 in its logarithm.
    ``first``, ``second``: the weakest provenance of each side.
    """

    family: Family
    points: int
    median: float
    low: float
    high: float
    worst: Point
    first: Provenance
    second: Provenance


def differences(first: HardwareProfile, second: HardwareProfile) -> list[Difference]:
    """Every family of ops of ``MODELS``, in the order of ``FAMILIES``."""
    points = list(compared(first, second))
    of = {family: [p for p in points if p.family == family] for family in FAMILIES}
    return [_summary(family, found) for family, found in of.items() if found]


def compared(first: HardwareProfile, second: HardwareProfile) -> Iterator[Point]:
    """Every op at every size; ops that several models have, once."""
    prices = Kernels(first), Kernels(second)
    seen: set[object] = set()
    for name, ranks in MODELS:
        forward = forward_pass(architecture_named(name), tp=ranks)
        for family, ops in _units(forward):
            key = (family, tuple((op.shape, op.kernels) for op in ops))
            if key not in seen:
                seen.add(key)
                yield from _points(family, forward.name, ops, prices)


def _units(forward: ForwardPass) -> Iterator[tuple[Family, tuple[Op, ...]]]:
    """Ops one by one, but the parts of a fused layer together; attention twice."""
    distinct, _ = forward.numbered
    layers: dict[object, list[Op]] = {}
    for op in distinct:
        if op.part_of is not None:
            layers.setdefault(op.part_of, []).append(op)
        else:
            yield _family(op), (op,)
        if isinstance(op.shape, Attention):
            yield "decode attention", (op,)
    for parts in layers.values():
        yield "experts", tuple(parts)


def _family(op: Op) -> Family:
    if op.name == "router":
        return "routers"
    if isinstance(op.shape, Gemm | GroupedGemm):
        return "dense"
    if isinstance(op.shape, Attention):
        return "prompt attention"
    return "all-reduces" if isinstance(op.shape, AllReduce) else "small kernels"


def _points(
    family: Family, model: str, ops: tuple[Op, ...], prices: tuple[Kernels, Kernels]
) -> Iterator[Point]:
    if family == "decode attention":
        sizes = [(m, keys) for m in REQUESTS for keys in KEYS]
        names = [f"{m} x {keys} keys" for m, keys in sizes]
        work = _decoding(sizes)
    else:
        names = [f"{n} tokens" for n in TOKENS]
        work = _prompts(TOKENS)
    if ops[0].rows == "requests":
        names, work = ["1 request"], _prompts((1,))
    found = [_time(ops, price, work) for price in prices]
    name = ops[0].name if len(ops) == 1 else "experts"
    for i, size in enumerate(names):
        (a, where_a), (b, where_b) = ((int(ns[i]), where) for ns, where in found)
        yield Point(family, model, name, size, max(a, 1), max(b, 1), where_a, where_b)


def _time(ops: tuple[Op, ...], price: Kernels, work: Work) -> tuple[Floats, Provenance]:
    """Of all of them, with the gaps between kernels where they are several."""
    times = [price.time(op, work) for op in ops]
    gaps = sum(op.kernels for op in ops) - 1 if len(ops) > 1 else 0
    total = np.sum([time.ns for time in times], axis=0) + gaps * price.profile.gaps.node.value
    busy = [time.provenance for time in times if time.ns.any()]
    return total, weakest(busy)


def _prompts(tokens: Iterable[int]) -> Work:
    n = np.array(list(tokens), dtype=np.int64)
    return Work(n, n, np.ones_like(n), n * (n + 1) // 2)


def _decoding(sizes: list[tuple[int, int]]) -> Work:
    m, keys = np.array(sizes, dtype=np.int64).T
    none = np.zeros_like(m)
    return Work(m, none, m, none, m, m * keys)


def _summary(family: Family, points: list[Point]) -> Difference:
    ratios = np.array([point.ratio for point in points])
    low, median, high = np.percentile(ratios, [10, 50, 90])
    return Difference(
        family=family,
        points=len(points),
        median=float(median),
        low=float(low),
        high=float(high),
        worst=points[int(np.argmax(np.abs(np.log(ratios))))],
        first=weakest(point.first for point in points),
        second=weakest(point.second for point in points),
    )
