"""Lemmas about the sink: the cache slot that rows of padding write.

An indexing writer takes slot s < 0 of a cache of C slots as s + C, as tensors do.
"""

from __future__ import annotations

from collections.abc import Iterator

import z3

from simcg.formal.lemmas.lemma import Claim, Lemma
from simcg.formal.lemmas.symbols import Term


def written(slot: Term, slots: Term) -> Term:
    """The slot that an indexing writer writes in a cache of so many."""
    return z3.If(slot < 0, slot + slots, slot)


def minus_one() -> Iterator[Claim]:
    """The careless rule: padded rows have slot -1, and all slots of the cache are real."""
    slots, real = z3.Ints("C s")
    shown = {"slots C": slots, "real slot s": real}
    inside = (slots >= 1, real >= 0, real < slots)
    yield Claim(inside, written(z3.IntVal(-1), slots) != real, shown, least=slots)


def minus_one_in_a_page() -> Iterator[Claim]:
    """The careless rule: an unused page is -1, slots are page * size + offset."""
    pages, size, offset, real = z3.Ints("pages size offset s")
    slots = pages * size
    inside = (pages >= 1, size == 16, offset >= 0, offset < size, real >= 0, real < slots)
    shown = {"pages": pages, "page size": size, "offset": offset, "real slot s": real}
    apart = written(-size + offset, slots) != real
    yield Claim(inside, apart, shown, least=pages + offset)


def reserved() -> Iterator[Claim]:
    """A sink among the C slots is apart from all real ones if and only if it is reserved.

    Real slots are a stretch first..last; the sink may be given from the end.
    """
    slots, sink, first, last, real = z3.Ints("C sink first last s")
    inside = (first >= 0, first <= last, last < slots, -slots <= sink, sink < slots)
    place = written(sink, slots)
    outside = z3.Or(place < first, place > last)
    shown = {"C": slots, "sink": sink, "first": first, "last": last}
    met = z3.Exists(real, z3.And(first <= real, real <= last, place == real))
    yield Claim(inside, outside == z3.Not(met), shown)
    for given, low, high in ((0, z3.IntVal(1), slots - 1), (-1, z3.IntVal(0), slots - 2)):
        safe = z3.Or(
            written(z3.IntVal(given), slots) < low, written(z3.IntVal(given), slots) > high
        )
        yield Claim((slots >= 2,), safe, shown)


def padded_writes() -> Iterator[Claim]:
    """By induction over rows: a real slot holds after T rows what it holds after the n real ones.

    ``padded`` and ``eager`` are its values after the first k rows of either; eager rows end at n.
    """
    k, n, slot, real, slots, sink, row = z3.Ints("k n slot s C sink row")
    padded, eager = z3.Ints("padded eager")
    inside = (slots >= 1, real >= 0, real < slots, k >= 0, n >= 1)
    apart = written(sink, slots) != real
    target = z3.If(k < n, slot, sink)
    next_padded = z3.If(written(target, slots) == real, row, padded)
    next_eager = z3.If(z3.And(k < n, written(slot, slots) == real), row, eager)
    shown = {"k": k, "n": n, "slot": slot, "s": real, "C": slots, "sink": sink}
    yield Claim((*inside, apart, padded == eager), next_padded == next_eager, shown)


SINK_LEMMAS = (
    Lemma(
        "-1 wraps to the last slot",
        "I8",
        "sometimes",
        "A padded row with slot -1 overwrites the last slot of a cache whose slots are all real.",
        "written(-1) = C - 1",
        "the smallest example",
        minus_one,
    ),
    Lemma(
        "page -1 wraps to the last page",
        "I8",
        "sometimes",
        "A padded row of page -1 overwrites a slot of the last page.",
        "written(-16 + offset) = 16 (pages - 1) + offset",
        "pages of 16 slots; the smallest example",
        minus_one_in_a_page,
    ),
    Lemma(
        "a sink is apart exactly when it is reserved",
        "I8",
        "always",
        "An indexing writer keeps the sink apart from the real slots exactly if the slot that it "
        "wraps to is none of them: so slot 0 before them, or -1 with the last slot reserved.",
        "written(sink) != s for all real s <=> written(sink) not in [first, last]",
        "caches of any size",
        reserved,
    ),
    Lemma(
        "padded writes leave real slots as eager ones",
        "I8",
        "always",
        "With a sink apart from the real slots, T rows leave every real slot as the n real rows "
        "leave it.",
        "cache_T(s) = cache_n(s) for all s != written(sink)",
        "any n <= T, any slots of rows, by induction",
        padded_writes,
    ),
)
