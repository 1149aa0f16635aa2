"""The lemmas about padding, the sink and baked numbers claim what their sentences say.

A lemma that z3 proves may still say less than it should. So each claim's premises and conclusion
are compared with plain arithmetic, written apart from them, on random numbers that meet the
premises and that do not.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import count

import pytest

pytest.importorskip("z3", reason="z3 is not installed: pip install '.[verify]'")

import z3

from simcg.formal.lemmas import LEMMAS as ALL
from simcg.formal.lemmas import sink
from tests.claims import Said, any_points, check_claim

LEMMAS = {lemma.name: lemma for lemma in ALL}
CONTENTS = {"new": lambda x: 10 + x, "old": lambda x: 20 + 2 * x, "old'": lambda x: 30 + 3 * x}


def blocks(length: int, block: int) -> int:
    return len(range(0, length, block))


def wrapped(slot: int, slots: int) -> int:
    return slot + slots if slot < 0 else slot


def held(n: int) -> int:
    """The smallest of 1, 2, 4, 8 and the multiples of 16 that holds n, but 8 up to 8."""
    return 8 if n <= 8 else next(16 * k for k in count(1) if 16 * k >= n)


def listed(most: int) -> set[int]:
    return {1, 2, 4, 8, *range(16, most + 1, 16)}


def full(most: int) -> bool:
    return most <= 8 or most % 16 == 0


def owned(i: int, offset: int, length: int) -> bool:
    return i in range(offset, offset + length)


SAID = {
    "the longest query of a bucket": [
        Said(
            "others j",
            lambda others, j: others == j == 0,
            lambda others, j: others >= j,
        ),
        Said(
            "others j length",
            lambda others, j, length: others >= j and length >= 1,
            lambda others, j, length: others + length > j,
        ),
        Said(
            "others bound m T longest",
            lambda others, bound, m, T, longest: (
                min(m, longest) >= 1
                and others >= m - 1
                and longest + others <= T
                and bound >= T - m + 1
            ),
            lambda longest, bound, **_: longest <= bound,
        ),
        Said(
            "others bound m T longest",
            lambda others, bound, m, T, longest: (
                1 <= m <= T and others + 1 == m and longest + others == T and bound <= T - m
            ),
            lambda others, bound, T, longest, **_: bound < longest <= T - others,
        ),
    ],
    "splits for the longest context read every key once": [
        Said(
            "block length longest key",
            lambda block, length, longest, key: (
                block >= 1 and 1 <= length <= longest and 0 <= key < length
            ),
            lambda block, longest, key, **_: 0 <= key // block < -(-longest // block),
            defined=lambda block, **_: block >= 1,
        ),
        Said(
            "block length longest key split other",
            lambda block, length, longest, key, split, other: (
                block >= 1
                and 1 <= length <= longest
                and 0 <= key < length
                and key // block == split == other
            ),
            lambda split, other, **_: split == other,
        ),
        Said(
            "block length longest key split",
            lambda block, length, longest, key, split: (
                block >= 1
                and 1 <= length <= longest
                and blocks(length, block) <= split < blocks(longest, block)
                and split == key // block
            ),
            lambda key, length, **_: key >= length,
            numbers=range(-1, 9),
        ),
    ],
    "splits of the captured batch miss keys": [
        Said(
            "captured length key",
            lambda captured, length, key: captured >= 1 and length >= 1 and 0 <= key < length,
            lambda captured, key, **_: key < 64 * -(-captured // 64),
            lambda captured, length, **_: captured + length,
            numbers=(-1, 0, 1, 2, 63, 64, 65, 66, 127, 128, 129),
        )
    ],
    "the captured batch's longest query is exceeded": [
        Said(
            "T S longest bound",
            lambda T, S, longest, bound: (
                2 <= S <= min(4, T) and bound == -(-T // S) and 1 <= longest <= T
            ),
            lambda longest, bound, **_: longest <= bound,
            lambda T, **_: T,
            numbers=range(-1, 8),
        )
    ],
    "-1 wraps to the last slot": [
        Said(
            "C s",
            lambda C, s: C >= 1 and 0 <= s < C,
            lambda C, s: s != C - 1,
            lambda C, **_: C,
        )
    ],
    "page -1 wraps to the last page": [
        Said(
            "pages size offset s",
            lambda pages, size, offset, s: (
                pages >= 1 and size == 16 and offset in range(16) and s in range(16 * pages)
            ),
            lambda pages, size, offset, s: wrapped(offset - size, pages * size) != s,
            lambda pages, offset, **_: pages + offset,
            numbers=(-1, 0, 1, 2, 14, 15, 16, 17, 31),
        )
    ],
    "padded writes leave real slots as eager ones": [
        Said(
            "k n slot s C sink row padded eager",
            lambda k, n, s, C, sink, padded, eager, **_: (
                0 <= s < C and k >= 0 and n >= 1 and wrapped(sink, C) != s and padded == eager
            ),
            lambda k, n, slot, s, C, sink, row, padded, eager: (
                (row if wrapped(slot if k < n else sink, C) == s else padded)
                == (row if k < n and wrapped(slot, C) == s else eager)
            ),
            numbers=range(-2, 3),
        )
    ],
    "every row has one request": [
        Said(
            "i offset owners",
            lambda i, offset, owners: i >= 0 and offset == owners == 0,
            lambda i, offset, owners: owners == (i < offset),
        ),
        Said(
            "i offset length owners",
            lambda i, offset, length, owners: (
                min(i, offset, length) >= 0 and owners == (i < offset)
            ),
            lambda i, offset, length, owners: (
                owners + owned(i, offset, length) == (i < offset + length)
            ),
        ),
        Said(
            "i offset length owners",
            lambda i, offset, length, owners: (
                min(i, offset) >= 0 and owners == (i < offset) and length == 0
            ),
            lambda i, offset, length, **_: length == 0 and not owned(i, offset, length),
        ),
    ],
    "offsets left from the step before own rows": [
        Said(
            "n before i",
            lambda n, before, **_: n >= 1 and before >= 2,
            lambda n, before, i: i not in range(n, before),
            lambda n, before, **_: n + before,
        )
    ],
    "a padded copy forgets": [
        Said(
            "n T i pad",
            lambda n, T, i, **_: 1 <= n <= T and 0 <= i < T,
            lambda n, T, i, **_: i < n or i < T,
            functions=CONTENTS,
            defined=lambda i, **_: i >= 0,
        ),
        Said(
            "n T i pad",
            lambda n, T, i, **_: 1 <= n <= T and i >= 0,
            lambda **_: True,
            functions=CONTENTS,
        ),
    ],
    "a copy of real rows keeps the step before": [
        Said(
            "n T i pad",
            lambda n, T, i, **_: 1 <= n <= T and 0 <= i < T,
            lambda n, i, **_: i < n,
            lambda n, T, **_: n + T,
            functions=CONTENTS,
            defined=lambda i, **_: i >= 0,
        )
    ],
    "the least size under a guard": [
        Said(
            "p q T n",
            lambda p, q, T, n: 1 <= q <= p and min(T, n) >= 1,
            lambda p, q, T, n: (T * q <= n * p) == (n >= -(-T * q // p)),
            defined=lambda p, **_: p >= 1,
        )
    ],
    "when a list of steps holds its maximum": [
        Said(
            "n max",
            lambda n, **v: 1 <= n <= v["max"] and full(v["max"]),
            lambda n, **v: n <= held(n) and (n <= 8 or held(n) <= v["max"]),
            numbers=(-1, 0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48),
        ),
        Said(
            "max T k",
            lambda T, k, **v: (
                v["max"] >= 1
                and not full(v["max"])
                and (T in {1, 2, 4, 8} or (k >= 1 and 16 * k == T and v["max"] >= T))
            ),
            lambda T, **v: v["max"] > T,
            numbers=(-1, 0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48),
        ),
    ],
    "a guard beside the list has a hole": [
        Said(
            "n max",
            lambda n, **v: v["max"] >= 16 and 1 <= n <= v["max"],
            lambda n, **v: n <= max(listed(v["max"])),
            lambda **v: v["max"],
            numbers=(0, 1, 2, 8, 9, 15, 16, 17, 31, 32, 33, 48),
            defined=lambda **v: v["max"] >= 1,
        )
    ],
}


@pytest.mark.parametrize("name", SAID)
def test_a_claim_says_what_plain_arithmetic_says(name: str) -> None:
    claims = list(LEMMAS[name].claims())
    assert len(claims) == len(SAID[name])
    for claim, said in zip(claims, SAID[name], strict=True):
        check_claim(claim, said, any_points(said))


def steps(sentinels_at_bucket: bool) -> Iterator[dict[str, int]]:
    """Offsets of steps with 8 slots, every other one with a number changed."""
    drawn = random.Random(0)
    for number in range(120):
        m = drawn.randint(1, 8)
        ends = [0]
        for _ in range(m):
            ends.append(ends[-1] + drawn.randint(1, 3))
        n = ends[-1]
        most = n + drawn.randint(0, 3)
        ends += [most if sentinels_at_bucket else n] * (8 - m)
        values = {f"offset{j}": end for j, end in enumerate(ends)}
        values |= {"n": n, "m": m, "T": most, "i": drawn.randrange(most + 2)}
        if sentinels_at_bucket:
            values["j"] = drawn.randint(m - 1, 8)
        if number % 2:
            values[drawn.choice([*values])] += drawn.choice((-1, 1))
        yield values


def laid_out(v: dict[str, int], sentinels_end: int) -> bool:
    """The offsets are those of m requests with n <= T tokens and of sentinels that end there."""
    ends, n, m = [v[f"offset{j}"] for j in range(9)], v["n"], v["m"]
    return (
        1 <= m <= 8
        and n <= v["T"]
        and ends[0] == 0
        and all(ends[j] < ends[j + 1] for j in range(m))
        and ends[m] == n
        and all(end == sentinels_end for end in ends[m + 1 :])
    )


def owners(v: dict[str, int]) -> list[int]:
    return [j for j in range(8) if v["i"] in range(v[f"offset{j}"], v[f"offset{j + 1}"])]


OFFSETS = " ".join(f"offset{j}" for j in range(9))


def test_the_claims_about_sentinels_say_who_owns_a_row() -> None:
    neutral = Said(
        f"{OFFSETS} n m T i",
        lambda **v: laid_out(v, v["n"]) and 0 <= v["i"] < v["T"],
        lambda **v: len(owners(v)) == (v["i"] < v["n"]) and all(j < v["m"] for j in owners(v)),
    )
    careless = Said(
        f"{OFFSETS} n m T i j",
        lambda **v: laid_out(v, v["T"]) and v["i"] >= 0 and v["j"] >= v["m"],
        lambda **v: v["j"] not in owners(v),
        lambda **v: v["T"] + v["j"],
    )
    names = "sentinels own nothing", "offsets that end at T give padding to a sentinel"
    for name, said, at_bucket in zip(names, (neutral, careless), (False, True), strict=True):
        (claim,) = LEMMAS[name].claims()
        points = list(steps(at_bucket))
        assert len({bool(said.premises(**point)) for point in points}) == 2
        check_claim(claim, said, points)


def test_a_writer_takes_slots_as_a_list_does() -> None:
    for slots in range(1, 5):
        cache = list(range(slots))
        for slot in range(-slots, slots):
            place = sink.written(z3.IntVal(slot), z3.IntVal(slots))
            assert z3.simplify(place).as_long() == cache[slot]


def test_the_claims_about_a_reserved_sink_say_where_it_may_lie(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of any place, as if the writer wrapped anyhow: outside first..last, 1..C-1 and 0..C-2."""
    asked: list[tuple[z3.ExprRef, z3.ExprRef]] = []

    def anywhere(slot: z3.ExprRef, slots: z3.ExprRef) -> z3.ExprRef:
        asked.append((slot, slots))
        return z3.Int("place")

    monkeypatch.setattr(sink, "written", anywhere)
    among, first, last = sink.reserved()
    assert {str(slot) for slot, _ in asked} == {"sink", "0", "-1"}
    assert {str(slots) for _, slots in asked} == {"C"}
    range_of = Said(
        "C sink first last place",
        lambda C, sink, first, last, **_: 0 <= first <= last < C and -C <= sink < C,
        lambda **_: True,
    )
    low = Said("C place", lambda C, **_: C >= 2, lambda C, place: place not in range(1, C))
    high = Said("C place", lambda C, **_: C >= 2, lambda C, place: place not in range(C - 1))
    for claim, said in ((first, low), (last, high)):
        check_claim(claim, said, any_points(said))
    check_claim(among, range_of, any_points(range_of))
