"""What the readers understand: formats, names, units, compression, and prefix hits."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcg.batch import Batch
from simcg.workload.columns import column_names
from simcg.workload.mooncake import BLOCK_TOKENS
from simcg.workload.prefix_cache import PrefixCache
from simcg.workload.read import read_histogram, read_requests, read_traffic
from simcg.workload.requests import Requests
from simcg.workload.steps import Steps
from tests.workloads import reference_hits

AZURE = "\r\n".join(
    [
        "TIMESTAMP,ContextTokens,GeneratedTokens",
        "2023-11-16 18:15:46.6805900,374,44",
        "2023-11-16 18:15:50.9951690,396,109",
    ]
)


def _write(folder: Path, content: str | bytes, name: str = "input") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def _columns(requests: Requests) -> tuple[list[int] | None, list[int], list[int], list[int]]:
    times = None if requests.arrival_ns is None else requests.arrival_ns.tolist()
    return (
        times,
        requests.prompt_tokens.tolist(),
        requests.cached_tokens.tolist(),
        requests.output_tokens.tolist(),
    )


AZURE_COLUMNS = ([0, 4_314_579_000], [374, 396], [0, 0], [44, 109])


@pytest.mark.parametrize(
    "content",
    [
        AZURE.encode(),
        AZURE.replace("\r\n", "\n").encode() + b"\n\n \n",
        b"\xef\xbb\xbf" + AZURE.encode(),
        gzip.compress(AZURE.encode(), mtime=0),
        gzip.compress(AZURE[:70].encode(), mtime=0)
        + gzip.compress(AZURE[70:].encode(), mtime=0),
        AZURE.replace(" 18:", "T18:").encode(),
        AZURE.replace("00,374", "00+00:00,374").replace("90,396", "90+00:00,396").encode(),
        AZURE.replace("00,", "00Z,").replace("18:15:50.995169", "20:15:50.995169+02:0").encode(),
        AZURE.replace("374,44", '"374","44"').encode(),
    ],
)  # fmt: skip
def test_one_trace_many_spellings(tmp_path: Path, content: bytes) -> None:
    """Line ends, byte-order mark, gzip, zones and quotes do not change what is read, to the ns."""
    assert _columns(read_requests(_write(tmp_path, content))) == AZURE_COLUMNS


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """``-`` reads standard input, and names it so."""
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(AZURE.encode())))
    requests = read_requests("-")
    assert _columns(requests) == AZURE_COLUMNS
    assert requests.source == "standard input"


@pytest.mark.parametrize(
    ("header", "first", "second", "gap_ns"),
    [
        ("arrival_time_ns", "46926808", "347938951", 301_012_143),
        ("start_time_offset_us", "5", "7", 2_000),
        ("timestamp_ms", "0.5", "2", 1_500_000),
        ("timestamp_s", "0.0027", "0.0035", 800_000),
        ("Timestamp", "5", "45", 40_000_000_000),
        ("arrival", "1700000000.000000001", "1700000000.5", 499_999_999),
        ("arrived_at", "1e-3", "2E-3", 1_000_000),
        ("time (ms)", "-1", "1", 2_000_000),
        ("time", "1970-01-01 00:00:00", "1970-01-01 00:00:00.000000001", 1),
    ],
)
def test_time_units(tmp_path: Path, header: str, first: str, second: str, gap_ns: int) -> None:
    """A time column's suffix is its unit, else seconds; decimals are exact to the nanosecond."""
    text = f"{header},input_toks,output_toks\n{first},1,2\n{second},3,4\n"
    assert _columns(read_requests(_write(tmp_path, text)))[0] == [0, gap_ns]


@pytest.mark.parametrize(
    ("prompt", "output"),
    [
        ("ContextTokens", "GeneratedTokens"),
        ("context_tokens", "generated_tokens"),
        ("input_toks", "output_toks"),
        ("input_tokens", "output_tokens"),
        ("Request tokens", "Response tokens"),
        ("num_prefill_tokens", "num_decode_tokens"),
        ("prompt_len", "output_len"),
    ],
)
def test_known_names_csv_and_jsonl(tmp_path: Path, prompt: str, output: str) -> None:
    """The names of public traces are known, and CSV and JSON lines read alike."""
    table = _write(tmp_path, f"x,{prompt},{output}\n,10,3\n,20,4\n", "a")
    objects = [{"x": None, prompt: 10, output: 3}, {output: 4, prompt: 20, "y": [1]}]
    lines = _write(tmp_path, "\n".join(map(json.dumps, objects)) + "\n", "b")
    expected = (None, [10, 20], [0, 0], [3, 4])
    assert _columns(read_requests(table)) == _columns(read_requests(lines)) == expected


def test_given_columns(tmp_path: Path) -> None:
    """``columns`` names what is not known, and settles what is ambiguous."""
    path = _write(tmp_path, "when_ms,a,prompt_tokens,input_tokens,hit\n1,9,2,3,1\n4,9,5,6,0\n")
    columns = {"arrival": "when_ms", "prompt": "input_tokens", "output": "a", "cached": "hit"}
    requests = read_requests(path, columns=columns)
    assert _columns(requests) == ([0, 3_000_000], [3, 6], [1, 0], [9, 9])


@given(
    st.lists(st.lists(st.integers(0, 6), max_size=6), max_size=25),
    st.one_of(st.none(), st.integers(0, 8)),
)
def test_prefix_cache_is_lru(prompts: list[list[int]], capacity: int | None) -> None:
    """Hits are the leading blocks among the most recently used ones, the head kept longest."""
    cache = PrefixCache(capacity)
    assert [cache.hit_blocks(p) for p in prompts] == reference_hits(prompts, capacity)


def _mooncake(prompts: list[tuple[int, int, list[int]]]) -> str:
    names = ("timestamp", "input_length", "hash_ids")
    return "\n".join(json.dumps(dict(zip(names, row, strict=True))) for row in prompts)


MOONCAKE = _mooncake(
    [
        (0, 1000, [1, 2]),
        (3, 1000, [1, 3]),
        (3, 1024, [1, 3]),
        (9, 1300, [4, 1, 2]),
    ]
)


@pytest.mark.parametrize(
    ("cache_tokens", "cached"),
    [
        (None, [0, 512, 1023, 0]),
        (0, [0, 0, 0, 0]),
        (511, [0, 0, 0, 0]),
        (512, [0, 512, 512, 0]),
        (10**9, [0, 512, 1023, 0]),
    ],
)
def test_mooncake_prefix_hits(tmp_path: Path, cache_tokens: int | None, cached: list[int]) -> None:
    """Only a leading run of known blocks is cached, and one token is always computed; ms."""
    requests = read_requests(_write(tmp_path, MOONCAKE), cache_tokens=cache_tokens)
    expected = ([0, 3_000_000, 3_000_000, 9_000_000], [1000, 1000, 1024, 1300], cached, [0] * 4)
    assert _columns(requests) == expected


@given(st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=5), min_size=1, max_size=12))
def test_larger_cache_never_hits_less(prompts: list[list[int]]) -> None:
    """LRU is a stack algorithm: a larger prefix cache never has fewer hits."""
    hits = []
    for capacity in (0, 1, 2, 4, 8, None):
        cache = PrefixCache(capacity)
        hits.append(sum(cache.hit_blocks(p) for p in prompts))
    assert hits == sorted(hits)
    assert BLOCK_TOKENS == 512


def test_histogram(tmp_path: Path) -> None:
    """A histogram is steps; pairs are those of requests that share the tokens evenly."""
    path = _write(tmp_path, "tokens,requests,context,count\n7,1,5,3\n7,2,0,1\n8,2,6,4\n")
    steps = read_histogram(path)
    traffic = read_traffic(path)
    assert isinstance(traffic, Steps)
    assert traffic.pairs.tolist() == steps.pairs.tolist()
    batches = [Batch((7,), (5,)), Batch((4, 3), (0, 0)), Batch((4, 4), (3, 3))]
    assert steps.pairs.tolist() == [b.pairs for b in batches]
    assert (steps.total, steps.start_ns, steps.count.tolist()) == (8, None, [3, 1, 4])


def test_histogram_of_tokens_only(tmp_path: Path) -> None:
    """Without requests and context, a step is one request without cached tokens."""
    steps = read_histogram(_write(tmp_path, '{"tokens": 3, "count": 2}\n{"tokens": 1, "count": 9}'))
    assert np.array_equal(
        np.stack([steps.requests, steps.context, steps.pairs]), [[1, 1], [0, 0], [6, 1]]
    )


def test_blocks_join(tmp_path: Path) -> None:
    """Rows beyond one block of the reader are all there, in order."""
    count = 40_000
    text = "arrival_ns,input_tokens\n" + "\n".join(f"{i * 3},{i % 999 + 1}" for i in range(count))
    requests = read_requests(_write(tmp_path, text))
    assert requests.arrival_ns is not None
    assert requests.arrival_ns.tolist() == list(range(0, count * 3, 3))
    assert requests.prompt_tokens.tolist() == [i % 999 + 1 for i in range(count)]


def test_roles_are_column_names(tmp_path: Path) -> None:
    """A table may call its columns what --columns calls them; a well-known name goes first."""
    plain = _write(tmp_path, "arrival,Prompt,output,cached\n0,5,2,1\n1.5,6,3,0\n")
    wanted = ([0, 1_500_000_000], [5, 6], [1, 0], [2, 3])
    assert _columns(read_requests(plain)) == wanted
    texts = "arrival,prompt,prompt_tokens,output,cached\n0,hi,5,2,1\n1.5,ho,6,3,0\n"
    assert _columns(read_requests(_write(tmp_path, texts))) == wanted


def test_every_name_that_is_listed_is_understood(tmp_path: Path) -> None:
    """Those in the help of ``simcg workload``, one by one, for their role."""
    for role, names in (part.split(": ") for part in column_names().split("; ")):
        for name in names.split(", "):
            if role == "prompt":
                found = _columns(read_requests(_write(tmp_path, f"{name}\n7\n")))
                assert found[1] == [7], name
            else:
                found = _columns(
                    read_requests(_write(tmp_path, f"{name},input_tokens\n3,7\n4,7\n"))
                )
                where = {"arrival": 0, "cached": 2, "output": 3}[role]
                assert found[where] == ([0, 1_000_000_000] if role == "arrival" else [3, 4]), name
