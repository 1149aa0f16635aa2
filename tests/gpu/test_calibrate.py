"""A quick calibration on the GPU at hand: every section runs, and what it makes is a profile."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from simcg.backend import BACKENDS
from simcg.cost.step import StepCost
from simcg.hardware.catalog import load_profile
from simcg.hardware.match import profile_matches
from simcg.model.catalog import architecture_named
from simcg.model.lean import lean_pass
from simcg.model.ops import Gemm
from tests.costs import one_request

torch = pytest.importorskip("torch", reason="real_gpu needs torch")

from real_gpu.calibrate.clock import Clock  # noqa: E402
from real_gpu.calibrate.company import Company  # noqa: E402
from real_gpu.calibrate.issue import Bench  # noqa: E402
from real_gpu.calibrate.timing import CAREFUL  # noqa: E402

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def test_how_long_a_graph_is_changes_no_time() -> None:
    """A product timed in graphs of 0.2 and of 2 ms: the gap before a graph is in neither."""
    arch = architecture_named("qwen3-8b")
    bench = Bench(torch.device("cuda"), torch.bfloat16)
    company, shape = Company(bench, arch), Gemm(4096, 6144)
    calls = bench.gemm(bench.matrices(shape), 256)
    short, long = (
        Clock(company, replace(CAREFUL, graph_us=us)).call_ns(calls, 20.0, 256)
        for us in (200.0, 2000.0)
    )
    assert short.ns / short.beside_ns == pytest.approx(long.ns / long.beside_ns, rel=0.04)
    assert company.at(256) is company.at(250)
    assert company.at(256).ns > 1e6


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
