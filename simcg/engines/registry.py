"""Names typed by users -> engines and ladder rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from simcg.engines import sizes
from simcg.engines.engine import PLAIN_DEPLOYMENT, Deployment, Engine
from simcg.engines.sglang import SGLang
from simcg.engines.version import Release, parse_release
from simcg.engines.vllm import VLLM
from simcg.errors import InputError

_ENGINES: dict[str, tuple[Callable[[], Engine], Callable[[Release], Engine]]] = {
    "sglang": (SGLang, SGLang),
    "vllm": (VLLM, VLLM),
}


def engine_named(name: str, version: str | None = None) -> Engine:
    """The engine "sglang" or "vllm", also as "sglang==0.5.15"; by default its newest version.

    Errors: ``InputError`` for an unknown engine, an unreadable or unsupported version, or two
    versions that differ.
    """
    base, separator, attached = name.strip().lower().partition("==")
    if base not in _ENGINES:
        expected = " or ".join(_ENGINES) + ", with a version if need be: sglang==0.5.15"
        raise InputError("engine", "", name, expected)
    if separator and version is not None and attached != version:
        raise InputError("engine version", name, version, "the same version, or only one of them")
    wanted = attached if separator else version
    newest, of_release = _ENGINES[base]
    known = newest()
    return known if wanted is None else of_release(parse_release(base, wanted, known.version))


@dataclass(frozen=True, slots=True)
class LadderRule:
    """A rule that turns one limit into capture sizes; ``limit`` says what the number counts."""

    name: str
    limit: str
    source: str
    sizes: Callable[[int, Deployment], tuple[int, ...]]


def ladder_rule_named(name: str) -> LadderRule:
    """The rule of that name; ``InputError`` lists the names there are."""
    if name not in LADDER_RULES:
        raise InputError("ladder rule", "", name, "one of " + ", ".join(LADDER_RULES))
    return LADDER_RULES[name]


def ladder_rule_sizes(
    name: str, limit: int, deployment: Deployment = PLAIN_DEPLOYMENT
) -> tuple[int, ...]:
    """The capture sizes of the named rule for that limit, ascending."""
    return ladder_rule_named(name).sizes(limit, deployment)


def _of_limit(
    function: Callable[[int], tuple[int, ...]],
) -> Callable[[int, Deployment], tuple[int, ...]]:
    return lambda limit, _deployment: function(limit)


def _of_engine(engine: Engine) -> Callable[[int, Deployment], tuple[int, ...]]:
    return lambda limit, deployment: engine.default_ladder(limit, deployment).sizes


_TOKENS = "tokens of a prefill step"
_REQUESTS = "requests of a decode step"
_TENSORRT = "TensorRT-LLM"

LADDER_RULES: dict[str, LadderRule] = {
    rule.name: rule
    for rule in (
        LadderRule("sglang-prefill", _TOKENS, "SGLang 0.5.23", _of_engine(SGLang())),
        LadderRule(
            "sglang-decode",
            _REQUESTS,
            "SGLang 0.5.11-0.5.23",
            _of_limit(sizes.sglang_decode_sizes),
        ),
        LadderRule(
            "sglang-decode-speculative",
            _REQUESTS,
            "SGLang 0.5.11-0.5.23",
            _of_limit(sizes.sglang_speculative_decode_sizes),
        ),
        LadderRule("vllm", "max_num_batched_tokens", "vLLM 0.33", _of_engine(VLLM())),
        LadderRule(
            "tensorrt-llm-decode", _REQUESTS, _TENSORRT, _of_limit(sizes.tensorrt_llm_decode_sizes)
        ),
        LadderRule(
            "tensorrt-llm-decode-unpadded",
            _REQUESTS,
            _TENSORRT,
            _of_limit(sizes.tensorrt_llm_unpadded_decode_sizes),
        ),
        LadderRule(
            "tensorrt-llm-prefill",
            "max_batch_size * (max_seq_len - 1)",
            _TENSORRT,
            _of_limit(sizes.tensorrt_llm_prefill_sizes),
        ),
        LadderRule(
            "tokenspeed-prefill",
            _TOKENS,
            "TokenSpeed",
            _of_limit(sizes.tokenspeed_prefill_sizes),
        ),
    )
}
"""Every default ladder that is known exactly, by name."""
