"""``python -m real_gpu.conformance``: so many steps on each backend, a table, failures saved."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import torch

from real_gpu.conformance.report import BACKEND_NAMES, Report
from real_gpu.conformance.run import run_cases, save
from real_gpu.graphs.cpu import RecordingCpuDevice
from real_gpu.graphs.cuda import CudaGraphDevice
from real_gpu.graphs.device import GraphDevice
from simcg.errors import SimcgError

AT_ONCE = 20
"""Cases between two looks at the clock."""


def main() -> int:
    """Exit code 1 when a case fails, or a way to run an operator was met too seldom."""
    parser = argparse.ArgumentParser(prog="python -m real_gpu.conformance", description=__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--backends", nargs="+", choices=BACKEND_NAMES, default=BACKEND_NAMES)
    parser.add_argument("--seed", type=int, default=0, help="of the first case")
    parser.add_argument("--steps", type=int, default=1000, help="on each backend, at least")
    parser.add_argument("--least", type=int, default=0,
                        help="go on until each operator was met so often in each way")  # fmt: skip
    parser.add_argument("--minutes", type=float, default=60.0, help="stop then")
    parser.add_argument("--failures", type=Path, help="folder for cases that fail")
    options = parser.parse_args()
    torch.set_num_threads(1)
    device: GraphDevice = CudaGraphDevice() if options.device == "cuda" else RecordingCpuDevice()
    began, total, failed, seldom = time.monotonic(), Report(), 0, False
    for place, backend in enumerate(options.backends):
        share = (place + 1) / len(options.backends)
        ends = began + 60 * options.minutes * share
        report, seed = Report(), options.seed
        while report.steps < options.steps or report.least(backend) < options.least:
            if time.monotonic() > ends:
                break
            found, failures = run_cases(device, backend, range(seed, seed + AT_ONCE), print)
            report.add(found)
            seed += AT_ONCE
            failed += len(failures)
            for case, what in failures if options.failures else ():
                save(case, options.failures, f"{backend}-{case.seed}", what)
        seldom |= report.steps < options.steps or report.least(backend) < options.least
        print(f"{backend}: seeds {options.seed} to {seed - 1}, {report.steps} steps, each operator "
              f"in each way at least {report.least(backend)} times, "
              f"{time.monotonic() - began:.0f} s", flush=True)  # fmt: skip
        total.add(report)
    print("\n".join(total.lines()))
    print(f"{failed} disagreements")
    return 1 if failed or seldom else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except SimcgError as error:
        sys.exit(f"error: {error}")
