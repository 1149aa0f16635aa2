"""Laws of the choice under load: common random numbers, ties, rest, overload, refusals."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from functools import cache
from typing import Any, cast

import numpy as np
import pytest
from rich.console import Console

from simcg.cli.setting import TrafficSource, scenario_from
from simcg.des.serving import Arrivals, Poisson, Traced, simulate
from simcg.des.serving.server import LoggedStep
from simcg.des.serving.setup import Wanted
from simcg.engines.engine import Deployment, Engine
from simcg.errors import InputError
from simcg.ladder import Ladder
from simcg.model.catalog import load_architecture
from simcg.optimize.scenario import Limits
from simcg.optimize.study import Traffic, solved_on
from simcg.optimize.under_load import (
    MOST_ROUNDS,
    OBJECTIVES,
    Choice,
    Question,
    choose_under_load,
    simulated_steps,
)
from simcg.report.under_load import candidates_table, verdict
from simcg.workload.requests import Requests
from tests.studies import SERVER, run_cli

SMALL = SERVER | {"max_chunk": 512, "hardware": "h200-sglang"}
"""Here the best candidates are about as good as the default."""

POLICIES = ("prefill-first", "mixed", "bucket-edge", "bucket-edge-mixed")


def question(
    policy: str = "prefill-first",
    rate: float = 6.0,
    limits: Limits | None = None,
    engine: str = "sglang",
) -> Question:
    source = TrafficSource(None, "azure-conv", 100, None, None)
    scenario = scenario_from(source, SMALL | {"engine": engine}, limits or Limits())
    assert isinstance(scenario.traffic, Requests)
    arrivals = Arrivals(scenario.traffic, Poisson(rate))
    wanted = Wanted(load_architecture("qwen3-8b"), 1, scenario.default_ladder, policy=policy)
    return Question(scenario, arrivals, wanted, "ttft-mean")


def serve(asked: Question, ladder: Ladder) -> list[int]:
    config, clock = asked.server(ladder)
    values: list[int] = simulate(config, asked.arrivals, asked.seed, clock=clock).ttft_ns.tolist()
    return values


@cache
def choice(policy: str) -> Choice:
    return choose_under_load(question(policy))


@pytest.mark.parametrize("policy", ["prefill-first", "bucket-edge"])
def test_the_answer_keeps_its_promises(policy: str) -> None:
    """Ranked by the mean; the default unless the interval lies below 0; no ladder twice."""
    made = choice(policy)
    means = [one.mean.mean for one in made.ranked]
    assert means == sorted(means)
    assert len({one.ladder for one in made.ranked}) == len(made.ranked) > 3
    better = made.judged is not None and made.judged.high < 0
    assert made.chosen == (made.winner if better else made.default)
    assert len(made.fewest.ladder) <= len(made.winner.ladder)
    assert made.fewest.mean.mean <= 1.01 * made.winner.mean.mean


@pytest.mark.parametrize("policy", ["prefill-first", "bucket-edge"])
def test_a_ladder_at_rest_is_proposed_by_its_own_steps(policy: str) -> None:
    made = choice(policy)
    assert made.path[0] == made.question.scenario.default_ladder
    assert made.cycle or len(made.path) == 1 + MOST_ROUNDS
    if made.cycle:
        config, clock = made.question.server(made.path[-1])
        steps = simulated_steps(config, clock, made.question.arrivals, made.question.seed)
        again = replace(made.question.scenario, traffic=steps)
        assert solved_on(again, Traffic(steps, steps, None)).ladder == made.path[-made.cycle]


def test_the_same_question_has_the_same_answer() -> None:
    """Seeds are part of it: another one has other values."""
    first, second = choice("prefill-first"), choose_under_load(question())
    assert (first.ranked, first.judged) == (second.ranked, second.judged)
    assert (first.path, first.cycle) == (second.path, second.cycle)
    other = replace(question(), seed=100)
    assert serve(other, Ladder(())) != serve(question(), Ladder(()))


def test_common_random_numbers_make_differences_surer() -> None:
    """The variance of paired differences is below a tenth of that of independent ones."""
    asked = question()
    figure = OBJECTIVES["ttft-mean"]
    values = []
    for ladder in (asked.scenario.default_ladder, Ladder.of((64, 128, 192, 256, 384, 448, 512))):
        config, clock = asked.server(ladder)
        runs = [simulate(config, asked.arrivals, seed, clock=clock) for seed in range(12)]
        values.append(np.array([figure(run.ttft_ns / 1e6) for run in runs]))
    common = float(np.var(values[1] - values[0], ddof=1))
    independent = float(np.var(values[0], ddof=1) + np.var(values[1], ddof=1))
    assert 0 < common < independent / 10


@pytest.mark.parametrize("policy", POLICIES)
def test_steps_of_the_server_hold_all_prompt_tokens(policy: str) -> None:
    """Prefill alone: rows are prompt tokens; mixed: decodes beside them."""
    asked = question(policy)
    config, clock = asked.server(asked.scenario.default_ladder)
    steps = simulated_steps(config, clock, asked.arrivals, 0)
    rows = int((steps.tokens * steps.count).sum())
    prompts = int(asked.arrivals.requests.new_tokens.sum())
    assert rows > prompts if config.policy.mixes else rows == prompts
    assert int(steps.tokens.max()) <= config.chunk


@pytest.mark.parametrize("policy", ["prefill-first", "mixed"])
def test_steps_of_the_server_hold_all_pairs_and_rows_of_requests(policy: str) -> None:
    """Every prompt token attends to those before it; a decode beside it to its whole context."""
    asked = question(policy)
    config, clock = asked.server(asked.scenario.default_ladder)
    steps = simulated_steps(config, clock, asked.arrivals, 0)
    log: list[LoggedStep] = []
    simulate(config, asked.arrivals, 0, clock=clock, log=log)
    requests = asked.arrivals.requests
    new, cached, output = requests.new_tokens, requests.cached_tokens, requests.output_tokens
    assert output is not None
    own = int((new * cached + new * (new + 1) // 2).sum())
    beside = int((steps.tokens * steps.count).sum() - new.sum())
    decoded = int((steps.pairs * steps.count).sum()) - own
    longest = int((requests.prompt_tokens + output).max())
    assert beside * (int(requests.prompt_tokens.min()) + 1) <= decoded <= beside * longest
    served = sum(one.requests for one in log if one.tokens)
    assert int((steps.requests * steps.count).sum()) == served + beside


@pytest.mark.parametrize("policy", ["prefill-first", "bucket-edge"])
def test_the_judgement_is_of_runs_that_did_not_rank(policy: str) -> None:
    """Winner less default, run by run, on the eight seeds after those of the ranking."""
    made = choice(policy)
    assert made.judged is not None
    figure, ladders = OBJECTIVES["ttft-mean"], (made.default.ladder, made.winner.ladder)
    values = []
    for config, clock in map(made.question.server, ladders):
        runs = [simulate(config, made.question.arrivals, seed, clock=clock)
                for seed in range(1, 17)]  # fmt: skip
        values.append([figure(run.ttft_ns / 1e6) for run in runs])
    assert made.default.values == pytest.approx(values[0][:8])
    assert made.winner.values == pytest.approx(values[1][:8])
    assert made.judged.mean == pytest.approx(np.mean(values[1][8:]) - np.mean(values[0][8:]))


def test_objectives_are_those_that_their_names_say() -> None:
    ms = np.append(np.arange(100.0), 1100.0)
    assert OBJECTIVES["ttft-p99"](ms) == 99.0
    assert OBJECTIVES["ttft-mean"](ms) == pytest.approx(6050 / 101)


def test_one_candidate_is_the_winner() -> None:
    """Limits that leave one ladder, the default: it is kept and nothing is judged."""
    base = question().scenario
    forced = Limits(include=base.default_ladder.sizes, max_buckets=len(base.default_ladder))
    made = choose_under_load(question(limits=forced))
    assert [one.ladder for one in made.ranked] == [base.default_ladder]
    assert made.chosen == made.winner == made.default
    assert made.judged is None
    assert made.cycle == 1


class OneSize:
    """An engine whose default is one graph, of the chunk."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def default_ladder(self, max_chunk: int, _: Deployment) -> Ladder:
        return Ladder.of((max_chunk,))


def test_a_default_that_is_worse_beyond_chance_gives_way() -> None:
    """Without a guard, one graph pads every step to the chunk."""
    base = question(engine="vllm")
    engine = cast(Engine, OneSize(base.scenario.engine))
    made = choose_under_load(replace(base, scenario=replace(base.scenario, engine=engine)))
    assert made.is_significant
    assert made.judged is not None
    assert made.judged.high < 0
    assert made.chosen == made.winner != made.default


def test_a_default_that_limits_forbid_is_not_chosen() -> None:
    """It is what others are compared with, no candidate."""
    made = choose_under_load(question(limits=Limits(max_buckets=3)))
    assert made.default.ladder == made.question.scenario.default_ladder
    assert made.default not in made.ranked
    assert len(made.chosen.ladder) <= 3
    assert made.judged is not None


def test_one_more_bucket_never_worsens_the_exact_optimum() -> None:
    asked = question("bucket-edge")
    config, clock = asked.server(asked.scenario.default_ladder)
    steps = simulated_steps(config, clock, asked.arrivals, 0)
    frontier = solved_on(replace(asked.scenario, traffic=steps), Traffic(steps, steps, None))
    costs = [frontier.frontier.best_cost(k) for k in range(frontier.frontier.max_buckets + 1)]
    known = [cost for cost in costs if cost is not None]
    assert known == sorted(known, reverse=True)
    assert known[-1] < known[0]


def test_a_replayed_trace_is_ranked_and_judged_on_different_parts() -> None:
    asked = question()
    made = choose_under_load(replace(asked, arrivals=replace(asked.arrivals, process=Traced())))
    assert {len(one.values) for one in made.ranked} == {10}
    assert made.judged is not None
    ranking = made.winner.mean.mean - made.default.mean.mean
    assert made.judged.mean != pytest.approx(ranking)


def test_overload_says_the_capacity() -> None:
    with pytest.raises(InputError, match=r"queue diverges: offered 900\.00, capacity [0-9.]+"):
        choose_under_load(question(rate=900.0))


ARGS = ("--requests", "60", "--max-chunk", "256", "--max-num-seqs", "64", "--objective", "ttft-p99")


def test_the_command_prints_verdict_flags_and_json() -> None:
    text = run_cli("optimize", *ARGS, "--request-rate", "4", "--policy", "bucket-edge")
    assert text.code == 0, text.err
    assert "flags of sglang" in text.out
    assert "--cuda-graph-bs-prefill" in text.out
    lines = [line for line in text.out.splitlines() if not line.startswith("--cuda")]
    assert max(map(len, lines)) <= 100
    ran = run_cli("optimize", *ARGS, "--request-rate", "4", "--policy", "bucket-edge", "--json")
    found = json.loads(ran.out)
    assert found["chosen"] in {one["name"] for one in found["candidates"]}
    assert found["policy"] == "bucket-edge"


def test_one_gain_is_stated_the_judged_one() -> None:
    """It stands in the sentence and in the row of the winner alone; what ranked is called so."""
    made = choice("prefill-first")
    assert made.judged is not None
    out = Console(file=io.StringIO(), width=100)
    out.print(candidates_table(made))
    assert isinstance(out.file, io.StringIO)
    header, first, *rest = (row.rstrip() for row in out.file.getvalue().splitlines())
    assert header.endswith("less default: ranking  fresh runs")
    assert first.startswith(made.winner.name)
    assert first.endswith(f" {made.judged.mean:+.2f}")
    assert len(first) > max(map(len, rest))
    assert any(f"{-made.judged.mean:+.2f} ms" in line for line in verdict(made))


@pytest.mark.parametrize(
    ("args", "word"),
    [
        ((*ARGS, "--request-rate", "0"), "requests a second > 0"),
        ((*ARGS, "--rate", "0"), "a number > 0"),
        ((*ARGS, "--request-rate", "900"), "capacity"),
        ((*ARGS, "--explain"), "step-time"),
        (("--objective", "ttft-p98"), "one of step-time, ttft-p99, ttft-mean"),
        (("--request-rate", "4"), "ttft-p99"),
        (("--policy", "mixed"), "ttft-p99"),
    ],
)
def test_a_bad_question_is_one_line(args: tuple[str, ...], word: str) -> None:
    ran = run_cli("optimize", *args)
    assert ran.code == 2
    assert word in ran.err
    assert ran.err.count("\n") == 1
    assert not ran.out


def test_a_histogram_has_no_arrivals() -> None:
    histogram = b"tokens,count\n100,5\n"
    ran = run_cli("optimize", "-", "--format", "histogram", *ARGS[2:], stdin=histogram)
    assert ran.code == 2
    assert "expected requests" in ran.err
