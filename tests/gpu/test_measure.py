"""The measuring run on a CUDA device: what it writes can be held against a profile."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from simcg.hardware.catalog import load_profile
from simcg.runs.compare import compare
from simcg.runs.read import read_runs
from simcg.runs.schema import EqualityCell, MemoryCell, PeerCell, StepCell

torch = pytest.importorskip("torch", reason="torch is not installed: pip install '.[gpu]'")
if not torch.cuda.is_available():
    pytest.skip("no CUDA device", allow_module_level=True)


def test_a_small_run_of_every_section(tmp_path: Path) -> None:
    """A tiny model through every way but inductor: replays are eager's bits, every figure is
    there, and predictions of each can be made.
    """
    path = tmp_path / "runs.jsonl"
    call = [
        sys.executable, "-m", "simcg", "measure", "--models", "tiny", "--tokens", "16,64",
        "--backends", "eager,full,breakable,tc_piecewise", "--requests", "1,2",
        "--out", str(path),
    ]  # fmt: skip
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    runs = read_runs(path)
    assert runs.header.environment.gpu == torch.cuda.get_device_name()
    assert all(c.bit_equal for c in runs.of(StepCell) if c.backend != "eager")
    assert all(c.at_bucket and c.error is not None for c in runs.of(EqualityCell))
    assert all(c.equal for c in runs.of(PeerCell))
    assert {c.backend for c in runs.of(MemoryCell)} == {"full", "breakable", "tc_piecewise"}
    compared = compare([runs], load_profile("h200"))
    assert {"step", "capture", "graph pool", "eager peak"} <= {e.kind for e in compared.errors}
