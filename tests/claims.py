"""Claims of lemmas with numbers put in for their unknowns."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import z3

from simcg.formal.lemmas import Claim
from simcg.formal.lemmas.symbols import Term

Values = Mapping[str, int]
Functions = Mapping[str, Callable[..., Any]]


@dataclass(frozen=True)
class Said:
    """A claim in plain arithmetic; ``names`` are its unknowns.

    ``defined``: where the conclusion has a value, as nothing is divided by 0. ``functions``: what
    to put in for functions of which a claim knows nothing.
    """

    names: str
    premises: Callable[..., bool]
    conclusion: Callable[..., bool]
    least: Callable[..., int] | None = None
    numbers: Sequence[int] = range(-1, 5)
    defined: Callable[..., bool] = lambda **_: True
    functions: Functions | None = None


def truth(term: Term) -> bool:
    """Of a term without unknowns."""
    short = z3.simplify(term)
    if z3.is_true(short) or z3.is_false(short):
        return bool(z3.is_true(short))
    solver = z3.SimpleSolver()
    solver.add(term)
    return bool(solver.check() == z3.sat)


def unknowns(terms: Iterable[Term]) -> set[str]:
    """The names of the integers that terms leave open."""
    found, left = set(), [*terms]
    while left:
        term = left.pop()
        left += term.children()
        if z3.is_const(term) and term.decl().kind() == z3.Z3_OP_UNINTERPRETED:
            found.add(str(term))
    return found


def put_in(term: Term, values: Values, functions: Functions | None) -> Term:
    """The term with those numbers and functions."""
    bodies = {
        name: body(*(z3.Var(i, z3.IntSort()) for i in range(body.__code__.co_argcount)))
        for name, body in (functions or {}).items()
    }
    left, pairs = [term], {}
    while left and bodies:
        at = left.pop()
        left += at.children()
        if z3.is_app(at) and at.num_args() and at.decl().name() in bodies:
            pairs[at.decl().name()] = (at.decl(), bodies[at.decl().name()])
    term = z3.substitute_funs(term, *pairs.values()) if pairs else term
    return z3.substitute(term, *((z3.Int(x), z3.IntVal(n)) for x, n in values.items()))


def check_claim(claim: Claim, said: Said, points: Iterable[Values]) -> None:
    """The claim's premises, conclusion and measure are those said, at each of the points."""
    terms = (*claim.premises, claim.conclusion, *([] if claim.least is None else [claim.least]))
    assert unknowns(terms) == set(said.names.split())
    for values in points:
        met = truth(put_in(z3.And(*claim.premises, True), values, said.functions))
        assert met == bool(said.premises(**values)), ("premises", values)
        if said.defined(**values):
            holds = truth(put_in(claim.conclusion, values, said.functions))
            assert holds == bool(said.conclusion(**values)), ("conclusion", values)
        if claim.least is not None:
            least = z3.simplify(put_in(claim.least, values, said.functions)).as_long()
            assert said.least is not None
            assert least == said.least(**values), ("least", values)


def any_points(said: Said, count: int = 60, seed: int = 0) -> list[dict[str, int]]:
    """Random numbers: some that meet the premises, some that do not, and some that just miss them.

    The last are of the first kind with one number changed.
    """
    drawn, names = random.Random(seed), said.names.split()
    sides: dict[bool, list[dict[str, int]]] = {True: [], False: []}
    for _ in range(200_000):
        values = {name: drawn.choice(said.numbers) for name in names}
        side = sides[bool(said.premises(**values))]
        if len(side) < count:
            side.append(values)
        if all(len(side) == count for side in sides.values()):
            break
    assert len(sides[True]) > 0
    changed = [
        values | {name: values[name] + by}
        for values in sides[True]
        for name in names
        for by in (-1, 1)
    ]
    near = [values for values in changed if not said.premises(**values)]
    return sides[True] + sides[False][: count // 2] + drawn.sample(near, min(count, len(near)))
