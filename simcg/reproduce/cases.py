"""Which simulation stands beside each published value, and why some values have none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np

from simcg.backend import BREAKABLE, EAGER, FULL, TC_PIECEWISE, backend_named
from simcg.des.memory.after_prefill import AfterPrefill, after_prefill
from simcg.engines.sizes import tensorrt_llm_decode_sizes
from simcg.ladder import AdmissionRule, Ladder, dispatch
from simcg.model.activations import live_row_bytes
from simcg.reproduce.simulator import TTFT_LENGTHS, Deployment, Simulator, forward_of, shapes
from simcg.reproduce.tensorrt_llm import SUMMED_ROWS

Simulation = Callable[[Simulator], float]

GPT_OSS = Deployment("gpt-oss-120b", 4)
GPT_OSS_TP2 = Deployment("gpt-oss-120b", 2)
QWEN3 = Deployment("qwen3-235b-a22b", 4)
GLM = Deployment("glm-5.2", 4, dtype="fp8_block")
"""In bf16 its 753 billion parameters do not fit four GPUs; the memory rows say FP8."""
GLM_SHORT = replace(GLM, phase="short_prefill")
"""No prompt of the published speedups, and no captured shape, has more than 2,048 keys."""
R1_DECODE = Deployment("deepseek-r1", 4, "gb200", "nvfp4", "decode", "norms")
V32_DECODE = replace(R1_DECODE, model="deepseek-v3.2")
"""Stored in FP8 they would leave no room for a KV cache on four GPUs."""
R1_ON_H200 = Deployment("deepseek-r1", 8, "h200-vllm", phase="decode")
GB = 1 << 30
"""The post's gigabytes are binary: from ceiling to ceiling its memory grows by one bf16 row of
hidden states a token, .016 for 3,072 tokens of 2,880 channels, which decimal ones would print .018.
"""
MIB = 1 << 20
CHUNK = 8192
DOUBLING = (1, 2, 4, *range(8, 129, 8), 256, 512, 1024, 2048)
"""TensorRT-LLM's 23 decode sizes before it filled the gaps with steps of 64."""

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
        "R4": lambda s: s.speedup(GLM_SHORT, BREAKABLE, EAGER),
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
        "C3": lambda s: s.capture(GLM_SHORT, BREAKABLE, shapes()).capture_s,
        "C4-compile": lambda s: s.capture(GLM_SHORT, TC_PIECEWISE, shapes()).compile_s,
        "C4-capture": lambda s: s.capture(GLM_SHORT, TC_PIECEWISE, shapes()).capture_s,
        "C5-Qwen3": lambda s: 100 * s.capture(QWEN3, TC_PIECEWISE, shapes()).compile_share,
        "C5-GLM": lambda s: 100 * s.capture(GLM_SHORT, TC_PIECEWISE, shapes()).compile_share,
    }


def _memory() -> dict[str, Simulation]:
    out: dict[str, Simulation] = {
        "M1": lambda s: s.ladder_bytes(GLM_SHORT, BREAKABLE, shapes()) / GB
    }
    for ceiling in (0, 1024, 2048, 4096, 8192):
        for group, deployment in (("M2", GPT_OSS_TP2), ("M3", GLM)):
            out[f"{group}-{ceiling or 'none'}"] = _after_prefill(deployment, ceiling)
    gpt_oss, glm = _peaks("M4", "M6-gptoss", GPT_OSS_TP2), _peaks("M5", "M6-glm", GLM)
    return {**out, **gpt_oss, **glm}


def _peaks(group: str, saving: str, deployment: Deployment) -> dict[str, Simulation]:
    """Eager activations without graphs and with graphs up to the chunk, and what that saves.

    The buckets return hidden states: the logits of one request are computed outside the graphs.
    """

    def at(ceiling: int) -> AfterPrefill:
        return _after(deployment, ceiling)

    @cache
    def logits() -> int:
        return max(live_row_bytes(forward_of(deployment), "requests"))

    return {
        f"{group}-before": lambda _: at(0).eager / GB,
        f"{group}-after": lambda _: (at(CHUNK).eager + logits()) / GB,
        saving: lambda _: (at(0).total - at(CHUNK).total) / GB,
    }


def _after_prefill(deployment: Deployment, ceiling: int) -> Simulation:
    return lambda _: _after(deployment, ceiling).total / GB


@cache
def _after(deployment: Deployment, ceiling: int) -> AfterPrefill:
    """What stays after a prefill of the chunk: no fitted parameter touches it."""
    return after_prefill(forward_of(deployment), CHUNK, ceiling)


def _ladders() -> dict[str, Simulation]:
    decode = tensorrt_llm_decode_sizes(2048)
    return {
        "K1-23": lambda s: _decode_capture_s(s, DOUBLING),
        "K1-49": lambda s: _decode_capture_s(s, decode),
        "K2": lambda s: s.graph_bytes(R1_DECODE, len(decode) - len(DOUBLING)) / MIB,
        "K5": lambda _: _bucket_of(3208, (2816, 3072, 8192)),
        "K8": lambda s: s.decode_ns(R1_ON_H200, 9, 16) / s.decode_ns(R1_ON_H200, 9, 9),
    }


def _decode_capture_s(simulator: Simulator, sizes: tuple[int, ...]) -> float:
    """Small steps fuse more than large ones."""
    small = tuple(size for size in sizes if size <= SUMMED_ROWS)
    summed = replace(R1_DECODE, fusions="norms and sums")
    parts = ((summed, small), (R1_DECODE, sizes[len(small) :]))
    return sum(simulator.capture(one, FULL, part).capture_s for one, part in parts)


def _bucket_of(tokens: int, sizes: tuple[int, ...]) -> float:
    """The bucket that a step of so many tokens replays in, without a guard."""
    ladder = Ladder.of(sizes)
    chosen = dispatch(ladder, AdmissionRule(), np.array([tokens]), np.array([1]))
    return float(ladder.sizes[int(chosen[0])])
