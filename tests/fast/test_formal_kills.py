"""Mutants of the formal model: each wrong system is caught, and only by what may say so."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from functools import cache

import pytest

from simcg.formal.invariants import INVARIANTS
from simcg.formal.mutants import MUTANTS, Mutant
from simcg.formal.mutants.hunt import Hunt, hunt, programs_of
from simcg.formal.rules import Rules
from simcg.report.verify import mutant_lines

KILLED = [name for name, mutant in MUTANTS.items() if not mutant.equivalent]
EQUIVALENT = [name for name, mutant in MUTANTS.items() if mutant.equivalent]


@cache
def hunted(name: str) -> Hunt:
    """A mutant's hunt, once."""
    return hunt(MUTANTS[name])


@pytest.mark.parametrize("name", KILLED)
def test_a_mutant_is_caught_by_an_invariant_that_speaks_of_it_and_by_no_other(name: str) -> None:
    """Blame is part of the check: a wrong sink must not be told as a wrong stream."""
    caught = set(hunted(name).caught)
    assert caught
    assert caught <= set(MUTANTS[name].killers)


@pytest.mark.parametrize("name", EQUIVALENT)
def test_a_mutant_called_equivalent_passes_every_check_of_its_scope(name: str) -> None:
    """Its argument is in the table; that no check fails goes with it."""
    result = hunted(name)
    assert result.first is None
    assert result.checks > 1000


@pytest.mark.parametrize("name", MUTANTS)
def test_the_correct_system_is_silent_where_a_mutant_is_hunted(name: str) -> None:
    """What catches a mutant catches it for its one wrong decision."""
    result = hunt(MUTANTS[name], Rules())
    assert result.first is None
    assert result.checks


def test_every_invariant_catches_a_mutant() -> None:
    """An invariant that nothing can break would be no statement."""
    caught = {key for name in KILLED for key in hunted(name).caught}
    assert caught == set(INVARIANTS)


@pytest.mark.parametrize("name", KILLED)
def test_a_kill_is_told_as_a_story(name: str) -> None:
    """It has the program, how it was captured, and what was done then."""
    result = hunted(name)
    assert result.first is not None
    assert 1 <= result.until <= result.checks
    story = result.first.story
    assert story[0].startswith("program: ")
    assert "captured in this order" in story[1]
    assert len(story) > 2
    lines = mutant_lines(name, result)
    assert [line for line in story if line in lines] == story
    assert f"=> {result.first}" in lines
    told = [line.removeprefix("reported as ") for line in lines if line.startswith("reported as ")]
    assert tuple(told) == MUTANTS[name].reports
    assert bool(told) != ("no public report of it was found" in lines)


@pytest.mark.parametrize("name", KILLED)
def test_the_program_that_shows_a_mutant_is_the_first_in_order_of_size(name: str) -> None:
    """No program before it in the enumeration, and so none with fewer operators, shows it."""
    story = hunted(name).first.story  # type: ignore[union-attr]
    programs = [f"program: {program}" for program in programs_of(MUTANTS[name])]
    sizes = [line.count(";") for line in programs]
    assert sizes == sorted(sizes)
    assert story[0] in programs


UNSEEN_BY_TRACES = {
    "guard forgotten": "the results are right, at another cost",
    "kernel writes whole tiles": "what it overwrites nobody reads here",
    "nested break recorded": "what runs twice gives the same twice",
}


@pytest.mark.parametrize("name", [n for n in KILLED if MUTANTS[n].checks[0] == "steps"])
def test_what_arbitrary_memory_shows_of_a_mutant_a_true_trace_shows_too(name: str) -> None:
    """No false alarm: two steps of the same program, with nothing filled in by the check between
    them, go wrong as well, unless it is a wrong that no result tells.
    """
    mutant, story = MUTANTS[name], hunted(name).first.story  # type: ignore[union-attr]
    program = next(p for p in programs_of(mutant) if story[0] == f"program: {p}")
    traced = hunt(replace(mutant, programs=(program,), checks=("traces",)))
    assert (traced.first is None) == (name in UNSEEN_BY_TRACES)


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=lambda mutant: str(mutant.name))
def test_a_mutant_exchanges_one_or_two_decisions(mutant: Mutant) -> None:
    """Every other one is that of the correct system, so the decision is what is caught."""
    right = Rules()
    changed = [f.name for f in fields(Rules)
               if f.name != "output_rows" and getattr(mutant.rules, f.name)
               != getattr(right, f.name)]  # fmt: skip
    rows = [(n, t) for t in range(1, 5) for n in range(1, t + 1)]
    if any(mutant.rules.output_rows(n, t) != right.output_rows(n, t) for n, t in rows):
        changed.append("output_rows")
    assert 1 <= len(changed) <= 2


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=lambda mutant: str(mutant.name))
def test_a_report_names_a_project_and_a_number(mutant: Mutant) -> None:
    """So that it can be looked up; killers are known invariants."""
    for report in mutant.reports:
        assert re.fullmatch(r"[\w./-]+( [\w./-]+)? #\d+: .+", report)
    assert set(mutant.killers) <= set(INVARIANTS)
    assert bool(mutant.killers) != bool(mutant.equivalent)
