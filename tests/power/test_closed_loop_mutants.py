"""Wrong servers of benchmarks, each told from the right one by what their requests see.

That the right one is right is for tests/fast/test_closed_loop.py, where it equals another
simulator. No mutant in the list is equivalent to the original.
"""

from __future__ import annotations

import pytest

import simcg.reproduce.closed_loop
from tests.loops import CASES, figures
from tests.mutants import mutated

MUTANTS = {
    "decides late": ("self.decided if busy and", "self.now if busy and"),
    "never ahead": ("if busy and self.recipe.lag_steps else", "if busy else"),
    "looks always": ("self.since_look < self.recipe.poll_steps:", "self.since_look < 0:"),
    "prompts do not look": (
        "self.since_look = self.recipe.poll_steps  #",
        "self.since_look = 0  #",
    ),
    "decodes take no room": ("(decodes if recipe.mixes else 0)", "0"),
    "one more runs": ("live >= recipe.running", "live > recipe.running"),
    "growth forgotten": ("+ growth <= self.kv_tokens", "<= self.kv_tokens"),
    "prompts always split": ("if recipe.splits else target", "if True else target"),
    "waits without end": ("self.waits < recipe.wait_steps and tokens", "tokens"),
    "waits for full steps": ("tokens < recipe.wait_share * recipe", "tokens < recipe"),
    "lost tokens are not computed": (
        "self.prompt[index] + self.made[index])",
        "self.prompt[index])",
    ),
    "outputs are not reserved": (
        "int(self.prompt[index] + self.output[index])",
        "int(self.prompt[index])",
    ),
    "pairs of the chunk alone": (
        "take * self.done[index] + take * (take + 1) // 2",
        "take * (take + 1) // 2",
    ),
    "nobody loses a cache": ("len(self.running) > self.kv_tokens", "0 > self.kv_tokens"),
    "the oldest loses it": (
        "= self.running.popitem()",
        "= (i := next(iter(self.running)), self.running.pop(i))",
    ),
    "waits at the back": ("self.waiting.appendleft(", "self.waiting.append("),
    "first token twice": ("if not self.made[index]:", "if True:"),
    "one token too many": (
        "left = self.output[index] - self.made[index]",
        "left = self.output[index] - self.made[index] + 1",
    ),
    "arrivals end no run": ("steps = min(steps, max(until,", "steps = max(1, max(0 * until,"),
    "a run at its first price": ("(first + last) * steps // 2", "first * steps"),
    "keys do not grow": ("self.keys += steps * decodes", "self.keys += 0"),
    "ended ones stay in the cache": ("self.keys -= cached\n        self.held", "self.held"),
    "clients do not think": (
        "(self.now + self.think_ns, self.sent)",
        "(self.now, self.sent)",
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_server_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = MUTANTS[name]
    mutant = mutated(monkeypatch, simcg.reproduce.closed_loop, old, new)
    for seed in range(4):
        for case in CASES:
            right = figures(simcg.reproduce.closed_loop, case, seed)
            try:
                if figures(mutant, case, seed) != right:
                    return
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
                return
    pytest.fail("no run tells it from the original")
