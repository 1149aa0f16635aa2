"""Every program and every trace of a small scope, one of each kind of equals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from simcg.formal.program import (
    IN_PLACE,
    KINDS,
    ONLY_AS_BREAK,
    TWO_INPUTS,
    Kind,
    Op,
    Program,
    makes_tensor,
)
from simcg.formal.setting import Room
from simcg.formal.step import Request, Step
from simcg.ladder import AdmissionRule

COMMUTING = frozenset[Kind]({"add"})
"""Whose two inputs may be exchanged: one order stands for both."""


@dataclass(frozen=True, slots=True)
class Scope:
    """How far an exploration goes.

    Programs of at most ``ops`` operators and ``breaks`` breaks over ``kinds``, ``shortest`` or
    longer; steps of at most ``tokens`` tokens and ``sequences`` sequences, which get no longer
    than ``length``; traces of at most ``trace`` steps; ``ladders`` of (tokens, slots) under each
    of ``rules``. ``nested``: breaks may be called inside the break before them. ``ends``: of the
    cached lengths before a step only the shortest and the longest.
    """

    ops: int
    breaks: int
    tokens: int
    sequences: int
    trace: int = 1
    ladders: tuple[tuple[tuple[int, int], ...], ...] = (((1, 1), (3, 2)),)
    kinds: tuple[Kind, ...] = KINDS
    length: int = 4
    shortest: int = 1
    rules: tuple[AdmissionRule, ...] = (AdmissionRule(),)
    nested: bool = False
    ends: bool = False

    @property
    def room(self) -> Room:
        """The memory that it takes."""
        return Room(self.tokens, self.sequences, self.sequences, self.length)


def programs(scope: Scope) -> Iterator[Program]:
    """The programs of a scope whose every tensor is used, shortest first."""
    for length in range(scope.shortest, scope.ops + 1):
        yield from (Program(ops) for ops in _extended((), length, scope))


def _extended(ops: tuple[Op, ...], length: int, scope: Scope) -> Iterator[tuple[Op, ...]]:
    """The operators so far, and every way to go on to ``length``."""
    unused = _unused(ops)
    if len(ops) == length:
        # what nobody reads is the output, or is not there
        last = Program(ops).output if any(makes_tensor(op) for op in ops) else 0
        if last and unused <= {last}:
            yield ops
        return
    if len(unused) > 2 * (length - len(ops)):
        return  # two operators can use up no more
    made = [0, *(i + 1 for i, op in enumerate(ops) if makes_tensor(op))]
    for op in _next(ops, made, scope):
        yield from _extended((*ops, op), length, scope)


def _next(ops: tuple[Op, ...], made: Sequence[int], scope: Scope) -> Iterator[Op]:
    breaks = sum(op.breaks for op in ops)
    cached = any(op.kind == "scatter" for op in ops)
    for kind in scope.kinds:
        if kind == "attend" and not cached:
            continue
        for inputs in product(made, repeat=2 if kind in TWO_INPUTS else 1):
            if kind in COMMUTING and inputs[0] > inputs[-1]:
                continue
            if kind in IN_PLACE and inputs[0] == 0:
                continue
            if kind not in ONLY_AS_BREAK:
                yield Op(kind, inputs)
                if kind == "gemm":
                    yield Op(kind, inputs, side=True)
            if breaks < scope.breaks:
                yield Op(kind, inputs, breaks=True)
                if scope.nested and ops and ops[-1].breaks:
                    yield Op(kind, inputs, breaks=True, nested=True)


def _unused(ops: tuple[Op, ...]) -> set[int]:
    """Tensors that were made, or changed in place, and not read since."""
    unused: set[int] = set()
    for index, op in enumerate(ops):
        unused -= set(op.inputs)
        if makes_tensor(op):
            unused.add(index + 1)
        elif op.kind in IN_PLACE:
            unused.add(op.inputs[0])
    return unused


Sequences = tuple[tuple[int, int], ...]
"""By cache row: the name of the sequence that holds it, and its length; 0 is empty."""


def fresh(rows: int) -> Sequences:
    """Rows that nobody holds yet."""
    return tuple((row, 0) for row in range(rows))


def steps(scope: Scope, before: Sequences) -> Iterator[Step]:
    """Every step after these sequences.

    A step takes one to ``scope.sequences`` requests in an order of its own, each a row that goes
    on, or that begins anew under another name. Rows not yet used are taken in order, as they are
    alike. No sequence gets longer than ``scope.length``.
    """
    yield from _steps(scope, before, ())


def _steps(scope: Scope, before: Sequences, taken: tuple[Request, ...]) -> Iterator[Step]:
    if taken:
        yield Step(taken)
    if len(taken) == scope.sequences:
        return
    used = {request.row for request in taken}
    room = scope.tokens - sum(request.query for request in taken)
    untouched = [row for row, (_, length) in enumerate(before) if not length and row not in used]
    for row, (name, length) in enumerate(before):
        if row in used or (not length and row != untouched[0]):
            continue
        anew = [(name + len(before), 0)] if length else []
        for who, context in [(name, length), *anew]:
            for query in range(1, min(room, scope.length - context) + 1):
                request = Request(row, who, context, query)
                yield from _steps(scope, before, (*taken, request))


def after(before: Sequences, step: Step) -> Sequences:
    """The sequences after a step."""
    new = list(before)
    for request in step.requests:
        new[request.row] = (request.name, request.length)
    return tuple(new)


LOOKS_BACK = frozenset[Kind]({"scatter", "attend", "state", "random"})
"""Operators whose result depends on where a sequence is, or on the row that it holds."""


def single_steps(scope: Scope, program: Program) -> list[Step]:
    """Every step from arbitrary caches and states, up to renaming the rows of the cache.

    Rows are held in place (request j in row j) or all moved. For a program without an operator
    that looks back every cached length is as good as none.
    """
    kinds = {op.kind for op in program.ops}
    return _single_steps(scope, bool(kinds & LOOKS_BACK), "launch" in kinds)


@lru_cache
def _single_steps(scope: Scope, looks_back: bool, modal: bool) -> list[Step]:
    modes = (0, 1) if modal else (0,)
    found = []
    for queries in _splits(scope):
        contexts = [_contexts(scope, query) if looks_back else (0,) for query in queries]
        for before in product(*contexts):
            for first in range(0, -2, -1) if looks_back and scope.sequences > 1 else (0,):
                requests = tuple(
                    Request((first + j) % scope.sequences, (first + j) % scope.sequences, c, q)
                    for j, (q, c) in enumerate(zip(queries, before, strict=True))
                )
                found += [Step(requests, mode) for mode in modes]
    return found


def _contexts(scope: Scope, query: int) -> tuple[int, ...]:
    every = range(scope.length - query + 1)
    return tuple(sorted({0, every[-1]})) if scope.ends else tuple(every)


def _splits(scope: Scope) -> Iterator[tuple[int, ...]]:
    """Every list of tokens by request."""
    for count in range(1, scope.sequences + 1):
        for queries in product(range(1, min(scope.tokens, scope.length) + 1), repeat=count):
            if sum(queries) <= scope.tokens:
                yield queries
