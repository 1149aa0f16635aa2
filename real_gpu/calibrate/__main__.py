"""Runs every measurement and writes the profile and the runs as JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from real_gpu.calibrate import forward, host, kernels

GEMMS = [  # (k, n): Qwen3-8B, gpt-oss, Qwen3-30B-A3B, Llama-3.1-8B, on one GPU
    (4096, 6144), (4096, 4096), (4096, 24576), (12288, 4096),
    (2880, 5120), (4096, 2880), (2880, 32), (2880, 128),
    (2048, 5120), (4096, 2048), (2048, 128), (4096, 28672), (14336, 4096),
]  # fmt: skip
HEADS = [(4096, 151936), (2880, 201088)]  # logits: a row per request
GROUPED = [  # (experts, top_k, k, n): gpt-oss-20b, gpt-oss-120b, Qwen3-30B-A3B
    (32, 4, 2880, 5760), (32, 4, 2880, 2880), (128, 4, 2880, 5760), (128, 4, 2880, 2880),
    (128, 8, 2048, 1536), (128, 8, 768, 2048),
]  # fmt: skip
ATTENTION = [(32, 8, 128, None), (64, 8, 64, None), (64, 8, 64, 128), (32, 4, 128, None)]
FORWARD_SIZES = [16, 64, 100, 128, 192, 256, 320, 384, 512, 640, 700, 768, 1024, 1536, 2048,
                 3000, 4096, 6000, 8192]  # fmt: skip


def environment() -> dict[str, object]:
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


def sections(quick: bool, sizes: list[int]) -> dict[str, Callable[[], object]]:
    """Every measurement by name; each is a thunk so that one failure spoils only itself."""
    rows = kernels.row_grid(quick)
    nodes = [1, 16, 256] if quick else [1, 4, 16, 64, 256, 512, 1024, 2048, 4096, 8192, 16384]
    out: dict[str, Callable[[], object]] = {
        "capture": host.capture_costs,  # first: it must see the very first graph of the process
        "dispatch": host.dispatch,
        "launch_latency": host.launch_latency,
        "replay": lambda: host.replay(nodes),
        "gaps": host.gaps,
        "break": host.break_body,
        "piece": host.piece,
        "elementwise": lambda: kernels.elementwise(quick),
    }
    out["by_kind"] = lambda: kernels.by_kind(rows[::3] + rows[-1:])
    for k, n in GEMMS:
        out[f"gemm {k}x{n}"] = partial(kernels.gemm, k, n, rows)
    for k, n in HEADS:
        out[f"gemm {k}x{n}"] = partial(kernels.gemm, k, n, [1, 2, 4, 8, 16, 32, 64, 128])
    for experts, top_k, k, n in GROUPED:
        out[f"grouped {experts}/{top_k} {k}x{n}"] = partial(
            kernels.grouped_gemm, experts, top_k, k, n, rows
        )
    for heads, kv, dim, window in ATTENTION:
        out[f"attention {heads}/{kv}/{dim}/{window}"] = partial(
            kernels.attention, heads, kv, dim, window, quick
        )
    out["forwards"] = lambda: forward.run_forwards([64, 1024] if quick else sizes)
    out["dispatch again"] = host.dispatch  # the host is noisy: twice, minutes apart
    return out


def main() -> None:
    """Measure and write; a failed section is written as its error."""
    parser = argparse.ArgumentParser(prog="python -m real_gpu.calibrate")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--quick", action="store_true", help="a few sizes: does it run here?")
    parser.add_argument("--only", action="append", help="this section alone; repeatable")
    parser.add_argument("--sizes", type=int, nargs="+", default=FORWARD_SIZES,
                        help="token counts of the whole forwards")  # fmt: skip
    args = parser.parse_args()
    torch.manual_seed(0)
    measured: dict[str, object] = {"environment": environment()}
    for name, measure in sections(args.quick, args.sizes).items():
        if args.only and name not in args.only:
            continue
        begin = time.perf_counter()
        try:
            measured[name] = measure()
        except Exception:  # one section's fault must not lose the others' figures
            measured[name] = {"error": traceback.format_exc(limit=4)}
            print(f"FAILED {name}: {traceback.format_exc(limit=2)}", flush=True)
        torch.cuda.empty_cache()
        print(f"{time.perf_counter() - begin:7.2f} s  {name}", flush=True)
        args.out.write_text(json.dumps(measured))


if __name__ == "__main__":
    main()
