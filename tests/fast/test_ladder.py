"""Laws of buckets, ladders and the one dispatch."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcg.arrays import Ints
from simcg.engines.sizes import tokenspeed_prefill_sizes
from simcg.errors import InputError
from simcg.ladder import (
    EAGER_INDEX,
    AdmissionRule,
    Bucket,
    Ladder,
    dispatch,
    fallback_reason,
)
from tests.ladders import (
    defined_choice,
    first_disagreement,
    plain_ladders,
    ratios,
    rules,
    slotted_ladders,
)

MAX_TOKENS = 64


def batches() -> tuple[Ints, Ints]:
    """Every batch of 1..72 tokens and 1..9 requests, beyond what the ladders hold."""
    grid = np.mgrid[1 : MAX_TOKENS + 9, 1:10].astype(np.int64)
    return grid[0].ravel(), grid[1].ravel()


def test_dispatch_is_its_definition_in_the_small_scope() -> None:
    """Every ladder, rule and batch of the small scope gets what the definition says."""
    assert first_disagreement(dispatch) is None


@given(plain_ladders() | slotted_ladders(), rules())
def test_dispatch_is_total_and_minimal(ladder: Ladder, rule: AdmissionRule) -> None:
    """Every batch gets the smallest admitting bucket or eager, as the definition says."""
    tokens, requests = batches()
    chosen = dispatch(ladder, rule, tokens, requests)
    assert chosen.dtype == np.int64
    expected = [
        defined_choice(ladder, rule, n, m)
        for n, m in zip(tokens.tolist(), requests.tolist(), strict=True)
    ]
    assert chosen.tolist() == expected


@given(slotted_ladders(), rules())
def test_a_replayed_batch_fits(ladder: Ladder, rule: AdmissionRule) -> None:
    """A bucket is never smaller than its batch, in tokens or in slots."""
    tokens, requests = batches()
    for n, m, index in zip(tokens, requests, dispatch(ladder, rule, tokens, requests), strict=True):
        if index != EAGER_INDEX:
            bucket = ladder.buckets[index]
            assert bucket.num_tokens >= n
            assert bucket.slots is not None
            assert bucket.slots >= m


@given(plain_ladders() | slotted_ladders(), ratios())
def test_the_guard_only_refuses(ladder: Ladder, ratio: Fraction) -> None:
    """With a guard a batch gets the bucket it had without, or eager: never another bucket."""
    tokens, requests = batches()
    free = dispatch(ladder, AdmissionRule(), tokens, requests)
    guarded = dispatch(ladder, AdmissionRule(ratio), tokens, requests)
    assert np.all((guarded == free) | (guarded == EAGER_INDEX))


@given(plain_ladders() | slotted_ladders())
def test_without_a_guard_dispatch_is_monotone(ladder: Ladder) -> None:
    """More tokens or more requests never lead to fewer captured tokens; eager counts as most."""
    tokens, requests = batches()
    sizes = np.array([*ladder.sizes, MAX_TOKENS + 100])  # -1, eager, picks the last
    size = sizes[dispatch(ladder, AdmissionRule(), tokens, requests)].reshape(-1, 9)
    assert np.all(np.diff(size, axis=0) >= 0)
    assert np.all(np.diff(size, axis=1) >= 0)


@given(plain_ladders(), rules())
def test_requests_do_not_matter_without_slots(ladder: Ladder, rule: AdmissionRule) -> None:
    """A ladder without slots looks at tokens only."""
    tokens, requests = batches()
    one = dispatch(ladder, rule, tokens, np.ones_like(requests))
    assert np.array_equal(dispatch(ladder, rule, tokens, requests), one)


@given(plain_ladders(), st.integers(1, MAX_TOKENS), rules())
def test_another_bucket_never_sends_an_unguarded_batch_to_eager(
    ladder: Ladder, size: int, rule: AdmissionRule
) -> None:
    """Adding a size pads no batch more; without a guard it sends none to eager."""
    tokens = np.arange(1, MAX_TOKENS + 1, dtype=np.int64)
    larger = Ladder.of({*ladder.sizes, size})
    free = AdmissionRule(eager_ranges=rule.eager_ranges)
    before = dispatch(ladder, free, tokens, tokens)
    after = dispatch(larger, free, tokens, tokens)
    replayed = before != EAGER_INDEX
    assert np.all(after[replayed] != EAGER_INDEX)
    before_sizes = np.array([*ladder.sizes, 0])[before[replayed]]
    after_sizes = np.array([*larger.sizes, 0])[after[replayed]]
    assert np.all(after_sizes <= before_sizes)


@given(plain_ladders(), rules())
def test_eager_ranges_run_eager(ladder: Ladder, rule: AdmissionRule) -> None:
    """Both ends of an eager range, and all between, run eager; other sizes are untouched."""
    tokens = np.arange(1, MAX_TOKENS + 1, dtype=np.int64)
    inside = np.zeros(tokens.shape, dtype=np.bool_)
    for low, high in rule.eager_ranges:
        inside[low - 1 : high] = True
    chosen = dispatch(ladder, rule, tokens, tokens)
    free = dispatch(ladder, AdmissionRule(rule.max_ratio), tokens, tokens)
    assert np.all(chosen[inside] == EAGER_INDEX)
    assert np.array_equal(chosen[~inside], free[~inside])


def test_the_empty_ladder_runs_everything_eager() -> None:
    """No buckets, no replay."""
    tokens, requests = batches()
    assert np.all(dispatch(Ladder(()), AdmissionRule(), tokens, requests) == EAGER_INDEX)
    assert Ladder(()).ceiling == 0


@given(st.integers(1, 10_000), ratios())
def test_least_tokens_is_the_first_size_that_the_guard_admits(size: int, ratio: Fraction) -> None:
    """T <= ratio * n holds for n = least_tokens(T) and not for one token less."""
    least = AdmissionRule(ratio).least_tokens(size)
    assert size <= ratio * least
    assert size > ratio * (least - 1)
    assert AdmissionRule().least_tokens(size) == 1


@given(st.integers(1, 64), ratios())
def test_least_tokens_and_dispatch_agree(size: int, ratio: Fraction) -> None:
    """A one-bucket ladder replays exactly the sizes least_tokens(T)..T."""
    tokens = np.arange(1, 100, dtype=np.int64)
    chosen = dispatch(Ladder.of([size]), AdmissionRule(ratio), tokens, tokens)
    least = AdmissionRule(ratio).least_tokens(size)
    assert np.array_equal(chosen == 0, (tokens >= least) & (tokens <= size))


def test_a_list_rule_with_a_guard_of_its_own_has_a_hole() -> None:
    """[1, 2, 4, 8] + range(16, max + 1, 16) admits 17 by n <= max and has no bucket for it."""
    most = 17
    ladder = Ladder.of([1, 2, 4, 8, *range(16, most + 1, 16)])
    tokens = np.arange(1, most + 1, dtype=np.int64)
    chosen = dispatch(ladder, AdmissionRule(), tokens, tokens)
    assert np.flatnonzero(chosen == EAGER_INDEX).tolist() == [16]  # n = 17
    assert ladder.ceiling < most


POWERS_OF_TWO = [1 << k for k in range(14)]


@pytest.mark.parametrize(
    ("sizes", "count", "uniform_percent", "reciprocal_percent"),
    [
        pytest.param(POWERS_OF_TWO, 14, 33.32, 38.55, id="powers-of-two"),
        pytest.param(range(512, 8193, 512), 16, 6.24, 45.47, id="step-512"),
        pytest.param(range(256, 8193, 256), 32, 3.11, 21.65, id="step-256"),
        pytest.param(tokenspeed_prefill_sizes(8192), 56, 4.16, 4.97, id="tokenspeed"),
    ],
)
def test_known_waste(
    sizes: list[int], count: int, uniform_percent: float, reciprocal_percent: float
) -> None:
    """Padded / real - 1 over 1..8192 has its known value, for n uniform and for n ~ 1/n."""
    ladder = Ladder.of(sizes)
    tokens = np.arange(1, 8193, dtype=np.int64)
    padded = np.array(ladder.sizes)[dispatch(ladder, AdmissionRule(), tokens, tokens)]
    assert len(ladder) == count
    assert round(100 * (padded.sum() / tokens.sum() - 1), 2) == uniform_percent
    assert round(100 * (float(np.mean(padded / tokens)) - 1), 2) == reciprocal_percent


@given(st.lists(st.integers(1, 99)), st.none() | st.integers(1, 9))
def test_ladder_of_sorts_and_drops_repeats(sizes: list[int], slots: int | None) -> None:
    """Any order, any repeats: the same ladder."""
    ladder = Ladder.of(sizes, slots)
    assert ladder.sizes == tuple(sorted(set(sizes)))
    assert ladder == Ladder.of(reversed(sizes), slots)
    assert len(ladder) == len(set(sizes))
    assert ladder.ceiling == max(sizes, default=0)
    assert all(bucket.slots == slots for bucket in ladder.buckets)


def test_malformed_nouns_are_refused() -> None:
    """Each error names the field, the value and what was expected."""
    with pytest.raises(InputError, match="num_tokens: got 0, expected an integer >= 1"):
        Bucket(0)
    with pytest.raises(InputError, match="slots: got 0"):
        Bucket(4, 0)
    with pytest.raises(InputError, match="strictly ascending"):
        Ladder((Bucket(8), Bucket(4)))
    with pytest.raises(InputError, match="strictly ascending"):
        Ladder((Bucket(8), Bucket(8)))
    with pytest.raises(InputError, match="slots on all or on none"):
        Ladder((Bucket(4, 1), Bucket(8)))
    with pytest.raises(InputError, match="max_ratio"):
        AdmissionRule(Fraction(1, 2))
    with pytest.raises(InputError, match="eager_ranges"):
        AdmissionRule(eager_ranges=((3, 2),))
    with pytest.raises(InputError, match="eager_ranges"):
        AdmissionRule(eager_ranges=((1, 4), (4, 5)))


@given(plain_ladders() | slotted_ladders(), rules())
def test_an_eager_batch_has_a_reason_and_no_other_does(ladder: Ladder, rule: AdmissionRule) -> None:
    tokens, requests = batches()
    for index in range(0, len(tokens), 7):
        n, m = int(tokens[index]), int(requests[index])
        eager = int(dispatch(ladder, rule, tokens[[index]], requests[[index]])[0]) == EAGER_INDEX
        assert (fallback_reason(ladder, rule, n, m) is not None) == eager


def test_each_reason_names_what_would_have_to_change() -> None:
    slotted = Ladder.of((8, 64), slots=2)
    guarded = AdmissionRule(Fraction(2), eager_ranges=((33, 40),))
    reasons = [
        fallback_reason(*case)
        for case in (
            (Ladder(()), guarded, 4, 1),
            (slotted, guarded, 65, 1),
            (slotted, guarded, 4, 3),
            (slotted, guarded, 9, 1),
            (slotted, guarded, 35, 1),
            (slotted, guarded, 50, 2),
        )
    ]
    expected = ["no graphs", "above the ceiling", "too many requests", "guard", "range", None]
    assert reasons == expected
