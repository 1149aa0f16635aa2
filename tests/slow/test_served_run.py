"""The served trace of an H200 held against the built-in profile, of that session and of another."""

from __future__ import annotations

from pathlib import Path

import pytest

from simcg.hardware.catalog import load_profile
from simcg.runs.read import read_runs
from simcg.runs.validation import validate

RUNS = Path(__file__).parents[2] / "benchmarks" / "runs"
ERRORS = {
    "h200-serving.jsonl.gz": {0.3: (1.4, 4.9, 1.6), 0.5: (2.6, 2.7, 3.6), 0.7: (0.2, 4.0, 12.7)},
    "h200-serving-later.jsonl.gz": {
        0.3: (2.4, 3.1, 2.6), 0.5: (2.4, 2.0, 5.0), 0.7: (1.0, 2.8, 13.8),
    },
}  # fmt: skip
"""By file and load: TTFT in the median and at p99, TPOT in the median, in percent, rounded up. The
second file is of another GPU machine, hours after the profile's."""


@pytest.mark.parametrize("name", ERRORS)
def test_served_requests_are_off_by_what_was_found(name: str) -> None:
    """At 30, 50 and 70 % of the capacity TTFT meets its limits; TPOT, which has none stated, is
    off by up to 14 %. Bounds are less than a fifth of a point above what was found.
    """
    result = validate([read_runs(RUNS / name)], load_profile("h200"))
    assert result.warnings == ()
    assert len(result.checks) == 6
    assert all(check.holds for check in result.checks)
    found = {one.run.line.utilisation: one for one in result.serving}
    assert found.keys() == ERRORS[name].keys()
    for load, bounds in ERRORS[name].items():
        for figure, bound in zip(("ttft p50", "ttft p99", "tpot p50"), bounds, strict=True):
            assert 100 * abs(found[load].error(figure)) == pytest.approx(bound - 0.1, abs=0.1)
