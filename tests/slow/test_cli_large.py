"""The command line at sizes and rates that servers hardly see."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings

from tests.fast.test_cli_fuzz import arguments, check
from tests.studies import run_cli


@pytest.mark.parametrize(
    "line",
    [
        "--max-chunk 131072 --requests 200",
        "--requests 20000 --workload azure-code --rate 50",
        "--requests 20000 --workload uniform --max-chunk 8192 --buckets 500",
        "--requests 500 --hardware gb300 --max-chunk 16384 --buckets 300",
    ],
)
def test_large_settings_are_answered(line: str) -> None:
    """A large chunk, many requests, a flooded server and hundreds of buckets have answers."""
    ran = run_cli("optimize", "--json", *line.split())
    assert (ran.code, ran.err) == (0, "")
    value = json.loads(ran.out)
    assert value["answer"]["sizes"] == sorted(set(value["answer"]["sizes"]))
    assert "certificate checked" in value["proof"]


@settings(max_examples=100)
@given(arguments())
def test_more_options(options: list[str]) -> None:
    """A hundred more settings are answered or refused in one line."""
    drawn = [] if any("--requests" in option for option in options) else ["--requests=20"]
    check(["optimize"], None, [*drawn, *options])
