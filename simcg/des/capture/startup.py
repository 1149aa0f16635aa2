"""Start-up as a SimPy process: compile once, then warm up, record and instantiate each bucket."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from simcg.cost.memory import graph_bytes
from simcg.cost.startup import WARM_UPS, Compiler, bucket_startup, compile_startup
from simcg.cost.table import ReplayModel
from simcg.des.memory.ladder import CaptureResult, MemoryPoint, StepLimits, ladder_capture
from simcg.des.memory.trace import AS_ENGINES, CapturePlan

if TYPE_CHECKING:
    from simpy import Environment
    from simpy.events import Event as SimEvent

Activity = Literal["compile", "warm-up", "capture", "instantiate"]


@dataclass(frozen=True, slots=True)
class Stage:
    """One thing that start-up does, in ns from its beginning; ``tokens`` 0: for no one bucket."""

    activity: Activity
    tokens: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class CapturedShape:
    """One bucket, in ns and bytes once it is captured.

    ``pool_bytes``: reserved by the graphs' pool.  ``graph_bytes``: instantiated graphs so far and
    the first one's context.  ``peak_bytes``: the most allocated during its warm-ups and capture.
    """

    tokens: int
    start_ns: int
    end_ns: int
    pool_bytes: int
    graph_bytes: int
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class StartupRun:
    """A start-up played out: its stages and shapes in order, and the memory it ends with."""

    stages: tuple[Stage, ...]
    shapes: tuple[CapturedShape, ...]
    memory: CaptureResult

    @property
    def end_ns(self) -> int:
        """When the server is ready."""
        return self.stages[-1].end_ns if self.stages else 0


@dataclass(frozen=True, slots=True)
class Capturing:
    """What to capture, and how: see ``ladder_capture`` and ``simcg.cost.startup``.

    ``capacity``: device bytes there are for it, None for no limit.
    """

    model: ReplayModel
    sizes: tuple[int, ...]
    steps: StepLimits
    plan: CapturePlan = AS_ENGINES
    compiler: Compiler = "inductor"
    warm_ups: int = WARM_UPS
    capacity: int | None = None


def simulate_startup(what: Capturing) -> StartupRun:
    """Play the start-up from time 0; raises ``OutOfMemoryError`` if its memory does not suffice."""
    from simpy import Environment  # noqa: PLC0415  only where it runs

    environment = Environment(initial_time=0)
    stages: list[Stage] = []
    environment.process(startup_process(environment, what, stages))
    environment.run()
    memory = ladder_capture(what.model, what.sizes, what.steps, what.plan, what.capacity)
    return StartupRun(tuple(stages), _shapes(what, stages, memory), memory)


def startup_process(
    environment: Environment, what: Capturing, stages: list[Stage]
) -> Generator[SimEvent, object, None]:
    """The host's work; adds each stage to ``stages`` when it ends, in the environment's time."""
    for activity, tokens, duration in _work(what):
        start = round(environment.now)
        yield environment.timeout(duration)
        stages.append(Stage(activity, tokens, start, round(environment.now)))


def _work(what: Capturing) -> list[tuple[Activity, int, int]]:
    """(activity, tokens, ns) in order."""
    work: list[tuple[Activity, int, int]] = []
    compile_ns = compile_startup(what.sizes, what.model, what.compiler)
    if compile_ns:
        work.append(("compile", 0, compile_ns))
    if not what.sizes:
        return work
    ordered = sorted(set(what.sizes), reverse=what.plan.order == "largest first")
    costs = bucket_startup(tuple(ordered), what.model, what.compiler)
    for tokens, warm_up in zip(ordered, costs.warm_up_ns.tolist(), strict=True):
        work += [("warm-up", tokens, warm_up)] * what.warm_ups
        work.append(("capture", tokens, costs.record_ns))
        work.append(("instantiate", tokens, costs.instantiate_ns))
    return work


def _shapes(
    what: Capturing, stages: list[Stage], memory: CaptureResult
) -> tuple[CapturedShape, ...]:
    """Each bucket's stages and memory, in the order of capture."""
    captured = {point.tokens: point for point in memory.timeline if point.phase == "capture"}
    peaks = _peaks(memory.timeline)
    starts: dict[int, int] = {}
    ends: dict[int, int] = {}
    for stage in stages:
        if stage.tokens:
            starts.setdefault(stage.tokens, stage.start_ns)
            ends[stage.tokens] = stage.end_ns
    return tuple(
        CapturedShape(
            tokens=tokens,
            start_ns=start,
            end_ns=ends[tokens],
            pool_bytes=captured[tokens].pool,
            graph_bytes=graph_bytes(number, what.model),
            peak_bytes=peaks[tokens],
        )
        for number, (tokens, start) in enumerate(starts.items(), 1)
    )


def _peaks(timeline: tuple[MemoryPoint, ...]) -> dict[int, int]:
    out: dict[int, int] = {}
    for point in timeline:
        if point.phase in ("warm-up", "capture"):
            out[point.tokens] = max(point.peak, out.get(point.tokens, 0))
    return out
