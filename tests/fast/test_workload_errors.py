"""Every unusable input is refused in one line that names the file, the place and the reason."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from simcg.errors import InputError
from simcg.workload.read import read_histogram, read_requests, read_traffic

HEAD = "arrival_s,input_tokens,output_tokens\n"
GOOD = HEAD + "1,10,5\n2,20,6\n"


def _refusal(tmp_path: Path, content: str | bytes, **options: object) -> InputError:
    path = tmp_path / "trace"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(InputError) as caught:
        read_traffic(path, **options)  # type: ignore[arg-type]  # the table below holds any option
    assert caught.value.source in (str(path), "--columns", "format", "cache_tokens", "max_context")
    assert "\n" not in str(caught.value)
    return caught.value


def _moon(**fields: object) -> str:
    good: dict[str, object] = {"timestamp": 0, "input_length": 600, "output_length": 1}
    return json.dumps(good | {"hash_ids": [1, 2]}) + "\n" + json.dumps(good | fields)


@pytest.mark.parametrize(
    ("content", "where", "says"),
    [
        ("", "", "an empty file"),
        ("\r\n \n", "", "an empty file"),
        (HEAD, "", "got no data rows, expected at least one row"),
        (HEAD + "1,0,5", "line 2, input_tokens", "'0'"),
        (GOOD + "3,-4,5", "line 4, input_tokens", "'-4'"),
        (GOOD + "3,4.5,5", "line 4, input_tokens", "'4.5'"),
        (GOOD + "3,,5", "line 4, input_tokens", "''"),
        (GOOD + "3,NaN,5", "line 4, input_tokens", "'NaN'"),
        (GOOD + "3,1_0,5", "line 4, input_tokens", "'1_0'"),
        (GOOD + "3,٣,5", "line 4, input_tokens", "'٣'"),
        (GOOD + "3,²,5", "line 4, input_tokens", "'²'"),
        (GOOD + "3,1 ,5", "line 4, input_tokens", "'1 '"),
        (GOOD + "3," + "9" * 5000 + ",5", "line 4, input_tokens", "1 to 16777216"),
        (GOOD + "3,16777217,5", "line 4, input_tokens", "1 to 16777216"),
        (GOOD + "3,1,-5", "line 4, output_tokens", "'-5'"),
        (GOOD + "NaN,1,5", "line 4, arrival_s", "'NaN'"),
        (GOOD + "inf,1,5", "line 4, arrival_s", "'inf'"),
        (GOOD + "1e999999999,1,5", "line 4, arrival_s", "146 years"),
        (GOOD + "99999999999,1,5", "line 4, arrival_s", "146 years"),
        (GOOD + "3,4.000,5", "line 4, input_tokens", "'4.000'"),
        (GOOD + '3,"4,00",5', "line 4, input_tokens", "'4,00'"),
        (GOOD + '3,"4,0000",5', "line 4, input_tokens", "'4,0000'"),
        (GOOD + "3,x,5", "line 4, input_tokens", "; --skip-invalid leaves such rows out"),
        (GOOD + "2024-05-10 00:00:00,1,5", "line 4, arrival_s", "like the first"),
        (GOOD + "3,1", "line 4", "2 fields"),
        (GOOD + "3,1,5,6", "line 4", "4 fields"),
        (HEAD + "1,10,5\n\n2,20,6", "line 3", "a blank line"),
        (GOOD + '3,"1,5', "line 4", "unexpected end of data"),
        (GOOD + '3,"1"x,5', "line 4", "expected after"),
        ("time,input_tokens\nyesterday,1", "line 2, time", "such as 2026-11-12T08:00:00"),
        ("time,input_tokens\n1/12/2026 8:00:00 AM,1", "line 2, time", "--columns arrival=-"),
        ("time_s,input_tokens\n1794918273277,1", "line 2, time_s", "146 years"),
        ("time,input_tokens\n1794918273277,1\n1794918273277000,2", "line 3, time", "146 years"),
        ("time,input_tokens\n2023-02-30 00:00:00,1", "line 2, time", "calendar"),
        ("time,input_tokens\n2300-01-01 00:00:00,1", "line 2, time", "1970 to 2199"),
        (
            "time,input_tokens\n2024-05-10 00:00:00Z,1\n2024-05-10 00:00:01,1",
            "line 3, time",
            "zone",
        ),
        ("a,b,a\n1,2,3", "line 1", "'a'"),
        ("arrival_s;input_tokens\n1;2\n1,2", "line 3", "1 fields"),
        ("a,b\n1,2", "header", "--columns prompt=NAME"),
        ('"input\ntokens"\n0', "line 3, 'input\\ntokens'", "'0'"),
        ("374,44\n374,45", "header", "prompt tokens"),
        ("input_tokens,prompt_tokens\n1,2", "header", "one column for prompt"),
        ("prompt,Prompt \n1,2", "header", "one column for prompt"),
        ("prompt,output\nhello there,2", "line 2, prompt", "an integer"),
        (
            "time,timestamp,input_tokens\n1,2,3",
            "header",
            "one column for arrival; name it with --columns arrival=NAME",
        ),
        ("tokens,count,input_tokens\n1,2,3", "header", "not both"),
        ("tokens,count\n0,2", "line 2, tokens", "'0'"),
        ("tokens,count\n1,0", "line 2, count", "'0'"),
        ("tokens,count,requests\n3,1,4", "line 2, requests", "at most the step's 3"),
        ("tokens,count\n" + f"9,{2**40}\n9,{2**41}", "line 3, count", "integer"),
        ("input_tokens,cached_tokens\n5,4\n5,5", "line 3, cached_tokens", "at least one"),
        ('{\n  "model_type": "llama"\n}', "line 1", "got '{', expected one JSON object a line"),
        ("{\n}", "line 1", "(JSON lines) or CSV"),
        ("[1, 2]", "line 1", "one JSON object a line (JSON lines)"),
        ('{"input_tokens": 1}\n[2]', "line 2", "one JSON object a line (JSON lines)"),
        (
            '{"input_tokens": 1}\n{"input_tokens": 1',
            "line 2",
            "one JSON object a line (JSON lines)",
        ),
        ('{"input_tokens": 1}{"input_tokens": 2}', "line 1", "one JSON object a line (JSON lines)"),
        (
            '{"input_tokens": 1}\n\n{"input_tokens": 2}',
            "line 2",
            "one JSON object a line (JSON lines)",
        ),
        ('{"input_tokens": 1}\n{"other": 2}', "line 2, input_tokens", "no such field"),
        ('{"input_tokens": 1}\n{"input_tokens": true}', "line 2, input_tokens", "True"),
        ('{"input_tokens": 1}\n{"input_tokens": null}', "line 2, input_tokens", "None"),
        ('{"input_tokens": 1}\n{"input_tokens": 1.5}', "line 2, input_tokens", "1.5"),
        ('{"input_tokens": 1' + "0" * 5000 + "}", "line 1", "one JSON object a line (JSON lines)"),
        ('{"input_tokens": ' + "[" * 100_000, "line 1", "one JSON object a line (JSON lines)"),
        ('{"timestamp": 0, "input_length": 5}', "fields", "mooncake (ms) or table (seconds)"),
        (_moon(hash_ids=[1]), "line 2, hash_ids", "1 hashes"),
        (_moon(hash_ids=["a", 2]), "line 2, hash_ids", "a list of integers"),
        (_moon(hash_ids=None), "line 2, hash_ids", "a list of integers"),
        (
            '{"usage": {"input_tokens": 1}}\n{"usage": null}',
            "line 2, usage.input_tokens",
            "no such",
        ),
        ('{"usage": null}\n{"usage": {"input_tokens": 1}}', "line 1, usage.input_tokens", "--skip"),
        ('{"input_lens": [1, 0], "output_lens": [2, 2]}', "input_lens[1]", "got 0"),
        ('{"input_lens": [1], "x": 2}\n{"input_lens": [1]}', "", "the result of one benchmark"),
        (_moon(timestamp=None, hash_ids=[1, 2]), "line 2, timestamp", "a number"),
        (b"\x89PNG\r\n\x1a\n\x00\x00\xff", "line 1", "UTF-8"),
        (GOOD.encode("utf-16"), "line 1", "UTF-8"),
        (GOOD.encode() + b"3,\xff,1", "line 4", "UTF-8"),
        (gzip.compress(GOOD.encode(), mtime=0)[:-9], "", "gzip cut short"),
        (gzip.compress(GOOD.encode(), mtime=0)[:12], "", "gzip cut short"),
        (b"\x1f\x8bgarbage that is no gzip", "", "damaged gzip"),
        (gzip.compress(GOOD.encode(), mtime=0) + b"x", "", "damaged gzip"),
    ],
)
def test_refusals(tmp_path: Path, content: str | bytes, where: str, says: str) -> None:
    """Where it stands, and what was found or expected, are those of the first bad place."""
    error = _refusal(tmp_path, content)
    assert error.where == where
    assert says in f"{error} {error.value!r}"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"columns": {"prompt": "nope"}}, "one of 'arrival_s'"),
        ({"columns": {"size": "input_tokens"}}, "a role"),
        ({"columns": {"size": "-"}}, "a role"),
        ({"columns": {"prompt": "-"}}, "a column with prompt tokens"),
        ({"columns": {"prompt": "input_tokens", "output": "input_tokens"}}, "one column per role"),
        ({"format": "xml"}, "one of azure"),
        ({"format": "mooncake"}, "the columns of mooncake"),
        ({"format": "histogram"}, "the columns of histogram"),
        ({"cache_tokens": 512}, "no block hashes"),
        ({"cache_tokens": -1}, "an integer >= 0"),
        ({"max_context": 0}, "an integer from 1"),
        (
            {"max_context": 19},
            "line 3, input_tokens: got '20', expected an integer from 1 to 19, the model's context",
        ),
    ],
)
def test_bad_options(tmp_path: Path, options: dict[str, object], says: str) -> None:
    """Options that do not fit the input are refused, not ignored."""
    assert says in str(_refusal(tmp_path, GOOD, **options))


def test_unreadable_paths(tmp_path: Path) -> None:
    """A missing file, a folder and a path that is none are refused by their name."""
    for path in (tmp_path / "missing", tmp_path, "with\0nul"):
        with pytest.raises(InputError) as caught:
            read_requests(path)
        assert caught.value.source == str(path)
    with pytest.raises(InputError, match="traffic: got '', expected a file's path"):
        read_requests("")


def test_closed_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard input that the caller closed is refused by its name."""
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(InputError, match="standard input: got a closed one, expected an open one"):
        read_requests("-")


def test_wrong_door(tmp_path: Path) -> None:
    """Requests are no histogram, and a histogram is no requests."""
    path = tmp_path / "trace"
    path.write_text("tokens,count\n1,2\n")
    with pytest.raises(InputError, match="expected requests"):
        read_requests(path)
    path.write_text(GOOD)
    with pytest.raises(InputError, match="columns of histogram"):
        read_histogram(path)


def test_line_counts_quoted_line_breaks(tmp_path: Path) -> None:
    """The line in an error is the file's, also after a quoted field that spans lines."""
    error = _refusal(tmp_path, 'note,input_tokens\n"a\nb\nc",1\n"d\ne",zero\n')
    assert error.where == "line 6, input_tokens"


def test_error_beyond_first_block(tmp_path: Path) -> None:
    """A bad row far down is named by its line."""
    error = _refusal(tmp_path, HEAD + "1,1,1\n" * 50_000 + "1,x,1\n" + "1,1,1\n" * 10)
    assert error.where == "line 50002, input_tokens"
