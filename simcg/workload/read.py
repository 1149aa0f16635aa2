"""The doors for traffic: a file or standard input to requests, or to steps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from simcg.errors import Finding, InputError
from simcg.workload.formats import FORMATS, find_format
from simcg.workload.options import ReadOptions
from simcg.workload.requests import Requests
from simcg.workload.source import source_name
from simcg.workload.steps import Steps
from simcg.workload.table import read_table


def read_traffic(
    path: str | Path,
    *,
    format: str | None = None,  # noqa: A002 - the word that users and the flag use
    columns: Mapping[str, str] | None = None,
    cache_tokens: int | None = None,
    max_context: int | None = None,
) -> Requests | Steps:
    """Requests or steps from a file (``-``: standard input); the content decides the format.

    Formats: those in ``FORMATS``; CSV or JSON lines, UTF-8, plain or gzip. See ReadOptions for
    the other arguments. Every row is used, or InputError names the line, value and reason.
    """
    options = ReadOptions(columns, cache_tokens, max_context)
    table = read_table(path)
    return find_format(table, format, options).read(table, options)


def read_requests(
    path: str | Path,
    *,
    format: str | None = None,  # noqa: A002 - the word that users and the flag use
    columns: Mapping[str, str] | None = None,
    cache_tokens: int | None = None,
    max_context: int | None = None,
) -> Requests:
    """As ``read_traffic``, but raises InputError for a histogram of steps."""
    traffic = read_traffic(
        path, format=format, columns=columns, cache_tokens=cache_tokens, max_context=max_context
    )
    if isinstance(traffic, Steps):
        raise InputError(source_name(path), "", Finding("a histogram of steps"), "requests")
    return traffic


def read_histogram(path: str | Path) -> Steps:
    """Steps from a table with the columns tokens[, requests][, context], count; InputError."""
    table = read_table(path)
    options = ReadOptions()
    steps = find_format(table, "histogram", options).read(table, options)
    if not isinstance(steps, Steps):
        raise InputError(source_name(path), "", Finding("requests"), "a histogram of steps")
    return steps


__all__ = ["FORMATS", "read_histogram", "read_requests", "read_traffic"]
