"""Valid input files, ways to spoil them, and what the readers make of the result."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import strategies as st

from simcg.errors import SimcgError
from simcg.workload.mooncake import BLOCK_TOKENS
from simcg.workload.read import read_requests, read_traffic
from simcg.workload.requests import Requests
from simcg.workload.steps import Steps


def traffic_of(data: bytes, chosen: str | None = None) -> Requests | Steps | None:
    """What the bytes are read as; None if they are refused."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "input"
        path.write_bytes(data)
        try:
            return read_traffic(path, format=chosen)
        except SimcgError as error:
            line = str(error)
    assert line.isprintable()
    return None


def requests_of(text: str, **options: object) -> Requests:
    """The requests of a file called ``input`` with this text."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "input"
        path.write_text(text)
        return read_requests(path, **options)  # type: ignore[arg-type]  # any option of it


def row_count(traffic: Requests | Steps) -> int:
    return len(traffic) if isinstance(traffic, Requests) else len(traffic.tokens)


def data_lines(data: bytes) -> int:
    """Lines with data in a file without quoted line breaks, header not counted."""
    lines = data.decode("utf-8-sig").rstrip(" \t\r\n").replace("\r\n", "\n").split("\n")
    return len(lines) if lines[0].startswith("{") else len(lines) - 1


@st.composite
def valid_files(draw: st.DrawFn) -> tuple[bytes, int, int]:
    """A valid file of each format: its bytes, number of rows, and sum of prompts or tokens."""
    sizes = draw(st.lists(st.integers(1, 3000), min_size=1, max_size=8))
    gaps = draw(st.lists(st.integers(0, 9), min_size=len(sizes), max_size=len(sizes)))
    times = np.cumsum(gaps).tolist()
    rows = list(zip(times, sizes, strict=True))
    kind = draw(st.sampled_from(["csv", "azure", "jsonl", "mooncake", "histogram"]))
    if kind == "csv":
        lines = ["arrival_ms,input_tokens", *(f"{t},{n}" for t, n in rows)]
    elif kind == "azure":
        clock = (f"2023-11-16 18:15:00.{t:07d}" for t in times)
        both = zip(clock, sizes, strict=True)
        lines = ["TIMESTAMP,ContextTokens,GeneratedTokens", *(f"{t},{n},1" for t, n in both)]
    elif kind == "jsonl":
        lines = [json.dumps({"arrived_at": t, "prompt_tokens": n}) for t, n in rows]
    elif kind == "mooncake":
        lines = [
            json.dumps(
                {"timestamp": t, "input_length": n, "hash_ids": list(range(-(-n // BLOCK_TOKENS)))}
            )
            for t, n in rows
        ]
    else:
        lines = ["tokens,count", *(f"{n},{t + 1}" for t, n in rows)]
    end = draw(st.sampled_from(["\n", "\r\n"]))
    return end.join(lines).encode(), len(sizes), sum(sizes)


def check_mutated(file: tuple[bytes, int, int], data: st.DataObject) -> None:
    """Spoils a valid file: it must be refused, or read whole as it now is; cut gzip is refused."""
    content = bytearray(file[0])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content)))
        until = data.draw(st.integers(at, min(at + 8, len(content))))
        content[at:until] = data.draw(
            st.sampled_from([b"", b"\n", b",", b"-", b'"', b"0", b"\xff", b"NaN"])
        )
    traffic = traffic_of(bytes(content))
    if traffic is not None and b'"' not in content and b"\r" not in content:
        assert row_count(traffic) == data_lines(bytes(content))
    packed = gzip.compress(bytes(content), mtime=0)
    cut = data.draw(st.integers(0, len(packed) - 1))
    assert traffic_of(packed[:cut]) is None
