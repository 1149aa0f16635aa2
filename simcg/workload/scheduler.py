"""Requests to prefill steps: first come, first served, chunked, on a server that takes time.

The tokens to compute, request after request, form one stream, and first come, first served means
that every step is the next interval of it. So a step is known by two positions, and its tokens,
requests, context and pairs are differences of prefix sums: whatever the chunks, nothing is lost.

SGLang and vLLM cut this stream alike for prefill alone (the unfinished request first, then the
queue, the last one cut to fill the chunk), so there is no policy to choose. Not modelled: decode
steps between prefills, decode tokens sharing vLLM's budget, and a full KV cache.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from typing import Literal

import numpy as np

from simcg.arrays import Ints
from simcg.errors import InputError, require
from simcg.workload.requests import MAX_TIME_NS, Requests
from simcg.workload.steps import Steps

StepTime = Callable[[int, int], int]
"""Duration in ns >= 0 of a step with (tokens, query-key pairs)."""

Untimed = Literal["alone", "saturated"]


def prefill_steps(  # noqa: PLR0913 - keyword-only; each is one setting of the server
    requests: Requests,
    *,
    max_chunk: int,
    step_ns: StepTime,
    max_requests: int | None = None,
    rate: float = 1.0,
    untimed: Untimed = "alone",
) -> Steps:
    """The steps that a prefill server runs, in order of time, count 1 each.

    A step starts as soon as the server is free and a request has arrived; it takes waiting
    tokens in order, up to ``max_chunk`` tokens and ``max_requests`` requests (None: no limit),
    and lasts ``step_ns(n, pairs)``. Arrivals are divided by ``rate``: 2.0 is twice the load.
    Requests without times: ``alone`` computes each by itself, as on an idle server (steps have
    no start), ``saturated`` lets all wait at time 0. Raises InputError for values out of range.
    """
    require(max_chunk >= 1, "max_chunk", "", max_chunk, "an integer >= 1")
    limit = len(requests) if max_requests is None else max_requests
    require(limit >= 1, "max_requests", "", max_requests, "an integer >= 1, or None")
    require(untimed in ("alone", "saturated"), "untimed", "", untimed, "alone or saturated")
    stream = _Stream(requests)
    if requests.arrival_ns is None and untimed == "alone":
        return stream.steps(_alone(stream.ends, max_chunk), None, requests.source)
    arrival_ns = scaled_arrivals(requests, rate)
    positions, start_ns = _run(stream, arrival_ns.tolist(), max_chunk, limit, step_ns)
    return stream.steps(positions, start_ns, requests.source)


def scaled_arrivals(requests: Requests, rate: float) -> Ints:
    """Arrival times divided by ``rate`` (int64 ns, rounded); zeros for requests without times."""
    require(0 < rate < math.inf, "rate", "", rate, "a number > 0")
    if requests.arrival_ns is None:
        return np.zeros(len(requests), dtype=np.int64)
    if rate == 1.0:
        return requests.arrival_ns
    last = float(requests.arrival_ns[-1]) / rate
    require(last < MAX_TIME_NS, "rate", "", rate, "arrivals within 146 years")
    return np.rint(requests.arrival_ns / rate).astype(np.int64)


class _Stream:
    """The tokens to compute as one stream, with prefix sums at the requests' ends (length R+1)."""

    def __init__(self, requests: Requests) -> None:
        new, self.cached = requests.new_tokens, requests.cached_tokens
        self.ends = _prefix_sums(new)
        self.contexts = _prefix_sums(self.cached)
        self.pairs = _prefix_sums(new * self.cached + new * (new + 1) // 2)

    def steps(self, positions: Ints, start_ns: Ints | None, source: str) -> Steps:
        """The steps between consecutive stream ``positions`` (int64, from 0 to the end)."""
        first = np.searchsorted(self.ends, positions[:-1], side="right") - 1
        last = np.searchsorted(self.ends, positions[1:] - 1, side="right") - 1
        done_before = positions[:-1] - self.ends[first]
        tokens = np.diff(positions)
        return Steps(
            tokens=tokens,
            requests=last - first + 1,
            context=self.contexts[last + 1] - self.contexts[first] + done_before,
            pairs=np.diff(self._pairs_before(positions)),
            count=np.ones_like(tokens),
            start_ns=start_ns,
            source=source,
        )

    def _pairs_before(self, positions: Ints) -> Ints:
        """Pairs of all tokens before each position: whole requests, then the part of one."""
        whole = np.minimum(
            np.searchsorted(self.ends, positions, side="right") - 1, len(self.cached) - 1
        )
        part = positions - self.ends[whole]
        pairs: Ints = self.pairs[whole] + part * self.cached[whole] + part * (part + 1) // 2
        return pairs


def _prefix_sums(values: Ints) -> Ints:
    """0, then the running sums; raises InputError where they leave int64."""
    total = sum(values.tolist())
    require(total < MAX_TIME_NS, "requests", "", total, "sums of tokens and pairs below 2**62")
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(values)])


def _alone(ends: Ints, max_chunk: int) -> Ints:
    """Step boundaries when no two requests share a step."""
    new = np.diff(ends)
    chunks = -(-new // max_chunk)
    request = np.repeat(np.arange(len(new)), chunks)
    nth = np.arange(len(request)) - np.repeat(np.cumsum(chunks) - chunks, chunks)
    starts = ends[request] + nth * max_chunk
    return np.append(starts, ends[-1])


def _run(
    stream: _Stream, arrival_ns: list[int], max_chunk: int, max_requests: int, step_ns: StepTime
) -> tuple[Ints, Ints]:
    """Step boundaries in the stream, and the start of each step in ns."""
    ends, cached, pairs = stream.ends.tolist(), stream.cached.tolist(), stream.pairs.tolist()
    arrival_ns = [*arrival_ns, MAX_TIME_NS]
    positions, starts = [0], []
    head = position = clock = pairs_done = 0
    while head < len(cached):
        clock = max(clock, arrival_ns[head])
        stop = head + 1
        if arrival_ns[stop] <= clock:
            stop = min(bisect_right(arrival_ns, clock, stop), head + max_requests)
        end = position + max_chunk
        if end >= ends[stop]:
            head, end = stop, ends[stop]
            before = pairs[head]
        else:  # the last request is cut: the next step begins inside it, at position ``end``
            head = bisect_right(ends, end, head, stop) - 1
            part = end - ends[head]
            before = pairs[head] + part * cached[head] + part * (part + 1) // 2
        duration = step_ns(end - position, before - pairs_done)
        starts.append(clock)
        clock += duration
        if duration < 0 or clock >= MAX_TIME_NS:
            expected = "ns >= 0, and a run within 146 years"
            raise InputError("step_ns", f"n={end - position}", duration, expected)
        positions.append(end)
        position, pairs_done = end, before
    return np.array(positions, dtype=np.int64), np.array(starts, dtype=np.int64)
