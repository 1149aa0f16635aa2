"""A server as an engine would set it up: its policy, its decode ladder, its KV capacity."""

from __future__ import annotations

from dataclasses import dataclass

from simcg.cost.table import ReplayModel
from simcg.des.serving.clock import Captured
from simcg.des.serving.config import ServerConfig
from simcg.des.serving.memory import KvBudget, kv_budget
from simcg.des.serving.policy import policy_named
from simcg.engines import Engine
from simcg.engines.engine import Deployment
from simcg.engines.sizes import sglang_decode_sizes
from simcg.ladder import Ladder
from simcg.model.architecture import Architecture
from simcg.model.forward import forward_pass
from simcg.optimize.score import largest_eager

MAX_RUNNING = 256
"""Requests that decode together where nobody says: vLLM's default on most GPUs."""


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
    running = wanted.max_running or MAX_RUNNING
    name = wanted.policy or ("mixed" if engine.name == "vllm" else "prefill-first")
    decode = wanted.decode_ladder
    if decode is None:
        decode = Ladder.of(default_decode_sizes(engine, chunk, running, deployment))
    captured = Captured(wanted.ladder, engine.admission, decode)
    forward = forward_pass(wanted.arch, tp=wanted.tp, phase="decode")
    budget = kv_budget(
        model,
        wanted.arch,
        captured,
        tp=wanted.tp,
        chunk=chunk,
        largest_eager=largest_eager(wanted.ladder, engine.admission, chunk),
        max_running=running,
        decode_forward=forward,
        memory_fraction=wanted.memory_fraction,
    )
    fits = budget.tokens()
    config = ServerConfig(
        model=model,
        ladder=wanted.ladder,
        rule=engine.admission,
        decode_ladder=decode,
        chunk=chunk,
        max_running=running,
        kv_tokens=wanted.kv_tokens or fits,
        policy=policy_named(name, wanted.ladder.sizes),
        max_requests=wanted.max_requests,
        step_overhead_ns=wanted.step_overhead_ns,
        decode_forward=forward,
    )
    return config, budget


def default_decode_sizes(
    engine: Engine, chunk: int, max_running: int, deployment: Deployment
) -> tuple[int, ...]:
    """Requests of the decode graphs: vLLM's one list, or SGLang's own for decode.

    SGLang's goes up to ``max_running``: its real top depends on the GPU and is taken so.
    """
    shared = engine.decode_sizes(chunk, deployment)
    return shared or sglang_decode_sizes(max_running)
