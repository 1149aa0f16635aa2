"""Numbers as people read them are the exact numbers, rounded."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcg.report.units import count, ms, percent, seconds, size

UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


@given(st.integers(0, 2**45))
def test_sizes_are_within_half_a_unit(num_bytes: int) -> None:
    """A size reads back to within half of its last digit."""
    text, unit = size(num_bytes).split()
    digit = 10 ** -len(text.partition(".")[2])
    assert abs(float(text) * UNITS[unit] - num_bytes) <= 0.5 * digit * UNITS[unit] + 1e-6


@given(st.floats(-2, 2), st.integers(0, 3))
def test_percent_reads_back(share: float, digits: int) -> None:
    """A share reads back to within half of its last digit, and zero has no sign."""
    text = percent(share, digits)
    assert abs(float(text[:-1]) / 100 - share) <= 0.5 * 10 ** -(digits + 2) + 1e-12
    assert not re.fullmatch(r"-0(\.0*)?%", text)


@given(st.floats(0, 1e12))
def test_times_read_back(ns: float) -> None:
    """Milliseconds and seconds read back to within half of their last digit."""
    assert float(ms(ns)) == pytest.approx(ns / 1e6, abs=0.0501 if ns >= 1e8 else 0.000501)
    assert float(seconds(ns).removesuffix(" s")) == pytest.approx(ns / 1e9, abs=0.0501)


@given(st.integers(0, 10**15))
def test_counts_read_back(number: int) -> None:
    """Separators stand between groups of three digits."""
    assert int(count(number).replace(",", "")) == number
