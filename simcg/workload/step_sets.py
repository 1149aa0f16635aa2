"""Steps as sets: equal ones counted, split in time, cut into blocks of time."""

from __future__ import annotations

import numpy as np

from simcg.arrays import Bools, Ints
from simcg.errors import require
from simcg.workload.steps import Steps


def aggregate(steps: Steps) -> Steps:
    """The distinct (tokens, requests, context, pairs) in ascending order with exact counts.

    The time axis is lost: ``start_ns`` is None.
    """
    columns = (steps.tokens, steps.requests, steps.context, steps.pairs)
    order = np.lexsort(columns[::-1])
    tokens, requests, context, pairs = (column[order] for column in columns)
    changed = np.zeros(len(order), dtype=np.bool_)
    changed[0] = True
    for column in (tokens, requests, context, pairs):
        changed[1:] |= column[1:] != column[:-1]
    first = np.flatnonzero(changed)
    count = np.add.reduceat(steps.count[order], first)
    return Steps(
        tokens[first], requests[first], context[first], pairs[first], count, None, steps.source
    )


def split_by_time(steps: Steps, fraction: float) -> tuple[Steps, Steps]:
    """Steps that start in the first ``fraction`` of the time from first to last start; the rest.

    Raises InputError without a time axis or if either part would be empty.
    """
    require(0 < fraction < 1, "fraction", "", fraction, "a number between 0 and 1")
    start_ns = _starts(steps)
    offset = start_ns - start_ns[0]
    cut = int(offset[-1] * fraction)
    early = offset <= cut
    require(not bool(early.all()), steps.source, "steps", steps.total, "steps after the cut")
    return _rows(steps, early), _rows(steps, ~early)


def time_blocks(steps: Steps, blocks: int) -> Ints:
    """Index 0..blocks-1 of the block of equal duration that each row starts in (int64).

    Blocks may be empty. Raises InputError without a time axis.
    """
    require(blocks >= 1, "blocks", "", blocks, "an integer >= 1")
    start_ns = _starts(steps)
    offset = start_ns - start_ns[0]
    width = int(offset[-1]) // blocks + 1
    index: Ints = offset // width
    return index


def _starts(steps: Steps) -> Ints:
    require(steps.start_ns is not None, steps.source, "start_ns", None, "steps with a time axis")
    return np.zeros(0, dtype=np.int64) if steps.start_ns is None else steps.start_ns


def _rows(steps: Steps, chosen: Bools) -> Steps:
    """The chosen rows of timed steps."""
    return Steps(
        steps.tokens[chosen],
        steps.requests[chosen],
        steps.context[chosen],
        steps.pairs[chosen],
        steps.count[chosen],
        _starts(steps)[chosen],
        steps.source,
    )
