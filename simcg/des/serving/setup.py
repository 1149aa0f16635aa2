"""A server as an engine would set it up: its policy, its decode ladder, its KV capacity."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from simcg.cost.table import ReplayModel
from simcg.des.serving.clock import Captured
from simcg.des.serving.config import ServerConfig
from simcg.des.serving.defaults import default_decode_sizes, default_running
from simcg.des.serving.memory import KvBudget, kv_budget
from simcg.des.serving.policy import policy_named
from simcg.engines import Engine
from simcg.engines.engine import Deployment
from simcg.ladder import Ladder
from simcg.model.architecture import Architecture
from simcg.model.forward import forward_pass
from simcg.optimize.score import largest_eager


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a user may say about a server; None: as the engine does it.

    ``arch``: with the weights' dtype. ``kv_tokens``: capacity, instead of what memory leaves.
    """

    arch: Architecture
    tp: int
    ladder: Ladder
    decode_ladder: Ladder | None = None
    policy: str | None = None
    max_running: int | None = None
    max_requests: int | None = None
    memory_fraction: float = 0.9
    kv_tokens: int | None = None
    step_overhead_ns: int = 0


def server_setup(
    engine: Engine, model: ReplayModel, chunk: int, deployment: Deployment, wanted: Wanted
) -> tuple[ServerConfig, KvBudget]:
    """The server, and where its memory goes; ``InputError`` where it does not fit."""
    name = wanted.policy or ("mixed" if engine.name == "vllm" else "prefill-first")
    policy, profile = policy_named(name, wanted.ladder.sizes), model.profile
    decode = wanted.decode_ladder
    if decode is None:
        sizes = default_decode_sizes(
            engine, profile, wanted.tp, chunk=chunk, max_running=wanted.max_running,
            deployment=deployment,
        )  # fmt: skip
        decode = Ladder.of(sizes)
    forward = forward_pass(wanted.arch, tp=wanted.tp, phase="decode")
    budget_of = partial(
        kv_budget,
        model,
        wanted.arch,
        Captured(wanted.ladder, engine.admission, decode),
        tp=wanted.tp,
        chunk=chunk,
        largest_eager=largest_eager(wanted.ladder, engine.admission, chunk),
        decode_forward=forward,
        memory_fraction=wanted.memory_fraction,
    )
    running = wanted.max_running
    if running is None:
        fewest = budget_of(max_running=1)
        running = default_running(
            engine, profile, wanted.arch, tp=wanted.tp, chunk=chunk, budget=fewest
        )
        running = min(running, chunk) if policy.mixes else running
    budget = budget_of(max_running=running)
    fits = budget.tokens()
    config = ServerConfig(
        model=model,
        ladder=wanted.ladder,
        rule=engine.admission,
        decode_ladder=decode,
        chunk=chunk,
        max_running=running,
        kv_tokens=wanted.kv_tokens or fits,
        policy=policy,
        max_requests=wanted.max_requests,
        step_overhead_ns=wanted.step_overhead_ns,
        decode_forward=forward,
    )
    return config, budget
