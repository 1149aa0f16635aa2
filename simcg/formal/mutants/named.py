"""A mutant by the name that a user gives."""

from __future__ import annotations

from difflib import get_close_matches

from simcg.errors import require
from simcg.formal.mutants import MUTANTS, Mutant


def mutant_named(name: str) -> Mutant:
    """The mutant of that name; ``InputError`` with the closest name, in any case of letters."""
    close = get_close_matches(name.casefold(), MUTANTS, n=1)
    meant = f"; did you mean {close[0]!r}?" if close else ""
    expected = "a mutant's name (simcg verify --mutant list)"
    require(name in MUTANTS, "--mutant", "", name, expected + meant)
    return MUTANTS[name]
