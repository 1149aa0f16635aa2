"""Lemmas about padding: offsets of unused request slots, and what padded copies leave behind.

Offsets are a prefix sum: request slot j has the rows offset(j) <= i < offset(j + 1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import z3

from simcg.formal.lemmas.lemma import Claim, Lemma
from simcg.formal.lemmas.symbols import Term

_SLOTS = 8
_PAD = z3.Int("pad")


def owns(row: Term, start: Term, end: Term) -> Term:
    """Does the request slot with these offsets have the row?"""
    return z3.And(start <= row, row < end)


def rows_of_requests() -> Iterator[Claim]:
    """By induction over j: ``owners`` of a row among slots before j is 1 below offset(j), else 0.

    The first slot begins at row 0; a request of length l moves the offset by l; so does a
    sentinel of length 0, which changes neither the offset nor the owners.
    """
    row, offset, length, owners = z3.Ints("i offset length owners")
    counted = owners == z3.If(row < offset, 1, 0)
    start = (row >= 0, offset >= 0)
    shown = {"i": row, "offset": offset, "length": length, "owners": owners}
    yield Claim((*start, offset == 0, owners == 0), counted, shown)
    end = offset + length
    more = owners + z3.If(owns(row, offset, end), 1, 0)
    yield Claim((*start, counted, length >= 0), more == z3.If(row < end, 1, 0), shown)
    neutral = z3.And(end == offset, more == owners)
    yield Claim((*start, counted, length == 0), neutral, shown)


def _step(end_of_sentinels: str) -> tuple[list[Term], list[Term], dict[str, Term]]:
    """Offsets of a step with 8 slots, what holds of them, and n, m, T by name.

    Slots up to m have a token at least each; the ends of later slots are ``end_of_sentinels``.
    """
    n, m, most = z3.Ints("n m T")
    offsets = [z3.Int(f"offset{j}") for j in range(_SLOTS + 1)]
    named = {"n": n, "T": most}
    known = [m >= 1, m <= _SLOTS, n <= most, offsets[0] == 0]
    for j in range(_SLOTS):
        real = offsets[j] < offsets[j + 1]
        known.append(z3.If(j < m, real, offsets[j + 1] == named[end_of_sentinels]))
        known.append(z3.Implies(m == j + 1, offsets[j + 1] == n))
    return offsets, known, named | {"m": m}


def _owners(row: Term, offsets: Sequence[Term]) -> list[Term]:
    return [owns(row, *offsets[j : j + 2]) for j in range(_SLOTS)]


def sentinels_own_nothing() -> Iterator[Claim]:
    """With ends at n every real row has one owner, which is real, and a padded row has none."""
    offsets, known, named = _step("n")
    row = z3.Int("i")
    owners = _owners(row, offsets)
    one = sum(z3.If(owner, 1, 0) for owner in owners) == z3.If(row < named["n"], 1, 0)
    real = z3.And(*(z3.Implies(owners[j], j < named["m"]) for j in range(_SLOTS)))
    shown = named | {"i": row}
    yield Claim((*known, row >= 0, row < named["T"]), z3.And(one, real), shown)


def ends_at_bucket() -> Iterator[Claim]:
    """The careless rule: the offsets of unused slots end at T."""
    offsets, known, named = _step("T")
    row, slot = z3.Ints("i j")
    unowned = [z3.Not(z3.And(slot == j, owner)) for j, owner in enumerate(_owners(row, offsets))]
    unused = (slot >= named["m"], row >= 0)
    shown = named | {"padded row i": row, "of sentinel j": slot}
    yield Claim((*known, *unused), z3.And(*unowned), shown, least=named["T"] + slot)


def stale_ends() -> Iterator[Claim]:
    """The careless rule: only offsets of real requests are rewritten; others keep the last step's.

    One request now, two in the step before: slot 1 ends where it ended then.
    """
    n, before, row = z3.Ints("n before i")
    unowned = z3.Not(owns(row, n, before))
    shown = {"n": n, "end of slot 1 in the step before": before, "row i of slot 1": row}
    yield Claim((n >= 1, before >= 2), unowned, shown, least=n + before)


def _padded(source: Term, old: Term, real: Term, rows: Term, row: Term) -> Term:
    """Row of a buffer that held ``old`` after a copy of ``real`` rows, padded up to ``rows``."""
    return z3.If(row < real, source(row), z3.If(row < rows, _PAD, old(row)))


def padded_copies_forget() -> Iterator[Claim]:
    """What a graph of T rows reads is this step's alone, and a second copy changes no row."""
    source, one, two = (z3.Function(x, z3.IntSort(), z3.IntSort()) for x in ("new", "old", "old'"))
    n, most, row = z3.Ints("n T i")
    batch = (n >= 1, n <= most, row >= 0)
    shown = {"n": n, "T": most, "i": row}
    first, second = (_padded(source, old, n, most, row) for old in (one, two))
    yield Claim((*batch, row < most), first == second, shown)
    again = z3.If(row < n, source(row), z3.If(row < most, _PAD, first))
    yield Claim(batch, again == first, shown)


def real_rows_alone() -> Iterator[Claim]:
    """The careless rule: a step copies its real rows and leaves the rest of the bucket."""
    source, one, two = (z3.Function(x, z3.IntSort(), z3.IntSort()) for x in ("new", "old", "old'"))
    n, most, row = z3.Ints("n T i")
    first, second = (_padded(source, old, n, n, row) for old in (one, two))
    batch = (n >= 1, n <= most, row >= 0, row < most)
    shown = {"n": n, "T": most, "row i": row}
    yield Claim(batch, first == second, shown, least=most + n)


PADDING_LEMMAS = (
    Lemma(
        "every row has one request",
        "I9",
        "always",
        "Offsets that are prefix sums of lengths give every row below n to exactly one request, "
        "and sentinels of length 0 change neither an offset nor an owner.",
        "|{j < S : offset_j <= i < offset_{j+1}}| = 1 if i < n else 0",
        "any number of requests and sentinels, by induction",
        rows_of_requests,
    ),
    Lemma(
        "sentinels own nothing",
        "I9",
        "always",
        "With unused offsets at n each real row belongs to one real request, and padding to none.",
        "offset_j = n for j > m => no i in [0, T) is of a slot j >= m",
        f"{_SLOTS} slots, any n <= T and m",
        sentinels_own_nothing,
    ),
    Lemma(
        "offsets that end at T give padding to a sentinel",
        "I9",
        "sometimes",
        "With unused offsets at T instead of n a padded row belongs to a sentinel.",
        "offset_m = n, offset_{m+1} = T => offset_m <= n < offset_{m+1}",
        f"{_SLOTS} slots; the smallest example",
        ends_at_bucket,
    ),
    Lemma(
        "offsets left from the step before own rows",
        "I9",
        "sometimes",
        "An unused slot whose offset was not rewritten has rows of the step before.",
        "offset_{m+1} of epoch e - 1 > n",
        "two slots; the smallest example",
        stale_ends,
    ),
    Lemma(
        "a padded copy forgets",
        "I11",
        "always",
        "Rows up to T of a static input depend on this step alone once its real rows are copied "
        "and its padding is filled; copying again changes nothing.",
        "agree(copy(x, old), copy(x, old')) on [0, T); copy(x, copy(x, old)) = copy(x, old)",
        "all n <= T, all contents",
        padded_copies_forget,
    ),
    Lemma(
        "a copy of real rows keeps the step before",
        "I11",
        "sometimes",
        "Without the fill a row of padding is what an earlier step left.",
        "copy(x, old)[n] = old[n]",
        "the smallest example",
        real_rows_alone,
    ),
)
