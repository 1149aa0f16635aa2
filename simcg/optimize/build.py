"""From a cost table and limits to the two ladder problems: the engine's and the research one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simcg.arrays import Ints
from simcg.cost.table import CostTable
from simcg.ladder import AdmissionRule
from simcg.optimize.problem import LadderProblem
from simcg.optimize.scenario import Choices


@dataclass(frozen=True, slots=True)
class Posed:
    """A problem, and the time of all steps that no ladder changes: their own attention, in ns."""

    problem: LadderProblem
    constant_ns: int


def engine_problem(
    table: CostTable, limits: Choices, rule: AdmissionRule, slots: int | None = None
) -> Posed:
    """What the engine's flags can express, under the engine's own guard.

    ``slots``: those of every bucket; steps of more requests run eager whatever the ladder.
    """
    count = _replayable(table, slots)
    eager = _by_size(table, count * (table.eager_own_ns - table.attention_ns))
    return _posed(table, limits, count, eager, rule)


def research_problem(table: CostTable, limits: Choices, slots: int | None = None) -> Posed:
    """What a runner could do that picks the cheaper of its bucket and eager for each size.

    A step's own attention is set apart on both sides: the choice is made at the traffic's mean.
    """
    count = _replayable(table, slots)
    eager = _by_size(table, count) * table.eager_ref_ns
    return _posed(table, limits, count, eager, rule=None)


def _posed(
    table: CostTable, limits: Choices, count: Ints, eager: Ints, rule: AdmissionRule | None
) -> Posed:
    """The problem of the steps in ``count``; all others run eager."""
    problem = LadderProblem(
        weights=_by_size(table, count),
        replay_ns=table.replay_ns,
        eager_ns=eager,
        charge_ns=np.zeros_like(eager),
        allowed=limits.allowed,
        tops=limits.tops,
        required=limits.required,
        max_ratio=None if rule is None else rule.max_ratio,
        eager_if_cheaper=rule is None,
        top_by_count=limits.top_by_count,
    )
    apart = count * table.attention_ns + (table.steps.count - count) * table.eager_own_ns
    return Posed(problem, int(apart.sum()))


def _replayable(table: CostTable, slots: int | None) -> Ints:
    """The counts of the steps whose requests fit the slots, 0 for the others."""
    steps = table.steps
    return steps.count if slots is None else np.where(steps.requests <= slots, steps.count, 0)


def _by_size(table: CostTable, values: Ints) -> Ints:
    """Sums over the steps of each size n (index n)."""
    out = np.zeros(table.max_tokens + 1, dtype=np.int64)
    np.add.at(out, table.steps.tokens, values)
    return out


def cheaper_eager(problem: LadderProblem, sizes: tuple[int, ...]) -> AdmissionRule:
    """The research rule as ranges of n that run eager below the ceiling of this ladder."""
    if not sizes:
        return AdmissionRule()
    n = np.arange(1, sizes[-1] + 1)
    bucket = np.array(sizes)[np.searchsorted(sizes, n)]
    replay = problem.weights[n] * problem.replay_ns[bucket]
    cheaper = (problem.weights[n] > 0) & (problem.eager_ns[n] < replay)
    edges = np.flatnonzero(np.diff(np.concatenate(([False], cheaper, [False])).astype(np.int8)))
    ranges = tuple((int(a) + 1, int(b)) for a, b in edges.reshape(-1, 2))
    return AdmissionRule(eager_ranges=ranges)
