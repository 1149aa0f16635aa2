"""Smoothing: which falls of a measured cost are noise, and what becomes of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

import simcg.cost.smooth
from simcg.arrays import Ints
from simcg.cost.smooth import SIGMAS, smooth_noise
from tests.cost_laws import ints, smoothing_agrees, smooths

CURVES = st.lists(st.integers(10_000, 10_000_000), min_size=1, max_size=60).map(ints)


@given(st.lists(st.integers(1, 1000) | st.integers(1, 10**12), min_size=1, max_size=60))
def test_with_any_noise_it_is_isotonic_regression(ns: list[int]) -> None:
    """Infinite spread: SciPy's nearest non-decreasing curve, within rounding."""
    found = smooth_noise(ints(ns), float("inf"))
    nearest = isotonic_regression(np.array(ns, dtype=np.float64)).x
    np.testing.assert_allclose(found.ns, nearest, rtol=1e-12, atol=0.5 + 1e-6)
    assert np.all(np.diff(found.ns) >= 0)
    assert found.fall == 0


@given(CURVES, st.sampled_from([0.0, 0.001, 0.01, 0.03, 0.1, float("inf")]))
def test_only_falls_beyond_the_noise_remain(ns: Ints, spread: float) -> None:
    """What falls by more stays, what falls by less is pooled to its mean, and both are reported."""
    assert smooths(simcg.cost.smooth, ns, spread)


def test_random_curves_are_smoothed_by_the_law() -> None:
    """The same on rising curves with and without noise."""
    assert smoothing_agrees(simcg.cost.smooth)


@given(CURVES)
def test_smoothing_twice_is_smoothing_once(ns: Ints) -> None:
    """A curve without falls does not move again."""
    once = smooth_noise(ns, float("inf"))
    again = smooth_noise(once.ns, float("inf"))
    assert np.array_equal(once.ns, again.ns)
    assert again.largest_correction == 0


@given(CURVES, st.floats(0, 1))
def test_what_rises_stays(ns: Ints, spread: float) -> None:
    """A non-decreasing cost is left alone, whatever the spread."""
    rising = np.sort(ns)
    found = smooth_noise(rising, spread)
    assert np.array_equal(found.ns, rising)
    assert (found.largest_correction, found.fall) == (0, 0)


@pytest.mark.parametrize("spread", [0.001, 0.01, 0.03])
def test_noise_is_three_sigma_of_a_difference(spread: float) -> None:
    """A fall just below 3 x sqrt(2) x the spread is pooled, one just above it is kept."""
    limit = SIGMAS * 2**0.5 * spread
    below, above = (ints([10**9, round(10**9 * (1 - limit * f))]) for f in (0.999, 1.001))
    assert len(set(smooth_noise(below, spread).ns.tolist())) == 1
    kept = smooth_noise(above, spread)
    assert np.array_equal(kept.ns, above)
    assert (kept.fall, kept.fall_at) == (1 - above[1] / above[0], 1)
