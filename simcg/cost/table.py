"""The cost table of a ladder problem: replay by bucket, eager by step, attention apart.

A replay's time depends on the bucket (dense ops) and on the step (attention at real lengths).
The table separates the two: replay_ns[T] holds attention at the traffic's mean, and each step
adds what its own attention changes at T = n. On a GPU-bound or a host-bound step that is exact;
in between it is an approximation, whose error ``exact_step_ns`` measures on any given ladder.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import msgspec
import numpy as np

from simcg.arrays import Ints
from simcg.backend import CaptureBackend
from simcg.cost.kernels import Work
from simcg.cost.smooth import Smoothed, smooth_noise
from simcg.cost.step import OpTimes, StepCost
from simcg.hardware.profile import Figure, HardwareProfile
from simcg.ladder import EAGER_INDEX, AdmissionRule, Ladder, dispatch
from simcg.model.ops import ForwardPass
from simcg.provenance import Provenance, weakest
from simcg.workload.steps import Steps


@dataclass(frozen=True, slots=True)
class CostTable:
    """Times in int64 ns. Index n = 0..N for tables, one entry a row of ``steps`` otherwise.

    ``replay_ns[T]``, ``eager_ref_ns[n]``: noise smoothed away, attention at the traffic's mean.
    ``attention_ns``: what each step's own attention adds to a replay, ``eager_own_ns``: each
    step run eagerly.  ``correction``: what smoothing did to the replay table.
    """

    steps: Steps
    replay_ns: Ints
    eager_ref_ns: Ints
    attention_ns: Ints
    eager_own_ns: Ints
    correction: Smoothed
    replay_host_ns: int
    replay_device_ns: Ints
    eager_host_ns: int
    eager_device_ns: Ints
    replay_provenance: Provenance
    eager_provenance: Provenance

    @property
    def provenance(self) -> Provenance:
        """The weakest figure in the table."""
        return weakest((self.replay_provenance, self.eager_provenance))

    @property
    def max_tokens(self) -> int:
        """N."""
        return len(self.replay_ns) - 1


@dataclass(frozen=True, slots=True)
class Slower:
    """What if these took so many times as long? ``replay_host``: launches, breaks and guards."""

    kernels: float = 1.0
    replay_host: float = 1.0


AS_PRICED = Slower()


@dataclass(frozen=True)
class ReplayModel:
    """What replays and what runs where nothing replays: two backends of one forward."""

    forward: ForwardPass
    profile: HardwareProfile
    backend: CaptureBackend
    fallback: CaptureBackend
    slots: int | None = None

    @cached_property
    def replay(self) -> StepCost:
        """The cost of a step in a bucket."""
        return StepCost(self.forward, self.profile, self.backend)

    @cached_property
    def eager(self) -> StepCost:
        """The cost of a step that no bucket admits."""
        return StepCost(self.forward, self.profile, self.fallback)


def work_of_steps(steps: Steps, rows: Ints, slots: int | None = None) -> Work:
    """The steps with dense ops at ``rows``; with slots, the logits run at the slots."""
    requests = steps.requests if slots is None else np.full_like(steps.requests, slots)
    return Work(rows=rows, tokens=steps.tokens, requests=requests, pairs=steps.pairs)


def cost_table(steps: Steps, model: ReplayModel, max_tokens: int) -> CostTable:
    """The table for these steps; ``steps.tokens`` at most ``max_tokens``."""
    grid = OpTimes(model.profile, _mean_work(steps, max_tokens, model.slots))
    own = OpTimes(model.profile, work_of_steps(steps, steps.tokens))
    slotted = own
    if model.slots is not None:
        slotted = OpTimes(model.profile, work_of_steps(steps, steps.tokens, model.slots))
    replay, eager = model.replay.times_from(grid), model.eager.times_from(grid)
    own_replay, own_eager = model.replay.times_from(slotted), model.eager.times_from(own)
    spread = grid.relative_spread(model.forward)
    smooth, smooth_eager = smooth_noise(replay.ns, spread), smooth_noise(eager.ns, spread)
    at = steps.tokens - 1
    return CostTable(
        steps=steps,
        replay_ns=_from_one(smooth.ns),
        eager_ref_ns=_from_one(smooth_eager.ns),
        attention_ns=own_replay.ns - replay.ns[at],
        eager_own_ns=np.maximum(own_eager.ns - eager.ns[at] + smooth_eager.ns[at], 0),
        correction=smooth,
        replay_host_ns=replay.host_ns,
        replay_device_ns=_from_one(replay.device_ns),
        eager_host_ns=eager.host_ns,
        eager_device_ns=_from_one(eager.device_ns),
        replay_provenance=replay.provenance,
        eager_provenance=eager.provenance,
    )


def exact_step_ns(
    steps: Steps,
    model: ReplayModel,
    ladder: Ladder,
    rule: AdmissionRule,
    slower: Slower = AS_PRICED,
) -> tuple[Ints, Ints]:
    """Each step's time by the full timeline under this ladder, and its bucket's index."""
    chosen = dispatch(ladder, rule, steps.tokens, steps.requests)
    rows = steps.tokens.copy()
    replays = chosen != EAGER_INDEX
    rows[replays] = np.array(ladder.sizes, dtype=np.int64)[chosen[replays]]

    def times(cost: StepCost, work: Work) -> Ints:
        return cost.times_from(OpTimes(model.profile, work, slower.kernels)).ns

    ns = times(model.eager, work_of_steps(steps, steps.tokens))
    if replays.any():
        replay = replace(model.replay, profile=with_replay_host(model.profile, slower.replay_host))
        ns = np.where(replays, times(replay, work_of_steps(steps, rows, model.slots)), ns)
    return ns, chosen


def with_replay_host(profile: HardwareProfile, factor: float) -> HardwareProfile:
    """The profile with a host that takes ``factor`` times as long for what a replay asks of it."""
    if factor == 1.0:
        return profile
    host = profile.host

    def scaled(figure: Figure) -> Figure:
        return msgspec.structs.replace(figure, value=figure.value * factor)

    changed = msgspec.structs.replace(
        host,
        break_body=scaled(host.break_body),
        piece=scaled(host.piece),
        replay=tuple(map(scaled, host.replay)),
    )
    return msgspec.structs.replace(profile, host=changed)


def _mean_work(steps: Steps, max_tokens: int, slots: int | None) -> Work:
    """Rows 1..N beside the traffic's mean step."""

    def mean(column: Ints) -> Ints:
        value = max(1, round(float(np.average(column, weights=steps.count))))
        return np.full(max_tokens, value, dtype=np.int64)

    requests = mean(steps.requests) if slots is None else np.full(max_tokens, slots)
    rows = np.arange(1, max_tokens + 1, dtype=np.int64)
    return Work(rows=rows, tokens=mean(steps.tokens), requests=requests, pairs=mean(steps.pairs))


def _from_one(column: Ints) -> Ints:
    return np.concatenate((np.zeros(1, dtype=np.int64), column))
