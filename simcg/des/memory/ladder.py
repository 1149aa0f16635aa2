"""The memory of a captured ladder, by playing what its capture allocates."""

from __future__ import annotations

from dataclasses import dataclass

from simcg.backend import EAGER
from simcg.cost.memory import graph_bytes
from simcg.cost.table import ReplayModel
from simcg.des.memory.allocator import Allocator, segment_bytes
from simcg.des.memory.play import Played, play
from simcg.des.memory.trace import (
    AS_ENGINES,
    CapturePlan,
    PhaseName,
    Trace,
    capture_trace,
    eager_trace,
)
from simcg.model.activations import break_peak_bytes


@dataclass(frozen=True, slots=True)
class MemoryPoint:
    """Bytes once a phase of the capture has ended.

    ``event``: how many events have passed.  ``peak``: the most that was allocated within the
    phase.  ``pool``: reserved by the graphs' pool, the rest of ``reserved`` is ordinary memory.
    """

    event: int
    phase: PhaseName
    tokens: int
    allocated: int
    peak: int
    reserved: int
    pool: int


@dataclass(frozen=True, slots=True)
class EagerPeak:
    """The largest eager step: tensors alive at once, and what the allocator reserves for them."""

    live: int = 0
    reserved: int = 0


@dataclass(frozen=True)
class CaptureResult:
    """Bytes of a captured ladder.

    ``pool_live``: allocated in the pool once capture is over.  ``pool_peak``: the most that was
    allocated in it at once.  ``pool_reserved``: all its segments.  ``ordinary_live``: static
    inputs and the shared output.  ``exec_bytes``: instantiated graphs and the first one's
    context.  ``eager_before``, ``eager_after``: activations of the largest eager step without
    graphs (a whole chunk), and of the largest that still runs eager, what breaks allocate for
    themselves included.
    """

    pool_live: int
    pool_peak: int
    pool_reserved: int
    ordinary_live: int
    ordinary_reserved: int
    exec_bytes: int
    eager_before: EagerPeak
    eager_after: EagerPeak
    timeline: tuple[MemoryPoint, ...]

    @property
    def fragmentation(self) -> float:
        """The share of the pool that not even its fullest moment used; 0 without a pool."""
        return 1 - self.pool_peak / self.pool_reserved if self.pool_reserved else 0.0

    @property
    def live(self) -> int:
        """Allocated once capture is over."""
        return self.pool_live + self.ordinary_live

    @property
    def device(self) -> int:
        """Device bytes that the graphs take for good."""
        return self.pool_reserved + self.ordinary_reserved + self.exec_bytes

    @property
    def peak(self) -> int:
        """The most device bytes at any later moment beside weights and KV cache."""
        return self.device + self.eager_after.reserved


@dataclass(frozen=True, slots=True)
class StepLimits:
    """The largest steps of a server: ``chunk`` tokens and ``requests``, which is rows of logits.

    ``largest_eager``: tokens of the largest step that no bucket takes; None: a whole chunk where
    that is above the ceiling, and none elsewhere.
    """

    chunk: int
    requests: int = 1
    largest_eager: int | None = None

    def eager_tokens(self, ceiling: int) -> int:
        """Tokens of the largest step that runs eager beside a ladder with that ceiling."""
        if self.largest_eager is not None:
            return self.largest_eager
        return self.chunk if self.chunk > ceiling else 0


def ladder_capture(
    model: ReplayModel,
    sizes: tuple[int, ...],
    steps: StepLimits,
    plan: CapturePlan = AS_ENGINES,
    capacity: int | None = None,
) -> CaptureResult:
    """Capture the ladder with these sizes and say what memory that takes.

    ``capacity``: device bytes there are for it, graphs included; raises ``OutOfMemoryError`` when
    capture needs more.
    """
    trace = capture_trace(model.forward, model.backend, sizes, steps.requests, plan)
    exec_bytes = graph_bytes(len(set(sizes)), model) if sizes else 0
    room = None if capacity is None else max(0, capacity - exec_bytes)
    played = play(trace, Allocator(room))
    points = timeline(trace, played)
    last = points[-1] if points else MemoryPoint(0, "inputs", 0, 0, 0, 0, 0)
    pool = played.graphs.allocated
    pool_live = int(pool[-1]) if points else 0
    return CaptureResult(
        pool_live=pool_live,
        pool_peak=int(pool.max()) if points else 0,
        pool_reserved=last.pool,
        ordinary_live=last.allocated - pool_live,
        ordinary_reserved=last.reserved - last.pool,
        exec_bytes=exec_bytes,
        eager_before=eager_peak(model, steps.chunk, steps.requests),
        eager_after=_eager_after(model, steps, max(sizes, default=0)),
        timeline=points,
    )


def timeline(trace: Trace, played: Played) -> tuple[MemoryPoint, ...]:
    """Memory at the end of each phase."""
    return tuple(
        MemoryPoint(
            event=phase.stop,
            phase=phase.name,
            tokens=phase.tokens,
            allocated=int(played.everything.allocated[phase.stop - 1]),
            peak=int(played.everything.allocated[phase.first : phase.stop].max()),
            reserved=int(played.everything.reserved[phase.stop - 1]),
            pool=int(played.graphs.reserved[phase.stop - 1]),
        )
        for phase in trace.phases
    )


def eager_peak(model: ReplayModel, tokens: int, requests: int) -> EagerPeak:
    """What one eager step of so many tokens needs, run alone."""
    if tokens == 0:
        return EagerPeak()
    everything = play(eager_trace(model.forward, EAGER, tokens, requests)).everything
    return EagerPeak(int(everything.allocated.max()), int(everything.reserved[-1]))


def _eager_after(model: ReplayModel, steps: StepLimits, ceiling: int) -> EagerPeak:
    """The larger of an eager step and of what a break of the largest bucket allocates itself."""
    eager = eager_peak(model, steps.eager_tokens(ceiling), steps.requests)
    if ceiling == 0 or not model.backend.breaks:
        return eager
    own = break_peak_bytes(model.forward, ceiling, steps.requests)
    return eager if eager.live >= own else EagerPeak(own, segment_bytes(own))
