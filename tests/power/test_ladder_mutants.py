"""Wrong versions of dispatch, each caught by the definition on the small scope.

No mutant in the list is equivalent to the original.
"""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path
from types import ModuleType

import pytest

import simcg.ladder
from tests.ladders import first_disagreement

SOURCE = Path(simcg.ladder.__file__).read_text(encoding="utf-8")

DISPATCH_MUTANTS = {
    "side right": ('side="left"', 'side="right"'),
    "strict guard": ("denominator <= tokens", "denominator < tokens"),
    "guard off by one": ("denominator <= tokens", "denominator <= 1 + tokens"),
    "guard inverted": (
        "size * rule.max_ratio.denominator <= tokens * rule.max_ratio.numerator",
        "size * rule.max_ratio.numerator <= tokens * rule.max_ratio.denominator",
    ),
    "guard by whole numbers": (
        "size * rule.max_ratio.denominator <= tokens * rule.max_ratio.numerator",
        "size // tokens <= int(rule.max_ratio)",
    ),
    "guard ignored": ("if rule.max_ratio is not None:\n        fits", "if False:\n        fits"),
    "slots ignored": ("if ladder.buckets[0].slots is not None:", "if False:"),
    "slots strict": ("requests <= (bucket.slots", "requests < (bucket.slots"),
    "last bucket with slots": (
        "reversed(list(enumerate(ladder.buckets)))",
        "list(enumerate(ladder.buckets))",
    ),
    "slots skip a bucket": ("(first <= position)", "(first < position)"),
    "bucket smaller in tokens": ("(first <= position) & ", ""),
    "ceiling forgotten": (
        "first < len(sizes)\n",
        "first >= 0\n    first = np.minimum(first, len(sizes) - 1)\n",
    ),
    "top bucket unused": ("first < len(sizes)\n", "first < len(sizes) - 1\n"),
    "eager range open below": ("(tokens < low)", "(tokens <= low)"),
    "eager range open above": ("(tokens > high)", "(tokens >= high)"),
    "eager ranges ignored": ("in rule.eager_ranges:\n        fits", "in ():\n        fits"),
}


def mutated(monkeypatch: pytest.MonkeyPatch, old: str, new: str) -> ModuleType:
    """simcg.ladder with one piece of its text replaced."""
    assert SOURCE.count(old) == 1, f"the mutant's place is gone from simcg/ladder.py: {old}"
    module = ModuleType("mutated_ladder")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # dataclass looks itself up
    exec(compile(SOURCE.replace(old, new), "mutated_ladder", "exec"), module.__dict__)
    return module


@pytest.mark.parametrize("name", DISPATCH_MUTANTS)
def test_the_definition_catches_each_wrong_dispatch(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each mutant of dispatch differs from the definition somewhere in the small scope."""
    assert first_disagreement(mutated(monkeypatch, *DISPATCH_MUTANTS[name]).dispatch) is not None


def test_the_unmutated_text_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machinery itself causes no disagreement."""
    same = mutated(monkeypatch, 'side="left"', 'side="left"')
    assert first_disagreement(same.dispatch) is None


def test_the_law_of_least_tokens_catches_rounding_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounded down, the guard's least size would not be admitted by the guard."""
    rule = mutated(monkeypatch, "-(-bucket_tokens *", "(bucket_tokens *").AdmissionRule
    assert 2 * rule(Fraction(2)).least_tokens(5) < 5
