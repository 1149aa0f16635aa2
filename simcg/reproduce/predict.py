"""TTFT and TPOT of a measured deployment, from kernel tables and a simulated benchmark."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

import msgspec
import numpy as np

from simcg.engines.sizes import sglang_decode_sizes, tensorrt_llm_decode_sizes, vllm_sizes
from simcg.errors import Finding, InputError
from simcg.hardware.profile import Curve, HardwareProfile, decode_profile
from simcg.model.architecture import Architecture
from simcg.model.forward import forward_pass
from simcg.reproduce.closed_loop import ClosedLoop, Latencies
from simcg.reproduce.deployment import recipe_of, stored_architecture
from simcg.reproduce.lengths import drawn_lengths
from simcg.reproduce.point import Point
from simcg.reproduce.prices import Graphs, ServerPrices, Slowdown
from simcg.reproduce.recipe import Recipe
from simcg.reproduce.tables import StepTables

ACTIVATION_TOKENS = 2
"""Activations of a step's tokens count as so many copies of all its layer-wide buffers."""
ATTENTION = ("attention", "decode_attention", "latent_attention", "latent_decode")


@dataclass(frozen=True, slots=True)
class Prediction:
    """Means over all requests, in ms, as benchmark clients report them."""

    ttft_ms: float
    tpot_ms: float


@dataclass(frozen=True, slots=True)
class Overheads:
    """What a server adds to the kernels: ``slowdown`` of its steps, ``request_ns`` to each TTFT.

    ``token_ns``: more for each token of its prompt. ``think_ns``: from a request's last token to
    its client's next request.
    """

    slowdown: Slowdown
    request_ns: float = 0.0
    token_ns: float = 0.0
    think_ns: float = 0.0


@cache
def kernel_profile(system: str, framework: str, kv_bytes: int) -> HardwareProfile:
    """The kernel times of one framework on one system, attention over such a KV cache."""
    name = f"{system}-{framework}.json"
    whole = decode_profile((files("simcg.reproduce") / "data" / name).read_bytes(), name)
    small = {c.key: c for c in whole.curves if c.key.op in ATTENTION and c.key.weights == "fp8"}
    curves: list[Curve] = []
    for curve in whole.curves:
        if curve in small.values():
            continue
        chosen = curve
        if kv_bytes == 1 and curve.key.op in ATTENTION:
            narrow = small.get(msgspec.structs.replace(curve.key, weights="fp8"))
            if narrow is not None:
                chosen = msgspec.structs.replace(narrow, key=curve.key)
        curves.append(chosen)
    return msgspec.structs.replace(whole, curves=tuple(curves))


def kv_tokens(arch: Architecture, profile: HardwareProfile, recipe: Recipe, tp: int) -> int:
    """Tokens that the KV cache holds; ``InputError`` says what is short."""
    memory = profile.gpu.memory_bytes.value
    weights = arch.weight_bytes(tp)
    activations = ACTIVATION_TOKENS * recipe.step_tokens * arch.hidden * 2
    usable = memory - weights - activations if recipe.of_free else memory
    room = usable * recipe.memory - (0 if recipe.of_free else weights + activations)
    per_token = arch.kv_bytes_per_token(tp) * recipe.kv_bytes / 2
    if room < per_token:
        short = Finding(f"{-room / 1e9:.1f} GB short")
        raise InputError(f"{arch.name} tp{tp}", "memory", short, "room for a KV cache")
    return int(room / per_token)


@cache
def tables_of(
    model: tuple[str, str], tp: int, system: str, framework: str, kv_bytes: int
) -> StepTables:
    """Kept, as many points share them. ``model``: as ``stored_architecture`` takes it."""
    arch = stored_architecture(*model)
    profile = kernel_profile(system, framework, kv_bytes)
    return StepTables(forward_pass(arch, tp=tp), forward_pass(arch, tp=tp, phase="decode"), profile)


def _graphs(point: Point, recipe: Recipe) -> Graphs:
    many = point.concurrency
    if point.framework == "vllm":
        sizes = vllm_sizes(max(recipe.step_tokens, many), max(many, 8))
        return Graphs(sizes, recipe.graph_top, "compiled")
    if point.framework == "sglang":
        return Graphs(sglang_decode_sizes(min(many, 512)), 0, "eager")
    return Graphs(tensorrt_llm_decode_sizes(many), 0, "eager")


def run_point(point: Point, overheads: Overheads, seed: int = 0) -> Latencies:
    """Simulate the point's benchmark. Raises ``InputError`` where the deployment cannot be."""
    recipe = recipe_of(point)
    model = (point.model, point.precision)
    tables = tables_of(model, point.tp, point.system, point.framework, recipe.kv_bytes)
    capacity = kv_tokens(stored_architecture(*model), tables.profile, recipe, point.tp)
    count = recipe.prompts * point.concurrency
    loop = ClosedLoop(
        ServerPrices(tables, _graphs(point, recipe), overheads.slowdown),
        replace(recipe, running=min(recipe.running, point.concurrency)),
        drawn_lengths(point.isl, recipe.shortest, count, seed),
        drawn_lengths(point.osl, recipe.shortest, count, seed + 1),
        np.zeros(point.concurrency, dtype=np.int64),
        capacity,
        round(overheads.think_ns),
    )
    return loop.run()


def predict(point: Point, overheads: Overheads, seed: int = 0) -> Prediction:
    """The point's figures; its own measured ones play no part."""
    out = run_point(point, overheads, seed)
    ttft = float(out.ttft_ns.mean()) + overheads.request_ns + overheads.token_ns * point.isl
    return Prediction(ttft / 1e6, float(out.tpot_ns.mean()) / 1e6)
