"""Readers under fire: whatever the bytes, a valid result with every row, or InputError."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from simcg.errors import SimcgError
from simcg.workload.formats import FORMATS
from simcg.workload.mooncake import BLOCK_TOKENS
from simcg.workload.read import read_traffic
from simcg.workload.requests import Requests
from simcg.workload.steps import Steps

formats = st.sampled_from([None, *FORMATS])


def _traffic(data: bytes, chosen: str | None = None) -> Requests | Steps | None:
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


def _rows(traffic: Requests | Steps) -> int:
    return len(traffic) if isinstance(traffic, Requests) else len(traffic.tokens)


def _data_lines(data: bytes) -> int:
    """Lines with data in a file without quoted line breaks, header not counted."""
    lines = data.decode("utf-8-sig").rstrip(" \t\r\n").replace("\r\n", "\n").split("\n")
    return len(lines) if lines[0].startswith("{") else len(lines) - 1


@given(st.binary(max_size=200), formats)
@example(b"\x1f\x8b", None)
@example(b"{", None)
@example(b"\xef\xbb\xbf", None)
@example(b'"', None)
def test_any_bytes(data: bytes, chosen: str | None) -> None:
    """Arbitrary bytes, plain or in gzip, never raise anything but a SimcgError."""
    _traffic(data, chosen)
    _traffic(gzip.compress(data), chosen)


@given(st.text(alphabet='0123456789.-+eEnaNT:Z,;"\n\r\t {}[]tokenscuprmi_\x00é', max_size=120))
def test_any_text_after_a_header(text: str) -> None:
    """Nearly valid text is refused or read whole."""
    for head in ("time,input_tokens\n", "tokens,count\n", '{"input_tokens": 1}\n'):
        data = (head + text).encode()
        traffic = _traffic(data)
        if traffic is not None and '"' not in text and "\r" not in text:
            assert _rows(traffic) == _data_lines(data)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
names = st.sampled_from(
    ["timestamp", "input_length", "hash_ids", "output_length", "input_tokens", "tokens", "count"]
)


@given(st.lists(st.dictionaries(names, json_values), min_size=1, max_size=4), formats)
def test_any_json_objects(objects: list[dict[str, object]], chosen: str | None) -> None:
    """JSON objects with any values in the known fields are refused or read whole."""
    data = "\n".join(map(json.dumps, objects)).encode()
    traffic = _traffic(data, chosen)
    assert traffic is None or _rows(traffic) == len(objects)


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


@given(valid_files(), st.sampled_from([b"", b"\n", b"\r\n\r\n"]), st.booleans())
def test_valid_files_are_read_whole(
    file: tuple[bytes, int, int], tail: bytes, packed: bool
) -> None:
    """A valid file gives one row a line with its sizes, whatever its end and packing."""
    data, count, total = file
    data += tail
    traffic = _traffic(gzip.compress(data) if packed else data)
    assert traffic is not None
    assert _rows(traffic) == count
    sizes = traffic.prompt_tokens if isinstance(traffic, Requests) else traffic.tokens
    assert sizes.sum() == total


@given(valid_files(), st.data())
def test_mutated_files(file: tuple[bytes, int, int], data: st.DataObject) -> None:
    """A valid file with bytes cut, changed or put in is refused, or read whole as it now is."""
    content = bytearray(file[0])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content)))
        until = data.draw(st.integers(at, min(at + 8, len(content))))
        content[at:until] = data.draw(
            st.sampled_from([b"", b"\n", b",", b"-", b'"', b"0", b"\xff", b"NaN"])
        )
    traffic = _traffic(bytes(content))
    if traffic is not None and b'"' not in content and b"\r" not in content:
        assert _rows(traffic) == _data_lines(bytes(content))
    packed = gzip.compress(bytes(content))
    cut = data.draw(st.integers(0, len(packed) - 1))
    assert _traffic(packed[:cut]) is None
