"""The checker without one of its checks: a wrong system that it caught then goes unnoticed.

Each entry takes one comparison out of the checker's text and names a mutant of the model that only
this comparison tells, or tells so. No entry is equivalent to the original.
"""

from __future__ import annotations

from types import ModuleType

import pytest

import simcg.formal.blame
import simcg.formal.captures
import simcg.formal.check
import simcg.formal.machine
import simcg.formal.ranks
import simcg.formal.recorded
import simcg.formal.traces
from simcg.formal.mutants import MUTANTS
from simcg.formal.mutants import hunt as hunting
from tests.mutants import mutated

CHECK, TRACES = simcg.formal.check, simcg.formal.traces
CAPTURES, RANKS = simcg.formal.captures, simcg.formal.ranks
Blind = tuple[ModuleType, str, str, str, str]

BLIND: dict[str, Blind] = {
    "outputs are not compared": (
        CHECK, "if got != expected.output:", "if len(got) != len(expected.output):",
        "unmasked operator captured", "I7",
    ),
    "caches and states are not compared": (
        CHECK, "if world != expected.world:", "if False:", "slot zero as the sink", "I8",
    ),
    "draws are not counted": (
        CHECK, "if machine.drawn != expected.drawn:", "if False:", "generator captured", "I15",
    ),
    "the frame is not looked at": (
        CHECK, "        self._frame(runner.captures.get(view.key))\n", "",
        "kernel writes whole tiles", "I6",
    ),
    "one schedule is enough": (
        CHECK, "if self._has_side(step, agreed):", "if False:", "stream not joined", "I21",
    ),
    "any bucket will do": (
        CHECK, "            check_choice(runner, shape)\n", "", "guard forgotten", "I10",
    ),
    "freed memory keeps its contents": (
        CHECK, "calm.fill(base, cells, terms.foreign, FOREIGN)", "pass",
        "outside argument held weakly", "I5",
    ),
    "captures may write the cache": (
        CHECK, "    if world != before:\n", "    if False:\n", "warm-up writes real slots", "I20",
    ),
    "captures may draw": (
        CHECK, "    if machine.drawn != DRAWN_BEFORE:\n        what = f\"the captures",
        "    if False:\n        what = f\"the captures", "generator not restored", "I20",
    ),
    "items are not counted": (
        CHECK, "        check_recorded(setting.program, setting.backend, capture)\n",
        "        pass\n", "nested break recorded", "I13",
    ),
    "late captures may write": (
        TRACES, "        if changed or machine.drawn != before[1]:\n", "        if False:\n",
        "warm-up writes real slots", "I22",
    ),
    "views are not read": (
        TRACES, "if not runner.rules.reads_output_at_once:", "if False:",
        "output read too late", "I14",
    ),
    "the second device is like the first": (
        CAPTURES, "        if runner.captures.get(key) != capture:\n", "        if False:\n",
        "generator's offset baked", "I16",
    ),
    "ranks are not compared": (
        RANKS, "if any(one != did[0] for one in did):", "if False:",
        "bucket from local sizes", "I19",
    ),
    "only buckets are compared": (
        RANKS, "if any(one != did[0] for one in did):",
        "if any(one[0] != did[0][0] for one in did):", "collective on some ranks only", "I19",
    ),
    "no capture fails on a rank": (
        RANKS, "for failed in [None, *keys]:", "for failed in [None]:",
        "capture failed on one rank", "I19",
    ),
}  # fmt: skip


def caught(name: str) -> set[str]:
    """The invariants that catch a mutant of the model in its small scope."""
    return set(hunting.hunt(MUTANTS[name]).caught)


@pytest.mark.parametrize("name", BLIND)
def test_without_one_check_a_wrong_system_goes_unnoticed(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, old, new, wrong, key = BLIND[name]
    assert key in caught(wrong)
    blind = mutated(monkeypatch, module, old, new)
    for checker in ("Checker", "walk", "check_captures", "check_ranks"):
        if hasattr(blind, checker) and module.__name__ == getattr(module, checker).__module__:
            monkeypatch.setattr(hunting, checker, getattr(blind, checker))
    assert key not in caught(wrong)


LENIENT: dict[str, Blind] = {
    "a stale tensor may be read": (
        simcg.formal.machine, "if found.count(want) != run.tokens:", "if False:",
        "break's result rebound", "I3",
    ),
    "stale metadata may be read": (
        simcg.formal.machine, "if found.count(want) != count:", "if False:",
        "metadata left from the step before", "I11",
    ),
    "offsets of unused slots may be anything": (
        simcg.formal.machine, "if any(o != run.tokens for o in offsets[run.requests :]):",
        "if False:", "offsets of unused slots end at the bucket", "I9",
    ),
    "a freed constant may be read": (
        simcg.formal.machine, "        if found != want:\n            key = \"I2\"",
        "        if False:\n            key = \"I2\"", "constant freed after capture", "I2",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LENIENT)
def test_a_machine_that_does_not_watch_reads_blames_nobody_or_another(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, old, new, wrong, key = LENIENT[name]
    assert key in caught(wrong)
    lenient = mutated(monkeypatch, module, old, new)
    for method in ("rows", "static", "spans", "one"):
        changed = getattr(lenient.Machine, method)
        monkeypatch.setattr(simcg.formal.machine.Machine, method, changed)
    assert key not in caught(wrong)


@pytest.mark.parametrize(
    ("old", "new", "wrong", "key"),
    [
        ('"I8" if tag[0] == "padding" else', "", "slot zero as the sink", "I8"),
        ('kind.startswith("mix"):', "False:", "unmasked operator captured", "I7"),
        ('"launch": "I17", "host": "I17"}', '"launch": "I4", "host": "I4"}',
         "key without a scalar", "I17"),
        ('return "I17" if kind == "attend" else "I9"', 'return "I9"',
         "bound of the capture's batch", "I17"),
        ('"I4" if tag == old else "I15"', '"I4"', "state of an empty slot", "I15"),
    ],
)  # fmt: skip
def test_blame_falls_elsewhere_when_its_words_are_taken_away(
    old: str, new: str, wrong: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert key in caught(wrong)
    deaf = mutated(monkeypatch, simcg.formal.blame, old, new)
    monkeypatch.setattr(CHECK, "blame_output", deaf.blame_output)
    monkeypatch.setattr(CHECK, "blame_world", deaf.blame_world)
    assert key not in caught(wrong)
