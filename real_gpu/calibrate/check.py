"""The decoder of ``forward.py`` as simcg's ops, and its measured steps beside predicted ones."""

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
from simcg.model.ops import Elementwise, ForwardPass, Op

LAYERS = 36


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
    """Qwen3-8B's forward where it differs from an engine's: what ``forward.py`` issues.

    One kernel for both head norms, a copy of the attention's result to a fixed address as part
    of the break, a fill of the residual at the start, and no gather before the logits.
    """
    engine = forward_pass(architecture_named("qwen3-8b"))
    row = 2 * 4096
    copy = Op(
        "copy", "elementwise", Elementwise(row, row), 1, ("attention_out",), (), is_break=True
    )
    layer: list[Op] = []
    for op in engine.layers[0]:
        one = Op(op.name, op.kind, op.shape, 1, op.reads, op.writes, op.rows, op.is_break)
        layer += [one, copy] if op.is_break else [one]
    fill = Op("fill", "elementwise", Elementwise(0, row), 1, (), ())
    final_norm, _, logits = engine.tail
    tail = (final_norm, replace(logits, reads=("hidden",), holds=()))
    return ForwardPass("decoder of the check", (*engine.head, fill), (tuple(layer),) * LAYERS, tail)


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
