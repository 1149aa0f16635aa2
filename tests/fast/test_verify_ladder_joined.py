"""Ranges of a ladder's batches are joined as far as their answer goes."""

from __future__ import annotations

from itertools import groupby, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcg.errors import SimcgError
from simcg.formal.ladder_check.question import LadderQuestion
from simcg.formal.ladder_check.ranges import ranges
from simcg.ladder import AdmissionRule, Ladder
from tests.ladders import plain_ladders, rules, slotted_ladders

questions = st.builds(
    LadderQuestion,
    (plain_ladders(24) | slotted_ladders(24)).filter(len),
    rules(24),
    st.integers(1, 30),
    st.integers(1, 10),
)


@given(questions)
def test_neighbours_in_m_have_different_answers_and_follow_each_other(
    question: LadderQuestion,
) -> None:
    for _, row in groupby(ranges(question), lambda r: (r.first_n, r.last_n)):
        spans = list(row)
        assert spans[0].first_m == 1
        for one, other in pairwise(spans):
            assert one.last_m + 1 == other.first_m
            assert (one.index, one.reason) != (other.index, other.reason)
        assert spans[-1].last_m <= min(spans[0].last_n, question.max_requests)


@given(questions.filter(lambda q: q.ladder.buckets[0].slots is None))
def test_without_slots_neighbours_in_n_have_different_answers(question: LadderQuestion) -> None:
    """And every range is for all numbers of requests."""
    found = ranges(question)
    assert [r.first_n for r in found[1:]] == [r.last_n + 1 for r in found[:-1]]
    assert all((a.index, a.reason) != (b.index, b.reason) for a, b in pairwise(found))


def test_a_ladder_without_buckets_is_no_question() -> None:
    with pytest.raises(SimcgError, match="buckets"):
        LadderQuestion(Ladder(()), AdmissionRule(), 3, 3)
