"""The doors for traffic: a file or standard input to requests, or to steps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from simcg.errors import Finding, InputError
from simcg.workload.formats import FORMATS, find_format
from simcg.workload.open_table import open_table
from simcg.workload.options import ReadOptions
from simcg.workload.requests import Requests
from simcg.workload.source import source_name
from simcg.workload.steps import Steps


def read_traffic(  # noqa: PLR0913 - keywords, each one thing to say about a file
    path: str | Path,
    *,
    format: str | None = None,  # noqa: A002 - the word that users and the flag use
    columns: Mapping[str, str] | None = None,
    cache_tokens: int | None = None,
    max_context: int | None = None,
    skip_invalid: bool = False,
) -> Requests | Steps:
    """Requests or steps from a file (``-``: standard input); the content decides the format.

    Formats: those in ``FORMATS``; CSV, JSON lines or the JSON of a serving benchmark, UTF-8, plain
    or gzip. See ReadOptions for the other arguments. Requests are sorted by time; the result's
    ``source`` says what was done. Every row is used, or InputError names the line, value and
    reason, unless ``skip_invalid`` leaves such rows out.
    """
    options = ReadOptions(columns, cache_tokens, max_context, skip_invalid)
    table = open_table(path, skip_invalid=skip_invalid)
    return find_format(table, format, options).read(table, options)


def read_requests(  # noqa: PLR0913 - those of read_traffic
    path: str | Path,
    *,
    format: str | None = None,  # noqa: A002 - the word that users and the flag use
    columns: Mapping[str, str] | None = None,
    cache_tokens: int | None = None,
    max_context: int | None = None,
    skip_invalid: bool = False,
) -> Requests:
    """As ``read_traffic``, but raises InputError for a histogram of steps."""
    traffic = read_traffic(
        path,
        format=format,
        columns=columns,
        cache_tokens=cache_tokens,
        max_context=max_context,
        skip_invalid=skip_invalid,
    )
    if isinstance(traffic, Steps):
        raise InputError(source_name(path), "", Finding("a histogram of steps"), "requests")
    return traffic


def read_histogram(path: str | Path) -> Steps:
    """Steps from a table with the columns tokens[, requests][, context], count; InputError."""
    table = open_table(path)
    options = ReadOptions()
    steps = find_format(table, "histogram", options).read(table, options)
    if not isinstance(steps, Steps):
        raise InputError(source_name(path), "", Finding("requests"), "a histogram of steps")
    return steps


__all__ = ["FORMATS", "read_histogram", "read_requests", "read_traffic"]
