"""What a forward means: eager execution over mathematical values, without memory or addresses."""

from __future__ import annotations

from dataclasses import dataclass

from simcg.formal.program import Program
from simcg.formal.step import Step
from simcg.formal.terms import Terms


@dataclass(frozen=True, slots=True)
class World:
    """What steps hand on: caches by (scatter, row, position), states by (operator, row), draws."""

    caches: dict[tuple[int, int, int], int]
    states: dict[tuple[int, int], int]
    drawn: int = 0


EMPTY = World({}, {}, 0)


def run(  # noqa: C901, PLR0912  # a definition has one case for each kind
    terms: Terms, program: Program, step: Step, before: World
) -> tuple[list[int], World]:
    """The output's n rows, and the world after the step."""
    rows = [(r, position) for r in step.requests for position in range(r.context, r.length)]
    first = [i - (position - r.context) for i, (r, position) in enumerate(rows)]
    tensors = {0: [terms.make("token", r.name, position) for r, position in rows]}
    caches, states, drawn = dict(before.caches), dict(before.states), before.drawn
    for index, op in enumerate(program.ops):
        x, y = tensors[op.inputs[0]], tensors[op.inputs[-1]]
        new: list[int] = []
        for i, (request, position) in enumerate(rows):
            rest: list[int] = []  # what the row depends on, beside x[i]
            if op.kind in {"add", "accumulate"}:
                rest = [y[i]]
            elif op.kind == "attend":
                layer = program.caches[index]
                rest = [caches[layer, request.row, p] for p in range(position + 1)]
            elif op.kind in {"mix", "mix_all"}:
                rest = x
            elif op.kind in {"constant", "borrow"}:
                rest = [terms.make("weight", index)]
            elif op.kind == "random":
                rest = [position]
            elif op.kind == "draw":
                rest = [drawn + i]
            elif op.kind == "launch":
                rest = [step.mode]
            elif op.kind == "host":
                rest = [step.tokens]
            if op.kind == "causal":
                new.append(terms.make("causal", index, *x[first[i] : i + 1]))
            elif op.kind == "state":
                past = states[index, request.row] if position else terms.make("fresh state")
                states[index, request.row] = terms.make("state", index, past, x[i])
                new.append(states[index, request.row])
            else:
                new.append(terms.make(op.kind, index, x[i], *rest))
            if op.kind == "scatter":
                caches[index, request.row, position] = new[i]
        if op.kind == "draw":
            drawn += len(rows)
        if program.targets[index]:
            tensors[program.targets[index]] = new
    return tensors[program.output], World(caches, states, drawn)
