"""What bursts and long requests tell: planted figures come out of made-up measurements."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from real_gpu.calibrate.burst_fit import CONSTANTS_NS, burst_of
from real_gpu.calibrate.profile import build_profile
from real_gpu.calibrate.wide import drawn_errors, with_widths
from simcg.cost.curves import over_plane
from simcg.hardware.profile import Curve, CurveKey
from simcg.model.catalog import load_architecture
from tests.calibrations import made_raw

ROWS, LAYERS = 1024, 2
GEMM = Curve(CurveKey("gemm", k=4096, n=4096), (64.0, 8192.0), (8e5, 8e5), (1.0, 1.0), "measured",
             "test")  # fmt: skip
ATTENTION = Curve(
    CurveKey("attention", heads=32, kv_heads=8, head_dim=128), (1.0, 8192.0), (1e5,) * 4,
    (1.0,) * 4, "measured", "test", y=(1.0, 9000.0),
)  # fmt: skip
USUAL_NS = 2e6
SHARE = LAYERS * 9e5 / USUAL_NS  # of layers: a product and attention


def burst(
    rest: float, figures: tuple[float, ...], length_ns: float
) -> tuple[dict[str, Any], float]:
    """A burst from so rested on, and how rested it leaves the GPU; a little noise."""
    fresh, settled, fall, _ = figures
    rng, at, began, took = np.random.default_rng(round(1e6 * rest)), 0.0, [], []
    while at < length_ns:
        speed = settled + (fresh - settled) * rest * np.exp(-(at + USUAL_NS / 2) / fall)
        ns = USUAL_NS * (SHARE / speed + 1 - SHARE) * rng.normal(1, 0.003)
        began.append(round(at))
        took.append(round(ns))
        at += ns + 10_000
    row = {"rows": ROWS, "layers": LAYERS, "pause_ns": 0, "at_ns": began, "ns": took}
    return row, rest * float(np.exp(-at / fall))


def section_of(figures: tuple[float, ...], disturbed: int = 0) -> dict[str, Any]:
    """Nine bursts from rest, ``disturbed`` of them half as fast, and a series after pauses."""
    long = [burst(1.0, figures, 5e8)[0] for _ in range(9)]
    for row in long[:disturbed]:
        row["ns"] = [2 * ns for ns in row["ns"]]
    series, rest = [], 1.0
    for pause in (1e7, 3e7, 8e7, 1.6e8, 3.2e8) * 4:
        rest = 1 - (1 - rest) * float(np.exp(-pause / figures[3]))
        row, rest = burst(rest, figures, 1.2e8)
        series.append({**row, "pause_ns": round(pause)})
    parts = {"products": [[4096, 4096], [7, 7]], "attention": [32, 8, 128]}
    return {**parts, "bursts": long, "pauses": series}


@pytest.mark.parametrize("disturbed", [0, 3])
@pytest.mark.parametrize(
    "figures",
    [(1.14, 0.98, 6e7, 4e7), (1.08, 1.0, 1.2e8, 3e8), (1.2, 1.02, 2e7, 1e7)],
)
def test_planted_speeds_and_constants_are_found(figures: tuple[float, ...], disturbed: int) -> None:
    """Speeds within 1 %, constants within a quarter; three disturbed bursts of nine are nothing."""
    found = burst_of(section_of(figures, disturbed), {ROWS: USUAL_NS}, (GEMM, ATTENTION))
    assert found is not None
    assert found.fresh.value == pytest.approx(figures[0], rel=0.01)
    assert found.settled.value == pytest.approx(figures[1], rel=0.01)
    assert found.fall_ns.value == pytest.approx(figures[2], rel=0.25)
    assert found.rise_ns.value == pytest.approx(figures[3], rel=0.25)


def test_a_clock_that_never_changes_gives_a_burst_that_changes_nothing() -> None:
    """Fresh and settled are both the speed of the curves."""
    found = burst_of(section_of((1.0, 1.0, 5e7, 5e7)), {ROWS: USUAL_NS}, (GEMM, ATTENTION))
    assert found is not None
    assert found.settled.value <= found.fresh.value == pytest.approx(1, abs=0.01)
    assert CONSTANTS_NS[0] <= found.fall_ns.value <= CONSTANTS_NS[-1]


def test_without_the_layers_usual_time_or_curves_there_is_no_figure() -> None:
    """Nothing is assumed in their place."""
    section = section_of((1.1, 1.0, 5e7, 5e7))
    assert burst_of(section, {64: USUAL_NS}, (GEMM, ATTENTION)) is None
    assert burst_of(section, {ROWS: USUAL_NS}, ()) is None


PLANE = Curve(
    CurveKey("decode_attention", heads=32, kv_heads=8, head_dim=128),
    (1.0, 16.0, 64.0), tuple(5000 + 27.0 * y * max(1, m / 16) for m in (1, 16, 64) for y in
                             (16, 512, 4096)),
    (1.0,) * 9, "measured", "test", y=(16.0, 512.0, 4096.0),
)  # fmt: skip


def long_section(slope: float) -> dict[str, Any]:
    """One long request among short ones, each key of it ``slope`` ns."""
    points = [(m, keys) for m in (2, 16, 64) for keys in (512, 4096)]
    equal = [float(over_plane(PLANE, np.array([64]), np.array([300.0])).ns[0])]
    return {
        "key": {"op": "decode_attention", "heads": 32, "kv_heads": 8, "head_dim": 128},
        "x": points, "ns": [9000 + slope * keys for _, keys in points], "short_keys": 16,
        "drawn": {"x": [[300] * 64], "ns": equal},
    }  # fmt: skip


def test_a_key_of_the_longest_over_a_key_of_all_tells_the_width() -> None:
    """Sixteen go side by side: at 27 ns a key alone, 64 have a width of 16, 16 of 16, 2 of 2."""
    (found,) = with_widths((PLANE,), [long_section(27.0)])
    assert found.width == pytest.approx((1, 16, 16), abs=0.2)
    (half,) = with_widths((PLANE,), [long_section(13.5)])
    assert half.width == pytest.approx((1, 8, 8), abs=0.2)
    (no_more,) = with_widths((PLANE,), [long_section(1e4)])
    assert no_more.width == (1, 16, 64)
    assert with_widths((GEMM,), [long_section(27.0)]) == (GEMM,)


def test_drawn_batches_only_say_how_good_the_law_is() -> None:
    """Equal ones are met; what they took changes no width, and the source states the error."""
    section = long_section(27.0)
    (found,) = with_widths((PLANE,), [section])
    assert np.abs(drawn_errors(found, section)).max() < 0.01
    section["drawn"]["ns"] = [2 * ns for ns in section["drawn"]["ns"]]
    (other,) = with_widths((PLANE,), [section])
    assert other.width == found.width
    assert "50.0% off in the median" in other.source
    assert (
        "in the median"
        not in with_widths((PLANE,), [{**section, "drawn": {"x": [], "ns": []}}])[0].source
    )


def test_both_end_in_the_profile_and_neither_is_needed() -> None:
    """A raw file with the sections gives them; one without has none, and both are read back."""
    raw = made_raw([load_architecture("qwen3-8b")])
    assert build_profile(raw, "h200").burst is None
    key = {"heads": 32, "kv_heads": 8, "head_dim": 128, "window": 0, "op": "decode_attention"}
    points = [(m, keys) for m in (2, 16, 64) for keys in (512, 4096)]
    beside = {"beside_rows": [64] * 6, "beside_ns": [2_000_000] * 6}
    raw["sections"]["long decode"] = {
        "key": key, "x": points, "ns": [9000 + keys for _, keys in points], "spread_ns": [1] * 6,
        "short_keys": 16, "drawn": {"x": [], "ns": [], "beside_rows": [], "beside_ns": []},
        **beside,
    }  # fmt: skip
    section = section_of((1.1, 1.0, 5e7, 5e7))
    for row in (*section["bursts"], *section["pauses"]):
        row |= {"rows": 64, "layers": 40}
    arch_products = [[4096, 6144], [4096, 4096]]
    raw["sections"]["burst"] = {**section, "products": arch_products}
    profile = build_profile(raw, "h200")
    assert profile.burst is not None
    assert profile.burst.fresh.value >= profile.burst.settled.value
    (curve,) = [c for c in profile.curves if c.width]
    assert (curve.key.heads, curve.key.kv_heads) == (32, 8)
    data = msgspec.json.encode(profile)
    assert msgspec.json.decode(data, type=type(profile)) == profile
