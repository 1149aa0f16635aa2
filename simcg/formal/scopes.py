"""The scopes that ``simcg verify`` explores: the default, and one that takes long."""

from __future__ import annotations

from fractions import Fraction

from simcg.formal.enumerate import Scope
from simcg.formal.program import Kind
from simcg.formal.stage import Stage
from simcg.ladder import AdmissionRule

GUARD = AdmissionRule(max_ratio=Fraction(2))
RULES = (AdmissionRule(), GUARD, AdmissionRule(eager_ranges=((2, 2),)))
TWO = (((1, 1), (3, 2)),)
"""A size left out below the top, and batches above it."""
THREE = (((1, 1), (2, 3), (4, 3)), ((2, 1), (2, 3), (5, 3)), ((4, 3),))
MEMORY: tuple[Kind, ...] = ("gemm", "add", "accumulate", "scatter", "attend")
"""Operators that share, overwrite and outlive memory."""
LOCKSTEP: tuple[Kind, ...] = ("gemm", "reduce", "scatter", "attend", "causal", "state", "launch")

DEFAULT = (
    Stage(
        "all operators", "steps",
        Scope(ops=2, breaks=2, tokens=4, sequences=2, ladders=TWO, nested=True),
    ),
    Stage(
        "memory handed on", "steps",
        Scope(ops=3, breaks=1, tokens=4, sequences=2, ladders=TWO, kinds=MEMORY, shortest=3,
              ends=True),
    ),
    Stage(
        "three buckets, guards", "steps",
        Scope(ops=1, breaks=1, tokens=5, sequences=3, ladders=THREE, length=5, rules=RULES,
              ends=True),
    ),
    Stage(
        "traces", "traces",
        Scope(ops=1, breaks=1, tokens=3, sequences=2, trace=2, ladders=TWO, length=3),
    ),
    Stage(
        "long traces", "traces",
        Scope(ops=2, breaks=1, tokens=2, sequences=2, trace=3, ladders=(((2, 2),),), length=2,
              kinds=("scatter", "attend", "state")),
    ),
    Stage(
        "failing captures", "captures",
        Scope(ops=2, breaks=2, tokens=3, sequences=2, ladders=TWO, length=3, nested=True),
    ),
    Stage(
        "two ranks", "ranks",
        Scope(ops=2, breaks=1, tokens=3, sequences=2, ladders=TWO, length=2, kinds=LOCKSTEP,
              ends=True),
    ),
)  # fmt: skip
"""Under a minute on two cores."""

CHAIN: tuple[Kind, ...] = ("gemm", "scatter", "attend")
RANKED: tuple[Kind, ...] = ("gemm", "reduce", "scatter", "attend")

DEEP = (
    *DEFAULT,
    Stage(
        "all operators, three", "steps",
        Scope(ops=3, breaks=2, tokens=4, sequences=2, ladders=TWO, nested=True, shortest=3,
              ends=True),
    ),
    Stage(
        "memory handed on, four", "steps",
        Scope(ops=4, breaks=2, tokens=3, sequences=2, ladders=TWO, kinds=MEMORY, shortest=4,
              ends=True),
    ),
    Stage(
        "caches, five", "steps",
        Scope(ops=5, breaks=2, tokens=3, sequences=2, ladders=TWO, kinds=CHAIN, shortest=5,
              ends=True),
    ),
    Stage(
        "five tokens, three sequences", "steps",
        Scope(ops=2, breaks=2, tokens=5, sequences=3, ladders=THREE, length=5, ends=True),
    ),
    Stage(
        "guards, all lengths", "steps",
        Scope(ops=1, breaks=1, tokens=5, sequences=3, ladders=THREE, length=5, rules=RULES),
    ),
    Stage(
        "traces of three", "traces",
        Scope(ops=1, breaks=1, tokens=3, sequences=2, trace=3, ladders=TWO, length=3),
    ),
    Stage(
        "traces, two operators", "traces",
        Scope(ops=2, breaks=2, tokens=3, sequences=2, trace=2, ladders=TWO, length=3, shortest=2),
    ),
    Stage(
        "failing captures, three", "captures",
        Scope(ops=3, breaks=2, tokens=3, sequences=2, ladders=TWO, length=3, shortest=3),
    ),
    Stage(
        "two ranks, three", "ranks",
        Scope(ops=3, breaks=1, tokens=3, sequences=2, ladders=TWO, length=2, kinds=RANKED,
              shortest=3, ends=True),
    ),
)  # fmt: skip
"""Some 2,000 seconds of processor time."""

WHY_NO_DEEPER = (
    "why no deeper: four operators of all kinds are over a million programs, 20 minutes a core for "
    "each 100,000; beyond three, what is exhaustive is the kinds that hand memory on"
)
