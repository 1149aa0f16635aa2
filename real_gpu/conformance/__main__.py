"""``python -m real_gpu.conformance``: random cases on each backend beside the formal model."""

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
from simcg.errors import SimcgError, require

AT_ONCE = 20
"""Cases between two looks at the clock."""


def parser() -> argparse.ArgumentParser:
    """The options."""
    out = argparse.ArgumentParser(prog="python -m real_gpu.conformance", description=__doc__)
    out.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    out.add_argument("--backends", nargs="+", choices=BACKEND_NAMES, default=BACKEND_NAMES)
    out.add_argument("--seed", type=int, default=0, help="of the first case")
    out.add_argument("--steps", type=int, default=1000, help="on each backend, at least")
    out.add_argument(
        "--least", type=int, default=0, help="and until each operator was met so often in each way"
    )
    out.add_argument("--minutes", type=float, default=60.0, help="stop then")
    out.add_argument("--failures", type=Path, help="folder for cases that fail")
    return out


def run(options: argparse.Namespace) -> int:
    """Exit code 1 when a case fails, or when time was up before what was asked for."""
    folder = options.failures
    require(folder is None or folder.is_dir(), "--failures", "", str(folder), "a folder")
    torch.set_num_threads(1)
    device: GraphDevice = CudaGraphDevice() if options.device == "cuda" else RecordingCpuDevice()
    began, total, failed, enough = time.monotonic(), Report(), 0, True
    for place, backend in enumerate(options.backends):
        ends = began + 60 * options.minutes * (place + 1) / len(options.backends)
        report, failures = one_backend(device, backend, options, ends)
        failed += failures
        enough &= met(report, backend, options)
        total.add(report)
    print("\n".join([*total.lines(), f"{failed} disagreements, {time.monotonic() - began:.0f} s"]))
    return 0 if enough and not failed else 1


def one_backend(
    device: GraphDevice, backend: str, options: argparse.Namespace, ends: float
) -> tuple[Report, int]:
    """Cases from the first seed on, until there are enough or the clock says ``ends``."""
    report, seed, failed = Report(), options.seed, 0
    while not met(report, backend, options) and time.monotonic() < ends:
        found, failures = run_cases(device, backend, range(seed, seed + AT_ONCE), print)
        report.add(found)
        seed, failed = seed + AT_ONCE, failed + len(failures)
        for case, what in failures if options.failures else ():
            save(case, options.failures, f"{backend}-{case.seed}", what)
    print(
        f"{backend}: seeds {options.seed} to {seed - 1}, {report.steps} steps, each operator in "
        f"each way at least {report.least(backend)} times",
        flush=True,
    )
    return report, failed


def met(report: Report, backend: str, options: argparse.Namespace) -> bool:
    """Whether a backend was checked as often as was asked for."""
    return bool(report.steps >= options.steps and report.least(backend) >= options.least)


def main() -> None:
    """Exit code 2 and one line where nothing can be run."""
    try:
        sys.exit(run(parser().parse_args()))
    except SimcgError as error:
        print(f"simcg: error: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
