"""Lemmas about numbers that a launch bakes in: when one holds for every batch of its bucket."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import z3

from simcg.formal.lemmas.choice import MOST_BUCKETS, REAL, UP_TO_EIGHT, any_batch
from simcg.formal.lemmas.lemma import Claim, Lemma
from simcg.formal.lemmas.symbols import AnyLadder, AnyRule, Choose, Term


def full_shapes(choose: Choose) -> Iterator[Claim]:
    """The shape of each bucket, as a batch, is admitted to that bucket.

    A real batch has m <= n, so slots are asked to be at most the tokens.
    """
    for count in range(1, MOST_BUCKETS + 1):
        known, rule = AnyLadder.of(count, slotted=True), AnyRule.of(0)
        own = [
            z3.Implies(slots <= size, choose(known.ladder, rule.rule, size, slots) == i)
            for i, (size, slots) in enumerate(zip(known.sizes, known.slots, strict=True))
        ]
        shown = known.unknowns | rule.unknowns
        yield Claim((*known.well_formed, *rule.well_formed), z3.And(*own), shown)


def sound_bounds(choose: Choose) -> Iterator[Claim]:
    """A bound that holds for (T, S) holds for every batch of that bucket.

    ``need`` is anything that grows with n and m; that it grows is given where it is used.
    """
    n, m, batch = any_batch()
    bound = z3.Int("bound")
    need = z3.Function("need", z3.IntSort(), z3.IntSort(), z3.IntSort())
    for count in range(1, MOST_BUCKETS + 1):
        known, rule = AnyLadder.of(count, slotted=True), AnyRule.of(0)
        chosen = choose(known.ladder, rule.rule, n, m)
        sound = []
        for i, (size, slots) in enumerate(zip(known.sizes, known.slots, strict=True)):
            grows = z3.Implies(z3.And(n <= size, m <= slots), need(n, m) <= need(size, slots))
            reaches = z3.And(chosen == i, bound >= need(size, slots), grows)
            sound.append(z3.Implies(reaches, bound >= need(n, m)))
        shown = known.unknowns | {"n": n, "m": m, "bound": bound, "chosen": chosen}
        yield Claim((*known.well_formed, *rule.well_formed, *batch), z3.And(*sound), shown)


def longest_query() -> Iterator[Claim]:
    """The longest of m requests with n <= T tokens has at most n - m + 1; with one, it may be T.

    By induction over the other requests: j of them have at least j tokens.
    """
    others, j, length, bound, m, most, longest = z3.Ints("others j length bound m T longest")
    shown = {"others": others, "j": j, "length": length, "T": most, "m": m, "bound": bound}
    yield Claim((j == 0, others == 0), others >= j, shown)
    yield Claim((others >= j, length >= 1), others + length >= j + 1, shown)
    batch = (m >= 1, longest >= 1, others >= m - 1, longest + others <= most)
    yield Claim((*batch, bound >= most - m + 1), longest <= bound, shown)
    full = (m >= 1, most >= m, others == m - 1, longest == most - others, bound < most - m + 1)
    yield Claim(full, z3.And(longest + others <= most, longest > bound), shown)


def _blocks(length: Term, block: Term) -> Term:
    """Blocks of so many keys that hold ``length`` keys."""
    return (length + block - 1) / block


def splits_of_the_capacity() -> Iterator[Claim]:
    """Splits for the longest context: one block, and no other, has each key; surplus has none."""
    block, length, most, key, split, other = z3.Ints("block length longest key split other")
    given = (block >= 1, length >= 1, length <= most)
    baked = _blocks(most, block)
    shown = {"block": block, "length": length, "longest": most, "key": key, "split": split}
    first, last = split * block, (split + 1) * block
    inside = (key >= 0, key < length)
    mine = key / block
    held = z3.And(mine >= 0, mine < baked, mine * block <= key, key < (mine + 1) * block)
    yield Claim((*given, *inside), held, shown)
    here, there = (z3.And(s * block <= key, key < (s + 1) * block) for s in (split, other))
    yield Claim((*given, *inside, here, there), split == other, shown)
    surplus = (split >= _blocks(length, block), split < baked, first <= key, key < last)
    yield Claim((*given, *surplus), key >= length, shown)


def splits_of_the_capture() -> Iterator[Claim]:
    """The careless rule: the split count is that of the batch at capture."""
    captured, length, key = z3.Ints("captured length key")
    read = key < _blocks(captured, z3.IntVal(64)) * 64
    shown = {"length at capture": captured, "length at replay": length, "key": key}
    lengths = (captured >= 1, length >= 1, key >= 0, key < length)
    yield Claim(lengths, read, shown, least=captured + length)


def query_of_the_capture() -> Iterator[Claim]:
    """The careless rule: T tokens are shared out evenly at capture, and that length is baked."""
    most, slots, longest, bound = z3.Ints("T S longest bound")
    given = (slots >= 1, most >= slots, bound == (most + slots - 1) / slots, longest >= 1)
    shown = {"T": most, "S": slots, "baked": bound, "longest": longest}
    admitted = longest <= most  # one request, the other slots are sentinels
    yield Claim((*given, slots <= 4, slots >= 2, admitted), longest <= bound, shown, least=most)


BAKED_LEMMAS = (
    Lemma(
        "a bucket admits its own shape",
        "I17",
        "always",
        "Whatever the guard, the batch of T tokens and S requests replays in bucket (T, S): no "
        "bound below what that batch needs is sound.",
        "choose(T_i, S_i) = i",
        f"{UP_TO_EIGHT}, any ratio r >= 1, S <= T",
        partial(full_shapes, REAL),
    ),
    Lemma(
        "a bound for the full bucket holds for all its batches",
        "I17",
        "always",
        "A baked bound on something that grows with the batch is sound for every batch that a "
        "bucket admits if it is for the bucket's own shape.",
        "b >= need(T, S) and choose(n, m) = (T, S) => b >= need(n, m)",
        f"{UP_TO_EIGHT}, any ratio r >= 1, any monotone need",
        partial(sound_bounds, REAL),
    ),
    Lemma(
        "the longest query of a bucket",
        "I17",
        "always",
        "Among m requests with at most T tokens the longest may have T - m + 1, and no more: a "
        "key without m needs the bound T.",
        "bound sound for (T, m) <=> bound >= T - m + 1",
        "any number of requests, by induction",
        longest_query,
    ),
    Lemma(
        "splits for the longest context read every key once",
        "I17",
        "always",
        "Blocks of keys counted for the longest context hold every key of every shorter one "
        "exactly once, and the surplus blocks are empty.",
        "key < length <= longest => exactly one split < ceil(longest / block) has it",
        "any block, any lengths",
        splits_of_the_capacity,
    ),
    Lemma(
        "splits of the captured batch miss keys",
        "I17",
        "sometimes",
        "With the split count of the batch at capture a longer request has keys that nobody reads.",
        "ceil(length_capture / 64) 64 <= key < length_replay",
        "blocks of 64 keys; the smallest example",
        splits_of_the_capture,
    ),
    Lemma(
        "the captured batch's longest query is exceeded",
        "I17",
        "sometimes",
        "A longest query baked from tokens shared out evenly is exceeded by one long request of "
        "the same bucket.",
        "longest > ceil(T / S)",
        "2 to 4 slots; the smallest example",
        query_of_the_capture,
    ),
)
