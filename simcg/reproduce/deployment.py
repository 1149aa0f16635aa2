"""What a measured point deployed: its model as stored, and how its server was set.

Server settings are facts from the public recipes of InferenceX (SemiAnalysisAI/InferenceX,
Apache-2.0; benchmarks/*.sh, 2025-10 to 2026-04) for the points that come from its database. Those
that NVIDIA measured itself ("gap-analysis") say nothing of their servers: engines' defaults.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from simcg.model.architecture import Architecture
from simcg.model.catalog import architecture_named
from simcg.model.weights import WeightDtypes
from simcg.reproduce.point import Point
from simcg.reproduce.recipe import Recipe

MODELS = {
    "MiniMaxAI/MiniMax-M2.5": "minimax-m2.5",
    "Qwen/Qwen3-235B-A22B-FP8": "qwen3-235b-a22b",
    "Qwen/Qwen3-32B": "qwen3-32b",
    "nvidia/Qwen3-32B-NVFP4": "qwen3-32b",
    "Qwen/Qwen3.5-397B-A17B": "qwen3.5-397b-a17b",
    "deepseek-ai/DeepSeek-R1": "deepseek-r1",
    "deepseek-ai/DeepSeek-V3": "deepseek-r1",
    "nvidia/DeepSeek-R1-NVFP4": "deepseek-r1",
    "nvidia/DeepSeek-V3.1-NVFP4": "deepseek-r1",
    "meta-llama/Llama-3.1-70B": "llama-3.1-70b",
    "meta-llama/Llama-3.1-8B-Instruct": "llama-3.1-8b",
    "nvidia/Llama-3.1-8B-Instruct-FP8": "llama-3.1-8b",
    "moonshotai/Kimi-K2.5": "kimi-k2.5",
    "openai/gpt-oss-120b": "gpt-oss-120b",
    "zhipuai/GLM-5": "glm-5",
}
DENSE = ("qwen3-32b", "llama-3.1-70b", "llama-3.1-8b")
"""Models whose 8-bit checkpoints have one scale a tensor; the others have one a block."""
BLACKWELL = ("b200_sxm", "b300_sxm", "gb200", "gb300")


@cache
def stored_architecture(model: str, precision: str) -> Architecture:
    """The model of that id with its matrices as a checkpoint of that precision stores them.

    4-bit checkpoints by NVIDIA keep the attention of expert models in 16 bits, and the shared
    expert of Qwen3.5 (their hf_quant_config.json); gpt-oss is published in MXFP4.
    """
    name = MODELS[model]
    arch = architecture_named(name)
    if precision == "bf16":
        return arch.with_weights("bf16")
    if name == "gpt-oss-120b":
        return arch
    if precision == "fp8":
        return arch.with_weights("fp8" if name in DENSE else "fp8_block")
    if name in DENSE:
        return arch.with_weights("nvfp4")
    shared = "bf16" if name == "qwen3.5-397b-a17b" else "nvfp4"
    return replace(arch, weights=WeightDtypes("bf16", "nvfp4", "nvfp4", shared))  # type: ignore[arg-type]  # one of two literals


def is_public_recipe(point: Point) -> bool:
    """Whether the point comes from InferenceX, whose server scripts are public."""
    return point.source != "gap-analysis"


def recipe_of(point: Point) -> Recipe:
    """How the point's server was set."""
    if not is_public_recipe(point):
        return _default(point)
    by_framework = {"vllm": _vllm, "sglang": _sglang, "trtllm": _trtllm}
    return by_framework[point.framework](point)


def _default(point: Point) -> Recipe:
    """Lengths as the client was told, so that requests of a wave stay together; no look-ahead in
    vLLM's releases of 2025. Chosen on the calibration points: steps of 2,048 tokens, or one prompt,
    among 2,048 and 8,192 (SGLang's default is 8,192); for TensorRT-LLM's Llama-3.1-8B one running
    request fewer than clients, as first tokens there wait for a share 1/c of a request's time.
    """
    recipe = Recipe(mixes=True, step_tokens=2048, running=point.concurrency)
    if point.framework == "sglang":
        return replace(recipe, mixes=False, step_tokens=8192, memory=0.88)
    if point.framework == "trtllm":
        tokens = max(2048, point.isl + point.concurrency)
        fewer = MODELS[point.model] == "llama-3.1-8b" and point.concurrency > 1
        recipe = replace(recipe, running=point.concurrency - fewer, step_tokens=tokens)
        return replace(recipe, splits=False, reserves=True, of_free=True)
    return replace(recipe, lag_steps=0, graph_top=512)


def _vllm(point: Point) -> Recipe:
    """Chunks of 8,192 tokens with async scheduling; later recipes take two prompts a step."""
    recipe = Recipe(
        mixes=True, step_tokens=8192, running=point.concurrency, shortest=0.8, graph_top=512
    )
    name = MODELS[point.model]
    if name in ("llama-3.1-70b", "gpt-oss-120b"):
        small_cache = name == "llama-3.1-70b" or point.system in BLACKWELL
        top = 2048 if name == "gpt-oss-120b" else 0
        top = 512 if name == "llama-3.1-70b" and point.system not in BLACKWELL else top
        return replace(recipe, kv_bytes=1 if small_cache else 2, graph_top=top)
    if name == "minimax-m2.5" and point.system == "h200_sxm":
        tokens = 16_384 if point.concurrency <= 32 else 32_768
        return replace(recipe, step_tokens=tokens, kv_bytes=1, memory=0.95)
    if name == "minimax-m2.5" and (point.precision == "fp4" or point.version == "0.19.0"):
        return replace(recipe, step_tokens=2 * point.isl, kv_bytes=1, graph_top=2048)
    if name == "kimi-k2.5" and point.system == "b300_sxm":
        return replace(recipe, step_tokens=2 * point.isl, kv_bytes=1, graph_top=8192)
    return recipe


def _sglang(point: Point) -> Recipe:
    """Prompts first, in steps of up to 32,768 tokens; the queue is read every so many decodes."""
    often = 30 if point.concurrency >= 16 else 10
    name, hopper = MODELS[point.model], point.system not in BLACKWELL
    recipe = Recipe(
        mixes=False, step_tokens=32_768, running=512, shortest=0.8, memory=0.82, kv_bytes=1,
        poll_steps=often,
    )  # fmt: skip
    if hopper:
        tokens = 8192 if name == "glm-5" else 32_768
        return replace(recipe, step_tokens=tokens, kv_bytes=2, poll_steps=0)
    if name == "deepseek-r1":
        tokens = 16_384 if point.precision == "fp4" else 32_768
        running = max(point.concurrency, 256 if point.precision == "fp4" else 128)
        if point.precision == "fp8" and point.tp == 4:
            return replace(recipe, step_tokens=8192, memory=0.95, poll_steps=10)
        return replace(recipe, step_tokens=tokens, running=running)
    if name == "qwen3.5-397b-a17b":
        kv_bytes = 2 if point.precision == "bf16" else 1
        running = max(point.concurrency, 128)
        polls = 30 if point.precision == "fp4" else often
        return replace(recipe, kv_bytes=kv_bytes, running=running, poll_steps=polls)
    return replace(recipe, running=point.concurrency, poll_steps=0)


def _trtllm(point: Point) -> Recipe:
    """Whole prompts beside decodes, room for all output; some recipes wait for fuller steps."""
    name = MODELS[point.model]
    recipe = Recipe(
        mixes=True, step_tokens=20_000, running=512, splits=False, reserves=True, shortest=0.8,
        kv_bytes=1, memory=0.85, of_free=True,
    )  # fmt: skip
    if name == "gpt-oss-120b":
        return recipe if point.system in BLACKWELL else replace(recipe, kv_bytes=2)
    if name == "llama-3.1-70b":
        tokens = point.isl + point.osl + 200
        recipe = replace(recipe, step_tokens=tokens, running=2048, memory=0.9)
        if point.isl == point.osl and point.tp < 8:
            return replace(recipe, wait_share=0.9, wait_steps=20)
        return recipe
    tokens = max(8192, -(-(point.concurrency + point.isl + 64) // 64) * 64)
    memory = 0.8 if point.system in BLACKWELL else 0.75
    recipe = replace(recipe, step_tokens=tokens, running=2048, memory=memory)
    if point.precision == "fp8" and point.system in BLACKWELL:
        waits = point.isl == point.osl and 64 <= point.concurrency < 256
        return replace(recipe, wait_share=0.8, wait_steps=40) if waits else recipe
    return recipe
