"""When the least cost is convex in the number of buckets, so that one more has a price."""

from __future__ import annotations

import numpy as np

from simcg.optimize.problem import LadderProblem


def has_price(problem: LadderProblem) -> bool:
    """True where every size costs no less in a larger bucket, the eager tail counted as the last.

    cost(i, j] is then Monge and the least cost over ladders of exactly k >= 1 buckets is convex
    in k. A tail that starts at any top must be dearer than every bucket, unless the top is fixed;
    and with a top, every larger allowed size must be a top as well.
    """
    if problem.top_by_count:
        return False
    allowed = problem.allowed.copy()
    allowed[0] = False
    tops = allowed & problem.tops
    tops[: problem.required[-1] if problem.required else 0] = False
    if not tops.any():
        return False
    last = int(np.flatnonzero(tops)[-1])
    allowed[last + 1 :] = False
    sizes = np.flatnonzero(allowed)
    replay_ns = problem.replay_ns[sizes]
    guarded = problem.max_ratio is not None and not problem.eager_if_cheaper
    if guarded or np.any(np.diff(replay_ns) < 0):
        return False
    if np.count_nonzero(tops) == 1:
        return True
    covered = slice(1, last + 1)
    dearer = problem.eager_ns[covered] >= problem.weights[covered] * replay_ns[-1]
    upward = bool(tops[sizes[sizes >= np.flatnonzero(tops)[0]]].all())
    return upward and (problem.eager_if_cheaper or bool(dearer.all()))
