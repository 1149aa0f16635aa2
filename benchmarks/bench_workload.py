"""A million requests to steps: how long each stage takes, beside what cannot be avoided.

    python -m benchmarks.bench_workload [REQUESTS]

The limits are csv.reader and msgspec over the same files, in the same run, doing nothing else.
"""

from __future__ import annotations

import csv
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np

from simcg.workload.builtin import builtin_workload
from simcg.workload.mooncake import BLOCK_TOKENS
from simcg.workload.read import read_requests
from simcg.workload.requests import Requests
from simcg.workload.scheduler import prefill_steps
from simcg.workload.step_sets import aggregate

Result = TypeVar("Result")

STEP_FIXED_NS, STEP_TOKEN_NS = 8_000_000, 20_000


def step_ns(tokens: int, pairs: int) -> int:
    """An assumed step time, to have queues of a natural length."""
    return STEP_FIXED_NS + STEP_TOKEN_NS * tokens + pairs // 1000


def timed(name: str, work: Callable[[], Result]) -> Result:
    """Runs ``work`` once and prints its wall time."""
    begin = time.perf_counter()
    result = work()
    print(f"  {name:<44}{time.perf_counter() - begin:8.2f} s")
    return result


def write_csv(path: Path, requests: Requests) -> None:
    """The requests in the form of the Azure traces."""
    if requests.arrival_ns is None:
        raise SystemExit("no times")
    clock = np.datetime_as_string(
        np.datetime64("2023-11-16T18:00:00", "ns") + requests.arrival_ns, unit="ns"
    )
    columns = (clock, requests.prompt_tokens.tolist(), requests.output_tokens.tolist())
    with path.open("w") as file:
        file.write("TIMESTAMP,ContextTokens,GeneratedTokens\n")
        file.writelines(f"{t[:27]},{p},{o}\n" for t, p, o in zip(*columns, strict=True))


def write_mooncake(path: Path, requests: Requests) -> None:
    """The requests in the form of the Mooncake traces; a third of the blocks is shared."""
    if requests.arrival_ns is None:
        raise SystemExit("no times")
    times = (requests.arrival_ns // 1_000_000).tolist()
    fresh = 0
    with path.open("wb") as file:
        for t, p in zip(times, requests.prompt_tokens.tolist(), strict=True):
            blocks = -(-p // BLOCK_TOKENS)
            shared = blocks // 3
            hashes = [*range(shared), *range(10_000 + fresh, 10_000 + fresh + blocks - shared)]
            fresh += blocks - shared
            row = {"timestamp": t, "input_length": p, "output_length": 1, "hash_ids": hashes}
            file.write(msgspec.json.encode(row) + b"\n")


def read_csv_only(path: Path) -> None:
    """csv.reader over the file and nothing else."""
    with path.open(newline="") as file:
        deque(csv.reader(file), maxlen=0)


def decode_json_only(path: Path) -> None:
    """msgspec over each line and nothing else."""
    decode = msgspec.json.Decoder().decode
    with path.open("rb") as file:
        deque(map(decode, file), maxlen=0)


def to_steps(requests: Requests) -> None:
    """Schedules and counts."""
    steps = timed(
        "schedule, chunk 8192",
        lambda: prefill_steps(requests, max_chunk=8192, step_ns=step_ns),
    )
    kinds = timed("count equal steps", lambda: aggregate(steps))
    print(f"  {steps.total:,} steps, {len(kinds.tokens):,} kinds")


def main(count: int) -> None:
    """Both formats."""
    with tempfile.TemporaryDirectory() as folder:
        table, lines = Path(folder) / "trace.csv", Path(folder) / "trace.jsonl"
        write_csv(table, builtin_workload("azure-conv", count))
        print(f"{count:,} requests, Azure CSV, {table.stat().st_size / 1e6:.0f} MB")
        timed("limit: csv.reader alone", lambda: read_csv_only(table))
        to_steps(timed("read_requests", lambda: read_requests(table)))
        write_mooncake(lines, builtin_workload("mooncake-conversation", count))
        print(f"{count:,} requests, Mooncake JSON lines, {lines.stat().st_size / 1e6:.0f} MB")
        timed("limit: msgspec alone", lambda: decode_json_only(lines))
        timed(
            "read_requests, cache of 1e8 tokens", lambda: read_requests(lines, cache_tokens=10**8)
        )
        to_steps(timed("read_requests, unlimited cache", lambda: read_requests(lines)))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
