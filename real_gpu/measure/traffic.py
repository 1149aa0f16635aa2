"""The steps of a trace that decide between ladders, and the ladders."""

from __future__ import annotations

from dataclasses import dataclass

from simcg.backend import BREAKABLE, EAGER
from simcg.batch import Batch
from simcg.cost.table import ReplayModel
from simcg.engines.registry import engine_named
from simcg.hardware.profile import HardwareProfile
from simcg.model.architecture import Architecture
from simcg.model.lean import lean_pass
from simcg.optimize.scenario import Scenario
from simcg.optimize.study import scheduled
from simcg.runs.contenders import RIVALS, contenders
from simcg.runs.sample import stratified
from simcg.runs.schema import LadderLine
from simcg.workload.batches import even_batch, step_batches
from simcg.workload.builtin import builtin_workload, workload_names
from simcg.workload.read import read_traffic
from simcg.workload.requests import Requests
from simcg.workload.steps import Steps

DRAWN_REQUESTS = 5_000
"""Requests drawn from a built-in workload."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """Sampled steps by their index in the trace, and the ladders that were chosen for all steps."""

    batches: list[tuple[int, Batch]]
    ladders: list[LadderLine]


def sampled_steps(
    traffic: Requests | Steps,
    arch: Architecture,
    profile: HardwareProfile,
    names: tuple[str, ...],
    max_chunk: int,
    count: int,
    seed: int,
) -> Sampled:
    """``count`` steps that an SGLang server with its default ladder runs; ladders chosen for all.

    A histogram's steps are requests of equal length.
    """
    model = ReplayModel(lean_pass(arch), profile, BREAKABLE, EAGER)
    scenario = Scenario(engine_named("sglang"), model, traffic, max_chunk)
    steps = scheduled(scenario, scenario.default_ladder)
    which = stratified(steps.timed, count, seed)
    if isinstance(traffic, Requests):
        batches = step_batches(traffic, steps.timed, which)
    else:
        timed = steps.timed
        rows = zip(timed.tokens[which], timed.requests[which], timed.context[which], strict=True)
        batches = [even_batch(int(n), int(m), int(c)) for n, m, c in rows]
    ladders = contenders(scenario, steps, names or RIVALS)
    return Sampled(list(zip(which.tolist(), batches, strict=True)), ladders)


def load_traffic(trace: str, max_context: int) -> Requests | Steps:
    """Of a file or a built-in workload; raises ``InputError``."""
    if trace in workload_names():
        return builtin_workload(trace, DRAWN_REQUESTS)
    return read_traffic(trace, max_context=max_context)
