"""Graph segments with eager calls between them: capture ends at a marked call and goes on after.

A break's arguments fall in two kinds. Memory that this capture allocated in the pool is defined
again by every replay before the break, so it is held weakly, and the pool can re-use it later in
the forward. Anything else is held strongly: were it freed, its block would get another owner, and
the break would read that owner's data.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from real_gpu.backends.backend import Forward
from real_gpu.backends.boundary import Boundary
from real_gpu.backends.breaks import eager_on_graph, handling_breaks
from real_gpu.backends.capture import Captured, GraphBackend
from real_gpu.backends.output import kept_output
from real_gpu.backends.plain import refuse_unusual
from real_gpu.backends.watch import tell_break, tell_result
from real_gpu.graphs.device import CaptureError, GraphDevice, Segment
from simcg.backend import BREAKABLE


def breakable(device: GraphDevice) -> GraphBackend:
    """The backend that runs marked functions eagerly between graph segments."""
    return GraphBackend(BREAKABLE, device, record_breaking)


def debug_graph(device: GraphDevice) -> GraphBackend:
    """The breakable backend with the whole forward as one break: no operator is captured.

    A fault that stays under it does not lie in capture.
    """
    return GraphBackend(
        BREAKABLE,
        device,
        lambda graphs, pool, forward: record_breaking(graphs, pool, eager_on_graph(forward)),
    )


def record_breaking(device: GraphDevice, pool: Hashable, forward: Forward) -> Captured:
    """Record the forward in segments, with its marked calls between them."""
    return _Breaking(device, pool).record(forward)


class _Breaking:
    """One capture under way."""

    def __init__(self, device: GraphDevice, pool: Hashable) -> None:
        self._device, self._pool = device, pool
        self._mark = device.mark(pool)
        self._segments: list[Segment] = []
        self._calls: list[Callable[[], object]] = []
        self._breaks = 0
        self._failure: BaseException | None = None

    def record(self, forward: Forward) -> Captured:
        """Run the forward, recording; nothing stays behind if it raises."""
        try:
            self._device.begin(self._pool)
            with handling_breaks(self._on_break):
                output = forward()
            self._close_segment()
            self._refuse_swallowed()
            kept = kept_output(self._device, self._mark, output)
        except BaseException:
            self._device.abandon()
            for segment in self._segments:
                segment.release()
            raise
        return Captured(tuple(self._segments), tuple(self._calls), self._breaks, kept)

    def _on_break(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """End the segment, run the function eagerly, begin the next segment."""
        joined = self._device.join()
        self._close_segment()
        try:
            held_args, held_kwargs = tree_map(self._held, (args, kwargs))
            tell_break(function, (args, kwargs), (held_args, held_kwargs), runs=True)
            call = functools.partial(function, *held_args, **held_kwargs)
            with handling_breaks(None):
                result = function(*args, **kwargs)
            boundary = None
            if result is not None:
                boundary = Boundary.of(
                    result, tree_leaves((args, kwargs)), self._device, self._mark
                )
        except BaseException as error:
            self._failure = error
            raise
        finally:
            # Also after an exception: what the forward does next must not run outside a graph.
            self._device.begin(self._pool)
            self._device.fork(joined)
        self._breaks += 1
        if boundary is None:
            self._calls.append(call)
            return None
        value, refresh = boundary.placed(call, self._device)
        tell_result(result, value)
        self._calls.append(refresh)
        return value

    def _refuse_swallowed(self) -> None:
        if self._failure is not None:
            raise CaptureError(
                "the forward caught an exception of a break, which no replay would raise: "
                f"{self._failure}"
            )

    def _close_segment(self) -> None:
        """End the segment and keep it, unless it is empty."""
        segment = self._device.end()
        if segment.nodes:
            self._segments.append(segment)
            self._calls.append(segment.replay)
        else:
            segment.release()

    def _held(self, leaf: Any) -> Any:
        """How a replay keeps an argument; see the module's text."""
        if not isinstance(leaf, torch.Tensor):
            return leaf
        refuse_unusual(leaf, "a break's argument")
        return self._device.alias(leaf) if self._device.born_since(self._mark, leaf) else leaf
