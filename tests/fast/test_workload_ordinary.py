"""Ordinary files: logs of gateways, spreadsheets and benchmarks read as the plain table does."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcg.errors import InputError
from simcg.workload.read import read_histogram, read_requests, read_traffic
from simcg.workload.requests import Requests
from simcg.workload.steps import Steps
from tests.workload_files import requests_of

Rows = list[tuple[int, int, int]]
ROWS: Rows = [(0, 1116, 41), (207, 100, 48), (207, 30, 1), (1500, 2_000_000, 7)]
"""Times in ms, prompt and output tokens."""

rows_in_any_order = st.lists(
    st.tuples(st.integers(0, 50), st.integers(1, 9000), st.integers(0, 99)), min_size=1, max_size=9
)


def _read(folder: Path, text: str, **options: object) -> Requests:
    path = folder / "trace"
    path.write_text(text)
    return read_requests(path, **options)  # type: ignore[arg-type]  # any option of it


def _same(found: Requests, wanted: Requests) -> bool:
    """Are the columns those of ``wanted``?"""
    if found.arrival_ns is None or wanted.arrival_ns is None:
        times = found.arrival_ns is None and wanted.arrival_ns is None
    else:
        times = np.array_equal(found.arrival_ns, wanted.arrival_ns)
    return (
        times
        and np.array_equal(found.prompt_tokens, wanted.prompt_tokens)
        and np.array_equal(found.cached_tokens, wanted.cached_tokens)
        and np.array_equal(found.output_tokens, wanted.output_tokens)
    )


def _csv(rows: Rows, head: str = "ts_ms,input_tokens,output_tokens", separator: str = ",") -> str:
    lines = [separator.join(map(str, row)) for row in rows]
    return "\n".join([head.replace(",", separator), *lines]) + "\n"


def _lines(rows: Rows, prompt: str, output: str) -> str:
    """JSON lines whose token counts stand where the dotted names say."""
    out = []
    for time, *tokens in rows:
        one: dict[str, object] = {"ts_ms": time}
        for name, count in zip((prompt, output), tokens, strict=True):
            *levels, last = name.split(".")
            inner = one
            for level in levels:
                inner = inner.setdefault(level, {})  # type: ignore[assignment]  # dicts all the way
            inner[last] = count
        out.append(json.dumps(one))
    return "\n".join(out) + "\n"


@pytest.mark.parametrize(
    ("prompt", "output", "known"),
    [
        ("usage.prompt_tokens", "usage.completion_tokens", True),
        ("usage.input_tokens", "usage.output_tokens", True),
        ("response.usage.input_tokens", "response.usage.output_tokens", True),
        ("request.size.in", "reply.size", False),
    ],
)
def test_nested_fields_are_flat_ones(
    tmp_path: Path, prompt: str, output: str, *, known: bool
) -> None:
    """A field in an object in a line is a column with a dotted name; those of usage are known."""
    flat = _read(tmp_path, _csv(ROWS))
    nested = _lines(ROWS, prompt, output)
    assert _same(_read(tmp_path, nested, columns={"prompt": prompt, "output": output}), flat)
    if known:
        assert _same(_read(tmp_path, nested), flat)
    else:
        with pytest.raises(InputError, match="prompt tokens"):
            _read(tmp_path, nested)


def test_own_names_go_before_usage(tmp_path: Path) -> None:
    """A well-known name of the line itself is taken, and a text called prompt is not."""
    line = {"prompt": "hello", "usage": {"prompt_tokens": 5, "prompt_tokens_details": {}}}
    line["usage"] = {"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}}
    found = _read(tmp_path, json.dumps(line))
    assert (found.prompt_tokens.tolist(), found.cached_tokens.tolist()) == ([5], [4])
    found = _read(tmp_path, json.dumps({**line, "input_tokens": 9}))
    assert found.prompt_tokens.tolist() == [9]


def test_a_whole_name_goes_before_its_parts(tmp_path: Path) -> None:
    """A name that has a dot itself, as flattened tables have, is that field."""
    text = json.dumps({"usage.input_tokens": 3, "usage": {"input_tokens": 4}})
    assert _read(tmp_path, text).prompt_tokens.tolist() == [3]


@given(rows_in_any_order)
def test_any_order_is_the_sorted_one(rows: Rows) -> None:
    """Rows out of order read as if sorted by time, equal times as they stand, and are counted."""
    found = requests_of(_csv(rows))
    wanted = requests_of(_csv(sorted(rows, key=lambda row: row[0])))
    assert _same(found, wanted)
    late = sum(row[0] < max(r[0] for r in rows[: i + 1]) for i, row in enumerate(rows))
    assert wanted.source.endswith("input")
    assert (f"sorted by time: {late} row" in found.source) == (late > 0)


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.lists(st.integers(0, 4), min_size=1, max_size=4)),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from([None, 0, 1024]),
)
def test_prefix_hits_follow_time(prompts: list[tuple[int, list[int]]], cache: int | None) -> None:
    """The prefix cache sees Mooncake requests in order of time, however the file has them, and
    hashes of more than 63 bits are those of fewer.
    """

    def text(rows: list[tuple[int, list[int]]]) -> str:
        return "\n".join(
            json.dumps({"timestamp": t, "input_length": 512 * len(h), "hash_ids": h})
            for t, h in rows
        )

    found = requests_of(text(prompts), cache_tokens=cache)
    large = [(t, [h + (1 << 63) for h in hashes]) for t, hashes in prompts]
    assert _same(found, requests_of(text(large), cache_tokens=cache))
    ordered = sorted(prompts, key=lambda row: row[0])
    assert _same(found, requests_of(text(ordered), cache_tokens=cache))


@pytest.mark.parametrize("separator", [";", "\t"])
def test_separators(tmp_path: Path, separator: str) -> None:
    """Semicolons and tabs part columns as commas do."""
    assert _same(_read(tmp_path, _csv(ROWS, separator=separator)), _read(tmp_path, _csv(ROWS)))


def test_decimal_commas(tmp_path: Path) -> None:
    """Where semicolons or tabs part columns, a comma is a decimal point and never a thousand's."""
    flat = _read(tmp_path, "t_s,input_tokens\n0.5,512\n1.125,7\n", columns={"arrival": "t_s"})
    for mark in ";\t":
        text = f"t_s{mark}input_tokens\n0,5{mark}512,0\n1,125{mark}7\n"
        assert _same(_read(tmp_path, text, columns={"arrival": "t_s"}), flat)
        with pytest.raises(InputError, match=r"line 2, input_tokens: got '512\.000'"):
            _read(tmp_path, text.replace("512,0", "512,000"))


def test_spellings_of_integers(tmp_path: Path) -> None:
    """Thousands in commas and a decimal .0 do not change a number, in CSV or JSON."""
    flat = _read(tmp_path, _csv(ROWS))
    quoted = "\n".join(f'{t},"{n:,}",{out}.0' for t, n, out in ROWS)
    assert _same(_read(tmp_path, "ts_ms,input_tokens,output_tokens\n" + quoted), flat)
    floats = [(time, float(n), out) for time, n, out in ROWS]
    objects = [
        dict(zip(("ts_ms", "input_tokens", "output_tokens"), r, strict=True)) for r in floats
    ]
    assert _same(_read(tmp_path, "\n".join(map(json.dumps, objects))), flat)


@pytest.mark.parametrize(
    ("first", "second", "note"),
    [
        ("1794918273", "1794918274.5", None),
        ("1794918273277", "1794918274777", "milliseconds"),
        ("1794918273277.25", "1794918274777.25", "milliseconds"),
        ("1794918273277123", "1794918274777123", "microseconds"),
        ("1794918273277123456", "1794918274777123456", "nanoseconds"),
        ('"2026-11-12 08:00:00,123"', '"2026-11-12 08:00:01,623"', None),
        ('"2026-11-12T08:00:00,5+01:00"', '"2026-11-12T07:00:02Z"', None),
    ],
)
def test_times_since_1970(tmp_path: Path, first: str, second: str, note: str | None) -> None:
    """The magnitude of a number without a unit shows it, which is said; a comma is a point."""
    found = _read(tmp_path, f"ts,input_tokens\n{first},1\n{second},1\n")
    assert found.arrival_ns is not None
    assert found.arrival_ns.tolist() == [0, 1_500_000_000]
    assert found.source.endswith(f"(times taken as {note})" if note else "trace")


def test_a_time_column_can_be_left_out(tmp_path: Path) -> None:
    """``arrival=-`` reads a file as if it had no times, whatever they are."""
    text = "Time,input_tokens\n11/12/2026 08:00:00 AM,5\n,6\n"
    found = _read(tmp_path, text, columns={"arrival": "-"})
    assert _same(found, _read(tmp_path, "input_tokens\n5\n6\n"))


BAD_LINES = [
    "2026-11-12T08:01:02 WARN upstream reset by peer",
    "",
    '{"ts_ms": 3, "usage": null}',
    '{"ts_ms": null, "usage": {"input_tokens": 3, "output_tokens": 1}}',
    '{"ts_ms": 3, "usage": {"input_tokens": "many", "output_tokens": 1}}',
    '{"ts_ms": 3, "usage": {"input_tokens": 0, "output_tokens": 1}}',
    "[1]",
]


@given(
    st.lists(st.tuples(st.integers(0, 12), st.sampled_from(BAD_LINES)), max_size=12),
    st.sampled_from([1, 45]),
)
def test_bad_lines_are_skipped(bad: list[tuple[int, str]], times: int) -> None:
    """With bad lines anywhere, beyond one block too, the good ones are read, the others counted."""
    rows = [(t, n + 1, 3) for t, n, _ in ROWS * times * 3]
    good = _lines(rows, "usage.input_tokens", "usage.output_tokens").splitlines()
    lines = list(good)
    for place, text in bad:
        lines.insert(place, text)
    lines.append(good[0])  # blank lines at the end are no rows
    found = requests_of("\n".join(lines), skip_invalid=True)
    assert _same(found, requests_of("\n".join([*good, good[0]])))
    assert (f"skipped {len(bad)} of {len(lines):,} rows" in found.source) == bool(bad)
    if bad:
        first = next(i for i, line in enumerate(lines) if line in BAD_LINES)
        assert f"first: line {first + 1}" in found.source


def test_bad_rows_of_tables_are_skipped(tmp_path: Path) -> None:
    """Rows of another width, empty cells, and cached tokens that are all of the prompt."""
    head = "arrival,input_tokens,cached_tokens\n"
    text = head + "0,5,1\n\n1,,0\n2,5,5\n3,6\nSum,11,\n4,7,0\n"
    found = _read(tmp_path, text, skip_invalid=True)
    assert _same(found, _read(tmp_path, head + "0,5,1\n4,7,0\n"))
    assert "skipped 5 of 7 rows, first: line 3: got a blank line" in found.source
    first = _read(tmp_path, head + "2023-02-30 00:00:00,5,1\n0,5,1\n4,7,0\n", skip_invalid=True)
    assert _same(first, found)
    with pytest.raises(InputError, match=r"skipped 2 of 2 rows, first: line 2.*can be used"):
        _read(tmp_path, head + "0,5,5\n1,0,0\n", skip_invalid=True)


def test_bad_rows_of_histograms_are_skipped(tmp_path: Path) -> None:
    """Steps of more requests than tokens too."""
    path = tmp_path / "steps"
    path.write_text("tokens,requests,count\n3,4,1\n8,2,5\nall,6,6\n")
    found = read_traffic(path, skip_invalid=True)
    assert isinstance(found, Steps)
    assert "skipped 2 of 3 rows, first: line 2, requests" in found.source
    path.write_text("tokens,requests,count\n8,2,5\n")
    assert found.pairs.tolist() == read_histogram(path).pairs.tolist()


@pytest.mark.parametrize("indent", [None, 2])
def test_benchmarks_are_tables(tmp_path: Path, indent: int | None) -> None:
    """The lists of vLLM's and SGLang's results are columns; one line or many, with times or not."""
    times, prompts, outputs = map(list, zip(*ROWS, strict=True))
    result: dict[str, object] = {"backend": "vllm", "completed": 4, "input_lens": prompts}
    result |= {"output_lens": outputs, "ttfts": [0.1] * 4, "itls": [[0.02]] * 4, "errors": [""] * 4}
    untimed = _read(tmp_path, json.dumps(result, indent=indent))
    assert _same(untimed, _read(tmp_path, _csv(ROWS), columns={"arrival": "-"}))
    result["start_times"] = [918273.5 + t / 1000 for t in times]
    timed = _read(tmp_path, json.dumps(result, indent=indent))
    assert _same(timed, _read(tmp_path, _csv(ROWS)))
