"""The laws of the cost model as questions to a module, so that mutants can be asked too."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any
from unittest import mock

import msgspec
import numpy as np
from scipy.optimize import isotonic_regression

import simcg.cost.kernels
from simcg.arrays import Floats, Ints
from simcg.backend import BACKENDS
from simcg.cost.kernels import Kernels, Work
from simcg.hardware.profile import Curve, CurveKey, Grid, HardwareProfile
from simcg.model.ops import (
    DTYPE_BITS,
    AllReduce,
    Attention,
    Elementwise,
    Experts,
    GatedDelta,
    Gemm,
    GroupedGemm,
    LatentAttention,
    Op,
    OpKind,
    SelectKeys,
    Shape,
)
from tests.costs import Costs, plain_step, play, random_forward, uneven_profile, unmeasured

LATENCY = 3


def op_of(shape: Shape, kind: OpKind = "gemm", kernels: int = 1) -> Op:
    return Op("op", kind, shape, kernels, (), ())


def ints(values: Any) -> Ints:
    return np.array(values, dtype=np.int64)


def map_of(timeline: ModuleType, one: Costs) -> Any:
    """The item's map, over one batch."""
    return timeline.item(one.host, one.gap, LATENCY, ints([one.duration]))


def composes(timeline: ModuleType, items: list[Costs], order: list[int]) -> bool:
    """Does the composed map of items[order] equal the recurrence?"""
    sequence = [items[index] for index in order]
    maps = {index: map_of(timeline, items[index]) for index in set(order)}
    total = timeline.compose(timeline.fold_repeats(order), maps)
    played = play(sequence, LATENCY)
    return bool(
        total.host == sum(one.host for one in sequence)
        and total.end().tolist() == [played.end]
        and total.device.tolist() == [sum(one.gap + one.duration for one in sequence)]
    )


def folds(timeline: ModuleType, keys: list[int]) -> bool:
    """Do the runs give the sequence back?"""
    runs = timeline.fold_repeats(keys)
    return all(times >= 1 for _, times in runs) and keys == [
        key for unit, times in runs for _ in range(times) for key in unit
    ]


def finds_layers(timeline: ModuleType) -> bool:
    """Are 94 equal layers between a head and a tail one run, in graphs and in ops?"""
    layers = timeline.fold_repeats([0, 1, *[2, 3, 4, 3, 5] * 94, 6])
    segments = timeline.fold_repeats([0, *[1, 2] * 93, 1, 3])
    return ((2, 3, 4, 3, 5), 94) in layers and ((1, 2), 93) in segments and len(layers) == 4


def timeline_agrees(timeline: ModuleType) -> bool:
    """All laws of the timeline on 200 random sequences."""
    random = np.random.default_rng(21)
    for _ in range(200):
        kinds = int(random.integers(1, 5))
        costs = [Costs(*map(int, random.integers(0, 9, 3))) for _ in range(kinds)]
        unit = random.integers(kinds, size=random.integers(1, 5)).tolist()
        order = [*unit * int(random.integers(1, 9)), *random.integers(kinds, size=3).tolist()]
        if not (folds(timeline, order) and composes(timeline, costs, order)):
            return False
    return finds_layers(timeline)


def step_agrees(step: ModuleType) -> bool:
    """Do all backends equal the op-by-op reference on 40 random forwards, at two scales?"""
    profile = uneven_profile()
    node = profile.gaps.node
    at = tuple(msgspec.structs.replace(node, value=node.value + ns) for ns in (-50, 150))
    gaps = msgspec.structs.replace(profile.gaps, node_rows=(30, 230), node_at=at)
    profile = msgspec.structs.replace(profile, gaps=gaps)
    wider = (-50, 50, 150)  # at the rows of this work
    work = Work(ints([1, 130, 4096]), ints([1, 100, 4000]), ints([1, 3, 9]), ints([1, 9000, 8**8]))
    kernels = Kernels(profile)
    for seed in range(40):
        forward, scale = random_forward(seed), (1.0, 2.5)[seed % 2]
        op_times = step.OpTimes(profile, work, scale)
        for backend in BACKENDS.values():
            cost = step.StepCost(forward, profile, backend)
            times = cost.times_from(op_times)
            for place in range(len(work)):

                def op_ns(op: Op, place: int = place, scale: float = scale) -> int:
                    ns = round(int(kernels.time(op, work).ns[place]) * scale)
                    return ns + op.kernels * wider[place]

                expected = plain_step(forward, profile, backend, op_ns)
                found = (int(times.ns[place]), times.host_ns, int(times.device_ns[place]))
                if found != (expected.ns, expected.host_ns, expected.device_ns):
                    return False
                if (cost.nodes, cost.segments) != (expected.nodes, expected.segments):
                    return False
    return True


def curve_profile() -> HardwareProfile:
    """A profile with one small curve of each kind."""
    base = unmeasured("a100")
    given: dict[str, Any] = {"provenance": "measured", "source": "test"}
    small = {"x": (1.0, 16.0, 64.0), "spread_ns": (1.0, 1.0, 1.0), **given}
    grid = tuple(float(v) for v in (100, 200, 400, 210, 430, 900))
    curves = (
        Curve(CurveKey("gemm", k=64, n=32), ns=(1000.0, 1500.0, 1400.0), **small),
        Curve(
            CurveKey("grouped_gemm", k=64, n=32, experts=8, top_k=2), ns=(2e3, 3e3, 4e3), **small
        ),
        Curve(CurveKey("elementwise"), ns=(500.0, 800.0, 2000.0), **small),
        Curve(
            CurveKey("attention", heads=8, kv_heads=2, head_dim=64),
            x=(16.0, 64.0), y=(8.0, 32.0, 128.0), ns=grid, spread_ns=(1.0,) * 6, **given,
        ),
    )  # fmt: skip
    return HardwareProfile(**{**_fields(base), "curves": curves})


def _fields(profile: HardwareProfile) -> dict[str, Any]:
    return {name: getattr(profile, name) for name in profile.__struct_fields__}


def rows_work(rows: list[int]) -> Work:
    n = ints(rows)
    return Work(n, n, np.ones_like(n), n * (n + 1) // 2)


def curves_agree(kernels: ModuleType) -> bool:
    """Stairs over rows, straight lines over bytes, in proportion beyond, exact on the grid."""
    price = kernels.Kernels(curve_profile())

    def ns(shape: Shape, kind: OpKind, rows: list[int], count: int = 1) -> list[int]:
        return [int(v) for v in price.time(op_of(shape, kind, count), rows_work(rows)).ns]

    rows = [1, 2, 16, 17, 63, 64, 96, 128]
    stairs = [1000, 1500, 1500, 1400, 1400, 1400, 2100, 2800]
    lines = [500, 520, 800, 825, 1975, 2000, 3000, 4000]
    grouped = [2000, 3000, 3000, 4000, 4000, 4000, 6000, 8000]
    at = [(16, 8), (16, 32), (16, 128), (64, 8), (64, 32), (64, 128), (8, 4), (256, 128), (32, 16)]
    tokens = ints([n for n, _ in at])
    pairs = ints([n * keys for n, keys in at])
    work = Work(tokens, tokens, np.ones_like(tokens), pairs)
    plane = price.time(op_of(Attention(8, 2, 64), "attention"), work).ns.tolist()
    # below the grid its first value; beyond, the last slope: 900 / 400 once more; inside, the
    # geometric mean of the four corners
    middle = round((100 * 200 * 210 * 430) ** 0.25)
    known = price.time(op_of(Gemm(64, 32)), work).provenance
    stand_in = price.time(op_of(Elementwise(1, 0), "norm"), work).provenance
    return (
        ns(Gemm(64, 32), "gemm", rows) == stairs
        and ns(GroupedGemm(8, 2, 64, 32), "grouped_gemm", rows) == grouped
        and ns(Elementwise(1, 0), "norm", rows) == lines
        and ns(Elementwise(1, 1), "norm", rows, count=2) == [2 * v for v in lines]
        and plane == [100, 200, 400, 210, 430, 900, 100, 2025, middle]
        and (known, stand_in) == ("measured", "assumed")
    )


def curves_module_agrees(curves: ModuleType) -> bool:
    """The kernels' laws with this module's functions, and what prompts with context rest on."""
    names = ("along", "between", "over_plane")
    with mock.patch.multiple(simcg.cost.kernels, **{name: getattr(curves, name) for name in names}):
        if not curves_agree(simcg.cost.kernels):
            return False
    causal = Curve(
        CurveKey("attention", heads=8, kv_heads=2, head_dim=64),
        x=(16.0, 64.0), y=(8.5, 32.5), ns=(1.0, 2.0, 3.0, 4.0), spread_ns=(),
        provenance="measured", source="test", causal=True,
    )  # fmt: skip
    cases = [(16, 8.5, "measured"), (64, 32.5, "measured"), (16, 32.5, "fitted")]
    return all(
        curves.over_plane(causal, ints([n]), np.array([keys])).provenance == expected
        for n, keys, expected in cases
    )


GRID = Grid(
    weights="bf16", k=(64, 256), n=(64, 256, 1024), rows=(1, 64, 320), noise=0.01, sigma=0.05,
    ns=(
        1000, 1100, 2000, 1500, 1600, 4000, 3000, 3100, 9000,
        1800, 1900, 3000, 2500, 2600, 7000, 8000, 8200, 30000,
    ),
    provenance="measured", source="test",
)  # fmt: skip


def products_agree(products: ModuleType) -> bool:
    """Exact at the grid's sizes and rows, the geometric mean half-way, in proportion beyond; tiles
    on a line between rows further apart; expert layers on lines in logarithms."""

    def curve(k: int, n: int) -> Curve:
        made: Curve = products.product_curve(GRID, CurveKey("gemm", k=k, n=n))
        return made

    known, between = curve(64, 256), curve(128, 128)
    corners = (1000, 1500, 1800, 2500)
    key = CurveKey("experts", k=8, n=8, experts=4, top_k=2)
    ns = (100.0, 800.0, 900.0)
    layer = Curve(key, (1.0, 64.0, 512.0), ns, (), "measured", "test", sigma=0.02)
    fine = products.finer(layer)
    at = dict(zip(fine.x, fine.ns, strict=True))
    return bool(
        known.x == (1, 64, 192, 320)
        and np.allclose(known.ns, (1500, 1600, 2800, 4000))
        and (known.provenance, known.sigma) == ("measured", 0.01)
        and np.isclose(between.ns[0], np.prod(np.array(corners, dtype=np.float64)) ** 0.25)
        and np.isclose(curve(64, 128).ns[0], (1000 * 1500) ** 0.5)
        and (between.provenance, between.sigma) == ("interpolated", 0.05)
        and curve(64, 128).provenance == "interpolated"
        and np.isclose(curve(512, 2048).ns[0], 4 * 8000)
        and np.isclose(curve(32, 256).ns[0], 1500)
        and np.isclose(at[8.0], 100 * 8**0.5)
        and np.allclose((at[1.0], at[64.0], at[512.0]), (100, 800, 900))
        and fine.x[-1] == 512
    )


def roofline_ns(profile: HardwareProfile, shape: Shape, rows: int) -> float:
    """One kernel by the definition of the roofline; attention of one request without context."""
    gpu, roof = profile.gpu, profile.roofline
    sms, bandwidth = gpu.sms.value, gpu.memory_bandwidth.value

    def peak(activations: str) -> float:
        if activations == "fp8" and "fp8" in gpu.peak_flops:
            return gpu.peak_flops["fp8"].value
        if activations == "nvfp4" and "fp4" in gpu.peak_flops:
            return gpu.peak_flops["fp4"].value
        return gpu.peak_flops["bf16"].value

    def waves(tiles: float) -> float:
        # the last wave, which is not filled, is shortened (see PARTIAL_WAVE)
        return float(tiles // sms + (tiles / sms - tiles // sms) ** (2 / 3))

    columns = -(-getattr(shape, "n", 1) // 128)
    tiles: float
    if isinstance(shape, Gemm):
        tiles = -(-rows // 128) * columns
        one = 2 * 128 * 128 * shape.k / (peak(shape.activations) * roof.compute.value / sms)
        moved = shape.k * shape.n * DTYPE_BITS[shape.weights] / 8
        moved += 2 * rows * (shape.k + shape.n)
        stream = moved / (bandwidth * roof.bandwidth.value)
    elif isinstance(shape, GroupedGemm):
        routed = rows * shape.top_k
        touched = shape.experts * (1 - (1 - shape.top_k / shape.experts) ** rows)
        tiles = touched * max(1.0, routed / touched / 128 + 0.5) * columns
        rate = peak(shape.activations) * roof.grouped_compute.value
        one = 2 * 128 * 128 * shape.k / (rate / sms)
        moved = touched * shape.k * shape.n * DTYPE_BITS[shape.weights] / 8
        moved += 2 * routed * (shape.k + shape.n)
        stream = moved / (bandwidth * roof.grouped_bandwidth.value)
    elif isinstance(shape, Attention):
        keys = min((rows + 1) / 2, shape.window or rows)
        tiles = -(-rows // 128) * shape.heads
        rate = peak("bf16") * roof.attention_compute.value
        one, stream = 4 * 128 * shape.head_dim * keys / (rate / sms), 0.0
    elif isinstance(shape, AllReduce):
        sent = 2 * (shape.ranks - 1) / shape.ranks * shape.row_bytes * rows
        return roof.collective_ns.value + sent / (gpu.link_bandwidth.value * roof.link.value) * 1e9
    else:
        assert isinstance(shape, Elementwise)
        moved = rows * (shape.read_bytes + shape.write_bytes)
        tiles, one, stream = 0, 0.0, moved / (bandwidth * roof.bandwidth.value)
    return max(waves(tiles) * one, stream) * 1e9 + roof.floor_ns.value


ROOFLINE_SHAPES: tuple[Shape, ...] = (
    Gemm(4096, 24576),
    Gemm(4096, 130),
    Gemm(8192, 8192, "fp8", "fp8"),
    Gemm(8192, 8192, "mxfp4"),
    Gemm(8192, 8192, "nvfp4", "nvfp4"),
    GroupedGemm(128, 8, 4096, 1536),
    GroupedGemm(32, 4, 2880, 5760, "mxfp4"),
    GroupedGemm(4, 4, 512, 512, "fp8", "fp8"),
    Attention(32, 8, 128),
    Attention(64, 8, 64, 128),
    Elementwise(8192, 4096),
    AllReduce(8192, 4),
)


def roofline_agrees(kernels: ModuleType) -> bool:
    """Does every shape cost what the definition says, at tile edges and between, within 1 ns?"""
    rows = [1, 2, 100, 127, 128, 129, 256, 257, 1000, 1024, 1025, 2049, 8191, 8192]
    for name in ("a100", "gb300"):
        profile = unmeasured(name)
        price = kernels.Kernels(profile)
        for shape in ROOFLINE_SHAPES:
            found = price.time(op_of(shape), rows_work(rows)).ns
            expected = [roofline_ns(profile, shape, n) for n in rows]
            if not np.allclose(found, expected, rtol=1e-12, atol=0.51):
                return False
    return True


def kernels_agree(kernels: ModuleType) -> bool:
    """Measured and unmeasured kernels."""
    return curves_agree(kernels) and roofline_agrees(kernels) and tables_agree(kernels)


def table_profile() -> HardwareProfile:
    """Curves as tables of whole kernels have them, one of a kind, and a grid of products."""
    given: dict[str, Any] = {
        "spread_ns": (), "provenance": "measured", "source": "test", "sigma": 0.02
    }  # fmt: skip
    plane: dict[str, Any] = {"x": (1.0, 64.0), "y": (16.0, 1024.0), **given}
    line: dict[str, Any] = {"x": (1.0, 65.0), **given}
    curves = (
        Curve(CurveKey("experts", k=64, n=32, experts=8, top_k=2), ns=(60e3, 120e3), **line),
        Curve(CurveKey("all_reduce", ranks=4), ns=(5e3, 69e3), **line),
        Curve(
            CurveKey("decode_attention", heads=8, kv_heads=2, head_dim=64),
            ns=(3e3, 12e3, 6e3, 24e3), **plane,
        ),
        Curve(CurveKey("latent_decode", heads=8, head_dim=40), ns=(2e3,) * 4, **plane),
        Curve(CurveKey("sparse_attention", heads=64, head_dim=40, top_k=16), ns=(7e3, 9e3), **line),
        Curve(CurveKey("select_keys", top_k=16), ns=(30e3,) * 4, **plane),
        Curve(
            CurveKey("gated_delta", heads=4, kv_heads=2, head_dim=16), ns=(80e3,) * 4, **plane
        ),
        Curve(CurveKey("delta_update", heads=4, kv_heads=2, head_dim=16), ns=(1e3, 2e3), **line),
    )  # fmt: skip
    return msgspec.structs.replace(unmeasured("a100"), curves=curves, grids=(GRID,))


def tables_agree(kernels: ModuleType) -> bool:
    """Expert layers shared by weights without their gaps, collectives by bytes, decoding requests
    by the keys of each, the rest by the curve of their kind of step."""
    profile = table_profile()
    price, node = kernels.Kernels(profile), round(profile.gaps.node.value)

    def ns(shape: Shape, work: Work, count: int = 1, layer: Experts | None = None) -> list[int]:
        op = Op("op", "gemm", shape, count, (), (), part_of=layer)
        return [int(v) for v in price.time(op, work).ns]

    none = ints([0, 0])

    def decoding(requests: list[int], keys: list[int]) -> Work:
        m = ints(requests)
        return Work(m, none, m, none, m, ints(keys))

    rows = rows_work([1, 65])
    layer = Experts(64, 32, 8, 2)
    whole = [60e3 - 5 * node, 120e3 - 5 * node]
    fp8 = Experts(64, 32, 8, 2, "bf16", "fp8")
    up = [round(2 * v / 3) for v in whole]
    wide, thin = GroupedGemm(8, 2, 64, 64), GroupedGemm(8, 2, 32, 64)
    delta, latent = GatedDelta(2, 4, 16, 16), LatentAttention(8, 32, 16, 8, 16, absorbed=True)
    sparse = LatentAttention(8, 32, 16, 8, 16, absorbed=True, top_k=16)
    floor = round(profile.roofline.floor_ns.value)
    return bool(
        ns(wide, rows, layer=layer) == up
        and ns(thin, rows, layer=layer) == [round(v / 3) for v in whole]
        and ns(Elementwise(8, 8), rows, layer=layer) == [0, 0]
        and ns(wide, rows, layer=fp8) == [round(2 * (v - 2 * node) / 3) for v in whole]
        and ns(AllReduce(1, 4), rows) == [5000, 69000]
        and ns(AllReduce(2, 4), rows_work([16, 32])) == [36000, 68000]
        and ns(Attention(8, 2, 64), decoding([1, 64], [128, 64 * 128])) == [6000, 12000]
        and ns(Attention(8, 2, 64), decoding([0, 64], [0, 64 * 16])) == [0, 6000]
        and ns(latent, decoding([1, 64], [16, 64 * 16])) == [2000, 2000]
        and ns(sparse, rows) == ns(sparse, decoding([1, 65], [99, 9999])) == [7000, 9000]
        and ns(SelectKeys(16), decoding([2, 2], [32, 34])) == [floor, 30000]
        and ns(delta, rows, 8) == [80000 - 7 * node] * 2
        and ns(delta, decoding([1, 65], [9, 99])) == [1000, 2000]
        and ns(Gemm(64, 256), rows_work([64, 193])) == [1600, 4000]
        and price.measured_rows(op_of(Gemm(64, 256))) == (1, 64, 192, 320)
        and price.time(op_of(Gemm(64, 256)), rows).relative_spread == 0.01
    )


def transfers_agree(transfer: ModuleType) -> bool:
    """Two curves at known distances, on a base of 100 ns a row: weighted, in reach, or nearest."""
    given: dict[str, Any] = {"provenance": "measured", "source": "test"}

    def base(key: CurveKey, x: Floats, y: Floats) -> Floats:
        return 100.0 * x * (1 + (key.op == "attention") * y)

    def curve(factor: float, x: tuple[float, ...], n: int) -> Curve:
        ns = tuple(factor * 100.0 * v for v in x)
        return Curve(CurveKey("gemm", k=64, n=n), x, ns, (1.0,) * len(x), **given)

    near = curve(2.0, (1.0, 10.0), 128)
    far = curve(4.0, (1.0, 5.0, 20.0), 32)
    key = CurveKey("gemm", k=64, n=64)  # as far from 32 as from 128
    found = transfer.transfer(key, [near, far], base, 0.1)
    middle = 8.0**0.5  # the geometric mean of 2 and 4
    expected = [middle * 100, middle * 500, middle * 1000, 4.0 * 2000]
    close = transfer.transfer(CurveKey("gemm", k=64, n=120), [near, far], base, 0.1)
    by_k = transfer.transfer(CurveKey("gemm", k=256, n=32), [near, far], base, 0.1)
    # a step of 2 in n, of 4 in k: distances sqrt(log(4)^2 + log(2)^2) and log(2)
    weights = np.array([5.0**-1.5, 1.0])
    mixed = float(np.exp(weights @ np.log([2.0, 4.0]) / weights.sum()))
    experts = [
        Curve(CurveKey("grouped_gemm", k=8, n=8, experts=e, top_k=2), (1.0, 4.0),
              (100.0, 1600.0), (1.0, 1.0), **given)
        for e in (8,)
    ]  # fmt: skip
    moe = transfer.transfer(
        CurveKey("grouped_gemm", k=8, n=8, experts=16, top_k=2), experts, base, 0.1
    )
    held = dict(transfer.leave_one_out(_Curves((near, far)), "gemm", base))
    return bool(
        found.x == (1.0, 5.0, 10.0, 20.0)
        and np.allclose(found.ns, expected, rtol=1e-4)
        and np.allclose(np.array(found.spread_ns) / found.ns, 0.1)
        and found.provenance == "fitted"
        and 2.0 < close.ns[0] / 100 < 2.01
        and np.isclose(by_k.ns[0] / 100, mixed)
        # 4 rows of 16 experts are 2 of 8: half-way between factors 1 and 4, in logarithms
        and np.isclose(moe.ns[1] / 400, 2.0)
        and np.allclose(held[near.key], 1.0)
        and np.allclose(held[far.key], -0.5)
    )


@dataclass(frozen=True)
class _Curves:
    """As much of a profile as holding out curves needs."""

    curves: tuple[Curve, ...]


def smooths(smooth: ModuleType, ns: Ints, spread: float) -> bool:
    """Blocks at their means, no fall within the noise left, and what moved and falls reported.

    With infinite spread SciPy's isotonic regression, with spread 0 the input.
    """
    found = smooth.smooth_noise(ns, spread)
    if spread == 0 and not np.array_equal(found.ns, ns):
        return False
    if spread == np.inf:
        nearest = isotonic_regression(ns.astype(np.float64)).x
        if np.abs(found.ns - nearest).max() > 0.5 + 1e-6 or np.any(np.diff(found.ns) < 0):
            return False
    edges = np.flatnonzero(np.diff(found.ns)) + 1
    for block, before in zip(np.split(found.ns, edges), np.split(ns, edges), strict=True):
        if abs(block[0] - before.mean()) > 0.5 + 1e-6:
            return False
    falls = 1 - found.ns[1:] / found.ns[:-1]
    largest = max(0.0, float(falls.max(initial=0.0)))
    noise = 3 * 2**0.5 * spread
    rounding = 1.0 / found.ns.min()
    return bool(
        not np.any((falls > rounding) & (falls < noise - rounding))
        and found.largest_correction == np.abs(found.ns / ns - 1).max()
        and found.fall == largest
        and (largest == 0 or falls[found.fall_at - 1] == largest)
    )


def smoothing_agrees(smooth: ModuleType) -> bool:
    """The law of smoothing on 400 random curves, rising and not, noisy and not."""
    random = np.random.default_rng(22)
    for _ in range(400):
        size = int(random.integers(1, 40))
        rise = np.linspace(1, 1 + random.random() * 4, size) * 1_000_000
        noise = 1 + random.choice([0.0, 0.02, 0.1, 0.3]) * random.standard_normal(size)
        curve = ints(np.maximum(np.rint(rise * noise), 10_000))
        if not smooths(smooth, curve, float(random.choice([0.0, 0.01, 0.05, np.inf]))):
            return False
    return True
