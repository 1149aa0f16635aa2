"""What jitter, other ranks and launch queues cost a step."""

from __future__ import annotations

import pytest

from simcg.backend import BACKENDS, CaptureBackend
from simcg.cost.step import StepCost
from simcg.des.machine.questions import jitter_cost, queue_costs
from simcg.des.machine.step import simulate_step
from simcg.errors import InputError
from simcg.hardware.catalog import load_profile
from simcg.model.catalog import architecture_named
from simcg.model.forward import forward_pass
from tests.costs import one_request

WORK = one_request([64])


def step(backend: CaptureBackend, tp: int) -> StepCost:
    forward = forward_pass(architecture_named("gpt-oss-20b"), tp=tp)
    return StepCost(forward, load_profile("gb300"), backend)


@pytest.mark.parametrize("backend", BACKENDS.values(), ids=lambda b: b.name)
def test_waiting_for_the_latest_rank_has_a_price(backend: CaptureBackend) -> None:
    """Of the same luck: no ranks wait alone, none without jitter, and waiting never gains time; a
    whole graph may hide all of its host's jitter."""
    alone = jitter_cost(step(backend, 1), WORK, 0.3, runs=3)
    assert (alone.ranks, alone.waiting_ns, alone.peers_share) == (1, 0, 0)
    quiet = jitter_cost(step(backend, 2), WORK, 0.0, runs=2)
    assert (quiet.slowdown, quiet.error_ns, quiet.peers_share) == (0, 0, 0)
    two, four = (jitter_cost(step(backend, tp), WORK, 0.3, runs=3) for tp in (2, 4))
    assert two.waiting_ns > 0 or (backend.name == "full" and two.waiting_ns == 0)
    assert two.peers_share > 0 or backend.name == "full"
    assert four.ranks == 4


def test_a_graph_hides_the_jitter_of_its_host() -> None:
    """One launch a step: 2 ranks lose less than 0.1 %, where breaks lose over 1 %."""
    lost = {
        name: jitter_cost(step(BACKENDS[name], 2), WORK, 0.3, runs=10)
        for name in ("full", "breakable")
    }
    assert lost["full"].slowdown < 0.001
    assert lost["breakable"].slowdown > 0.01


@pytest.mark.parametrize("backend", BACKENDS.values(), ids=lambda b: b.name)
def test_a_deeper_queue_never_costs_more(backend: CaptureBackend) -> None:
    """The step time falls with the depth to that of a queue without end."""
    found = queue_costs(step(backend, 1), WORK, [1, 2, 4, 16, 1024, None])
    assert list(found.values()) == sorted(found.values(), reverse=True)
    assert found[None] == simulate_step(step(backend, 1), WORK, queue=None).end_ns


def test_a_question_about_several_steps_is_refused() -> None:
    """Each question is about one step, and a mean needs two runs."""
    several, cost = one_request([1, 2]), step(BACKENDS["full"], 1)
    for ask in (
        lambda: simulate_step(cost, several),
        lambda: jitter_cost(cost, several, 0.1),
        lambda: queue_costs(cost, several, [1]),
    ):
        with pytest.raises(InputError, match="got 2, expected one entry"):
            ask()
    with pytest.raises(InputError, match="runs: got 1"):
        jitter_cost(cost, WORK, 0.1, runs=1)
