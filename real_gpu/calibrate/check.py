"""Whole forwards of a Qwen3-8B decoder, measured once, beside what a profile predicts for them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from simcg.backend import backend_named
from simcg.cost.kernels import Work
from simcg.cost.step import StepCost
from simcg.hardware.profile import HardwareProfile
from simcg.model.catalog import architecture_named
from simcg.model.forward import forward_pass
from simcg.model.lean import lean_pass
from simcg.model.ops import ForwardPass


@dataclass(frozen=True)
class StepCheck:
    """One measured step and what simcg predicts for it, in ns."""

    tokens: int
    backend: str
    measured_ns: float
    predicted_ns: float

    @property
    def error(self) -> float:
        """Predicted over measured, less 1."""
        return self.predicted_ns / self.measured_ns - 1


def decoder_pass() -> ForwardPass:
    """The lean pass of Qwen3-8B and the logits of its last row, as those forwards had them."""
    arch = architecture_named("qwen3-8b")
    logits = replace(forward_pass(arch).tail[-1], reads=("hidden",), holds=())
    lean = lean_pass(arch)
    return replace(lean, name="decoder of the check", tail=(*lean.tail, logits))


def work_of(tokens: list[int]) -> Work:
    """One request without context for each size, at its own size."""
    n = np.array(tokens, dtype=np.int64)
    return Work(rows=n, tokens=n, requests=np.ones_like(n), pairs=n * (n + 1) // 2)


def check_steps(profile: HardwareProfile, raw: dict[str, Any]) -> list[StepCheck]:
    """Every measured step of the raw measurements beside its prediction."""
    out = []
    for backend in ("eager", "full", "breakable"):
        rows = [r for r in raw["forwards"]["steps"] if r["backend"] == backend]
        cost = StepCost(decoder_pass(), profile, backend_named(backend))
        predicted = cost.times(work_of([r["tokens"] for r in rows])).ns
        for row, ns in zip(rows, predicted, strict=True):
            out.append(StepCheck(row["tokens"], backend, row["step_ns"], float(ns)))
    return out
