"""The measuring run on a CUDA device: what it writes can be held against a profile."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from simcg.errors import SimcgError
from simcg.hardware.catalog import load_profile
from simcg.runs.compare import compare
from simcg.runs.read import read_runs
from simcg.runs.schema import EqualityCell, MemoryCell, PeerCell, StepCell

torch = pytest.importorskip("torch", reason="torch is not installed: pip install '.[gpu]'")
if not torch.cuda.is_available():
    pytest.skip("no CUDA device", allow_module_level=True)

from real_gpu.graphs.cuda import CudaGraphDevice  # noqa: E402  # needs torch
from real_gpu.measure.bench import Bench, Room  # noqa: E402
from real_gpu.measure.setting import TINY, WAYS  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"
)  # Inductor's imports, where no other test has had them yet


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


def test_a_model_that_does_not_fit_is_refused_with_what_it_needs_and_what_there_is() -> None:
    large = replace(TINY, name="large", vocab=1 << 36)
    with pytest.raises(
        SimcgError, match=r"^large does not fit: .* need 8192\.\d GiB of [\d.]+ GiB"
    ):
        Bench(large, CudaGraphDevice(), torch.bfloat16, Room(8, 2, 9))


@pytest.mark.parametrize("name", WAYS)
def test_a_closed_bench_gives_its_memory_back(name: str) -> None:
    """Whatever the backend, no byte of a model's weights outlives it."""
    device = CudaGraphDevice()
    wide = replace(TINY, hidden=1024, vocab=1 << 15)
    allocated = []
    for _ in range(2):
        bench = Bench(wide, device, torch.bfloat16, Room(8, 2, 9))
        way = bench.way(*WAYS[name], (4, 8), 2 if name == "full" else None)
        way.runner.capture()
        bench.close()
        del bench, way
        allocated.append(device.memory().live)
    assert allocated[1] - allocated[0] < 1 << 20
