"""What a given ladder costs, by the one dispatch: no solver is involved."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from simcg.errors import require
from simcg.ladder import EAGER_INDEX, AdmissionRule, Ladder, dispatch
from simcg.optimize.problem import LadderProblem


def ladder_cost(problem: LadderProblem, sizes: Iterable[int]) -> int:
    """The total time in ns of all steps under a ladder of these sizes, plus its charges.

    Each size goes where ``simcg.ladder.dispatch`` sends it; whether the ladder is allowed by
    the problem's limits is not looked at. Raises ``InputError`` for a size outside 1..N.
    """
    ladder = Ladder.of(sizes)
    top = problem.max_tokens
    require(ladder.ceiling <= top, "ladder", "sizes", ladder.ceiling, f"sizes in 1..{top}")
    tokens = np.arange(1, top + 1, dtype=np.int64)
    chosen = dispatch(ladder, AdmissionRule(problem.max_ratio), tokens, np.ones_like(tokens))
    eager_ns = problem.eager_ns[1:]
    # index -1 of the padded bucket list stands for eager
    buckets = np.array([*ladder.sizes, 0], dtype=np.int64)
    replayed_ns = problem.weights[1:] * problem.replay_ns[buckets[chosen]]
    if problem.eager_if_cheaper:
        replayed_ns = np.minimum(replayed_ns, eager_ns)
    steps_ns = np.where(chosen == EAGER_INDEX, eager_ns, replayed_ns)
    return int(steps_ns.sum() + problem.charge_ns[buckets[:-1]].sum())
