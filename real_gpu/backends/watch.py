"""Lets an observer learn what a capture does with a break; nobody else needs to be told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments of a call."""


class BreakWatcher(Protocol):
    """Told at capture, between the segments that a break parts."""

    def on_break(
        self, function: Callable[..., Any], given: Arguments, held: Arguments, runs: bool
    ) -> None:
        """A break was met: its arguments, what a replay passes instead, whether it runs now."""

    def on_result(self, result: Any, buffers: Any) -> None:
        """The last break returned; a replay copies its result into the buffers."""


_watcher: ContextVar[BreakWatcher | None] = ContextVar("break_watcher", default=None)


@contextmanager
def watching_breaks(watcher: BreakWatcher) -> Iterator[None]:
    """Within it, captures tell ``watcher``."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


def tell_break(function: Callable[..., Any], given: Arguments, held: Arguments, runs: bool) -> None:
    """See ``BreakWatcher.on_break``."""
    watcher = _watcher.get()
    if watcher is not None:
        watcher.on_break(function, given, held, runs)


def tell_result(result: Any, buffers: Any) -> None:
    """See ``BreakWatcher.on_result``."""
    watcher = _watcher.get()
    if watcher is not None:
        watcher.on_result(result, buffers)
