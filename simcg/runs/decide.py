"""Was a ladder of simcg's the better one on the real GPU? Paired, on the same sampled steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simcg.arrays import Floats, Ints
from simcg.errors import InputError
from simcg.hardware.profile import HardwareProfile
from simcg.ladder import EAGER_INDEX, dispatch
from simcg.runs.predict import Predictor, StepSizes
from simcg.runs.read import Runs
from simcg.runs.schema import DecisionCell, LadderLine

DRAWS = 2000
SEED = 0
COVERAGE = (2.5, 97.5)
"""Percentiles of the bootstrap interval."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One ladder of simcg's against another on the sampled steps of one file.

    ``measured``: share of the mean step time that ours saves, ``low`` and ``high``: the paired
    bootstrap's 95 % interval over steps; ``predicted``: the same share by the profile alone.
    """

    model: str
    ours: str
    theirs: str
    graphs: tuple[int, int]
    steps: int
    measured: float
    low: float
    high: float
    predicted: float
    mean_ns: tuple[float, float]


def decisions(runs: Runs, profile: HardwareProfile) -> list[Decision]:
    """Every pair that the file's ladders name, on its sampled steps; () without any.

    Raises ``InputError`` where a ladder is not known, or sends a step to a bucket that was not
    timed.
    """
    cells, ladders = runs.of(DecisionCell), {one.name: one for one in runs.of(LadderLine)}
    out = []
    for model in dict.fromkeys(cell.model for cell in cells):
        sample = _Sample(runs.source, [c for c in cells if c.model == model])
        predictor = Predictor(runs.header.models[model], profile)
        predicted = {name: sample.predicted_ns(one, predictor) for name, one in ladders.items()}
        measured = {name: sample.measured_ns(one) for name, one in ladders.items()}
        for ours in ladders.values():
            for theirs in ours.against:
                if theirs not in ladders:
                    raise InputError(runs.source, f"ladder {ours.name}", theirs, "a known ladder")
                own, other = measured[ours.name], measured[theirs]
                low, high = interval(own, other)
                out.append(
                    Decision(
                        model, ours.name, theirs,
                        (len(ours.sizes), len(ladders[theirs].sizes)),
                        len(own), saved(own, other), low, high,
                        saved(predicted[ours.name], predicted[theirs]),
                        (float(own.mean()), float(other.mean())),
                    )
                )  # fmt: skip
    return out


def saved(own: Floats, other: Floats) -> float:
    """Share of the other's total that ``own`` saves."""
    return 1 - float(own.sum()) / float(other.sum())


def interval(own: Floats, other: Floats) -> tuple[float, float]:
    """95 % of ``saved`` when steps are drawn again, each with both of its times."""
    rng = np.random.default_rng(SEED)
    times = np.stack([own, other], axis=1)
    steps = len(own)
    drawn = rng.multinomial(steps, np.full(steps, 1 / steps), size=DRAWS) @ times
    low, high = np.percentile(1 - drawn[:, 0] / drawn[:, 1], COVERAGE)
    return float(low), float(high)


class _Sample:
    """The sampled steps of one model, with what each took in each bucket."""

    def __init__(self, source: str, cells: Sequence[DecisionCell]) -> None:
        self.source, self.cells = source, cells
        batches = [cell.batch for cell in cells]
        self.tokens = np.array([b.num_tokens for b in batches], dtype=np.int64)
        self.requests = np.array([b.num_requests for b in batches], dtype=np.int64)
        self.pairs = np.array([b.pairs for b in batches], dtype=np.int64)
        self.times = [{t.bucket: float(np.median(t.ns)) for t in cell.times} for cell in cells]

    def bucket(self, one: LadderLine) -> Ints:
        """Where the ladder's rule sends each step; 0 for eager."""
        chosen = dispatch(one.ladder, one.rule, self.tokens, self.requests)
        sizes = np.array((*one.ladder.sizes, 0), dtype=np.int64)
        return np.where(chosen == EAGER_INDEX, 0, sizes[chosen])

    def measured_ns(self, one: LadderLine) -> Floats:
        """Each step's time under the ladder."""
        buckets = self.bucket(one).tolist()
        for cell, times, bucket in zip(self.cells, self.times, buckets, strict=True):
            if bucket not in times:
                where = f"decision of step {cell.index}"
                raise InputError(self.source, where, sorted(times), f"a time in bucket {bucket}")
        found = zip(self.times, buckets, strict=True)
        return np.array([times[bucket] for times, bucket in found])

    def predicted_ns(self, one: LadderLine, predictor: Predictor) -> Floats:
        """Each step's time by the profile."""
        sizes = StepSizes(self.tokens, self.requests, self.pairs, self.bucket(one))
        return predictor.step_ns(self.cells[0].backend, sizes).astype(np.float64)
