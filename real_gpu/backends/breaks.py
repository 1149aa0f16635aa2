"""Marks functions that run eagerly between graph segments, wherever a backend breaks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar
from weakref import WeakSet

P = ParamSpec("P")
R = TypeVar("R")
OnBreak = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
"""What a capture does with a call of a marked function: given function, args and kwargs."""

_on_break: ContextVar[OnBreak | None] = ContextVar("on_break", default=None)
_marked: WeakSet[Callable[..., Any]] = WeakSet()


def eager_on_graph(function: Callable[P, R]) -> Callable[P, R]:
    """Mark ``function`` as a break: a breaking backend runs it eagerly at each replay.

    Everywhere else, and inside another break, it is a plain call. It must return fresh memory:
    of a tensor that it keeps itself, such as a cache, the graphs see a copy, and writes in place
    to the copy do not reach the cache (use an out-parameter). At replay it sees neither autocast
    nor the context variables of its call at capture. A recording sees the thread that captures
    and no other.
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        handler = _on_break.get()
        if handler is None:
            return function(*args, **kwargs)
        result: R = handler(function, args, kwargs)
        return result

    _marked.add(call)
    return call


def marked_functions() -> frozenset[Callable[..., Any]]:
    """Every marked function that is alive: a tracer leaves calls of these as they are."""
    return frozenset(_marked)


@contextmanager
def handling_breaks(handler: OnBreak | None) -> Iterator[None]:
    """Within it, calls of marked functions go to ``handler`` (None: plain calls)."""
    token = _on_break.set(handler)
    try:
        yield
    finally:
        _on_break.reset(token)
