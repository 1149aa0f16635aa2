"""Compute-bound work in bursts: how fast it runs, and what it leaves to the next one.

A GPU's clock follows its power. Memory-bound work draws less than the limit, so a burst of
compute-bound work begins at a higher clock, which falls while it lasts. One number says how
rested the GPU is, 1 fully and 0 not at all: it falls with the profile's ``fall_ns`` while
compute-bound kernels run and rises with ``rise_ns`` otherwise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from simcg.arrays import Ints
from simcg.cost.kernels import Kernels
from simcg.cost.step import OpTimes
from simcg.hardware.profile import Burst, HardwareProfile
from simcg.model.ops import AllReduce, Elementwise, ForwardPass


@dataclass(frozen=True, slots=True)
class Pace:
    """A profile's burst as plain numbers; times in ns."""

    fresh: float
    settled: float
    fall_ns: float
    rise_ns: float

    @staticmethod
    def of(burst: Burst | None) -> Pace | None:
        """None where nothing was measured."""
        if burst is None:
            return None
        figures = (burst.fresh, burst.settled, burst.fall_ns, burst.rise_ns)
        return Pace(*(figure.value for figure in figures))

    def rested(self, rest: float, pause_ns: float) -> float:
        """After a pause without compute-bound work."""
        return 1.0 - (1.0 - rest) * math.exp(-pause_ns / self.rise_ns)

    def step(self, rest: float, total_ns: float, compute_ns: float) -> tuple[float, float]:
        """By how much a step is shorter (in ns; below 0: longer), and how rested it leaves the GPU.

        ``total_ns`` at the profile's times, of which ``compute_ns`` is compute-bound, spread
        evenly over the step.
        """
        if total_ns <= 0:
            return 0.0, rest
        busy = min(1.0, compute_ns / total_ns)
        falls, rises = busy / self.fall_ns, (1.0 - busy) / self.rise_ns
        rate = falls + rises
        limit = rises / rate
        mean = limit + (rest - limit) * -math.expm1(-rate * total_ns) / (rate * total_ns)
        speed = self.settled + (self.fresh - self.settled) * mean
        shorter = busy * total_ns * (1.0 - 1.0 / speed)
        return shorter, limit + (rest - limit) * math.exp(-rate * (total_ns - shorter))

    @property
    def most(self) -> float:
        """The share that a rested GPU takes off compute-bound work."""
        return 1.0 - 1.0 / self.fresh


def compute_ns(forward: ForwardPass, profile: HardwareProfile, times: OpTimes, pace: Pace) -> Ints:
    """The part of the GPU's time that follows its clock: kernels of many rows.

    Of a product no more than leaves the time that its operands take to move, even when rested.
    Element-wise ops and collectives are bound by memory and links.
    """
    kernels, work = Kernels(profile), times.work
    distinct, order = forward.numbered
    count = np.bincount(np.array(order, dtype=np.int64), minlength=len(distinct))
    total = np.zeros(len(work))
    for op, often in zip(distinct, count.tolist(), strict=True):
        if isinstance(op.shape, Elementwise | AllReduce):
            continue
        ns = times.of(op).ns.astype(np.float64)
        spare = np.maximum(ns - kernels.stream_ns(op, work), 0.0)
        bound = np.minimum(ns, spare / pace.most) if pace.most > 0 else np.zeros(len(work))
        total += often * bound
    return np.rint(total).astype(np.int64)
