"""Printing: a console of at most 100 columns, JSON, and what is being done on a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click
import msgspec
from rich.console import Console

WIDTH = 100
NARROW = 40


def console() -> Console:
    """Standard output, at most 100 columns; colours on a terminal only.

    As wide as the terminal; piped, as COLUMNS says, but wide enough for tables.
    """
    said = os.environ.get("COLUMNS", "")
    width = WIDTH
    if sys.stdout.isatty():
        width = Console().width
    elif said.isascii() and said.isdigit():
        width = max(int(said), NARROW)
    return Console(width=min(width, WIDTH), highlight=False, soft_wrap=False)


def print_json(value: Any) -> None:
    """One indented JSON document."""
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))


@contextmanager
def stages() -> Iterator[Callable[[str], None]]:
    """A function that says what is being done, on a terminal's standard error only."""
    # Python has no standard error where the caller closed it
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda _: None
        return
    with Console(stderr=True).status("reading") as status:
        yield status.update
