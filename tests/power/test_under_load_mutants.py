"""Wrong choices under load, each told from the right one by a law of tests/fast."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import simcg.optimize.under_load
import tests.fast.test_under_load as laws
from tests.mutants import mutated, put_in_place


def with_policy(test: Callable[[str], None], policy: str = "prefill-first") -> Callable[[], None]:
    return lambda: test(policy)


MUTANTS: dict[str, tuple[str, str, Callable[[], None]]] = {
    "the 90th percentile": (
        "np.quantile(ms, 0.99)", "np.quantile(ms, 0.9)",
        laws.test_objectives_are_those_that_their_names_say,
    ),
    "every server has the wanted ladder": (
        "replace(self.wanted, ladder=ladder)", "self.wanted",
        laws.test_common_random_numbers_make_differences_surer,
    ),
    "the fewest graphs win": (
        "(c.mean.mean, len(c.ladder))", "(len(c.ladder), c.mean.mean)",
        with_policy(laws.test_the_answer_keeps_its_promises),
    ),
    "the slowest wins": (
        "(c.mean.mean, len(c.ladder))", "(-c.mean.mean, len(c.ladder))",
        with_policy(laws.test_the_answer_keeps_its_promises),
    ),
    "an overloaded server is ranked": (
        "if c.overload is None),", "),", laws.test_overload_says_the_capacity,
    ),
    "a forbidden default is a candidate": (
        "question.scenario.limits == Limits() or default in proposed.values()", "True",
        laws.test_a_default_that_limits_forbid_is_not_chosen,
    ),
    "the default is never a candidate": (
        "question.scenario.limits == Limits() or default in proposed.values()", "False",
        laws.test_one_candidate_is_the_winner,
    ),
    "judged on the runs that ranked": (
        "(REPLICATIONS if fresh else 0)", "0",
        with_policy(laws.test_the_judgement_is_of_runs_that_did_not_rank),
    ),
    "judged on half of them again": (
        "(REPLICATIONS if fresh else 0)", "(REPLICATIONS // 2 if fresh else 0)",
        with_policy(laws.test_the_judgement_is_of_runs_that_did_not_rank),
    ),
    "default less winner": (
        "for c in (served[0], winner))", "for c in (winner, served[0]))",
        with_policy(laws.test_the_judgement_is_of_runs_that_did_not_rank),
    ),
    "a trace judged on the parts that ranked": (
        "BATCHES)[fresh::2]", "BATCHES)[0::2]",
        laws.test_a_replayed_trace_is_ranked_and_judged_on_different_parts,
    ),
    "a trace ranked on all parts": (
        "BATCHES)[fresh::2]", "BATCHES)",
        laws.test_a_replayed_trace_is_ranked_and_judged_on_different_parts,
    ),
    "a winner by chance is chosen": (
        "judged.high >= 0", "judged.low >= 0",
        with_policy(laws.test_the_answer_keeps_its_promises, "bucket-edge"),
    ),
    "the default is always chosen": (
        "judged.high >= 0", "True", laws.test_a_default_that_is_worse_beyond_chance_gives_way,
    ),
    "the most graphs of those as good": (
        "fewest=min(tied,", "fewest=max(tied,",
        with_policy(laws.test_the_answer_keeps_its_promises),
    ),
    "all are as good": (
        "worse.low <= 0 and worse.mean <= TIED * winner.mean.mean", "True",
        with_policy(laws.test_the_answer_keeps_its_promises),
    ),
    "decodes have no rows": (
        "rows = tokens + beside", "rows = tokens",
        with_policy(laws.test_steps_of_the_server_hold_all_prompt_tokens, "mixed"),
    ),
    "decodes attend to nothing": (
        "np.maximum(pairs + shared, rows)", "np.maximum(pairs, rows)",
        with_policy(laws.test_steps_of_the_server_hold_all_pairs_and_rows_of_requests, "mixed"),
    ),
    "decodes attend in steps of prefill alone": (
        "np.where(beside > 0, keys, 0)", "keys",
        with_policy(laws.test_steps_of_the_server_hold_all_pairs_and_rows_of_requests),
    ),
    "decodes are no requests": (
        "requests + beside, none", "requests, none",
        with_policy(laws.test_steps_of_the_server_hold_all_pairs_and_rows_of_requests, "mixed"),
    ),
    "the cycle is one short": (
        "len(path) - path.index(solved.ladder)", "len(path) - path.index(solved.ladder) - 1",
        laws.test_one_candidate_is_the_winner,
    ),
    "one round": (
        "cycle or rounds == MOST_ROUNDS", "True",
        with_policy(laws.test_a_ladder_at_rest_is_proposed_by_its_own_steps),
    ),
    "only the default's number": (
        "count //= 2", "count = 0", with_policy(laws.test_the_answer_keeps_its_promises),
    ),
}  # fmt: skip


def told_apart(monkeypatch: pytest.MonkeyPatch, name: str, new: str) -> bool:
    """Does the mutant's law fail when this stands in its place?"""
    old, _, law = MUTANTS[name]
    original = simcg.optimize.under_load
    put_in_place(monkeypatch, original, mutated(monkeypatch, original, old, new))
    laws.choice.cache_clear()
    try:
        law()
    except (
        AssertionError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError,
        pytest.fail.Exception,
    ):  # fmt: skip
        return True
    finally:
        laws.choice.cache_clear()
    return False


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_choice_is_seen(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The laws hold for the original, which tests/fast says, and one does not for the mutant."""
    assert told_apart(monkeypatch, name, MUTANTS[name][1])


def test_a_copy_of_the_original_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """So it is the change that a law sees, not the place of the code."""
    for name in ("the slowest wins", "decodes have no rows", "the cycle is one short"):
        with monkeypatch.context() as place:
            assert not told_apart(place, name, MUTANTS[name][0])
