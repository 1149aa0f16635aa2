"""Predictions for a gb300 beside what was published of it.

Every bound here is the error that was found, rounded up; none is a wish. What was measured on an
H200 is in test_measured_runs.py.
"""

from __future__ import annotations

import numpy as np
import pytest

from scripts.make_profiles import GPU_MS, TTFT_MS
from simcg.backend import BREAKABLE, EAGER, FULL, TC_PIECEWISE, CaptureBackend
from simcg.cost.step import StepCost
from simcg.hardware.catalog import load_profile
from simcg.model.catalog import architecture_named
from simcg.model.forward import forward_pass
from tests.costs import one_request


def test_published_gpu_times_of_gb300() -> None:
    """Sums of published kernels, to which the shares of the expert products are fitted: 30 % above
    at 64 tokens, 30 % below at 8,192, 19 % off in the median. Only measured curves would do better.
    """
    forward = forward_pass(architecture_named("gpt-oss-120b"), tp=4)
    sizes = list(GPU_MS)
    device = StepCost(forward, load_profile("gb300"), FULL).times(one_request(sizes)).device_ns
    errors = device / (1e6 * np.array(list(GPU_MS.values()))) - 1
    assert 0.29 < errors[0] == errors.max() < 0.30
    assert -0.30 < errors[-1] == errors.min() < -0.29
    assert np.median(np.abs(errors)) < 0.19
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
