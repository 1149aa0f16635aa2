"""From two different values to the invariant that was broken: the first place they differ tells."""

from __future__ import annotations

from dataclasses import dataclass

from simcg.formal.machine import Machine
from simcg.formal.memory import Tag
from simcg.formal.program import KINDS
from simcg.formal.terms import Part, Terms
from simcg.formal.violation import Violation
from simcg.formal.words import OUTPUT_COPY, VIEW, counted

NUMBERS = {"draw": "I15", "random": "I11", "launch": "I17", "host": "I17"}
"""What a wrong number among an operator's arguments breaks."""
ACROSS_ROWS = ("mix", "causal", "attend")


@dataclass(frozen=True, slots=True)
class Difference:
    """``key`` of the invariant that was broken; ``what`` differs; ``op``: the operator, or -1."""

    key: str
    what: str
    op: int


def difference(terms: Terms, expected: int, found: int) -> Difference:
    """The first place where ``found`` is not ``expected``, told by the operator around it."""
    kind, op, around = "", -1, (expected, found)
    while True:
        want, got = terms.parts(expected), terms.parts(found)
        if not want or not got or want[:2] != got[:2]:
            key = _of_values(terms, kind, (want, got), found)
            break
        kind = str(want[0])
        if kind in KINDS:
            op, around = int(want[1]), (expected, found)
        if len(want) != len(got):
            key = _of_lengths(terms, kind, found)
            break
        expected, found = next(
            (a, b)
            for a, b in zip(want[2:], got[2:], strict=True)
            if a != b and isinstance(a, int) and isinstance(b, int)
        )
    return Difference(key, f"expected {terms.show(around[0])}, found {terms.show(around[1])}", op)


def _of_lengths(terms: Terms, kind: str, found: int) -> str:
    """The operator took more or fewer rows than the program says."""
    if terms.holds(found, terms.poison) or kind.startswith("mix"):
        return "I7"
    return "I17" if kind == "attend" else "I9"


def _of_values(
    terms: Terms, kind: str, parts: tuple[tuple[Part, ...], tuple[Part, ...]], found: int
) -> str:
    """Two arguments of ``kind`` differ, or two whole results ("")."""
    if terms.holds(found, terms.foreign):
        return "I2" if kind == "constant" else "I5"
    if not any(parts):
        return NUMBERS.get(kind, "I4")
    if terms.holds(found, terms.poison):
        return "I7" if kind.startswith(ACROSS_ROWS) else "I4"
    heads = {part[0] for part in parts if part}
    return "I15" if heads & {"state", "old state", "fresh state"} else "I4"


def blame_output(machine: Machine, expected: list[int], found: list[int]) -> Violation:
    """Why an output is not the reference's."""
    if len(found) != len(expected):
        what = f"the view has {counted(len(found), 'row')}, expected {len(expected)}"
        return Violation("I14", what, VIEW)
    row = next(i for i, term in enumerate(expected) if term != found[i])
    differs = difference(machine.terms, expected[row], found[row])
    op = _words(machine, differs.op, OUTPUT_COPY)
    return Violation(differs.key, f"row {row} of the output: {differs.what}", op)


def _words(machine: Machine, op: int, otherwise: str) -> str:
    return machine.program.words(op) if op >= 0 else otherwise


def blame_world(machine: Machine, expected: list[int], found: list[int], old: Tag) -> Violation:
    """Why caches or states, as they lie in memory, are not the reference's.

    ``old``: the tag of cells that this step did not write.
    """
    cell = next(i for i, term in enumerate(expected) if term != found[i])
    address = machine.at.worlds[0] + cell
    tag = machine.memory.tag[address]
    differs = difference(machine.terms, expected[cell], found[cell])
    for index, base in machine.at.caches.items():
        if base <= address < base + machine.layout.sink:
            row, position = divmod(address - base, machine.layout.length)
            untouched = machine.terms.parts(expected[cell])[:1] == ("old cache",)
            key = "I8" if tag[0] == "padding" else "I6" if untouched else differs.key
            what = f"row {row}, position {position} of the cache: {differs.what}"
            return Violation(key, what, _words(machine, differs.op, machine.program.words(index)))
    index = next(i for i, base in machine.at.states.items() if base <= address
                 <= base + machine.layout.rows)  # fmt: skip
    what = f"the state of row {address - machine.at.states[index]}: {differs.what}"
    op = _words(machine, differs.op, machine.program.words(index))
    return Violation("I4" if tag == old else "I15", what, op)
