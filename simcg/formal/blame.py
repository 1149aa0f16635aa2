"""From two different values to the invariant that was broken: the first place they differ tells."""

from __future__ import annotations

from simcg.formal.machine import Machine
from simcg.formal.memory import Tag
from simcg.formal.terms import Part, Terms
from simcg.formal.violation import Violation

NUMBERS = {"draw": "I15", "random": "I11", "launch": "I17", "host": "I17"}
"""What a wrong number among an operator's arguments breaks."""
ACROSS_ROWS = ("mix", "causal", "attend")


def difference(terms: Terms, expected: int, found: int) -> tuple[str, str]:
    """The invariant that makes ``found`` appear for ``expected``, and what differs, in words."""
    kind = ""
    while True:
        want, got = terms.parts(expected), terms.parts(found)
        words = f"expected {terms.show(expected)}, found {terms.show(found)}"
        if not want or not got or want[:2] != got[:2]:
            return _of_values(terms, kind, (want, got), found), words
        kind = str(want[0])
        if len(want) != len(got):
            return _of_lengths(terms, kind, found), words
        expected, found = next(
            (a, b)
            for a, b in zip(want[2:], got[2:], strict=True)
            if a != b and isinstance(a, int) and isinstance(b, int)
        )


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
        return Violation("I14", f"the view has {len(found)} rows, expected {len(expected)}")
    row = next(i for i, term in enumerate(expected) if term != found[i])
    key, words = difference(machine.terms, expected[row], found[row])
    return Violation(key, f"row {row} of the output: {words}")


def blame_world(machine: Machine, expected: list[int], found: list[int], old: Tag) -> Violation:
    """Why caches or states, as they lie in memory, are not the reference's.

    ``old``: the tag of cells that this step did not write.
    """
    cell = next(i for i, term in enumerate(expected) if term != found[i])
    address = machine.at.worlds[0] + cell
    tag = machine.memory.tag[address]
    key, words = difference(machine.terms, expected[cell], found[cell])
    for index, base in machine.at.caches.items():
        if base <= address < base + machine.layout.sink:
            row, position = divmod(address - base, machine.layout.length)
            untouched = machine.terms.parts(expected[cell])[:1] == ("old cache",)
            key = "I8" if tag[0] == "padding" else "I6" if untouched else key
            what = f"cache of row {row}, position {position}: {words}"
            return Violation(key, what, machine.program.words(index))
    index = next(i for i, base in machine.at.states.items() if base <= address
                 <= base + machine.layout.rows)  # fmt: skip
    what = f"state of row {address - machine.at.states[index]}: {words}"
    return Violation("I4" if tag == old else "I15", what, machine.program.words(index))
