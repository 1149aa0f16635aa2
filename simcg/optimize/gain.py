"""How sure a gain is: blocks of time drawn again, and what the cost model may have wrong."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from simcg.arrays import Floats, Ints
from simcg.cost.table import ReplayModel, Slower, exact_step_ns
from simcg.optimize.score import LadderScore
from simcg.provenance import RELATIVE_ERROR, Provenance
from simcg.workload.step_sets import time_blocks
from simcg.workload.steps import Steps

BLOCKS = 50
DRAWS = 1000
SEED = 0
COVERAGE = (2.5, 97.5)
"""Percentiles of the interval."""

SHAPE_ERROR: dict[Provenance, float] = {
    "measured": 0.03, "interpolated": 0.03, "fitted": 0.03, "published": 0.1, "datasheet": 0.1,
    "assumed": 0.1,
}  # fmt: skip
"""How far the costs of two distant sizes may be off against each other, one sigma.

measured: predictions for single sizes were within 1.7 % (median) and 5.4 % (largest) of whole
forwards on the H200. The others are assumed.
"""
MOST_MARGIN = 100.0
OCTAVE_PARTS = 8
"""Sizes within an eighth of an octave are taken to be off together."""


@dataclass(frozen=True, slots=True)
class Gain:
    """Share of the mean step time that one ladder saves against another.

    ``low``, ``high``: 95 % interval with everything in it.  ``traffic``: the part from drawing
    time blocks again.  ``shape``, ``balance``: half-widths from the cost model: sizes off against
    each other; kernels against the host, and the host's part of replays against the rest.
    """

    share: float
    low: float
    high: float
    traffic: tuple[float, float]
    shape: float
    balance: float

    @property
    def is_certain(self) -> bool:
        """The interval does not contain zero."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, slots=True)
class GainJudge:
    """What gains are judged on.

    ``counted``: the steps that scores are of.  ``timed``: the same steps in order of time.
    ``provenance``: the weakest figure of the cost table.
    """

    counted: Steps
    timed: Steps
    model: ReplayModel
    provenance: Provenance

    def gain(self, base: LadderScore, better: LadderScore) -> Gain:
        """The gain of ``better`` over ``base``, both scored on ``counted``."""
        share = 1 - _total(better.step_ns, self.counted) / _total(base.step_ns, self.counted)
        traffic = _traffic_interval(base, better, self.counted, self.timed)
        error = RELATIVE_ERROR[self.provenance]
        more, less = 1 + error, 1 / (1 + error)
        cases = (Slower(more), Slower(less), Slower(1.0, more), Slower(1.0, less))
        times = [[self._if(s, slower) for s in (base, better)] for slower in cases]
        balance = max(
            abs(1 - _total(new, self.counted) / _total(old, self.counted) - share)
            for old, new in times
        )
        moved = [
            (slow - scored.step_ns) / error
            for slow, scored in zip(times[0], (base, better), strict=True)
        ]
        sensitivity = _shape_sensitivity((base, better), moved, self.counted)
        shape = 1.96 * SHAPE_ERROR[self.provenance] * sensitivity
        below = math.hypot(share - traffic[0], shape, balance)
        above = math.hypot(traffic[1] - share, shape, balance)
        return Gain(share, share - below, share + above, traffic, shape, balance)

    def _if(self, scored: LadderScore, slower: Slower) -> Ints:
        """Each step's time if some costs were off."""
        return exact_step_ns(self.counted, self.model, scored.ladder, scored.rule, slower)[0]


def _total(step_ns: Ints, counted: Steps) -> float:
    return float((step_ns * counted.count).sum())


def per_size_ns(step_ns: Ints, counted: Steps, max_tokens: int) -> Floats:
    """Mean time of the steps of each size (index n), 0 where there are none."""
    spent = np.bincount(counted.tokens, step_ns * counted.count, max_tokens + 1)
    times = np.bincount(counted.tokens, counted.count, max_tokens + 1)
    out: Floats = spent / np.maximum(times, 1)
    return out


def _traffic_interval(
    base: LadderScore, better: LadderScore, counted: Steps, timed: Steps
) -> tuple[float, float]:
    """Percentiles of the gain when blocks of time (without times: steps) are drawn again."""
    rng = np.random.default_rng(SEED)
    top = int(counted.tokens.max())
    costs = np.stack([per_size_ns(s.step_ns, counted, top) for s in (base, better)])
    if timed.start_ns is None:
        weights = counted.weights(top)
        seen = np.flatnonzero(weights)
        shares = weights[seen] / weights.sum()
        drawn = rng.multinomial(int(weights.sum()), shares, size=DRAWS)
        sums = drawn.astype(np.float64) @ costs[:, seen].T
    else:
        block = time_blocks(timed, BLOCKS)
        per_block = np.stack(
            [np.bincount(block, cost[timed.tokens] * timed.count, BLOCKS) for cost in costs], axis=1
        )
        drawn = rng.multinomial(BLOCKS, np.full(BLOCKS, 1 / BLOCKS), size=DRAWS)
        sums = drawn.astype(np.float64) @ per_block
    sums = sums[sums[:, 0] > 0]  # a draw of empty blocks alone has no gain
    low, high = np.percentile(1 - sums[:, 1] / sums[:, 0], COVERAGE)
    return float(low), float(high)


def _shape_sensitivity(
    scores: tuple[LadderScore, LadderScore], kernel_ns: list[Floats], counted: Steps
) -> float:
    """Sigma of the gain when each part of an octave of sizes is off by an independent sigma of 1.

    ``kernel_ns``: how much of each step's time moves with its kernels (none where the host is
    what it waits for). What both ladders run in the same sizes is off alike and cancels.
    """
    moved: dict[int, float] = {}
    for sign, scored, own_ns in zip((1.0, -1.0), scores, kernel_ns, strict=True):
        size = np.where(scored.bucket_tokens > 0, scored.bucket_tokens, counted.tokens)
        part = np.floor(np.log2(size) * OCTAVE_PARTS).astype(np.int64)
        spent = np.bincount(part, own_ns * counted.count)
        for index in np.flatnonzero(spent).tolist():
            moved[index] = moved.get(index, 0.0) + sign * float(spent[index])
    return math.sqrt(sum(v * v for v in moved.values())) / _total(scores[0].step_ns, counted)


def eager_host_margin(
    base: LadderScore, better: LadderScore, counted: Steps, eager_host_ns: int
) -> float:
    """How many times slower the host may issue eager steps before ``better`` gains nothing.

    At least 1, and ``MOST_MARGIN`` where it gains even then. An eager step lasts at least as long
    as the host takes to issue it.
    """

    def gains(factor: float) -> bool:
        totals = []
        for scored in (base, better):
            floor = np.where(scored.bucket_tokens == 0, factor * eager_host_ns, 0.0)
            totals.append(_total(np.maximum(scored.step_ns, floor).astype(np.int64), counted))
        return totals[1] < totals[0]

    low, high = 1.0, MOST_MARGIN
    if gains(high):
        return high
    while high / low > 1.01:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if gains(middle) else (low, middle)
    return low
