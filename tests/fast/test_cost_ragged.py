"""Decode attention that reads requests in one piece: what ragged batches cost."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcg.backend import BREAKABLE, EAGER
from simcg.cost.ragged import PARTS, effective_parts, growth, widths
from simcg.cost.table import ReplayModel
from simcg.des.serving.clock import Captured, ServingClock, serving_clock
from simcg.hardware.catalog import load_profile
from simcg.hardware.profile import Curve, CurveKey, HardwareProfile
from simcg.ladder import AdmissionRule, Ladder
from simcg.model.catalog import load_architecture
from simcg.model.lean import lean_pass
from tests.serving import parts_read

lengths_of = st.lists(st.integers(1, 300), min_size=1, max_size=12).map(sorted)


def batches(padding: int = 0) -> st.SearchStrategy[tuple[list[int], int]]:
    """Lengths and a width of one to all of them, and so many requests more that are padding."""
    return lengths_of.flatmap(
        lambda n: st.tuples(st.just(n), st.integers(PARTS, PARTS * (len(n) + padding)))
    )


@given(batches(padding=3))
def test_the_longest_requests_cost_as_if_all_were_as_long(batch: tuple[list[int], int]) -> None:
    """The closed form is the sum over positions of the requests there, at least the width."""
    lengths, width = batch
    assert effective_parts(lengths, width) == parts_read(lengths, width)


@given(batches(padding=3))
def test_a_token_more_for_all_adds_its_growth(batch: tuple[list[int], int]) -> None:
    """Each time, so that runs of steps are linear."""
    lengths, width = batch
    parts = [effective_parts([n + more for n in lengths], width) for more in range(3)]
    assert {b - a for a, b in pairwise(parts)} == {growth(len(lengths), width)}


@given(batches())
def test_ragged_costs_at_least_its_keys_and_at_most_its_longest(
    batch: tuple[list[int], int],
) -> None:
    """Equal batches cost their keys whatever the width; width one follows the sum, all the
    longest.
    """
    lengths, width = batch
    count, longest = len(lengths), lengths[-1]
    parts = effective_parts(lengths, width)
    assert PARTS * sum(lengths) <= parts <= PARTS * count * longest
    assert effective_parts([longest] * count, width) == PARTS * count * longest
    assert effective_parts(lengths, PARTS) == PARTS * sum(lengths)
    assert effective_parts(lengths, PARTS * count) == PARTS * count * longest


MANY, EACH = (1.0, 4.0, 16.0, 64.0), (16.0, 512.0, 4096.0, 16384.0)
NS = tuple(5000 + 27 * keys * max(1.0, m / 12) for m in MANY for keys in EACH)


def decode_curve(share: float | None) -> Curve:
    """Twelve requests side by side; their width, if any, is that share of all."""
    width = () if share is None else tuple(max(1.0, share * m) for m in MANY)
    key = CurveKey("decode_attention", heads=32, kv_heads=8, head_dim=128)
    ones = tuple(1.0 for _ in NS)
    return Curve(key, MANY, NS, ones, "measured", "test", y=EACH, width=width)


def with_width(profile: HardwareProfile, share: float | None) -> HardwareProfile:
    """The profile with that kernel in the place of its own."""
    kernel = decode_curve(share)
    others = (curve for curve in profile.curves if curve.key != kernel.key)
    return msgspec.structs.replace(profile, curves=(*others, kernel))


H200 = load_profile("h200")
QWEN = lean_pass(load_architecture("qwen3-8b"))


def clock_of(profile: HardwareProfile) -> ServingClock:
    setting = Captured(Ladder.of((16,)), AdmissionRule(), Ladder.of((1, 4, 8)))
    model = ReplayModel(QWEN, profile, BREAKABLE, EAGER)
    return serving_clock(model, setting, chunk=16, max_running=10, mixes=False, max_context=4096)


def test_widths_are_those_of_the_graph_that_is_launched() -> None:
    """Five requests in a graph for eight have the width of eight; ten run eager, as ten."""
    clock = clock_of(with_width(H200, 0.5))
    assert [w / PARTS for w in clock.widths[1:]] == [1, 2, 2, 2, 4, 4, 4, 4, 4.5, 5]
    assert widths(with_width(H200, None), QWEN, 10) == ()


def test_equal_requests_in_a_full_graph_cost_the_same_with_a_width() -> None:
    """To the rounding of parts; unequal ones of the same keys cost more."""
    split, piece = (clock_of(with_width(H200, share)) for share in (None, 0.9))
    equal, ragged = [500] * 8, [60] * 7 + [4000 - 7 * 60]
    for lengths, low, high in ((equal, 0.999, 1.001), (ragged, 1.05, 3.0)):
        one, other = (
            clock.decode_run(8, clock.keys_of(lengths, 0, sum(lengths)), 1, None)[1]
            for clock in (split, piece)
        )
        assert low < other / one < high
    assert split.keys_of([3, 4], 5, 99) == 99


def test_padded_graphs_cost_no_less_than_their_requests_alone() -> None:
    """A graph for eight reads at least its width, however few run."""
    clock = clock_of(with_width(H200, 1.0))
    took = [clock.decode_run(m, clock.keys_of([2000] * m, 0, 0), 1, None)[1] for m in (5, 6, 8)]
    assert took[0] == took[1] == took[2]


def test_a_width_is_refused_where_it_means_nothing() -> None:
    """Of other kernels, of other lengths, of less than one request or more than there are."""
    curve = decode_curve(None)
    good = tuple(1.0 for _ in curve.x)
    assert msgspec.structs.replace(curve, width=good).width == good
    prompt = next(c for c in H200.curves if c.key.op == "attention")
    for one, width in (
        (prompt, tuple(1.0 for _ in prompt.x)), (curve, good[1:]),
        (curve, (0.5, *good[1:])), (curve, (2 * curve.x[0], *good[1:])),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="width"):
            msgspec.structs.replace(one, width=width)
