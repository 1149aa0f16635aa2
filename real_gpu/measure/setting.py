"""What a measuring run is asked for, with defaults by device."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from real_gpu.measure.traffic import load_traffic
from simcg.backend import BackendName
from simcg.des.serving.policy import POLICIES
from simcg.errors import InputError, require
from simcg.hardware.catalog import load_profile
from simcg.hardware.profile import HardwareProfile
from simcg.model.architecture import Architecture, LayerKind
from simcg.model.catalog import load_architecture
from simcg.model.lean import check_lean
from simcg.runs.contenders import RIVALS
from simcg.runs.schema import Compiler
from simcg.workload.requests import Requests
from simcg.workload.steps import Steps

T = TypeVar("T")
SECTIONS = ("matrix", "correctness", "peers", "decisions", "serving")
USUAL_UTILISATION = (0.3, 0.5, 0.7)
TINY = Architecture(
    name="tiny", model_type="qwen3", layer_kinds=(LayerKind(),) * 2, hidden=32, heads=4,
    kv_heads=2, head_dim=8, vocab=64, max_position=1 << 15, intermediate=48, qk_norm=True,
)  # fmt: skip
"""What the CPU device measures unless told otherwise."""
WAYS: dict[str, tuple[BackendName, Compiler]] = {
    "eager": ("eager", ""),
    "full": ("full", ""),
    "breakable": ("breakable", ""),
    "tc_piecewise": ("tc_piecewise", "eager"),
    "tc_piecewise-inductor": ("tc_piecewise", "inductor"),
}
DEBUG_GRAPH = "debug-graph"
"""Among the backends: the correctness section also runs the whole forward as one break."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured where nothing else is said."""

    models: tuple[str, ...]
    ways: tuple[str, ...]
    tokens: tuple[int, ...]
    requests: tuple[int, ...]
    correct_sizes: tuple[int, ...]
    correct_cases: int
    correct_layers: int
    most_context: int
    max_chunk: int
    steps: int
    matrix_seconds: float
    decision_seconds: float
    peer_replays: int
    running: int
    longest: int
    closed_seconds: float
    serving_seconds: float


SCALES: dict[str, Scale] = {
    "cuda": Scale(
        models=("qwen3-8b", "llama-3.1-8b", "qwen3-30b-a3b"),
        ways=tuple(WAYS),
        tokens=(16, 64, 100, 200, 256, 520, 768, 1024, 1500, 2048, 3000, 4096, 8192),
        requests=(1, 8),
        correct_sizes=(16, 48, 64, 128, 256, 384),
        correct_cases=40,
        correct_layers=4,
        most_context=96,
        max_chunk=8192,
        steps=500,
        matrix_seconds=155.0,
        decision_seconds=200.0,
        peer_replays=300,
        running=64,
        longest=8192,
        closed_seconds=15.0,
        serving_seconds=60.0,
    ),
    "cpu": Scale(
        models=("tiny",),
        ways=("eager", "full", "breakable", "tc_piecewise"),
        tokens=(4, 7, 16, 24),
        requests=(1, 2),
        correct_sizes=(4, 8, 16),
        correct_cases=6,
        correct_layers=2,
        most_context=6,
        max_chunk=64,
        steps=6,
        matrix_seconds=1.0,
        decision_seconds=1.0,
        peer_replays=8,
        running=4,
        longest=64,
        closed_seconds=2.0,
        serving_seconds=0.5,
    ),
}


@dataclass(frozen=True, slots=True)
class Setting:
    """The run: what, on which device, into which file; ``command`` without folders' names."""

    out: Path
    device: Literal["cuda", "cpu"]
    profile: HardwareProfile
    traffic: Requests | Steps | None
    models: dict[str, Architecture]
    ways: dict[str, tuple[BackendName, Compiler]]
    debug_graph: bool
    tokens: tuple[int, ...]
    requests: tuple[int, ...]
    ladders: tuple[str, ...]
    sections: tuple[str, ...]
    utilisation: tuple[float, ...]
    policy: str
    seconds: float
    trace_name: str
    scale: Scale
    command: str


def setting_from(arguments: Sequence[str]) -> Setting:
    """From the command line of ``python -m real_gpu.measure``; raises ``InputError``."""
    parser = argparse.ArgumentParser(prog="python -m real_gpu.measure")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", choices=tuple(SCALES), default="cuda")
    parser.add_argument("--hardware", default="h200")
    parser.add_argument("--trace")
    parser.add_argument("--policy", choices=POLICIES, default="prefill-first")
    parser.add_argument("--seconds", type=float)
    lists = ("models", "backends", "tokens", "requests", "ladders", "sections", "utilisation")
    for name in lists:
        parser.add_argument(f"--{name}", default="")
    given = parser.parse_args(arguments)
    scale = SCALES[given.device]
    names = _list("--models", given.models, str) or scale.models
    ways = _list("--backends", given.backends, str) or scale.ways
    sections = _list("--sections", given.sections, str)
    for flag, values, known in (
        ("--backends", ways, (*WAYS, DEBUG_GRAPH)),
        ("--sections", sections, SECTIONS),
        ("--ladders", _list("--ladders", given.ladders, str), RIVALS),
    ):
        for value in values:
            require(value in known, flag, "", value, "some of " + ", ".join(known))
    for section in ("decisions", "serving"):
        needless = section not in sections or given.trace is not None
        require(needless, "--sections", "", section, "--trace beside it")
    sections = sections or SECTIONS[: 4 if given.trace else 3]
    if "decisions" in sections:
        expected = "breakable among them, which decisions are measured with"
        require("breakable" in ways, "--backends", "", ",".join(ways), expected)
    models: dict[str, Architecture] = {}
    for name in names:
        arch = TINY if name == TINY.name else load_architecture(name)
        require(arch.name not in models, "--models", "", name, f"one model named {arch.name}")
        check_lean(arch)
        models[arch.name] = arch
    traffic = None
    if given.trace is not None:  # what cannot be read is told before anything is measured
        traffic = load_traffic(given.trace, next(iter(models.values())).max_position)
    return Setting(
        out=given.out,
        device=given.device,
        profile=load_profile(given.hardware),
        traffic=traffic,
        models=models,
        ways={name: WAYS[name] for name in ways if name != DEBUG_GRAPH},
        debug_graph=DEBUG_GRAPH in ways,
        tokens=_list("--tokens", given.tokens, int) or scale.tokens,
        requests=_list("--requests", given.requests, int) or scale.requests,
        ladders=_list("--ladders", given.ladders, str),
        sections=sections,
        utilisation=_shares(given.utilisation),
        policy=given.policy,
        seconds=scale.serving_seconds if given.seconds is None else given.seconds,
        trace_name=_without_folders(given.trace or ""),
        scale=scale,
        command="simcg measure " + " ".join(map(_without_folders, arguments)),
    )


def _list(flag: str, text: str, kind: Callable[[str], T]) -> tuple[T, ...]:
    """The values between commas; () for nothing."""
    try:
        return tuple(kind(word) for word in text.split(",") if word)
    except ValueError:
        raise InputError(flag, "", text, "numbers separated by commas") from None


def _shares(text: str) -> tuple[float, ...]:
    """Utilisations between commas; usual ones for nothing."""
    shares = _list("--utilisation", text, float) or USUAL_UTILISATION
    for share in shares:
        require(0 < share < 1, "--utilisation", "", share, "shares of the capacity between 0 and 1")
    return shares


def _without_folders(word: str) -> str:
    """Each of the names between commas, without the folder it lies in."""
    return ",".join(Path(part).name for part in word.split(","))
