"""Which simulation stands beside each published value, and why some values have none."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from simcg.backend import BREAKABLE, EAGER, FULL, TC_PIECEWISE, backend_named
from simcg.des.memory.after_prefill import AfterPrefill, after_prefill
from simcg.ladder import AdmissionRule, Ladder, dispatch
from simcg.model.activations import live_row_bytes
from simcg.reproduce.simulator import TTFT_LENGTHS, Deployment, Simulator, forward_of, shapes

Simulation = Callable[[Simulator], float]

GPT_OSS = Deployment("gpt-oss-120b", 4)
GPT_OSS_TP2 = Deployment("gpt-oss-120b", 2)
QWEN3 = Deployment("qwen3-235b-a22b", 4)
GB = 1 << 30
"""The post's gigabytes are binary: from ceiling to ceiling its memory grows by one bf16 row of
hidden states a token, .016 for 3,072 tokens of 2,880 channels, which decimal ones would print .018.
"""
CHUNK = 8192

FITTED = ("R1", "R2", "R3", "C1", "C2-compile", "C2-capture", "M1")
"""The only values that parameters are solved for."""
INPUTS = ("H1-GB200", "H1-GH200", "H1-H100")
"""Values that bound parameters: neither fitted nor predicted."""


def cases() -> dict[str, Simulation]:
    """The simulation of each published value that has one, by its id."""
    return {**_ttft(), **_startup(), **_memory(), **_ladders()}


def _ttft() -> dict[str, Simulation]:
    """R: ratios of mean TTFTs; T: the draft chart's TTFTs themselves."""
    out: dict[str, Simulation] = {
        "R1": lambda s: s.speedup(GPT_OSS, FULL, EAGER),
        "R2": lambda s: s.speedup(GPT_OSS, BREAKABLE, EAGER),
        "R3": lambda s: s.speedup(GPT_OSS, TC_PIECEWISE, EAGER),
        "R5": lambda s: 100 * (s.speedup(GPT_OSS, BREAKABLE, TC_PIECEWISE) - 1),
    }
    for tokens in TTFT_LENGTHS:
        for name in ("eager", "tc_piecewise", "breakable", "full"):
            out[f"T{tokens}-{name}"] = _draft(tokens, name)
    return out


def _draft(tokens: int, name: str) -> Simulation:
    return lambda s: s.ttft_ms(GPT_OSS, backend_named(name), (tokens,))[0]


def _startup() -> dict[str, Simulation]:
    return {
        "C1": lambda s: s.capture(QWEN3, BREAKABLE, shapes()).capture_s,
        "C2-compile": lambda s: s.capture(QWEN3, TC_PIECEWISE, shapes()).compile_s,
        "C2-capture": lambda s: s.capture(QWEN3, TC_PIECEWISE, shapes()).capture_s,
        "C5-Qwen3": lambda s: 100 * s.capture(QWEN3, TC_PIECEWISE, shapes()).compile_share,
    }


def _memory() -> dict[str, Simulation]:
    out: dict[str, Simulation] = {}
    for ceiling in (0, 1024, 2048, 4096, 8192):
        out[f"M2-{ceiling or 'none'}"] = _after_prefill(GPT_OSS_TP2, ceiling)
    return {**out, **_peaks("M4", "M6-gptoss", GPT_OSS_TP2)}


def _peaks(group: str, saving: str, deployment: Deployment) -> dict[str, Simulation]:
    """Eager activations without graphs and with graphs up to the chunk, and what that saves.

    The buckets return hidden states: the logits of one request are computed outside the graphs.
    """

    def at(ceiling: int) -> AfterPrefill:
        return after_prefill(forward_of(deployment), CHUNK, ceiling)

    def logits() -> int:
        return max(live_row_bytes(forward_of(deployment), "requests"))

    return {
        f"{group}-before": lambda _: at(0).eager / GB,
        f"{group}-after": lambda _: (at(CHUNK).eager + logits()) / GB,
        saving: lambda _: (at(0).total - at(CHUNK).total) / GB,
    }


def _after_prefill(deployment: Deployment, ceiling: int) -> Simulation:
    return lambda _: after_prefill(forward_of(deployment), CHUNK, ceiling).total / GB


def _ladders() -> dict[str, Simulation]:
    return {"K5": lambda _: _bucket_of(3208, (2816, 3072, 8192))}


def _bucket_of(tokens: int, sizes: tuple[int, ...]) -> float:
    """The bucket that a step of so many tokens replays in, without a guard."""
    ladder = Ladder.of(sizes)
    chosen = dispatch(ladder, AdmissionRule(), np.array([tokens]), np.array([1]))
    return float(ladder.sizes[int(chosen[0])])


NOT_SIMULATED: dict[str, str] = {
    "D": "sampling steps are not stated, and no architecture of an image model is built in",
    "K3": "the hardware is not stated, and time and memory of a graph depend on host and driver",
    "K4": "the list of captured sizes is not stated, only its top; int4 weights, compiled pieces",
}
"""Why a value, or all values that begin so, have no simulation."""

CAUSES: dict[str, str] = {}
"""Why a value is missed by more than the median target."""
