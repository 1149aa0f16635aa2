"""The main jobs as calls: which ladder for this traffic, and how a server fares under it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from simcg.ladder import Ladder
from simcg.optimize.scenario import Limits
from simcg.optimize.study import Study, study
from simcg.server import Server
from simcg.workload.requests import Requests
from simcg.workload.steps import Steps

if TYPE_CHECKING:
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
    return study((server or Server()).scenario(traffic, rate=rate, limits=limits))


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
    from simcg.des.serving.arrivals import Arrivals, Traced  # noqa: PLC0415 - imports simpy
    from simcg.des.serving.setup import Wanted, server_setup  # noqa: PLC0415
    from simcg.report.serving import ServingReport  # noqa: PLC0415

    server = server or Server()
    scenario = server.scenario(traffic)
    if ladder is None:
        ladder = scenario.default_ladder
    elif not isinstance(ladder, Ladder):
        ladder = Ladder.of(tuple(ladder), scenario.model.slots)
    wanted = Wanted(
        arch=server.arch,
        tp=server.tp,
        ladder=ladder,
        policy=policy,
        max_running=server.max_num_seqs,
        max_requests=server.max_requests,
        kv_tokens=kv_tokens,
    )
    config, budget = server_setup(
        scenario.engine, scenario.model, server.max_chunk, scenario.deployment, wanted
    )
    arrivals = Arrivals(traffic, process or Traced(), num_prompts, output_tokens)
    return ServingReport.of_run(config, budget, arrivals, seed=seed, log=log)
