"""Scenarios for tests, and the command line run inside this process."""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np

from simcg.cli.app import main
from simcg.cli.setting import TrafficSource, scenario_from
from simcg.hardware.catalog import load_profile
from simcg.hardware.profile import Curve, Figure, HardwareProfile
from simcg.optimize.scenario import Limits, Scenario
from simcg.workload.histogram import even_pairs
from simcg.workload.requests import Requests
from simcg.workload.steps import Steps

SERVER: dict[str, Any] = {
    "max_chunk": 1024, "model": "qwen3-8b", "hardware": "h200", "tp": 1, "dtype": None,
    "engine": "sglang", "backend": None, "slots": None, "rate": 1.0, "max_requests": None,
    "max_num_seqs": None,
}  # fmt: skip

MIXED = {3: 40, 17: 30, 100: 25, 130: 9, 200: 12, 333: 7, 500: 20, 640: 5, 900: 4, 1024: 6}
"""Steps by size: small and large ones, some just above a round size."""


@dataclass(frozen=True)
class Ran:
    """What a run of the command line left behind."""

    code: int
    out: str
    err: str


def run_cli(*args: str, stdin: bytes = b"") -> Ran:
    """``simcg`` with these arguments; an exception that is no exit comes through."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    given = io.TextIOWrapper(io.BytesIO(stdin))
    code = None
    with (
        patch.object(sys, "argv", ["simcg", *args]),
        patch.object(sys, "stdout", out),
        patch.object(sys, "stderr", err),
        patch.object(sys, "stdin", given),
    ):
        try:
            main()
        except SystemExit as exit_:
            code = exit_.code
    assert isinstance(code, int)
    texts = []
    for stream in (out, err):
        stream.flush()
        stream.seek(0)
        texts.append(stream.read())
    return Ran(code, *texts)


def steps_of(sizes: dict[int, int], requests: int = 1) -> Steps:
    """Untimed steps: size to count, each of so many requests (fewer where it has fewer tokens)."""
    tokens = np.array(list(sizes), dtype=np.int64)
    many = np.minimum(requests, tokens)
    none = np.zeros_like(tokens)
    count = np.array(list(sizes.values()), dtype=np.int64)
    return Steps(tokens, many, none, even_pairs(tokens, many, none), count, None, "test")


def drawn(workload: str = "azure-conv", requests: int = 300) -> TrafficSource:
    """A built-in workload."""
    return TrafficSource(None, workload, requests, None, None)


@dataclass(frozen=True)
class Given(TrafficSource):
    """Traffic that is there already."""

    steps: Steps | Requests | None = None

    def read(self, max_context: int | None = None) -> Requests | Steps:
        """It, however long."""
        del max_context
        assert self.steps is not None
        return self.steps


def scenario_of(
    traffic: Steps | Requests | TrafficSource, limits: Limits | None = None, **server: Any
) -> Scenario:
    """The scenario that the command line would make of these values."""
    if not isinstance(traffic, TrafficSource):
        traffic = Given(None, None, None, None, None, steps=traffic)
    return scenario_from(traffic, SERVER | server, limits or Limits())


def with_host_costs(name: str, factor: float) -> HardwareProfile:
    """A built-in profile whose host takes so many times longer for everything."""
    profile = load_profile(name)

    def scaled(figure: Figure) -> Figure:
        return msgspec.structs.replace(figure, value=figure.value * factor)

    host = profile.host
    changed: dict[str, Any] = {
        field: scaled(getattr(host, field))
        for field in ("compiled_dispatch", "break_body", "piece", "launch_latency")
    }
    changed["dispatch"] = {kind: scaled(figure) for kind, figure in host.dispatch.items()}
    changed["replay"] = tuple(map(scaled, host.replay))
    return msgspec.structs.replace(profile, host=msgspec.structs.replace(host, **changed))


def with_thin_curves(name: str, keep: int = 12) -> HardwareProfile:
    """A built-in profile of which only each ``keep``-th row of the dense ops was measured."""
    profile = load_profile(name)

    def thin(curve: Curve) -> Curve:
        if curve.key.op not in ("gemm", "grouped_gemm"):
            return curve
        kept = slice(min(keep, len(curve.x)) - 1, None, keep)
        left = {field: getattr(curve, field)[kept] for field in ("x", "ns", "spread_ns")}
        return msgspec.structs.replace(curve, **left)

    return msgspec.structs.replace(profile, curves=tuple(map(thin, profile.curves)))


def on(profile: HardwareProfile, scenario: Scenario) -> Scenario:
    """The scenario on another profile."""
    return replace(scenario, model=replace(scenario.model, profile=profile))
