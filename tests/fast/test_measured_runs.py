"""The committed runs of an H200 held against the built-in profile; nothing is fitted to them.

They are of another session than the profile; ``tests/slow/test_served_run.py`` has its own.

Every bound is the figure that was found, rounded up, and each must be tight: a better profile or
other runs have to state theirs. ``simcg validate benchmarks/runs/h200-*.jsonl`` prints all of it.
"""

from __future__ import annotations

import json
import time
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from real_gpu.calibrate.profile import build_profile
from simcg.hardware.catalog import load_profile
from simcg.runs.limits import FEWEST_STEPS, GAIN_ERROR, REPLAYS
from simcg.runs.read import join, read_runs
from simcg.runs.schema import CaptureCell, EqualityCell, MemoryCell, PeerCell, StepCell
from simcg.runs.validation import Validation, validate
from tests.studies import run_cli

ROOT = Path(__file__).parents[2]
RAW = ROOT / "real_gpu" / "calibrate" / "data" / "h200.json"
FILES = sorted((ROOT / "benchmarks" / "runs").glob("h200-*.jsonl"))

TIMED, OTHER, UNSEEN, ALL = "timed rows", "other rows", "unseen model", "all"
PIECES = "tc_piecewise (eager)"
ERRORS = {
    ("step", "full", TIMED): (3, 7),
    ("step", "full", OTHER): (3, 7),
    ("step", "full", UNSEEN): (5, 13),
    ("step", "breakable", TIMED): (2, 7),
    ("step", "breakable", OTHER): (3, 7),
    ("step", "breakable", UNSEEN): (5, 13),
    ("step", PIECES, TIMED): (3, 7),
    ("step", PIECES, OTHER): (2, 6),
    ("step", PIECES, UNSEEN): (6, 14),
    ("step", "eager", TIMED): (4, 9),
    ("step", "eager", OTHER): (4, 8),
    ("step", "eager", UNSEEN): (6, 24),
    ("trace step", "breakable", TIMED): (3, 6),
    ("trace step", "breakable", OTHER): (4, 6),
    ("trace step", "eager", TIMED): (2, 5),
    ("trace step", "eager", OTHER): (3, 10),
    ("capture", "full", ALL): (5, 16),
    ("capture", "breakable", ALL): (11, 47),
    ("capture", PIECES, ALL): (10, 41),
    ("compile", PIECES, ALL): (23, 36),
    ("graph pool", "full", ALL): (0, 0),
    ("graph pool", "breakable", ALL): (0, 0),
    ("graph pool", PIECES, ALL): (0, 1),
    ("eager peak", "full", ALL): (1, 1),
    ("eager peak", "breakable", ALL): (1, 1),
    ("eager peak", PIECES, ALL): (1, 1),
    ("graph memory", "full", ALL): (2, 4),
    ("graph memory", "breakable", ALL): (7, 13),
    ("graph memory", PIECES, ALL): (7, 12),
}
"""Median and 95th percentile of |predicted / measured - 1| in percent, rounded up."""

MISSED = {
    f"step, full, {TIMED}", f"step, full, {UNSEEN}",
    f"step, breakable, {TIMED}", f"step, breakable, {UNSEEN}",
    f"step, {PIECES}, {UNSEEN}", f"step, eager, {UNSEEN}",
    "capture, full", "capture, breakable", f"capture, {PIECES}",
    "graph memory, breakable", f"graph memory, {PIECES}",
    "pool over eager peak, qwen3-30b-a3b full", "pool over eager peak, qwen3-30b-a3b breakable",
}  # fmt: skip
"""The stated limits that these runs do not meet."""
POOL_SEGMENT = 20 << 20
"""Bytes that the allocator takes at once for blocks of 1 to 10 MiB."""


@cache
def result() -> Validation:
    """All committed runs on the built-in profile."""
    return validate([read_runs(file) for file in FILES], load_profile("h200"))


def test_the_profile_is_what_the_measurements_make() -> None:
    """The committed h200 profile is built from the committed measurements, figure by figure."""
    assert build_profile(json.loads(RAW.read_text()), "h200") == load_profile("h200")


def test_the_runs_are_of_the_gpu_that_the_profile_is_of() -> None:
    """Four files of one H200, none of which draws a warning."""
    assert len(FILES) == 4
    assert result().warnings == ()


def test_every_group_of_cells_has_its_bound() -> None:
    """No error is left out of the table, and the table holds none that was not measured."""
    assert {(e.kind, e.backend, e.group) for e in result().comparison.errors} == set(ERRORS)


@pytest.mark.parametrize("key", ERRORS, ids=", ".join)
def test_predictions_are_off_by_what_was_found(key: tuple[str, str, str]) -> None:
    """Median and 95th percentile are at most their bounds, which are less than a point above."""
    (errors,) = (e for e in result().comparison.errors if (e.kind, e.backend, e.group) == key)
    for found, bound in zip((errors.median, errors.p95), ERRORS[key], strict=True):
        assert bound - 1 <= 100 * found <= bound


def test_replays_over_all_models() -> None:
    """Full and breakable steps of three models: within 3.8 % in the median, 9.0 % at p95.

    One sigma is 4.8 %, and the median error of a model, a factor common to its steps, is at most
    4.8 %: what ``simcg.provenance`` puts at 5 % for measured costs.
    """
    cells = [c for c in result().comparison.cells if c.kind == "step" and c.backend in REPLAYS]
    median, sigma, p95 = np.percentile(np.abs([c.error for c in cells]), (50, 68, 95))
    assert len(cells) == 108
    assert (median < 0.038, sigma < 0.048, p95 < 0.09) == (True, True, True)
    models = {c.model for c in cells}
    common = [np.median([c.error for c in cells if c.model == model]) for model in models]
    assert len(common) == 3
    assert max(map(abs, common)) < 0.048


def test_the_captures_that_are_missed_were_disturbed() -> None:
    """Breakable: 37 segments of Qwen3-8B took longer than 65 of Qwen3-32B on the same host; those
    of the other two models are met within 5 % in the median.
    """
    cells = [c for c in join(result().runs, CaptureCell) if c.backend == "breakable"]
    of = {m: [c for c in cells if c.model == m] for m in ("qwen3-8b", "Qwen3-32B")}
    assert [cell.segments for cell in of["qwen3-8b"]] == [37] * 13
    assert [cell.segments for cell in of["Qwen3-32B"]] == [65] * 13
    small, large = (float(np.median([c.capture_ns for c in one])) for one in of.values())
    assert small > 1.1 * large
    found = [
        c for c in result().comparison.cells if (c.kind, c.backend) == ("capture", "breakable")
    ]
    for model in ("Qwen3-32B", "qwen3-30b-a3b"):
        assert np.median([abs(c.error) for c in found if c.model == model]) < 0.05


def test_no_rival_ladder_is_better_and_gains_are_as_predicted() -> None:
    """Under each rule no other ladder beats ours; gains are within a point of the predicted ones,
    but one of 24 % within 1.2 points; where more than 2 % is predicted ours is surely better.
    """
    found = result().decisions
    assert {one.theirs for one in found} == {
        "sglang", "vllm", "tokenspeed", "powers-of-two", "no-graphs",
    }  # fmt: skip
    assert len(found) == 14
    for one in found:
        off = abs(one.predicted - one.measured)
        assert one.steps >= FEWEST_STEPS, one
        assert one.high >= 0, one
        assert off <= (0.012 if one.measured > 0.2 else 0.01) < GAIN_ERROR, one
        assert one.predicted <= 0.02 or one.low > 0, one
    (default,) = (o for o in found if (o.ours, o.theirs) == ("simcg as sglang", "sglang"))
    assert default.low > 0.04


def test_replays_are_eager_at_their_bucket() -> None:
    """A: of the full and breakable replays, in any order and with poison, none differs in a bit."""
    equalities = [c for c in join(result().runs, EqualityCell) if c.backend in REPLAYS]
    steps = [c for c in join(result().runs, StepCell) if c.backend in REPLAYS]
    assert len(equalities) >= 200
    assert len(steps) == 108
    assert all(c.at_bucket for c in equalities)
    assert all(c.bit_equal for c in steps)


def test_replays_err_no_more_than_eager_at_its_own_size() -> None:
    """B: where a replay differs from eager at n, its error against fp32 is at most 1.05 times
    eager's, of 1.5 allowed.
    """
    differ = [c for c in join(result().runs, EqualityCell) if not c.at_tokens]
    assert len(differ) > 100
    for cell in differ:
        assert cell.error is not None
        assert cell.eager_error is not None
        assert cell.error <= 1.05 * cell.eager_error


def test_a_pool_is_one_forward_of_its_largest_bucket() -> None:
    """At most 1.12 times the eager peak, of 1.15 allowed, where the pool is more than a segment or
    two of the allocator; the one of 16 MiB misses it at 1.37, by a few MiB.
    """
    cells = [c for c in join(result().runs, MemoryCell) if c.backend in REPLAYS]
    large = [c for c in cells if c.eager_peak > 10 * POOL_SEGMENT]
    assert len(large) == 6
    assert all(c.pool <= 1.12 * c.eager_peak for c in large)
    small = [c for c in cells if c not in large]
    assert len(small) == 2
    assert all(c.pool <= 1.37 * c.eager_peak for c in small)
    assert all(c.pool - c.eager_peak < POOL_SEGMENT for c in small)


def test_breakable_replays_as_fast_as_its_peers() -> None:
    """Out-parameters, 300 alternating replays: no slower than a bare loop of launches and calls,
    and 1.9 % faster than the public package.
    """
    peers = {c.contender: c for c in join(result().runs, PeerCell) if c.program == "out-parameters"}
    assert all(len(c.replay_ns) == 300 and c.equal for c in peers.values())
    median = {name: float(np.median(c.replay_ns)) for name, c in peers.items()}
    assert median["breakable"] <= 1.00 * median["bare loop"]
    assert median["breakable"] <= 0.985 * median["breakable-cuda-graphs"]
    assert len({c.pool for c in peers.values()}) == 1


def test_what_is_missed_is_what_the_command_says() -> None:
    """``simcg validate`` on the committed runs ends with exit code 1 for just these limits, and
    takes a few seconds.
    """
    start = time.process_time()
    ran = run_cli("validate", *map(str, FILES), "--json")
    assert time.process_time() - start < 30
    assert (ran.code, ran.err) == (1, "")
    content = json.loads(ran.out)
    assert {c["what"] for c in content["checks"] if not c["holds"]} == MISSED
    assert {c.what for c in result().checks if not c.holds} == MISSED
