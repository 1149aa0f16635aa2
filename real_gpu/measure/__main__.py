"""``python -m real_gpu.measure``: see ``simcg measure --help``."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import torch

from real_gpu.graphs.cpu import RecordingCpuDevice
from real_gpu.graphs.cuda import CudaGraphDevice
from real_gpu.graphs.device import CaptureError, GraphDevice
from real_gpu.measure.bench import settle
from real_gpu.measure.environment import environment
from real_gpu.measure.runner import Emit
from real_gpu.measure.sections import (
    SEED,
    run_correctness,
    run_decisions,
    run_matrix,
    run_peers,
)
from real_gpu.measure.serving import run_serving
from real_gpu.measure.setting import Setting, setting_from
from real_gpu.measure.writer import RunsWriter, part_of
from simcg.errors import SimcgError
from simcg.runs.schema import VERSION, Header

RUN: dict[str, Callable[[Setting, GraphDevice, Emit], None]] = {
    "matrix": run_matrix,
    "correctness": run_correctness,
    "peers": run_peers,
    "decisions": run_decisions,
    "serving": run_serving,
}


def measure(setting: Setting) -> None:
    """Run the sections and write the runs."""
    if setting.device == "cuda" and not torch.cuda.is_available():
        raise SimcgError(
            "measure: no CUDA device here: --device cpu runs the same code, with figures that mean "
            "nothing; simcg validate needs none for committed runs"
        )
    device = RecordingCpuDevice() if setting.device == "cpu" else CudaGraphDevice()
    header = Header(VERSION, setting.command, SEED, environment(setting.device), setting.models)
    torch.manual_seed(SEED)
    with RunsWriter(setting.out, header) as writer:
        settle(device)
        for name in setting.sections:
            begin = time.perf_counter()
            RUN[name](setting, device, writer.write)
            print(f"{time.perf_counter() - begin:7.1f} s  {name}", flush=True)


def main() -> int:
    """Exit code 2 and one line for what a user can change, 130 when interrupted, else 0."""
    kept = ""
    try:
        setting = setting_from(sys.argv[1:])
        part = part_of(setting.out)
        part.unlink(missing_ok=True)  # of an earlier run
        kept = f"; {part} holds what was measured before"
        measure(setting)
    except (SimcgError, CaptureError, torch.OutOfMemoryError) as error:
        there = kept if kept and part.exists() else ""
        print("simcg: error: " + " ".join(str(error).split()) + there, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
