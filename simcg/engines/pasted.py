"""Flags of engines as they are pasted, read back into a ladder, its guard and its limit."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import msgspec

from simcg.engines.engine import Engine
from simcg.engines.sglang import LAST_OLD_FLAGS, SGLang
from simcg.engines.vllm import VLLM
from simcg.errors import Finding, InputError

SIZES: dict[str, Engine] = {
    "--cuda-graph-bs-prefill": SGLang(),
    "--piecewise-cuda-graph-tokens": SGLang(LAST_OLD_FLAGS),
    "--cudagraph-capture-sizes": VLLM(),
}
"""Flags with a list of sizes, and the engine whose guard goes with it."""
CONFIGS = ("--cuda-graph-config", "--compilation-config")
"""Flags with JSON that may hold sizes."""
LIMITS = ("--chunked-prefill-size", "--max-num-batched-tokens")
"""Flags with the most tokens of a step."""
NO_LIMIT = "-1"
MOST_DIGITS = 18


def ladder_of_flags(text: str, name: str) -> dict[str, Any] | None:
    """The ladder's file (``simcg verify --ladder``) that says what the flags say.

    ``text``: words of a command line, or the JSON of a flag; ``name`` is for errors. None where it
    is neither. Values are not checked. Raises ``InputError`` for flags without exactly one ladder.
    """
    if text.lstrip().startswith("{"):
        return next(_of_config(text), None)
    if "--" not in text:
        return None
    flags = list(_flags(text, name))
    found = [file for flag, values in flags for file in _ladders(flag, values)]
    if len(found) != 1:
        said = Finding("flags with no ladder" if not found else "flags with several ladders")
        raise InputError(name, "", said, "one list of sizes: " + ", ".join([*SIZES, *CONFIGS]))
    limits = [_number(values[0]) for flag, values in flags if flag in LIMITS and values]
    given = [limit for limit in limits if limit != NO_LIMIT]
    return found[0] | ({"max_tokens": given[-1]} if given else {})


def _number(word: str) -> int | str:
    """A word as a number, or as it is where it is none of a size that int takes."""
    return int(word) if word.isdecimal() and len(word) <= MOST_DIGITS else word


def _flags(text: str, name: str) -> Iterator[tuple[str, list[str]]]:
    """Each flag with the words up to the next one."""
    try:
        words = shlex.split(text.replace("\\\n", " "))
    except ValueError as error:
        raise InputError(name, "", Finding(f"flags with {error}"), "closed quotes") from None
    flag, values = "", list[str]()
    for word in words:
        if word.startswith("--"):
            yield flag, values
            flag, equals, value = word.partition("=")
            values = [value] if equals else []
        else:
            values.append(word)
    yield flag, values


def _ladders(flag: str, values: list[str]) -> Iterator[dict[str, Any]]:
    if flag in SIZES:
        words = " ".join(values).replace(",", " ").split()
        yield _file(SIZES[flag], {"sizes": [_number(word) for word in words]})
    elif flag in CONFIGS:
        yield from _of_config(" ".join(values))


def _of_config(text: str) -> Iterator[dict[str, Any]]:
    """The ladder in an engine's JSON, if there is one."""
    try:
        config = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return
    match config:
        case {"cudagraph_capture_sizes": sizes}:
            yield _file(VLLM(), {"sizes": sizes})
        case {"prefill": {"bs": list(sizes), "full_prefill_max_req": slots}}:
            yield _file(SGLang(), {"buckets": [[size, slots] for size in sizes]})
        case {"prefill": {"bs": sizes}}:
            yield _file(SGLang(), {"sizes": sizes})


def _file(engine: Engine, ladder: dict[str, Any]) -> dict[str, Any]:
    """The ladder with the engine's guard."""
    ratio = engine.admission.max_ratio
    return ladder | ({} if ratio is None else {"rule": {"max_ratio": str(ratio)}})
