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


def engine_problem(table: CostTable, limits: Choices, rule: AdmissionRule) -> Posed:
    """What the engine's flags can express, under the engine's own guard."""
    return _posed(table, limits, _eager_sums(table), rule=rule)


def research_problem(table: CostTable, limits: Choices) -> Posed:
    """What a runner could do that picks the cheaper of its bucket and eager for each size.

    A step's own attention is set apart on both sides: the choice is made at the traffic's mean.
    """
    weights = table.steps.weights(table.max_tokens)
    return _posed(table, limits, weights * table.eager_ref_ns, rule=None)


def _posed(table: CostTable, limits: Choices, eager: Ints, rule: AdmissionRule | None) -> Posed:
    steps = table.steps
    problem = LadderProblem(
        weights=steps.weights(table.max_tokens),
        replay_ns=table.replay_ns,
        eager_ns=eager,
        charge_ns=np.zeros_like(eager),
        allowed=limits.allowed,
        tops=limits.tops,
        required=limits.required,
        max_ratio=None if rule is None else rule.max_ratio,
        eager_if_cheaper=rule is None,
    )
    return Posed(problem, int((steps.count * table.attention_ns).sum()))


def _eager_sums(table: CostTable) -> Ints:
    """All steps of size n run eager, less their own attention, in ns (index n)."""
    out = np.zeros(table.max_tokens + 1, dtype=np.int64)
    each = table.eager_own_ns - table.attention_ns
    np.add.at(out, table.steps.tokens, table.steps.count * each)
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
