"""Runs every measurement, then builds the profile from what was measured."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import msgspec
import torch

from real_gpu.calibrate.plan import DEFAULT_MODELS
from real_gpu.calibrate.profile import VERSION, Raw, build_profile, profile_name
from real_gpu.calibrate.sections import Job, Section, sections
from real_gpu.graphs.cuda import CudaGraphDevice
from simcg.errors import SimcgError
from simcg.model.catalog import load_architecture


def environment() -> dict[str, Any]:
    """What the figures were measured on."""
    gpu = torch.cuda.get_device_properties(0)
    with Path("/proc/cpuinfo").open() as lines:
        cpu = next((li.split(":")[1].strip() for li in lines if li.startswith("model name")), "?")
    return {
        "gpu": gpu.name,
        "sms": gpu.multi_processor_count,
        "memory_bytes": gpu.total_memory,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "host": f"{cpu}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d"),
    }


def measure(work: list[Section]) -> tuple[dict[str, Any], dict[str, float]]:
    """The results by name, and seconds taken; a section that fails is its error."""
    results: dict[str, Any] = {}
    seconds: dict[str, float] = {}
    for number, section in enumerate(work, start=1):
        begin = time.perf_counter()
        try:
            results[section.name] = section.measure()
        except Exception as error:  # one section's fault must not lose the others' figures
            where = traceback.format_exc(limit=-3)
            results[section.name] = {"error": f"{type(error).__name__}: {error}", "where": where}
            print(f"failed {section.name}: {type(error).__name__}: {error}".replace("\n", " "))
        torch.cuda.empty_cache()  # nothing without CUDA
        seconds[section.name] = round(time.perf_counter() - begin, 2)
        took = f"{seconds[section.name]:.1f} s of {section.budget_s:g}"
        print(f"section {number}/{len(work)} {took}: {section.name}", flush=True)
    return results, seconds


def write(path: Path, data: bytes) -> None:
    """All of it or nothing."""
    beside = path.with_name(path.name + ".part")
    beside.write_bytes(data)
    beside.replace(path)


def run(args: argparse.Namespace) -> None:
    """Measure, write the raw measurements, build and write the profile."""
    if not torch.cuda.is_available():
        raise SimcgError(
            "calibrate: no CUDA device here; optimize, compare, ladder and validate need none: "
            "they work with the built-in profiles and with a profile from another machine"
        )
    models = [load_architecture(name) for name in args.model or DEFAULT_MODELS]
    torch.manual_seed(0)
    begin = time.perf_counter()
    work = sections(Job(models, CudaGraphDevice(), args.quick))
    if args.only:
        work = [s for s in work if any(s.name.startswith(one) for one in args.only)]
    results, seconds = measure(work)
    raw: Raw = {
        "version": VERSION,
        "quick": args.quick,
        "models": [arch.name for arch in models],
        "environment": environment(),
        "seconds": seconds,
        "sections": results,
    }
    if args.raw is not None:
        write(args.raw, json.dumps(raw).encode())
    budget = sum(section.budget_s for section in work)
    print(f"measured in {time.perf_counter() - begin:.0f} s, budget {budget:.0f} s")
    if args.out is not None:
        profile = build_profile(raw, args.name or profile_name(raw["environment"]["gpu"]))
        write(args.out, msgspec.json.format(msgspec.json.encode(profile), indent=1) + b"\n")
        print(f"profile {profile.name} written to {args.out}")


def parser() -> argparse.ArgumentParser:
    """The options of ``python -m real_gpu.calibrate``."""
    out = argparse.ArgumentParser(prog="python -m real_gpu.calibrate")
    out.add_argument("--out", type=Path, help="the profile to write")
    out.add_argument("--raw", type=Path, help="where to keep the measurements themselves")
    out.add_argument("--name", help="the profile's name (default: the GPU's)")
    out.add_argument("--model", action="append", help="built-in model or config.json")
    out.add_argument("--quick", action="store_true", help="three points a curve: does it run?")
    out.add_argument("--only", action="append", help="sections whose names begin so")
    return out


def main() -> None:
    """Exit code 2 and one line where a profile cannot be made."""
    try:
        run(parser().parse_args())
    except SimcgError as error:
        print(f"simcg: error: {error}", file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        print(
            f"simcg: error: {error.filename or 'calibrate'}: {error.strerror or error}",
            file=sys.stderr,
        )
        sys.exit(2)


if __name__ == "__main__":
    main()
