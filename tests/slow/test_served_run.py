"""The served trace of an H200 held against the built-in profile of the same session."""

from __future__ import annotations

from pathlib import Path

import pytest

from simcg.hardware.catalog import load_profile
from simcg.runs.read import read_runs
from simcg.runs.validation import validate

FILE = Path(__file__).parents[2] / "benchmarks" / "runs" / "h200-serving.jsonl.gz"
ERRORS = {
    0.3: (1.4, 4.9, 1.6), 0.5: (2.6, 2.7, 3.6), 0.7: (0.2, 4.0, 12.7),
}  # fmt: skip
"""By load: TTFT in the median and at p99, TPOT in the median, in percent, rounded up."""


def test_served_requests_are_off_by_what_was_found() -> None:
    """At 30, 50 and 70 % of the capacity TTFT meets its limits; TPOT, which has none stated, is
    off by up to 13 %. Bounds are less than a fifth of a point above what was found.
    """
    result = validate([read_runs(FILE)], load_profile("h200"))
    assert result.warnings == ()
    assert len(result.checks) == 6
    assert all(check.holds for check in result.checks)
    found = {one.run.line.utilisation: one for one in result.serving}
    assert found.keys() == ERRORS.keys()
    for load, bounds in ERRORS.items():
        for name, bound in zip(("ttft p50", "ttft p99", "tpot p50"), bounds, strict=True):
            assert 100 * abs(found[load].error(name)) == pytest.approx(bound - 0.1, abs=0.1)
