"""A lemma: a sentence about all numbers, and what z3 says about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from time import process_time
from typing import Literal

import z3

from simcg.formal.lemmas.symbols import Term

TIMEOUT_MS = 10_000
"""After this z3 gives up: the lemma is then not decided, which is not proved."""


@dataclass(frozen=True, slots=True)
class Claim:
    """``premises`` imply ``conclusion`` for all values of the unknowns.

    ``shown``: unknowns and terms that an example tells. ``least``: a number >= 0 that the
    example of a lemma about existence has as small as can be.
    """

    premises: tuple[Term, ...]
    conclusion: Term
    shown: Mapping[str, Term] = field(default_factory=dict)
    least: Term | None = None


@dataclass(frozen=True, slots=True)
class Proof:
    """What z3 said of a lemma. ``ms``: milliseconds of processor time that it took.

    ``counterexample``: values that break the claim; where the lemma holds they break the careless
    rule that it warns of.
    """

    name: str
    holds: bool
    ms: float
    counterexample: str | None


@dataclass(frozen=True, slots=True)
class Lemma:
    """``kind`` always: every claim holds, and its premises can be met; sometimes: each fails.

    ``invariant``: the one that rests on it. ``scope``: for which numbers it is proved.
    """

    name: str
    invariant: str
    kind: Literal["always", "sometimes"]
    sentence: str
    formula: str
    scope: str
    claims: Callable[[], Iterable[Claim]]

    def prove(self) -> Proof:
        """Ask z3; nothing is remembered from an earlier call."""
        began = process_time()
        wanted = "proved" if self.kind == "always" else "refuted"
        holds, values = True, None
        for claim in self.claims():
            verdict, values = _examine(claim)
            if verdict != wanted:
                holds = False
                break
        return Proof(self.name, holds, 1e3 * (process_time() - began), values)


_Verdict = Literal["proved", "refuted", "undecided", "vacuous"]


def _examine(claim: Claim) -> tuple[_Verdict, str | None]:
    solver = z3.SimpleSolver()  # measured: without preprocessing these small problems go faster
    solver.set("timeout", TIMEOUT_MS)
    solver.add(*claim.premises)
    possible = solver.check()
    solver.add(z3.Not(claim.conclusion))
    broken = solver.check() if possible == z3.sat else possible
    if z3.unknown in (possible, broken):
        return "undecided", f"z3 gave up: {solver.reason_unknown()}"
    if possible == z3.unsat:
        return "vacuous", "no values meet the premises"
    if broken == z3.unsat:
        return "proved", None
    return "refuted", _told(claim, _smallest(solver, claim.least))


def _smallest(solver: Term, least: Term | None) -> Term:
    """A model of what the solver holds, with ``least`` as small as can be, by halving."""
    model = solver.model()
    if least is None:
        return model
    low, high = 0, _value(model, least)
    while low < high:
        middle = (low + high) // 2
        solver.push()
        solver.add(least <= middle)
        if solver.check() == z3.sat:
            model = solver.model()
            high = _value(model, least)
        else:
            low = middle + 1
        solver.pop()
    return model


def _value(model: Term, term: Term) -> int:
    value: int = model.eval(term, model_completion=True).as_long()
    return value


def _told(claim: Claim, model: Term) -> str:
    return ", ".join(
        f"{name} = {model.eval(term, model_completion=True)}" for name, term in claim.shown.items()
    )
