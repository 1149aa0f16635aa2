"""What the study says of hosts and GPUs whose regime is known beforehand."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import msgspec
import pytest

from simcg.hardware.profile import Gaps
from simcg.ladder import Ladder
from simcg.optimize.gain import MOST_MARGIN
from simcg.optimize.study import FEW_STEPS, HOSTS_DIFFER, NEGLIGIBLE, WORTHWHILE, Study, study
from simcg.report.machine import study_json
from simcg.report.words import (
    fewest_withheld,
    flags_to_paste,
    interval,
    ladder_title,
    proof,
    regime,
    rests_on,
    traffic_line,
    verdict,
)
from tests.studies import MIXED, drawn, on, scenario_of, steps_of, with_host_costs


@cache
def with_host(factor: float, engine: str = "sglang", timed: bool = False) -> Study:
    """The study where everything takes the host so many times longer.

    The GPU waits between kernels as in a graph however they are issued, so the host alone decides.
    """
    scenario = scenario_of(drawn() if timed else steps_of(MIXED), engine=engine)
    profile = with_host_costs("h200", factor)
    node = profile.gaps.node
    gaps = Gaps(node, node, msgspec.structs.replace(node, value=0.0), node)
    return study(on(msgspec.structs.replace(profile, gaps=gaps), scenario))


timed = pytest.mark.parametrize("timed", [False, True])
engines = pytest.mark.parametrize("engine", ["sglang", "vllm"])


@timed
@engines
def test_launch_bound(engine: str, timed: bool) -> None:
    """A host 100 times slower: launch-bound, padding nearly free, few graphs do as well."""
    result = with_host(100, engine, timed)
    assert regime(result).startswith("launch-bound: ")
    assert "padding is nearly free" in regime(result)
    answer, default = result.answer.score.ladder, result.default.ladder
    free = len(answer) - len(result.posed.problem.required)  # vLLM keeps its decode sizes
    assert 0 <= free < len(default) / 2
    assert answer.buckets
    assert result.gain.share > -2 * NEGLIGIBLE
    assert verdict(result)[0].startswith(("keep the default", "use this ladder"))
    if engine == "sglang":  # vLLM's code without graphs is compiled: as few dispatches
        assert result.no_graphs.mean_step_ns > 1.5 * result.answer.score.mean_step_ns


@timed
@engines
def test_compute_bound(engine: str, timed: bool) -> None:
    """A host that costs next to nothing: compute-bound, and eager loses nothing."""
    result = with_host(0.001, engine, timed)
    assert regime(result).startswith("compute-bound: ")
    assert "padding costs time" in regime(result)
    assert result.no_loss is not None
    assert result.no_loss.score.ladder.sizes == result.posed.problem.required
    assert result.no_graphs.mean_step_ns <= result.default.mean_step_ns


def test_fewer_graphs_are_said_to_do_as_well() -> None:
    """A certain gain too small for a change is worth it for fewer graphs, and not for none."""
    result = with_host(100)
    small = replace(result.gain, share=0.002, low=0.001, high=0.003)
    fewer, usual = len(result.answer.score.ladder), len(result.default.ladder)
    assert 0 < fewer < usual
    changed = replace(result, gain=small)
    assert changed.decision == "fewer_graphs"
    said = f"use this ladder: {fewer} graphs instead of {usual} do as well"
    assert changed.verdict.startswith(said)
    none = replace(result.answer, score=result.no_graphs)
    assert replace(result, gain=small, answer=none).decision == "keep_default"
    loses = replace(result.gain, share=-0.004, low=-0.006, high=-0.001)
    assert replace(result, gain=loses).decision == "keep_default"
    hardly = replace(loses, share=-0.0005, low=-0.001, high=-0.0001)
    assert replace(result, gain=hardly).decision == "fewer_graphs"


def test_slower_hosts_want_graphs() -> None:
    """The slower the host, the fewer steps run eager in the best ladder."""
    shares = [with_host(f).answer.score.eager_share for f in (0.001, 1, 10, 100)]
    assert shares == sorted(shares, reverse=True)


@timed
def test_verdict_follows_the_interval(timed: bool) -> None:
    """The first sentence recommends, keeps or abstains as the interval says, and is the study's
    own ``verdict``.
    """
    for factor in (0.001, 1, 100):
        result = with_host(factor, timed=timed)
        first = verdict(result)[0]
        assert first == result.verdict
        assert interval(result.gain) in first
        if result.gain.low > 0 and result.gain.share >= WORTHWHILE:
            expected = ("use this ladder: mean step", "capture no prefill graphs")
            assert result.decision in ("use_ladder", "no_graphs")
        elif result.gain.low > 0 or result.gain.high < 0:
            expected = ("keep the default", "use this ladder: ")
            assert "mean step" not in first
        else:
            expected = ("keep the default", "keep the default")
            assert "gain of" in first
            assert "is not certain" in first
        assert first.startswith(expected)
        assert first.startswith("keep the default") == (result.decision == "keep_default")


def counting_on(margin: float, certain: bool = True) -> Study:
    """A study whose answer and fewest both run more steps eager, good up to that margin."""
    result = with_host(0.001)
    assert result.answer.score.eager_share > result.default.eager_share + 0.01
    assert result.no_loss is not None
    assert len(result.no_loss.score.ladder) < len(result.default.ladder)
    gain = replace(result.gain, share=0.1, low=0.05 if certain else -0.05, high=0.2)
    return replace(result, gain=gain, eager_host_margin=margin, no_loss_margin=margin)


@pytest.mark.parametrize("certain", [True, False])
@pytest.mark.parametrize("margin", [1.0, 1.4, HOSTS_DIFFER - 0.01])
def test_what_needs_a_fast_host_is_not_there_to_paste(margin: float, certain: bool) -> None:
    """Where fewer graphs lose on a host as much slower as hosts differ, there are no flags for
    them; the condition stands where they would, and a change that needs it says so at once.
    """
    result = counting_on(margin, certain)
    said, value = verdict(result), study_json(result)
    only = f"only on a host at most {margin:.1f} times slower than the profile's"
    assert result.fewest is None
    assert value["flags_fewest"] is None
    assert value["flags_fewest_withheld"] == fewest_withheld(result) == said[-1]
    assert only in said[-1]
    assert "measure first" in said[-1]
    assert flags_to_paste(result) == [(ladder_title(result), result.flags)]
    assert (only in said[0]) == certain


@pytest.mark.parametrize("margin", [HOSTS_DIFFER, 5.0, 99.0])
def test_flags_for_fewer_graphs_carry_their_condition(margin: float) -> None:
    """With more room than hosts differ by, the flags are there, and their title and the sentence
    say how slow the host may be; with room without end there is no condition.
    """
    result, free = counting_on(margin), counting_on(MOST_MARGIN)
    host = f"with a host at most {margin:.1f} times slower than the profile's"
    assert result.fewest == free.fewest == result.no_loss is not None
    assert fewest_withheld(result) is None
    assert host in verdict(result)[-1]
    assert f"{margin:.1f} times slower the estimate is still a gain" in verdict(result)[1]
    for study_, there in ((result, True), (free, False)):
        fewest = [title for title, _ in flags_to_paste(study_) if "fewest" in title]
        assert [host in title for title in fewest] in ([], [there])
        assert ("host at most" in verdict(study_)[-1]) == there


def test_graphs_that_replay_as_before_need_no_host() -> None:
    """Where hardly more steps run eager than by default, a margin is no condition."""
    result = with_host(100)
    assert result.answer.score.eager_share <= result.default.eager_share
    gain = replace(result.gain, share=0.1, low=0.05, high=0.2)
    bare = replace(result, gain=gain, eager_host_margin=1.0, no_loss_margin=1.0)
    assert bare.slowdown is None
    assert bare.no_loss_slowdown is None
    assert bare.fewest is not None
    assert not any("slower" in line for line in verdict(bare))


def test_keeping_and_saving_are_one_sentence() -> None:
    """Where the default stays and fewer graphs lose nothing, the first sentence says both, and
    the flags begin with theirs.
    """
    result = with_host(100)
    unsure = replace(result, gain=replace(result.gain, share=0.002, low=-0.01, high=0.01))
    fewest = unsure.fewest
    assert fewest is not None
    graphs, usual = len(fewest.score.ladder), len(unsure.default.ladder)
    said = f"keep the default, or fewer graphs that lose nothing, {graphs} instead of {usual} ("
    assert unsure.verdict.startswith(said)
    assert len(verdict(unsure)) == 1
    first, *rest = flags_to_paste(unsure)
    assert first == (f"the fewest graphs that lose nothing, {graphs}", unsure.flags_of(fewest))
    assert fewest.score.ladder == unsure.ladder
    assert not rest
    ladder = Ladder(unsure.default.ladder.buckets[1:])
    another = replace(result.answer, score=replace(unsure.default, ladder=ladder))
    other = replace(unsure, answer=another)
    assert flags_to_paste(other) == [
        first, ("the ladder that was not certain to be better", other.flags)
    ]  # fmt: skip
    sure = replace(other, gain=replace(result.gain, share=0.1, low=0.05, high=0.2))
    assert flags_to_paste(sure) == [("this ladder", sure.flags), first]


def test_the_default_itself_is_called_so() -> None:
    """Where the proved ladder is the engine's own, that is the reason to keep it."""
    result = with_host(1)
    same = replace(result.answer, score=result.default)
    none = replace(result.gain, share=0.0, low=0.0, high=0.0)
    kept = replace(result, answer=same, gain=none, no_loss=same)
    assert kept.verdict == "keep the default: the proved ladder is the same one"
    assert flags_to_paste(kept) == [("the default ladder", kept.flags)]
    assert fewest_withheld(kept) == "no fewer graphs cost as little as the default's"


def test_few_steps_recommend_nothing() -> None:
    """Neither a ladder nor fewer graphs, however good they look."""
    steps = steps_of({64: FEW_STEPS - 51, 300: 50})
    result = study(scenario_of(steps))
    assert result.no_loss is not None
    assert result.decision == "keep_default"
    assert result.verdict.startswith("keep the default: 99 steps are too few")
    sure = replace(result, gain=replace(result.gain, share=0.1, low=0.05, high=0.2))
    assert (sure.decision, sure.fewest) == ("keep_default", None)
    assert result.fewest is None
    assert fewest_withheld(result) == "99 steps are too few to judge by"
    assert study(scenario_of(steps_of({64: FEW_STEPS - 50, 300: 50}))).has_enough_steps


def test_a_start_up_limit_holds_for_fewer_graphs() -> None:
    """Fewer graphs whose start-up is above the limit are not there to paste."""
    result = with_host(100)
    fewest = result.fewest
    assert fewest is not None
    needs = fewest.score.startup.ns
    for limit, kept in ((needs, True), (needs - 1, False)):
        limits = replace(result.scenario.limits, startup_ns=limit)
        limited = replace(result, scenario=replace(result.scenario, limits=limits))
        assert (limited.fewest == fewest) == kept
        assert (fewest_withheld(limited) is None) == kept
    assert "--max-startup" in str(fewest_withheld(limited))


@timed
def test_eager_steps_carry_a_warning(timed: bool) -> None:
    """A recommended answer that runs more steps eager says how much slower the host may be; one
    that is not recommended counts on nothing.
    """
    result = with_host(0.001, timed=timed)
    assert result.answer.score.eager_share > result.default.eager_share + 0.01
    assert 1 <= result.eager_host_margin <= MOST_MARGIN
    assert result.slowdown == result.eager_host_margin
    said = [line for line in verdict(result) if "counts on eager steps" in line]
    assert bool(said) == (result.decision != "keep_default" and result.slowdown >= HOSTS_DIFFER)
    sure = replace(result, gain=replace(result.gain, share=0.1, low=0.05, high=0.2))
    assert f"{sure.eager_host_margin:.1f} times" in "".join(verdict(sure)[:2])


def test_sentences_name_what_they_rest_on() -> None:
    """Proof, traffic and notes name steps, provenance, hold-out and rounds of the study."""
    plain, trace = with_host(1), with_host(1, timed=True)
    for result in (plain, trace):
        steps = f"{result.traffic.counted.total:,}"
        costs = f"this cost table ({result.table.provenance})"
        assert f"for these {steps} prefill steps and {costs}" in proof(result)
        assert "certificate checked" in proof(result)
        assert f"{steps} prefill steps" in traffic_line(result)
        assert f"in {result.rounds} rounds: settled" in rests_on(result)[-1]
    assert "no times" not in traffic_line(plain)  # steps, not requests
    assert "busy at rate 1" in traffic_line(trace)
    assert not any("hold-out" in line for line in rests_on(plain))
    assert any("hold-out" in line for line in rests_on(trace))


def test_overload_is_said() -> None:
    """A rate beyond what the server can do is called out in the line about the traffic."""
    result = study(scenario_of(drawn(), rate=1000.0))
    assert "MORE THAN IT CAN SERVE" in traffic_line(result)
