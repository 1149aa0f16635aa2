"""Requests for Hypothesis; a scheduler and a prefix cache that are slow and obviously right."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from simcg.arrays import Ints
from simcg.batch import Batch
from simcg.workload.requests import Requests
from simcg.workload.scheduler import StepTime
from simcg.workload.steps import Steps


def ints(values: list[int]) -> Ints:
    return np.array(values, dtype=np.int64)


def make_requests(arrival_ns: list[int] | None, new: list[int], cached: list[int]) -> Requests:
    """Requests with these columns; output unknown."""
    times = None if arrival_ns is None else ints(arrival_ns)
    return Requests(times, ints(new) + ints(cached), ints(cached), ints([0] * len(new)), "test")


@st.composite
def requests(draw: st.DrawFn, timed: bool | None = None) -> Requests:
    """Up to 30 small requests; gaps of 0 are common, so that requests arrive together."""
    count = draw(st.integers(1, 30))
    sizes = st.lists(st.integers(1, 40), min_size=count, max_size=count)
    contexts = st.lists(st.integers(0, 50), min_size=count, max_size=count)
    gaps = st.lists(st.integers(0, 30), min_size=count, max_size=count)
    has_times = draw(st.booleans()) if timed is None else timed
    arrivals = np.cumsum([0, *draw(gaps)[1:]]).tolist() if has_times else None
    return make_requests(arrivals, draw(sizes), draw(contexts))


@dataclass
class _Waiting:
    arrival_ns: int
    left: int
    context: int


def reference_steps(
    traffic: Requests, max_chunk: int, max_requests: int, step_ns: StepTime
) -> list[tuple[int, Batch]]:
    """(start, batch) of every step, by moving each token from a queue into a step."""
    times = [0] * len(traffic) if traffic.arrival_ns is None else traffic.arrival_ns.tolist()
    columns = zip(times, traffic.new_tokens.tolist(), traffic.cached_tokens.tolist(), strict=True)
    queue = [_Waiting(*row) for row in columns]
    clock, steps = 0, []
    while queue:
        clock = max(clock, queue[0].arrival_ns)
        taken: list[tuple[int, int]] = []
        for request in [r for r in queue if r.arrival_ns <= clock][:max_requests]:
            tokens = min(request.left, max_chunk - sum(q for q, _ in taken))
            if tokens > 0:
                taken.append((tokens, request.context))
                request.left -= tokens
                request.context += tokens
        queue = [r for r in queue if r.left > 0]
        batch = Batch(tuple(q for q, _ in taken), tuple(c for _, c in taken))
        steps.append((clock, batch))
        clock += step_ns(batch.num_tokens, batch.pairs)
    return steps


def reference_hits(prompts: list[list[int]], capacity: int | None) -> list[int]:
    """Leading blocks held for each prompt, with the held ones as a list, most recent first."""
    recent: list[int] = []
    hits = []
    for hashes in prompts:
        hits.append(next((i for i, h in enumerate(hashes) if h not in recent), len(hashes)))
        head_first = list(dict.fromkeys(hashes))
        recent = (head_first + [h for h in recent if h not in head_first])[:capacity]
    return hits


def rows(steps: Steps) -> list[tuple[int, int, int, int]]:
    """(tokens, requests, context, pairs) of each row."""
    columns = (steps.tokens, steps.requests, steps.context, steps.pairs)
    return list(zip(*(c.tolist() for c in columns), strict=True))


def batch_row(batch: Batch) -> tuple[int, int, int, int]:
    """A batch as ``rows`` gives it."""
    return (batch.num_tokens, batch.num_requests, sum(batch.context_tokens), batch.pairs)
