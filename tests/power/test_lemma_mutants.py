"""Wrong dispatch is refuted by z3 alone, and lemmas with a piece of their text changed fail.

The second kind shows that each premise is needed and that each conclusion says something.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from types import ModuleType

import pytest
import z3

import simcg.ladder
from simcg.formal.lemmas import (
    Claim,
    Lemma,
    baked,
    choice,
    guards,
    lockstep,
    padding,
    sink,
    symbols,
)
from simcg.formal.lemmas.choice import rules_only_refuse, total_and_minimal
from simcg.formal.lemmas.symbols import symbolic_dispatch
from tests.mutants import mutated
from tests.power.test_ladder_mutants import DISPATCH_MUTANTS


def proved(claims: Callable[[], Iterable[Claim]]) -> bool:
    return Lemma("mutant", "I10", "always", "", "", "", claims).prove().holds


def dispatch_proved(module: ModuleType) -> bool:
    """Do the two lemmas that define dispatch hold of it, with slots and without?"""
    choose = symbolic_dispatch(module)
    laws = (total_and_minimal, rules_only_refuse)
    return all(proved(partial(law, choose, slotted=s)) for law in laws for s in (False, True))


@pytest.mark.parametrize("name", DISPATCH_MUTANTS)
def test_z3_refutes_each_wrong_dispatch(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = mutated(monkeypatch, simcg.ladder, *DISPATCH_MUTANTS[name])
    with suppress(TypeError, z3.Z3Exception):  # it does with numbers what no term can: no proof
        assert not dispatch_proved(module)


def test_z3_proves_the_unmutated_text(monkeypatch: pytest.MonkeyPatch) -> None:
    same = 'side="left"'
    assert dispatch_proved(mutated(monkeypatch, simcg.ladder, same, same))


LEMMA_MUTANTS = {
    "a minimum that another bucket ties": (
        choice, "known.before(i, j)) for j", "known.before(j, i)) for j",
    ),
    "eager outside the answers": (choice, "chosen >= EAGER_INDEX", "chosen > EAGER_INDEX"),
    "a rule that refuses nothing": (
        choice, "z3.If(rule.admits(known.sizes[i], n), i, EAGER_INDEX)", "i",
    ),
    "more tokens are never refused": (
        choice, "z3.And(small != EAGER_INDEX, small <= large)", "small < large",
    ),
    "requests may grow the other way": (choice, "more_m >= m)", "more_m >= 1)"),
    "a guard without equality": (guards, "== (n >= least)", "== (n > least)"),
    "one more than the ceiling": (guards, "n <= known.ladder.ceiling", "n < known.ladder.ceiling"),
    "steps from T, not from T + 1": (
        guards, "(sizes[k + 1], sizes[k] + 1)", "(sizes[k + 1], sizes[k] + 2)",
    ),
    "a hole beside the wide step": (
        guards, "choose(known.ladder, rule.rule, sizes[k] + 1, m)",
        "choose(known.ladder, rule.rule, sizes[k], m)",
    ),
    "every maximum is in the list": (guards, "most % 16 == 0)", "most % 8 == 0)"),
    "no hole up to 8": (guards, "(most >= 16, n >= 1", "(most <= 8, n >= 1"),
    "rows before the first request": (padding, "(row >= 0, offset >= 0)", "(offset >= 0,)"),
    "lengths below zero": (padding, "counted, length >= 0)", "counted)"),
    "sentinels with a length": (padding, "counted, length == 0)", "counted, length >= 0)"),
    "ends at n count as careless": (padding, '_step("T")', '_step("n")'),
    "ends at T count as neutral": (padding, '_step("n")', '_step("T")'),
    "a copy that leaves the padding": (padding, "old, n, most, row)", "old, n, n, row)"),
    "fill everywhere": (padding, "old, n, n, row)", "old, n, most, row)"),
    "-1 does not wrap": (sink, "z3.If(slot < 0, slot + slots, slot)", "slot"),
    "a sink among the real slots": (sink, "slots - 2))", "slots - 1))"),
    "a sink that is some real slot": (sink, "apart, padded == eager)", "padded == eager)"),
    "a shape with more slots than the next": (baked, "size, slots) == i", "size - 1, slots) == i"),
    "a bound below the need": (baked, "need(size, slots), grows", "need(size, slots) - 1, grows"),
    "a need that shrinks": (baked, "slots), grows)", "slots))"),
    "a longest query one shorter": (baked, "bound >= most - m + 1)", "bound >= most - m)"),
    "splits rounded down": (baked, "(length + block - 1) / block", "length / block"),
    "the capture's splits are enough": (baked, "(captured >= 1,", "(captured >= length,"),
    "the capture's query is enough": (
        baked, "admitted = longest <= most", "admitted = longest <= bound",
    ),
    "a rank above the maximum": (lockstep, "n <= most_n, m <= most_m)", "n <= most_n)"),
    "eager counts as first": (lockstep, "z3.If(chosen == EAGER_INDEX, count, chosen)", "chosen"),
    "ranks that agree": (lockstep, "for m in (m0, m1)", "for m in (m0, m0)"),
    "a ladder without slots": (
        lockstep, "(_EXAMPLE_BUCKETS, slotted=True)", "(_EXAMPLE_BUCKETS, slotted=False)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LEMMA_MUTANTS)
def test_a_changed_lemma_does_not_hold(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of its module's lemmas fails, whether it says always or sometimes."""
    module, old, new = LEMMA_MUTANTS[name]
    assert not all_hold(mutated(monkeypatch, module, old, new))


@pytest.mark.parametrize("module", [baked, choice, guards, lockstep, padding, sink])
def test_the_unchanged_lemmas_hold(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    same = "from __future__ import annotations"
    assert all_hold(mutated(monkeypatch, module, same, same))


def all_hold(module: ModuleType) -> bool:
    (lemmas,) = (value for name, value in vars(module).items() if name.endswith("_LEMMAS"))
    return all(lemma.prove().holds for lemma in lemmas)


SYMBOL_MUTANTS = {
    "searchsorted on the right": ("entry.term <= value if side", "entry.term < value if side"),
    "another entry is picked": ("index.term < position", "index.term <= position"),
    "assignment outside the mask": ("z3.If(mask, _term(value), self.term)", "_term(value)"),
    "minimum is maximum": ("entry.term < value, entry.term", "entry.term > value, entry.term"),
    "slots without order": ("self.slots[i] < self.slots[j]", "self.slots[i] != self.slots[j]"),
    "a ratio below one": ("checks = [q >= 1, p >= q]", "checks = [q >= 1, p >= 0 * q]"),
    "ranges that overlap": ("checks += [last < low, low <= high]", "checks += [low <= high]"),
}


@pytest.mark.parametrize("name", SYMBOL_MUTANTS)
def test_wrong_symbols_are_told_from_right_ones(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the lemmas themselves, or by the law that premises are the constructors' checks."""
    from tests.fast import test_lemmas as laws  # noqa: PLC0415  # its names are replaced here

    module = mutated(monkeypatch, symbols, *SYMBOL_MUTANTS[name])
    choose = module.symbolic_dispatch()
    for replaced in ("AnyLadder", "AnyRule"):
        monkeypatch.setattr(laws, replaced, getattr(module, replaced))
    monkeypatch.setattr(laws, "choose", choose)
    checks: tuple[Callable[[], None], ...] = (
        laws.test_symbols_choose_as_numbers_do_on_every_small_ladder,
        laws.test_premises_about_rules_are_the_checks_of_their_constructor,
        partial(laws.test_premises_about_ladders_are_the_checks_of_their_constructor, slotted=True),
    )
    assert any(fails(check) for check in checks)


def fails(check: Callable[[], None]) -> bool:
    try:
        check()
    except AssertionError:
        return True
    return False
