"""Every program and every trace of a small scope, one of each kind of equals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
from simcg.formal.step import Request, Step

COMMUTING = frozenset[Kind]({"add"})
"""Whose two inputs may be exchanged: one order stands for both."""


@dataclass(frozen=True, slots=True)
class Scope:
    """How far an exploration goes.

    Programs of at most ``ops`` operators and ``breaks`` breaks over ``kinds``; steps of at most
    ``tokens`` tokens and ``sequences`` sequences; traces of at most ``trace`` steps; ``ladders``.
    """

    ops: int
    breaks: int
    tokens: int
    sequences: int
    trace: int
    ladders: tuple[tuple[int, ...], ...]
    kinds: tuple[Kind, ...] = KINDS


def programs(scope: Scope) -> Iterator[Program]:
    """The programs of a scope whose every tensor is used, shortest first."""
    for length in range(1, scope.ops + 1):
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


def steps(scope: Scope, lengths: tuple[int, ...], limit: int) -> Iterator[Step]:
    """Every step after sequences in cache rows have these lengths (0: the row is empty).

    A step takes one to ``scope.sequences`` requests in an order of its own, each a row that goes
    on, or that begins anew under another name. Rows not yet used are taken in order, as they are
    alike. No sequence gets longer than ``limit``.
    """
    yield from _steps(scope, lengths, limit, ())


def _steps(
    scope: Scope, lengths: tuple[int, ...], limit: int, taken: tuple[Request, ...]
) -> Iterator[Step]:
    if taken:
        yield Step(taken)
    if len(taken) == scope.sequences:
        return
    used = {request.row for request in taken}
    room = scope.tokens - sum(request.query for request in taken)
    untouched = [row for row, length in enumerate(lengths) if not length and row not in used]
    for row, length in enumerate(lengths):
        if row in used or (not length and row != untouched[0]):
            continue
        for context in {0, length}:
            for query in range(1, min(room, limit - context) + 1):
                request = Request(row, row, context, query)
                yield from _steps(scope, lengths, limit, (*taken, request))


def after(lengths: tuple[int, ...], step: Step) -> tuple[int, ...]:
    """The sequences' lengths after a step."""
    new = list(lengths)
    for request in step.requests:
        new[request.row] = request.length
    return tuple(new)
