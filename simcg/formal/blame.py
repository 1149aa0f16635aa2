"""From two different values to the invariant that was broken: the first place they differ tells."""

from __future__ import annotations

from simcg.formal.terms import Terms

WEIGHT_KINDS = {"constant": "I2", "borrow": "I5"}
BAKED = frozenset({"attend", "launch", "host"})
"""Operators whose launch has a host scalar or a bound."""


def difference(terms: Terms, expected: int, found: int) -> tuple[str, str]:
    """The invariant that makes ``found`` appear for ``expected``, and what differs, in words."""
    kind = ""
    while True:
        want, got = terms.parts(expected), terms.parts(found)
        said = f"expected {terms.show(expected)}, found {terms.show(found)}"
        if not want or not got or want[:2] != got[:2]:
            return _of_values(terms, kind, want, got, found), said
        kind = str(want[0])
        if len(want) != len(got):
            return _of_lengths(terms, kind, found), said
        expected, found = next(
            (a, b)
            for a, b in zip(want[2:], got[2:], strict=True)
            if a != b and isinstance(a, int) and isinstance(b, int)
        )


def _of_lengths(terms: Terms, kind: str, found: int) -> str:
    """The operator took more or fewer rows than the program says."""
    if terms.holds(found, terms.poison):
        return "I7"
    return "I17" if kind == "attend" else "I7" if kind.startswith("mix") else "I9"


def _of_values(
    terms: Terms, kind: str, want: tuple[object, ...], got: tuple[object, ...], found: int
) -> str:
    """Two arguments differ at ``kind``, or two results do at its top."""
    if terms.holds(found, terms.foreign):
        return WEIGHT_KINDS.get(kind, "I5")
    if not want and not got:  # plain numbers
        return {"draw": "I15", "random": "I11", "launch": "I17", "host": "I17"}.get(kind, "I17")
    if terms.holds(found, terms.poison):
        return "I7" if kind.startswith(("mix", "causal", "attend")) else "I4"
    heads = {part[0] for part in (want, got) if part}
    return "I15" if heads & {"state", "old state", "fresh state"} else "I4"
