"""A quick calibration on the GPU at hand: every section runs, and what it makes is a profile."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from simcg.backend import BACKENDS
from simcg.cost.step import StepCost
from simcg.hardware.catalog import load_profile
from simcg.hardware.match import profile_matches
from simcg.model.catalog import architecture_named
from simcg.model.lean import lean_pass
from tests.costs import one_request

torch = pytest.importorskip("torch", reason="real_gpu needs torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def test_a_quick_calibration_runs_every_section(tmp_path: Path) -> None:
    """No section fails; the profile is this GPU's and prices the default models."""
    out, raw = tmp_path / "p.json", tmp_path / "raw.json"
    call = [sys.executable, "-m", "real_gpu.calibrate", "--quick", "--out", out, "--raw", raw]
    subprocess.run(list(map(str, call)), check=True)
    sections = json.loads(raw.read_text())["sections"]
    failed = {n: s["error"] for n, s in sections.items() if isinstance(s, dict) and "error" in s}
    assert not failed
    profile = load_profile(str(out))
    assert profile_matches(profile, torch.cuda.get_device_name()) is None
    forward = lean_pass(architecture_named("qwen3-8b"))
    for backend in BACKENDS.values():
        times = StepCost(forward, profile, backend).times(one_request([64, 8192]))
        assert times.ns[0] < times.ns[1] < 10**10
