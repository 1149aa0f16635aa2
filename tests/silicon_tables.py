"""A tiny package of kernel tables whose every time is a known function of its sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

K = (64, 128, 256, 512, 1024, 2048)
N = (64, 128, 512, 1024, 4096)
ENDS = (16, 32, 64, 128, 256, 512, 1024)
M = (*range(1, 17), *(m for end in ENDS[:-1] for m in (end + 1, 2 * end)))
"""Rows of tables: every one up to 16, then both ends of intervals."""
LENGTHS = (1, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
STEPS = (1, 15, 127, 255, 511, 1023, 4095, 16383)
TOKENS = (1, 2, 4, 8, 16, 64, 256, 1024, 4096)
VALUES = (128, 1024, 8192, 65_536, 1_048_576)
EAGER_US = 14.0
SPECIFICATION = """
gpu: {mem_bw: 3350000000000, mem_capacity: 85899345920, bfloat16_tc_flops: 989000000000000,
      fp8_tc_flops: 1979000000000000}
node: {intra_node_bw: 450000000000}
"""

Edit = Callable[[str, list[dict[str, Any]]], list[dict[str, Any]]]
"""Changes the rows of a table, by its name."""


def gemm_us(m: int, n: int, k: int) -> float:
    """Smooth in the logarithms of n and k, a staircase of 128 rows in m."""
    tiles = -(-m // 128)
    return 0.1 * float(n**0.25) * float(k**0.5) * (0.5 + 0.5 * tiles)


def attention_us(batch: int, length: int) -> float:
    """A floor, then pairs."""
    return 5.0 + 1e-6 * float(batch * length * length)


def decode_us(batch: int, keys: int) -> float:
    """A floor, then keys."""
    return 6.0 + 1e-4 * float(batch * keys)


def experts_us(tokens: int) -> float:
    """A power of the tokens."""
    return 20.0 * float(tokens**0.5)


def all_reduce_us(ranks: int, values: int) -> float:
    """Latency and bytes."""
    return 3.0 + ranks + 1e-5 * values


def gemm_rows(dtypes: Iterable[str] = ("bfloat16", "fp8_block")) -> list[dict[str, Any]]:
    """Every size of every type."""
    return [
        {"gemm_dtype": dtype, "m": m, "n": n, "k": k, "latency": gemm_us(m, n, k) / 1e3}
        for dtype in dtypes
        for m in M
        for n in N
        for k in K
    ]


def _attention(heads: int) -> dict[str, Any]:
    return {
        "num_heads": heads, "num_key_value_heads": 8, "head_dim": 128, "window_size": 0,
        "attn_dtype": "bfloat16", "kv_cache_dtype": "bfloat16",
    }  # fmt: skip


def tables() -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Rows by (family, file)."""
    moe = {
        "moe_dtype": "w4a16_mxfp4", "hidden_size": 2880, "inter_size": 2880, "topk": 4,
        "num_experts": 128, "moe_ep_size": 1, "distribution": "power_law_1.01",
    }  # fmt: skip
    return {
        ("gemm", "gemm_perf"): gemm_rows(),
        ("attention", "context_attention_perf"): [
            {**_attention(32), "batch_size": b, "isl": n, "step": 0,
             "latency": attention_us(b, n) / 1e3}
            for b in BATCHES for n in LENGTHS if b * n <= 65_536
        ],
        ("attention", "generation_attention_perf"): [
            {**_attention(32), "batch_size": b, "isl": 1, "step": s,
             "latency": decode_us(b, s + 1) / 1e3}
            for b in BATCHES for s in STEPS
        ],
        ("moe", "moe_perf"): [
            {**moe, "num_tokens": n, "moe_tp_size": tp, "latency": experts_us(n) / tp / 1e3}
            for n in TOKENS for tp in (1, 4)
        ],
        ("comm", "custom_allreduce_perf"): [
            {"num_gpus": ranks, "message_size": size, "backend": f"sglang_{how}",
             "latency": (all_reduce_us(ranks, size) + more) / 1e3}
            for ranks in (2, 4) for size in VALUES
            for how, more in (("graph", 0.0), ("eager", EAGER_US))
        ],
    }  # fmt: skip


def write_package(
    folder: Path, *, system: str = "h100_sxm", framework: str = "sglang", edit: Edit | None = None
) -> Path:
    """The package's directory under ``folder``, with one system, framework and version."""
    package = folder / "aiconfigurator_core"
    data = package / "systems" / "data" / system
    for (family, file), rows in tables().items():
        kept = rows if edit is None else edit(file, rows)
        place = data / family / framework / "0.9.1"
        place.mkdir(parents=True, exist_ok=True)
        if kept:
            columns = {name: [row[name] for row in kept] for name in kept[0]}
            pq.write_table(pa.table(columns), place / f"{file}.parquet")
    (package / "__init__.py").write_text("")
    (package / "systems" / f"{system}.yaml").write_text(SPECIFICATION)
    (folder / "aiconfigurator_core-7.8.9.dist-info").mkdir(exist_ok=True)
    return package
