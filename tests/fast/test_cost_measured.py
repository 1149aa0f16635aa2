"""Predictions beside what was measured or published.

Every bound here is the error that was found, rounded up; none is a wish.
"""

from __future__ import annotations

import json
import statistics
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from real_gpu.calibrate.check import StepCheck, check_steps
from real_gpu.calibrate.profile import build_profile
from scripts.make_profiles import GPU_MS, TTFT_MS
from simcg.backend import BREAKABLE, EAGER, FULL, TC_PIECEWISE, CaptureBackend
from simcg.cost.step import StepCost
from simcg.hardware.catalog import load_profile
from simcg.model.catalog import architecture_named
from simcg.model.forward import forward_pass
from tests.costs import one_request

DATA = Path(__file__).parents[2] / "real_gpu" / "calibrate" / "data"
FORWARDS, RAW = DATA / "h200_forwards.json", DATA / "h200.json"
FEW_TOKENS = 128
"""Up to so many tokens gaps are most of what is uncertain."""
GPU_BOUND_TOKENS = 320


@cache
def raw() -> dict[str, Any]:
    """The committed forwards of one H200."""
    content: dict[str, Any] = json.loads(FORWARDS.read_text())
    return content


@cache
def checks() -> list[StepCheck]:
    """Every measured forward of the Qwen3-8B decoder beside its prediction."""
    return check_steps(load_profile("h200"), raw())


@pytest.mark.skipif(not RAW.exists(), reason="the measurements of h200 are not in this checkout")
def test_the_profile_is_what_the_measurements_make() -> None:
    """The committed h200 profile is built from the committed measurements, figure by figure."""
    assert build_profile(json.loads(RAW.read_text()), "h200") == load_profile("h200")


@pytest.mark.parametrize("backend", ["full", "breakable"])
def test_replays_that_were_held_out_are_predicted(backend: str) -> None:
    """Replays above 128 tokens: within 8 % each, 3 % in the median."""
    held_out = [c for c in checks() if c.backend == backend and c.tokens > FEW_TOKENS]
    errors = {c.tokens: abs(c.error) for c in held_out}
    assert len(errors) == 15
    assert max(errors.values()) < 0.08, errors
    assert statistics.median(errors.values()) < 0.03


def test_replays_of_few_tokens_are_met() -> None:
    """Full replays of at most 128 tokens, which one gap between nodes decides: within 6 %."""
    few = [c for c in checks() if c.backend == "full" and c.tokens <= FEW_TOKENS]
    assert len(few) == 4
    assert all(abs(c.error) < 0.06 for c in few)


def test_gpu_bound_eager_steps_are_predicted() -> None:
    """Eager steps of 320 tokens and more wait for the GPU: within 7 % each, 3 % in the median.

    Below that they wait for the host, and that host is noisy: the same forward took 15.8 to
    21.1 ms in neighbouring runs, so single steps were up to 37 % from the prediction. Only their
    order of magnitude is held, below.
    """
    bound = [c for c in checks() if c.backend == "eager" and c.tokens >= GPU_BOUND_TOKENS]
    assert len(bound) == 13
    assert max(abs(c.error) for c in bound) < 0.07
    assert statistics.median(abs(c.error) for c in bound) < 0.03


def test_host_bound_eager_steps_are_of_the_right_size() -> None:
    """The quickest of the host-bound eager steps is met within 5 %; none is overstated by more."""
    bound = [c for c in checks() if c.backend == "eager" and c.tokens < GPU_BOUND_TOKENS]
    quickest = min(bound, key=lambda c: c.measured_ns)
    assert abs(quickest.error) < 0.05
    assert all(-0.40 < c.error < 0.05 for c in bound)


def test_eager_is_predicted_slower_where_it_was() -> None:
    """Breakable beat eager by over 5 % at the six sizes up to 256 tokens: predicted faster too."""
    by_size: dict[int, dict[str, StepCheck]] = {}
    for check in checks():
        by_size.setdefault(check.tokens, {})[check.backend] = check
    beaten = [
        tokens
        for tokens, row in by_size.items()
        if row["eager"].measured_ns > 1.05 * row["breakable"].measured_ns
    ]
    assert beaten == [16, 64, 100, 128, 192, 256]
    for tokens in beaten:
        row = by_size[tokens]
        assert row["eager"].predicted_ns > row["breakable"].predicted_ns


def test_published_gpu_times_of_gb300() -> None:
    """Sums of published kernels, to which the shares of the expert products are fitted: within 51 %
    at 64 tokens, 27 % from 2,048 on, 23 % in the median. Only measured curves would do better.
    """
    forward = forward_pass(architecture_named("gpt-oss-120b"), tp=4)
    sizes = list(GPU_MS)
    device = StepCost(forward, load_profile("gb300"), FULL).times(one_request(sizes)).device_ns
    errors = np.abs(device / (1e6 * np.array(list(GPU_MS.values()))) - 1)
    assert errors.max() < 0.52
    assert np.median(errors) < 0.24
    assert np.all(np.diff(device) > 0)


@pytest.mark.parametrize(("backend", "column"), [(EAGER, 0), (BREAKABLE, 2), (TC_PIECEWISE, 3)])
def test_published_ttft_differences_of_gb300(backend: CaptureBackend, column: int) -> None:
    """gpt-oss-120b TP4: over full, each backend costs what the mean of six TTFTs says, within 1 %.

    One host figure a backend was fitted to each mean. Source: digitised from a draft chart.
    """
    forward = forward_pass(architecture_named("gpt-oss-120b"), tp=4)
    profile, work = load_profile("gb300"), one_request(TTFT_MS)
    more = StepCost(forward, profile, backend).times(work).ns
    full = StepCost(forward, profile, FULL).times(work).ns
    published = np.mean([row[column] - row[1] for row in TTFT_MS.values()])
    assert np.mean(more - full) / 1e6 == pytest.approx(published, rel=0.01)
