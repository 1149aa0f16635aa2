"""The requests of each step, from the requests of a trace and the steps made of them."""

from __future__ import annotations

import numpy as np

from simcg.arrays import Ints
from simcg.batch import Batch
from simcg.errors import require
from simcg.workload.requests import Requests
from simcg.workload.steps import Steps


def step_batches(requests: Requests, steps: Steps, which: Ints) -> list[Batch]:
    """The batches of the steps numbered ``which``; ``steps`` as ``prefill_steps`` made them.

    Steps are consecutive intervals of the stream of tokens to compute, so the sizes of all steps
    say where each lies. Raises ``InputError`` for steps that are not those of these requests.
    """
    ends = np.cumsum(requests.new_tokens)
    total, covered = int(ends[-1]), int(steps.tokens.sum())
    require(covered == total, steps.source, "tokens", covered, f"steps of these {total} tokens")
    stops = np.cumsum(steps.tokens)
    return [
        _batch(requests, ends, int(stops[i] - steps.tokens[i]), int(stops[i]))
        for i in which.tolist()
    ]


def even_batch(tokens: int, requests: int, context: int) -> Batch:
    """Requests that share tokens and cached context as evenly as they can."""

    def shares(total: int) -> tuple[int, ...]:
        least, more = divmod(total, requests)
        return tuple(least + (i < more) for i in range(requests))

    return Batch(shares(tokens), shares(context))


def _batch(requests: Requests, ends: Ints, start: int, stop: int) -> Batch:
    """What the stream's tokens start..stop belong to."""
    first = int(np.searchsorted(ends, start, side="right"))
    last = int(np.searchsorted(ends, stop - 1, side="right"))
    query, context = [], []
    for i in range(first, last + 1):
        end, new = int(ends[i]), int(requests.new_tokens[i])
        done = max(start - (end - new), 0)
        query.append(min(end, stop) - (end - new) - done)
        context.append(int(requests.cached_tokens[i]) + done)
    return Batch(tuple(query), tuple(context))
