"""What the whole answer must satisfy, whatever the traffic, engine and profile."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from simcg.ladder import Ladder
from simcg.optimize.build import engine_problem, research_problem
from simcg.optimize.certificate import CertificateError, check_certificate
from simcg.optimize.evaluate import ladder_cost
from simcg.optimize.explain import explain
from simcg.optimize.scenario import Limits, Scenario, choices
from simcg.optimize.score import logits_rows
from simcg.optimize.solve import solve
from simcg.optimize.study import MOST_ROUNDS, NEGLIGIBLE, Study, scheduled, study
from simcg.workload.steps import Steps
from tests.studies import MIXED, drawn, on, scenario_of, steps_of, with_thin_curves

SCENARIOS = {
    "histogram": lambda: scenario_of(steps_of(MIXED)),
    "vllm": lambda: scenario_of(steps_of(MIXED), engine="vllm"),
    "no guard": lambda: scenario_of(steps_of(MIXED), engine="sglang==0.5.15"),
    "few slots": lambda: scenario_of(steps_of(MIXED, requests=5), backend="full", slots=4),
    "no curves": lambda: scenario_of(steps_of(MIXED), hardware="gb300", model="gpt-oss-120b", tp=4),
    "thin curves": lambda: on(
        with_thin_curves("h200"), scenario_of(steps_of({5: 9, 9: 4, 70: 3}), Limits(max_buckets=60))
    ),
    "trace": lambda: scenario_of(drawn()),
    "loaded": lambda: scenario_of(drawn("azure-code"), rate=8.0, backend="full"),
    "no times": lambda: scenario_of(drawn("uniform"), max_chunk=512),
    "few buckets": lambda: scenario_of(drawn(), Limits(max_buckets=6)),
    "limits": lambda: scenario_of(
        steps_of(MIXED),
        Limits(ceiling=1000, include=(77, 200), align=16, memory_bytes=220 << 20),
    ),
}

every = pytest.mark.parametrize("name", SCENARIOS)


@cache
def answered(name: str) -> Study:
    """The study of a scenario above; several laws are about the same one."""
    return study(SCENARIOS[name]())


def limits_of(result: Study) -> tuple[Scenario, int]:
    scenario = result.scenario
    return scenario, logits_rows(result.traffic.counted, scenario.model)


@every
def test_certificate_verifies_from_outside(name: str) -> None:
    """The answer's ladder and cost are proved by a certificate for the problem made anew."""
    result = answered(name)
    answer = result.answer
    scenario, rows = limits_of(result)
    rule, slots = scenario.engine.admission, scenario.model.slots
    posed = engine_problem(result.table, choices(scenario, rows), rule, slots)
    proof = solve(posed.problem, answer.max_buckets).certificate(answer.max_buckets)
    cost = answer.cost_ns - posed.constant_ns
    check_certificate(posed.problem, answer.score.ladder.sizes, cost, proof)
    with pytest.raises(CertificateError):
        check_certificate(posed.problem, answer.score.ladder.sizes, cost - 1, proof)


@every
def test_cost_is_the_ladder_cost(name: str) -> None:
    """The cost by the table is what dispatch makes of the ladder, attention included."""
    result = answered(name)
    for answer in (result.answer, result.half, result.no_loss):
        if answer is not None:
            cost = ladder_cost(result.posed.problem, answer.score.ladder.sizes)
            assert answer.cost_ns == cost + result.posed.constant_ns


@every
def test_table_agrees_with_the_timeline(name: str) -> None:
    """The table prices the answer within 1 % of the full timeline, step by step."""
    result = answered(name)
    count = result.traffic.counted.count
    total = int((result.answer.score.step_ns * count).sum())
    assert result.table_error == pytest.approx(total / result.answer.cost_ns - 1)
    assert abs(result.table_error) < 0.01


@every
def test_more_buckets_never_cost_more(name: str) -> None:
    """The least cost falls or stays as more buckets are allowed, down to the one of most."""
    curve = [cost for cost in answered(name).curve_ns if cost is not None]
    assert all(later <= earlier for earlier, later in pairwise(curve))
    assert answered(name).answer.cost_ns <= curve[-1] * (1 + NEGLIGIBLE)


@every
def test_answer_costs_no_more_than_the_default(name: str) -> None:
    """Where the limits permit the default's own sizes, the best ladder costs no more."""
    result = answered(name)
    scenario, rows = limits_of(result)
    bounds = choices(scenario, rows)
    sizes = scenario.default_ladder.sizes
    permitted = (
        len(sizes) <= bounds.max_buckets
        and bounds.allowed[list(sizes)].all()
        and bounds.tops[sizes[-1]]
        and set(bounds.required) <= set(sizes)
    )
    assert permitted == (name not in ("few buckets", "limits"))
    default = ladder_cost(result.posed.problem, sizes) + result.posed.constant_ns
    if permitted:
        assert result.curve_ns[-1] is not None
        assert result.curve_ns[-1] <= default


@every
def test_no_loss_is_the_fewest(name: str) -> None:
    """No loss costs at most the default by the table, and one bucket fewer would cost more."""
    result = answered(name)
    shift = result.posed.constant_ns
    sizes = result.scenario.default_ladder.sizes
    default = ladder_cost(result.posed.problem, sizes) + shift
    if result.no_loss is None:
        assert all(cost is None or cost > default for cost in result.curve_ns)
        return
    assert result.no_loss.cost_ns <= default
    fewer = [c for c in result.curve_ns[: len(result.no_loss.score.ladder)] if c is not None]
    assert all(cost > default for cost in fewer)


@every
def test_limit_is_below_every_ladder(name: str) -> None:
    """No ladder in the study is faster, by the table, than a graph for every size."""
    result = answered(name)
    total = result.traffic.counted.total
    for cost in (result.answer.cost_ns, *result.curve_ns):
        assert cost is None or result.limit_ns * total <= cost * (1 + 1e-9)


@every
def test_research_answer_is_no_slower(name: str) -> None:
    """By its own table a runner that picks per size loses nothing on the engine's answer."""
    result = answered(name)
    assert result.research is not None
    scenario, rows = limits_of(result)
    slots = scenario.model.slots
    problem = research_problem(result.table, choices(scenario, rows), slots).problem
    best, engine = result.research.ladder.sizes, result.answer.score.ladder.sizes
    assert len(best) <= len(engine)
    assert ladder_cost(problem, best) <= ladder_cost(problem, engine)


@every
def test_interval_contains_the_gain(name: str) -> None:
    """The gain lies in its interval, and the interval holds what traffic alone leaves open."""
    gain = answered(name).gain
    assert gain.low <= gain.share <= gain.high
    assert gain.traffic[0] <= gain.traffic[1]
    assert gain.low <= gain.traffic[0] + 1e-12
    assert gain.high >= gain.traffic[1] - 1e-12


@every
def test_rounds_settle_or_say_not(name: str) -> None:
    """Settled: the answer's own steps are those it was chosen for; else all rounds were used."""
    result = answered(name)
    assert 1 <= result.rounds <= MOST_ROUNDS
    if not result.settled:
        assert result.rounds == MOST_ROUNDS
        return
    again = scheduled(result.scenario, result.answer.score.ladder).counted
    assert np.array_equal(again.tokens, result.traffic.counted.tokens)
    assert np.array_equal(again.count, result.traffic.counted.count)


@every
def test_explained_steps_add_up(name: str) -> None:
    """Buckets serve all steps that replay, each between its smallest and largest step."""
    result = answered(name)
    uses = explain(result)
    counted, scored = result.traffic.counted, result.answer.score
    assert [use.bucket for use in uses] == list(scored.ladder.sizes)
    assert sum(use.steps for use in uses) == int(counted.count[scored.bucket_tokens > 0].sum())
    for use in uses:
        assert use.all_steps == counted.total
        assert use.steps == 0 or use.low <= use.high <= use.bucket


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name != "limits"])
def test_dropping_a_bucket_costs(name: str) -> None:
    """Without limits, an optimal ladder less one bucket that is not demanded costs no less."""
    demanded = answered(name).posed.problem.required
    assert all(use.drop_ns >= 0 for use in explain(answered(name)) if use.bucket not in demanded)


@every
def test_shares_are_shares(name: str) -> None:
    """Shares lie in 0..1, an empty ladder runs all eager, and a ladder of all sizes pads none."""
    result = answered(name)
    for score in (result.default, result.answer.score, result.no_graphs):
        assert score.padded_share >= 0
        assert 0 <= score.eager_share <= 1
    assert result.no_graphs.eager_share == 1
    assert result.no_graphs.memory.device == 0
    assert result.no_graphs.padded_share == 0


def test_holdout_needs_times() -> None:
    """There is no hold-out without a time axis, and there is one with it."""
    assert answered("histogram").holdout is None
    assert answered("no times").holdout is None
    assert answered("trace").holdout is not None


def reordered(steps: Steps, order: list[int], times: int = 1) -> Steps:
    columns = ("tokens", "requests", "context", "pairs", "count")
    moved = {name: getattr(steps, name)[order] for name in columns}
    return replace(steps, **(moved | {"count": moved["count"] * times}))


def test_order_of_rows_does_not_matter() -> None:
    """Permuting the rows of a histogram, or splitting one, changes nothing in the answer."""
    steps = steps_of(MIXED)
    expected = answered("histogram")
    shuffled = study(scenario_of(reordered(steps, [5, 2, 8, 0, 9, 1, 7, 4, 3, 6])))
    assert shuffled.answer.score.ladder == expected.answer.score.ladder
    assert shuffled.answer.cost_ns == expected.answer.cost_ns
    assert shuffled.gain == expected.gain


@pytest.mark.parametrize("limits", [Limits(), Limits(max_buckets=4)])
def test_doubled_counts_keep_the_ladder(limits: Limits) -> None:
    """Twice the traffic of the same kind has the same best ladder at twice the cost."""
    steps = steps_of(MIXED)
    once = study(scenario_of(steps, limits))
    twice = study(scenario_of(reordered(steps, list(range(len(steps.tokens))), times=2), limits))
    assert twice.answer.score.ladder == once.answer.score.ladder
    assert twice.answer.cost_ns == 2 * once.answer.cost_ns
    assert twice.gain.share == pytest.approx(once.gain.share)


def test_more_traffic_narrows_the_interval() -> None:
    """A hundred times the steps leave about a tenth of the doubt about the traffic."""
    steps = steps_of(MIXED)
    more = study(scenario_of(reordered(steps, list(range(len(steps.tokens))), times=100)))
    wide, narrow = (float(np.diff(r.gain.traffic)[0]) for r in (answered("histogram"), more))
    assert 0 < narrow < wide / 5
    assert more.gain.shape == pytest.approx(answered("histogram").gain.shape)


def test_more_requests_than_slots_run_eager() -> None:
    """Steps of more requests than slots run eager in problem and score alike, so no size is
    chosen for them: with one slot and two requests everywhere there is nothing to capture.
    """
    result = study(scenario_of(steps_of(MIXED, requests=2), backend="full", slots=1))
    assert result.answer.score.ladder == Ladder(())
    assert result.default.eager_share == 1
    assert int(result.posed.problem.weights.sum()) == 0
    assert abs(result.table_error) < 0.01
