"""Wrong versions of the solver and the checker, each caught on small problems.

A mutant is one piece of the text of a module replaced, with all modules loaded again on top of
it. No mutant in the lists is equivalent to the original.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import simcg.optimize
from simcg.optimize.certificate import Certificate, CertificateError, Proof
from simcg.optimize.evaluate import ladder_cost
from simcg.optimize.evidence import NO_PARENT, UNREACHABLE
from simcg.optimize.problem import LadderProblem
from simcg.optimize.solve import solve
from tests.ladder_problems import (
    brute_force,
    build,
    every_path,
    legal_ladders,
    random_problem,
    size_cost,
)

Claim = tuple[LadderProblem, tuple[int, ...], int, Certificate]

FOLDER = Path(simcg.optimize.__path__[0])
# in the order in which they import each other; the problem and the certificate's types stay
RELOADED = ["monotone", "hull", "lattice", "layers", "price", "frontier", "solve"]
RELOADED += ["bounds", "certificate"]

SOLVER = {
    "guard off by one": ("lattice", "np.maximum(least - 1, 0)", "least"),
    "guard by floor": ("lattice", "-(-sizes * problem.max_ratio.denominator //", "(sizes *"
                       " problem.max_ratio.denominator //"),
    "choice off by two": ("lattice", 'replay_ns, side="left").a', 'replay_ns - 2, side="left").a'),
    "required ignored": ("lattice", "floor=np.searchsorted(sizes, last_required)", "floor=0 *"
                         " np.searchsorted(sizes, last_required)"),
    "required below the top": ("solve", "problem.required[-1] if problem.required else 1", "1"),
    "all eager despite required": ("solve", "[None if problem.required else total_eager_ns]",
                                   "[total_eager_ns]"),
    "tops ignored": ("solve", "problem.tops[lattice.sizes] & (", "(lattice.sizes > 0) & ("),
    "tail ignored": ("solve", "+ (total_eager_ns - lattice.eager_ns[reached])", ""),
    "prefix minimum dropped": ("layers", "np.minimum(layer[crossing], cheapest[last_outer] +"
                               " outer_ns)", "layer[crossing]"),
    "prefix minimum one too far": ("layers", "low[crossing] - 1", "low[crossing]"),
    "prefix minimum over all": ("layers", "starts = np.unique(lattice.floor)",
                                "starts = np.zeros(1, dtype=np.int64)"),
    "charge forgotten in the hull": ("layers", "own_ns = replay_ns * steps + lattice.charge_ns",
                                     "own_ns = replay_ns * steps"),
    "charge forgotten in the band": ("layers",
                                     "own_ns = lattice.replay_ns * lattice.steps +"
                                     " lattice.charge_ns",
                                     "own_ns = lattice.replay_ns * lattice.steps"),
    "hull for any charge": ("layers", "or np.any(charges != charges[:1])", ""),
    "hull trusted outside the band": ("layers", "zero(~inside & ", "zero(False & "),
    "hull drops convex points": ("hull", "np.less(edges[:-1]", "np.greater(edges[:-1]"),
    "hull searches the wrong side": ("hull", 'edges, side="right")', 'edges + 1, side="right")'),
    "last column forgotten": ("monotone", "np.minimum(inner, at_last)", "inner"),
    "search not bounded by the band": ("monotone", "np.maximum(band.low[level - 1], argmins",
                                       "np.maximum(0, argmins"),
    "dense ignores the choice": ("lattice", "spent_ns = np.minimum(spent_ns, eager_ns)", "pass"),
}  # fmt: skip

CHECKER = {
    "no lower bound by pairs": ("bounds", "above[:, row, None] > bounds", "False"),
    "not attained by pairs": ("bounds", "attained != above[layer, row]", "False"),
    "no lower rows": ("bounds", "below_least & (columns < ", "False & (columns < "),
    "no higher rows": ("bounds", "below_least & (columns >= ", "False & (columns >= "),
    "potential not compared": ("bounds", "if np.any(wrong):", "if False:"),
    "cost not compared": ("certificate", "if spent != cost:", "if False:"),
    "optimum not compared": ("certificate", "if least[count] != cost:", "if False:"),
    "fewer buckets not looked at": ("certificate", "if not certificate.exactly", "if False"),
    "layer 0 not looked at": ("certificate", "if potentials[0, 0] != 0 or np.any(reached[0, 1:]):",
                              "if False:"),
}  # fmt: skip


@cache
def small_problems() -> list[tuple[LadderProblem, list[int | None]]]:
    """Problems of up to 8 sizes with their least costs by brute force."""
    rng = np.random.default_rng(31)
    drawn = [random_problem(rng, 1 + turn % 8, plain=turn % 3 == 0) for turn in range(400)]
    return [(problem, brute_force(problem)) for problem in drawn]


def load_mutant(
    monkeypatch: pytest.MonkeyPatch, where: str, old: str, new: str
) -> dict[str, ModuleType]:
    """All modules with one piece of text in module ``where`` replaced."""
    loaded = {}
    for name in RELOADED:
        text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
        if name == where:
            assert text.count(old) == 1, f"the mutant's place is gone from {name}.py: {old}"
            text = text.replace(old, new)
        module = ModuleType(f"simcg.optimize.{name}")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        exec(compile(text, f"mutated {name}", "exec"), module.__dict__)
        loaded[name] = module
    return loaded


def solves_wrongly(loaded: dict[str, ModuleType]) -> bool:
    """Whether some small problem, by some path that applies, differs from brute force."""
    lattices, layers, solver = loaded["lattice"], loaded["layers"], loaded["solve"]
    for problem, want in small_problems():
        try:
            lattice = lattices.Lattice.of(problem)
            paths = list(layers.Path)
            for path in paths[paths.index(layers.choose_path(lattice)) :]:
                frontier = solver.solve_by(lattice, len(want) - 1, path)
                if list(frontier.exact_costs_ns) != want:
                    return True
        except (IndexError, ValueError):
            return True  # a crash is seen as well
    return False


@cache
def forgeries() -> list[Claim]:
    """False claims, each with a certificate that is right but for one thing."""
    rng = np.random.default_rng(37)
    charged = build([1, 1], [1, 2], [9, 9], charge=[5, 5])
    forged: list[Claim] = [(charged, (1, 2), 13, solve(charged, 2).certificate(2))]
    for turn in range(120):
        problem = random_problem(rng, int(rng.integers(4, 10)), plain=turn % 2 == 0)
        for frontier in every_path(problem, 3):
            cost = frontier.exact_cost(2)
            if cost is not None:
                proof = frontier.certificate(2, exactly=True)
                forged += changed_claims(problem, frontier.ladder(2), cost, proof)
        if turn % 2 == 0:
            forged += claims_without_an_edge(problem, rng)
    return forged


def changed_claims(
    problem: LadderProblem, ladder: tuple[int, ...], cost: int, proof: Certificate
) -> list[Claim]:
    """Another cost, another ladder, another number, another start."""
    forged: list[Claim] = [(problem, ladder, cost - 1, proof)]
    for other in legal_ladders(problem):
        dearer = ladder_cost(problem, other) - cost
        if len(other) == len(ladder) and dearer > 0:
            shifted = np.where(
                proof.potentials == UNREACHABLE, UNREACHABLE, proof.potentials + dearer
            )
            forged.append((problem, other, cost, proof))
            forged.append((problem, other, cost + dearer, proof))
            forged.append((problem, other, cost + dearer, replace(proof, potentials=shifted)))
            break
    for entry in np.argwhere(proof.potentials != UNREACHABLE):
        for step in (-1, 1):
            potentials = proof.potentials.copy()
            potentials[tuple(entry)] += step
            forged.append((problem, ladder, cost, replace(proof, potentials=potentials)))
    return forged


def claims_without_an_edge(problem: LadderProblem, rng: np.random.Generator) -> list[Claim]:
    """The best of two buckets if one edge did not exist: all is consistent but a lower bound.

    The problem is pure padding, so that both kinds of proof have the same parents.
    """
    sizes = [0, *(n for n in range(1, problem.max_tokens + 1) if problem.allowed[n])]
    low = int(rng.integers(0, len(sizes)))
    high = int(rng.integers(low, len(sizes)))
    potentials = np.full((3, len(sizes)), UNREACHABLE, dtype=np.int64)
    parents = np.full(potentials.shape, NO_PARENT, dtype=np.int32)
    potentials[0, 0] = 0
    for layer in (1, 2):
        for row in range(1, len(sizes)):
            for source in range(row):
                if (source, row) == (low, high) or potentials[layer - 1, source] == UNREACHABLE:
                    continue
                inside = range(sizes[source] + 1, sizes[row] + 1)
                edge = sum(size_cost(problem, n, sizes[row]) for n in inside)
                through = potentials[layer - 1, source] + edge + problem.charge_ns[sizes[row]]
                if through < potentials[layer, row]:
                    potentials[layer, row], parents[layer, row] = through, source
    tail = [int(problem.eager_ns[size + 1 :].sum()) for size in sizes]
    tops = [t for t, size in enumerate(sizes) if problem.tops[size] and parents[2, t] > 0]
    if not tops or np.array_equal(potentials, solve(problem, 2).layers.potentials):
        return []
    top = min(tops, key=lambda t: int(potentials[2, t]) + tail[t])
    ladder, cost = (sizes[parents[2, top]], sizes[top]), int(potentials[2, top]) + tail[top]
    proofs = [Certificate(2, True, proof, potentials, parents) for proof in Proof]
    return [(problem, ladder, cost, proof) for proof in proofs]


def accepts_a_forgery(check: Callable[..., None]) -> bool:
    """Whether the checker takes one of the forgeries."""
    for problem, ladder, cost, proof in forgeries():
        try:
            check(problem, ladder, cost, proof)
        except (CertificateError, IndexError):
            continue
        return True
    return False


def test_the_original_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loaded the same way but unchanged, solver and checker make no mistake."""
    loaded = load_mutant(monkeypatch, "", "", "")
    assert not solves_wrongly(loaded)
    assert not accepts_a_forgery(loaded["certificate"].check_certificate)


@pytest.mark.parametrize("name", SOLVER)
def test_a_mutant_of_the_solver_is_caught(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Brute force over all ladders of at most 8 sizes tells it from the original."""
    assert solves_wrongly(load_mutant(monkeypatch, *SOLVER[name]))


@pytest.mark.parametrize("name", CHECKER)
def test_a_mutant_of_the_checker_is_caught(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """It accepts a certificate that proves nothing."""
    loaded = load_mutant(monkeypatch, *CHECKER[name])
    assert accepts_a_forgery(loaded["certificate"].check_certificate)
