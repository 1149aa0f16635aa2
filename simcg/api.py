"""The main jobs as calls: which ladder for this traffic, how a server fares under it, its steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from simcg.arguments import check_arguments
from simcg.cost.kernels import Work
from simcg.cost.step import StepTimes
from simcg.errors import require
from simcg.ladder import Ladder
from simcg.optimize.scenario import LARGEST_CHUNK, Limits
from simcg.optimize.score import LadderScore
from simcg.optimize.side_by_side import side_by_side
from simcg.optimize.study import Study, study
from simcg.server import Server
from simcg.workload.requests import Requests
from simcg.workload.steps import Steps

if TYPE_CHECKING:
    from simcg.des.machine.run import StepRun
    from simcg.des.serving.arrivals import Process
    from simcg.des.serving.server import LoggedStep
    from simcg.report.serving import ServingReport


def choose_ladder(
    traffic: Requests | Steps,
    server: Server | None = None,
    *,
    rate: float = 1.0,
    limits: Limits | None = None,
) -> Study:
    """The proved ladder for ``traffic`` on ``server``, and what it is worth.

    ``rate``: arrivals so many times faster.  Raises ``InputError`` for what does not go together.
    """
    _check_question("choose_ladder", traffic, server, rate)
    check_arguments("choose_ladder", limits=(limits, Limits | None))
    return study((server or Server()).scenario(traffic, rate=rate, limits=limits))


def compare(
    traffic: Requests | Steps,
    server: Server | None = None,
    *,
    ladders: Mapping[str, Ladder | Iterable[int]],
    rate: float = 1.0,
) -> dict[str, LadderScore]:
    """What these ladders do to ``traffic`` on ``server``, beside the engine's ``default``.

    ``rate``: arrivals so many times faster.  Raises ``InputError`` for what does not go together.
    """
    _check_question("compare", traffic, server, rate)
    check_arguments("compare", ladders=(ladders, Mapping))
    scenario = (server or Server()).scenario(traffic, rate=rate)
    slots = scenario.model.slots
    given = {name: _ladder("compare", one, slots) for name, one in ladders.items()}
    return side_by_side(scenario, given)


def step_times(
    lengths: Iterable[int], server: Server | None = None, *, backend: str | None = None
) -> StepTimes:
    """How long a prompt of each length takes, alone, under a backend (None: the server's)."""
    _check_step("step_times", server, backend)
    return (server or Server()).step_cost(backend).times(_prompts("step_times", lengths))


def run_step(
    tokens: int,
    server: Server | None = None,
    *,
    backend: str | None = None,
    layers: int | None = None,
) -> StepRun:
    """A prompt of so many tokens on the simulated machine, event by event, with all its spans.

    ``backend``: None for the server's.  ``layers``: the first of them alone, without what comes
    after the last; None for the whole forward.
    """
    from simcg.des.machine.step import simulate_step  # noqa: PLC0415 - imports simpy

    _check_step("run_step", server, backend)
    check_arguments("run_step", tokens=(tokens, int), layers=(layers, int | None))
    cost = (server or Server()).step_cost(backend)
    if layers is not None:
        has = len(cost.forward.layers)
        require(1 <= layers <= has, "run_step", "layers", layers, f"1 to {has}")
        first = replace(cost.forward, layers=cost.forward.layers[:layers], tail=())
        cost = replace(cost, forward=first)
    return simulate_step(cost, _prompts("run_step", [tokens]), trace=True)


def simulate(  # noqa: PLR0913 - keyword-only beyond two
    traffic: Requests,
    server: Server | None = None,
    *,
    process: Process | None = None,
    ladder: Ladder | Iterable[int] | None = None,
    policy: str | None = None,
    kv_tokens: int | None = None,
    num_prompts: int | None = None,
    output_tokens: int | None = None,
    seed: int = 0,
    log: list[LoggedStep] | None = None,
) -> ServingReport:
    """How ``server`` serves ``traffic``: latencies, load, steps and memory.

    ``process``: how requests arrive, None for the trace's times.  ``ladder``: of prefill graphs,
    ``policy``: how steps are filled, None for the engine's.  ``kv_tokens``: capacity of the cache,
    None for what memory leaves.  ``num_prompts``, ``output_tokens``: None for the traffic's.
    ``log`` is filled with the steps.  Raises ``InputError`` for what does not fit.
    """
    from simcg.des.serving.arrivals import Arrivals, Process, Traced  # noqa: PLC0415 - imports simpy
    from simcg.des.serving.setup import server_setup  # noqa: PLC0415
    from simcg.report.serving import ServingReport  # noqa: PLC0415

    check_arguments(
        "simulate", traffic=(traffic, Requests), server=(server, Server | None),
        process=(process, Process | None), policy=(policy, str | None),
        kv_tokens=(kv_tokens, int | None), num_prompts=(num_prompts, int | None),
        output_tokens=(output_tokens, int | None), seed=(seed, int), log=(log, list | None),
    )  # fmt: skip
    server = server or Server()
    scenario = server.scenario(traffic)
    chosen = scenario.default_ladder if ladder is None else ladder
    wanted = server.wanted(_ladder("simulate", chosen, scenario.model.slots))
    wanted = replace(wanted, policy=policy, kv_tokens=kv_tokens)
    config, budget = server_setup(
        scenario.engine, scenario.model, server.max_chunk, scenario.deployment, wanted
    )
    arrivals = Arrivals(traffic, process or Traced(), num_prompts, output_tokens)
    return ServingReport.of_run(config, budget, arrivals, seed=seed, log=log)


def _check_question(caller: str, traffic: object, server: object, rate: object) -> None:
    check_arguments(
        caller, traffic=(traffic, Requests | Steps), server=(server, Server | None),
        rate=(rate, float),
    )  # fmt: skip


def _check_step(caller: str, server: object, backend: object) -> None:
    check_arguments(caller, server=(server, Server | None), backend=(backend, str | None))


def _ladder(caller: str, sizes: Ladder | Iterable[int], slots: int | None) -> Ladder:
    given = tuple(sizes) if isinstance(sizes, Iterable) else sizes
    check_arguments(caller, ladder=(given, Ladder | tuple[int, ...]))
    return given if isinstance(given, Ladder) else Ladder.of(given, slots)


def _prompts(caller: str, lengths: Iterable[int]) -> Work:
    asked = tuple(lengths) if isinstance(lengths, Iterable) else lengths
    check_arguments(caller, lengths=(asked, tuple[int, ...]))
    given = np.array(asked, dtype=np.int64)
    shortest = int(given.min(initial=LARGEST_CHUNK))
    longest = int(given.max(initial=0))
    inside = shortest >= 1 and 1 <= longest <= LARGEST_CHUNK
    found = (shortest, longest)
    require(inside, "steps", "tokens", found, f"at least one, all from 1 to {LARGEST_CHUNK}")
    return Work.of_prompts(given)
