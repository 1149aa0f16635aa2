"""What the study says of hosts and GPUs whose regime is known beforehand."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import msgspec
import pytest

from simcg.hardware.profile import Gaps
from simcg.optimize.gain import MOST_MARGIN
from simcg.optimize.study import NEGLIGIBLE, Study, study
from simcg.report.words import (
    WORTHWHILE,
    interval,
    proof,
    recommendation,
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
    decided, said = recommendation(replace(result, gain=small))
    assert decided == "fewer_graphs"
    assert said == f"use this ladder: {fewer} graphs instead of {usual} do as well"
    none = replace(result.answer, score=result.no_graphs)
    assert recommendation(replace(result, gain=small, answer=none))[0] == "keep_default"


def test_slower_hosts_want_graphs() -> None:
    """The slower the host, the fewer steps run eager in the best ladder."""
    shares = [with_host(f).answer.score.eager_share for f in (0.001, 1, 10, 100)]
    assert shares == sorted(shares, reverse=True)


@timed
def test_verdict_follows_the_interval(timed: bool) -> None:
    """The first sentence recommends, keeps or abstains as the interval says."""
    for factor in (0.001, 1, 100):
        result = with_host(factor, timed=timed)
        first = verdict(result)[0]
        assert interval(result.gain) in first
        if result.gain.low > 0 and result.gain.share >= WORTHWHILE:
            expected = ("use this ladder: mean step", "capture no prefill graphs")
        elif result.gain.low > 0 or result.gain.high < 0:
            expected = ("keep the default: ", "use this ladder: ")
            assert "mean step" not in first
        else:
            expected = ("keep the default: the gain of", "keep the default: the gain of")
        assert first.startswith(expected)


@timed
def test_eager_steps_carry_a_warning(timed: bool) -> None:
    """A recommended answer that runs more steps eager says how much slower the host may be; one
    that is not recommended counts on nothing.
    """
    result = with_host(0.001, timed=timed)
    assert result.answer.score.eager_share > result.default.eager_share + 0.01
    assert 1 <= result.eager_host_margin <= MOST_MARGIN
    said = [line for line in verdict(result) if "counts on eager steps" in line]
    if recommendation(result)[0] == "keep_default":
        assert not said
    else:
        assert f"{result.eager_host_margin:.1f} times" in said[0]
    sure = replace(result, gain=replace(result.gain, share=0.1, low=0.05, high=0.2))
    assert f"{sure.eager_host_margin:.1f} times" in verdict(sure)[1]


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
