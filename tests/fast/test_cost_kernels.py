"""What one kernel costs: measured curves, and the roofline where nothing was measured."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simcg.cost.kernels
from simcg.cost.kernels import Kernels, Work
from simcg.errors import InputError
from simcg.hardware.catalog import load_profile, profile_names
from simcg.hardware.profile import Curve, CurveKey
from simcg.model.ops import AllReduce, Attention, Elementwise, Gemm, GroupedGemm, Op, OpKind, Shape
from tests.cost_laws import (
    ROOFLINE_SHAPES,
    curve_profile,
    curves_agree,
    ints,
    op_of,
    roofline_agrees,
    rows_work,
)
from tests.costs import unmeasured

H200 = load_profile("h200")


def shape_of(key: CurveKey) -> Shape:
    """The op's shape that looks this curve up."""
    if key.op == "gemm":
        return Gemm(key.k, key.n)
    if key.op == "grouped_gemm":
        return GroupedGemm(key.experts, key.top_k, key.k, key.n)
    if key.op == "attention":
        return Attention(key.heads, key.kv_heads, key.head_dim, key.window or None)
    return Elementwise(1, 0)


def curve_id(curve: Curve) -> str:
    return "-".join(str(v) for v in msgspec.structs.astuple(curve.key) if v)


DENSE = [c for c in H200.curves if c.key.op in ("gemm", "grouped_gemm")]
FLAT = [c for c in H200.curves if c.key.op == "elementwise"]
PLANES = [c for c in H200.curves if c.key.op == "attention"]


def test_small_curves_are_read_as_by_hand() -> None:
    """Stairs over rows, lines over bytes, both in proportion beyond; attention on its grid."""
    assert curves_agree(simcg.cost.kernels)


def test_the_roofline_is_its_definition() -> None:
    """Each unmeasured shape costs the larger of its waves and its bytes, and the floor."""
    assert roofline_agrees(simcg.cost.kernels)


@pytest.mark.parametrize("curve", DENSE, ids=curve_id)
def test_a_measured_product_costs_the_next_measured_point(curve: Curve) -> None:
    """Exact at measured rows, the next point's time between, and in proportion beyond."""
    price = Kernels(H200)
    op = op_of(shape_of(curve.key))
    last = int(curve.x[-1])
    rows = np.arange(1, 2 * last, dtype=np.int64)
    found = price.time(op, rows_work(rows.tolist()))
    at = {int(x): round(ns) for x, ns in zip(curve.x, curve.ns, strict=True)}
    following = 0
    for row in range(last, 0, -1):
        following = at.get(row, following)
        assert found.ns[row - 1] == following
    expected = np.rint(curve.ns[-1] * rows[last:] / last)
    assert np.array_equal(found.ns[last:], expected)
    assert found.provenance == curve.provenance
    assert price.measured_rows(op) == curve.x


@pytest.mark.parametrize("curve", FLAT, ids=curve_id)
def test_bytes_cost_along_straight_lines(curve: Curve) -> None:
    """Element-wise kernels: exact at measured bytes, the mean half-way, in proportion beyond."""
    price = Kernels(H200)
    kind: OpKind = curve.key.kind or "any other"  # type: ignore[assignment]  # a file's kinds are the ops'
    op = op_of(Elementwise(1, 0), kind)
    x = ints(curve.x)
    assert price.time(op, rows_work(x.tolist())).ns.tolist() == [round(v) for v in curve.ns]
    middle = (x[1:] + x[:-1]) // 2
    share = (middle - x[:-1]) / (x[1:] - x[:-1])
    lines = np.array(curve.ns[:-1]) * (1 - share) + np.array(curve.ns[1:]) * share
    found = price.time(op, rows_work(middle.tolist())).ns
    assert np.abs(found - lines).max() <= 0.5 + 1e-6
    beyond = price.time(op, rows_work([3 * int(x[-1])])).ns
    assert beyond.tolist() == [round(3 * curve.ns[-1])]
    known = price.time(op, rows_work([1])).provenance
    assert known == ("measured" if curve.key.kind else "assumed")  # "" stands in for other kinds


@pytest.mark.parametrize("curve", PLANES, ids=curve_id)
def test_attention_is_exact_on_its_grid_and_between_its_corners(curve: Curve) -> None:
    """On the grid the measured time; inside a cell no less than its least corner, nor more."""
    price, op = Kernels(H200), op_of(shape_of(curve.key), "attention")
    grid = np.array(curve.ns).reshape(len(curve.x), len(curve.y))
    tokens = np.repeat(ints(curve.x), len(curve.y))
    pairs = np.rint(tokens * np.tile(curve.y, len(curve.x))).astype(np.int64)
    work = Work(tokens, tokens, np.ones_like(tokens), pairs)
    found = price.time(op, work).ns.reshape(grid.shape)
    # keys of the grid are not whole, so pairs round: by half a pair of at least 16 * 16
    np.testing.assert_allclose(found, grid, rtol=0.003)
    middle_x = np.sqrt(tokens.reshape(grid.shape)[1:, 1:] * tokens.reshape(grid.shape)[:-1, :-1])
    middle_tokens = np.rint(middle_x).astype(np.int64).ravel()
    keys = np.sqrt(np.array(curve.y[1:]) * np.array(curve.y[:-1]))
    middle_pairs = np.rint(middle_tokens * np.tile(keys, len(curve.x) - 1)).astype(np.int64)
    inside = Work(middle_tokens, middle_tokens, np.ones_like(middle_tokens), middle_pairs)
    between = price.time(op, inside).ns.reshape(grid[1:, 1:].shape)
    corners = np.stack([grid[1:, 1:], grid[:-1, 1:], grid[1:, :-1], grid[:-1, :-1]])
    assert np.all(between >= np.floor(corners.min(axis=0) * 0.999))
    assert np.all(between <= np.ceil(corners.max(axis=0) * 1.001))


@pytest.mark.parametrize("curve", PLANES, ids=curve_id)
def test_attention_grows_with_keys_where_its_curve_does(curve: Curve) -> None:
    """Along keys at a measured number of tokens, time rises between points that rise."""
    price, op = Kernels(H200), op_of(shape_of(curve.key), "attention")
    grid = np.array(curve.ns).reshape(len(curve.x), len(curve.y))
    for tokens, row in zip(curve.x, grid, strict=True):
        keys = np.unique(np.geomspace(curve.y[0], curve.y[-1], 200).astype(np.int64) + 1)
        n = np.full_like(keys, int(tokens))
        found = price.time(op, Work(n, n, np.ones_like(n), n * keys)).ns
        cell = np.searchsorted(curve.y, keys) - 1
        rises = row[np.minimum(cell + 1, len(row) - 1)] >= row[cell]
        inside = (cell[1:] == cell[:-1]) & rises[1:]
        assert np.all(np.diff(found)[inside] >= 0)


@given(st.sampled_from(["a100", "h100", "b200", "gb300"]), st.sampled_from(ROOFLINE_SHAPES))
def test_unmeasured_kernels_do_not_fall_as_rows_grow(name: str, shape: Shape) -> None:
    """The roofline is non-decreasing in rows, for every kind of shape."""
    found = Kernels(unmeasured(name)).time(op_of(shape), rows_work(list(range(1, 3000)))).ns
    assert np.all(np.diff(found) >= 0)
    assert found[0] > 0


@pytest.mark.parametrize("name", ["a100", "h100", "gb300"])
def test_weights_are_streamed_for_the_price_of_one_row(name: str) -> None:
    """A large weight matrix costs 1 to 128 rows the same, but for the bytes of the rows."""
    profile, shape = unmeasured(name), Gemm(8192, 8192)
    found = Kernels(profile).time(op_of(shape), rows_work(list(range(1, 129)))).ns
    rate = profile.gpu.memory_bandwidth.value * profile.roofline.bandwidth.value
    rows_ns = 2 * 127 * (shape.k + shape.n) / rate * 1e9
    assert 0 <= found[-1] - found[0] <= rows_ns + 1
    assert rows_ns < 0.05 * found[0]


@pytest.mark.parametrize("name", ["a100", "h100", "b200"])
def test_compute_climbs_at_tile_edges_only(name: str) -> None:
    """A compute-bound product is flat within 128 rows and climbs where tiles begin a wave."""
    profile = unmeasured(name)
    sms = int(profile.gpu.sms.value)
    shape = Gemm(16384, 128 * sms)  # a row of tiles is exactly one wave
    found = Kernels(profile).time(op_of(shape), rows_work(list(range(1025, 2049)))).ns
    edges = np.flatnonzero(np.diff(found)) + 1
    assert edges.tolist() == list(range(128, 1024, 128))
    steps = np.diff(found)[edges - 1]
    assert steps.max() - steps.min() <= 2


@pytest.mark.parametrize("shape", [Gemm(8192, 8192), GroupedGemm(128, 8, 4096, 1536)])
@pytest.mark.parametrize("name", ["a100", "gb300"])
def test_narrow_weights_stream_fewer_bytes(name: str, shape: Gemm | GroupedGemm) -> None:
    """Time above the floor in proportion to the bits of a weight, when compute costs nothing."""
    base = unmeasured(name)
    peaks = {k: msgspec.structs.replace(v, value=1e18) for k, v in base.gpu.peak_flops.items()}
    gpu = msgspec.structs.replace(base.gpu, peak_flops=peaks)
    price = Kernels(msgspec.structs.replace(base, gpu=gpu))
    floor = price.profile.roofline.floor_ns.value
    ns = [
        int(price.time(op_of(replace(shape, weights=dtype)), rows_work([1])).ns[0]) - floor
        for dtype in ("bf16", "fp8", "nvfp4", "mxfp4")
    ]
    assert ns == sorted(ns, reverse=True)
    assert ns[1] / ns[0] == pytest.approx(8 / 16, rel=0.01)
    assert ns[3] / ns[0] == pytest.approx(4.25 / 16, rel=0.01)


def test_experts_are_streamed_as_they_are_touched() -> None:
    """One row touches top_k of the experts; with thousands of rows all of them are read."""
    price = Kernels(unmeasured("gb300"))
    floor = price.profile.roofline.floor_ns.value
    shape = GroupedGemm(128, 8, 4096, 1536)
    found = price.time(op_of(shape), rows_work([1, 64])).ns - floor
    assert found[1] / found[0] == pytest.approx((1 - (1 - 8 / 128) ** 64) * 128 / 8, rel=0.02)


@given(st.integers(1, 100_000), st.integers(2, 64))
def test_an_all_reduce_sends_each_byte_about_twice(rows: int, ranks: int) -> None:
    """Latency, and 2 (r - 1) / r bytes over the link; alone, a rank sends nothing."""
    profile = unmeasured("gb300")
    roof = profile.roofline
    found = Kernels(profile).time(op_of(AllReduce(8192, ranks)), rows_work([rows])).ns[0]
    rate = profile.gpu.link_bandwidth.value * roof.link.value
    sent = (found - roof.collective_ns.value) * 1e-9 * rate
    assert sent == pytest.approx(2 * (ranks - 1) / ranks * 8192 * rows, abs=rate * 1e-9)
    alone = Kernels(profile).time(op_of(AllReduce(8192, 1)), rows_work([rows])).ns[0]
    assert alone == round(roof.collective_ns.value)


def test_ops_of_requests_run_at_the_requests() -> None:
    """Logits and the gather before them do not depend on the tokens."""
    n = ints([10, 20])
    work = Work(rows=n, tokens=n, requests=ints([3, 3]), pairs=n)
    op = Op("logits", "gemm", Gemm(4096, 151936), 1, (), (), rows="requests")
    found = Kernels(H200).time(op, work).ns
    assert found[0] == found[1]
    assert found[0] == Kernels(H200).time(replace(op, rows="tokens"), rows_work([3])).ns[0]
    assert Kernels(H200).measured_rows(op) == ()


def test_windows_bound_unmeasured_attention() -> None:
    """With a window no query attends to more keys than that."""
    n = ints([1000, 1000, 1000])
    work = Work(n, n, np.ones_like(n), n * ints([64, 128, 4096]))
    found = Kernels(unmeasured("a100")).time(op_of(Attention(32, 8, 128, 128)), work).ns
    assert found[0] < found[1] == found[2]


@pytest.mark.parametrize("name", profile_names())
@pytest.mark.parametrize("shape", ROOFLINE_SHAPES, ids=repr)
def test_what_was_not_measured_says_so(name: str, shape: Shape) -> None:
    """A shape without a curve is never called measured, and has no spread of its own."""
    price = Kernels(unmeasured(name))
    found = price.time(op_of(shape), rows_work([1]))
    assert found.provenance != "measured"
    assert found.relative_spread == 0


def test_spread_is_the_median_of_the_curve() -> None:
    """A curve states one sigma a point; as a share its median speaks for all."""
    curve = DENSE[0]
    shares = sorted(s / n for s, n in zip(curve.spread_ns, curve.ns, strict=True))
    found = Kernels(H200).time(op_of(shape_of(curve.key)), rows_work([1]))
    assert found.relative_spread == pytest.approx(shares[len(shares) // 2], rel=0.1)


def test_a_kernel_of_an_hour_is_refused() -> None:
    """Figures that make a kernel last longer than any does are named, not rounded to nonsense."""
    base = curve_profile()
    slow = msgspec.structs.replace(base.gpu.memory_bandwidth, value=1e-6)
    gpu = msgspec.structs.replace(base.gpu, memory_bandwidth=slow)
    price = Kernels(msgspec.structs.replace(base, gpu=gpu))
    with pytest.raises(InputError, match="hardware profile, the roofline: got"):
        price.time(op_of(Gemm(4096, 4096)), rows_work([1]))
    steep = Curve(
        CurveKey("attention", heads=8, kv_heads=2, head_dim=64),
        x=(16.0, 17.0), y=(8.0, 9.0), ns=(1.0, 1e3, 1e6, 1e11),
        spread_ns=(1.0,) * 4, provenance="measured", source="test",
    )  # fmt: skip
    price = Kernels(msgspec.structs.replace(base, curves=(steep,)))
    with pytest.raises(InputError, match="curve of op attention, weights bf16, heads 8"):
        price.time(op_of(Attention(8, 2, 64), "attention"), rows_work([8192]))
