"""Wrong ranges of a ladder's batches are told from right ones by the definition of dispatch."""

from __future__ import annotations

from fractions import Fraction
from types import ModuleType

import pytest

from simcg.formal.ladder_check import ranges as right
from simcg.formal.ladder_check.question import LadderQuestion
from simcg.ladder import EAGER_INDEX, AdmissionRule, Bucket, Ladder, fallback_reason
from tests.ladders import defined_choice
from tests.mutants import holds, mutated

SLOTTED = Ladder((Bucket(4, 2), Bucket(4, 6), Bucket(9, 1), Bucket(16, 4)))
QUESTIONS = (
    LadderQuestion(Ladder.of((4, 9, 30)), AdmissionRule(Fraction(2), ((17, 18),)), 33, 40),
    LadderQuestion(Ladder.of((4, 9, 30)), AdmissionRule(), 20, 3),
    LadderQuestion(SLOTTED, AdmissionRule(), 20, 7),
    LadderQuestion(SLOTTED, AdmissionRule(Fraction(3, 2), ((2, 2),)), 16, 5),
)
HOLES = (2, 0, 3, 7)
"""How many ranges of each run eager unasked, by hand."""

# dispatching another batch of a piece is no mutant: its batches have one answer
MUTANTS = {
    "no piece begins above a size": ("{1, *(size + 1 for size in ladder.sizes)}", "{1}"),
    "pieces begin at sizes": ("*(size + 1 for size in", "*(size for size in"),
    "no piece begins at the guard": (
        "{rule.least_tokens(size) for size in ladder.sizes}", "set()",
    ),
    "an eager range ends early": ("for end in (low, high + 1)}", "for end in (low, high)}"),
    "slot counts begin pieces": ("*(b.slots + 1 for", "*(b.slots for"),
    "neighbours in m always joined": ("if joined and joined[-1][1] == answer:", "if joined:"),
    "neighbours in n always joined": (
        "if merged and merged[-1][1] == row:", "if merged and len(merged[-1][1]) == len(row):",
    ),
    "requests beyond the tokens": ("min(m[1], n[1])", "m[1]"),
    "batches without as many tokens": ("if first > last_n:", "if first >= last_n:"),
    "spans that overlap": ("[(a, b - 1) for", "[(a, b) for"),
    "reasons swapped": ("(-1, -2, -3), default=-4", "(-1, -3, -2), default=-4"),
    "a guard's hole at any place": ("and other.first_n < r.first_n", ""),
    "a guard has no holes": ("r.reason == \"guard\" and any(", "r.reason == \"gate\" and any("),
    "too many requests are no hole": (
        '("above the ceiling", "too many requests")', '("above the ceiling",)',
    ),
    "padding of the largest batch": ("num_tokens - self.least_n", "num_tokens - self.last_n"),
    "padding without regard to m": ("max(self.first_n, self.first_m)", "self.first_n"),
}  # fmt: skip


def law(module: ModuleType) -> bool:
    """Ranges hold each batch once, with its answer, reason and worst padding; holes as counted."""
    return all(
        sum(r.hole for r in module.ranges(question)) == holes and described(module, question)
        for question, holes in zip(QUESTIONS, HOLES, strict=True)
    )


def described(module: ModuleType, question: LadderQuestion) -> bool:
    found, ladder, rule = module.ranges(question), question.ladder, question.rule
    worst = [0] * len(found)
    for n in range(1, question.max_tokens + 1):
        for m in range(1, min(n, question.max_requests) + 1):
            places = [
                i
                for i, r in enumerate(found)
                if r.first_n <= n <= r.last_n and r.first_m <= m <= r.last_m
            ]
            if len(places) != 1:
                return False
            r = found[places[0]]
            reason = fallback_reason(ladder, rule, n, m)
            if (r.index, r.reason) != (defined_choice(ladder, rule, n, m), reason):
                return False
            if r.index != EAGER_INDEX:
                padded = ladder.buckets[r.index].num_tokens - n
                worst[places[0]] = max(worst[places[0]], padded)
    tight = all(r.last_m <= r.last_n for r in found)
    return tight and all(w == (r.worst_rows or 0) for w, r in zip(worst, found, strict=True))


@pytest.mark.parametrize("name", MUTANTS)
def test_each_wrong_text_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not holds(law, mutated(monkeypatch, right, *MUTANTS[name]))


def test_the_right_text_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    same = "from __future__ import annotations"
    assert holds(law, mutated(monkeypatch, right, same, same))
