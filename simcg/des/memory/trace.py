"""What the capture of a ladder allocates and frees, in order."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Literal, NamedTuple

from simcg.backend import CaptureBackend
from simcg.cost.memory import POOL_HEADROOM, STATIC_ROW_BYTES, hidden_row_bytes
from simcg.cost.startup import WARM_UPS
from simcg.des.memory.allocator import ORDINARY
from simcg.errors import require
from simcg.model.activations import Lifetime, lifetimes, peak_activation_bytes
from simcg.model.ops import ForwardPass, Op, Tensor

GRAPHS = 1
"""The private pool that all graphs of the ladder share."""
MAIN_STREAM = 0
"""Static inputs and the shared output are made on it; capture streams follow."""
STATIC_INPUTS = 3
"""Token ids, positions and KV slots, each a tensor of its own."""


class Event(NamedTuple):
    """One call of the allocator; ``tensor`` numbers tensors in the order of their allocation."""

    kind: Literal["allocate", "free", "release_cached"]
    tensor: int = -1
    nbytes: int = 0
    pool: int = ORDINARY
    stream: int = MAIN_STREAM


PhaseName = Literal["inputs", "seed", "warm-up", "capture", "eager"]


class Phase(NamedTuple):
    """Events ``first`` up to ``stop`` (excluded) do one thing for a bucket of ``tokens``."""

    name: PhaseName
    tokens: int
    first: int
    stop: int


@dataclass(frozen=True, slots=True)
class Trace:
    """Events in order and the phases that they belong to."""

    events: tuple[Event, ...]
    phases: tuple[Phase, ...]


@dataclass(frozen=True, slots=True)
class CapturePlan:
    """How a ladder is captured.

    ``order``: of its buckets.  ``holding``: what a break reads or returns is freed when the forward
    drops it (weak), or stays allocated as long as the graphs (strong).  ``outputs``: one buffer
    of the ceiling's rows for all buckets, outside the pool, or a tensor in the pool for each.
    ``streams``: buckets are captured on so many streams in turn.  ``seeded``: the pool starts as
    one free block of POOL_HEADROOM times the largest bucket's activations, as ``real_gpu`` does;
    engines start with none.  ``warm_ups``: eager runs of a bucket before its capture.
    """

    order: Literal["largest first", "smallest first"] = "largest first"
    holding: Literal["weak", "strong"] = "weak"
    outputs: Literal["shared", "own"] = "shared"
    streams: int = 1
    seeded: bool = False
    warm_ups: int = WARM_UPS

    def __post_init__(self) -> None:
        require(self.streams >= 1, "CapturePlan", "streams", self.streams, "an integer >= 1")


AS_ENGINES = CapturePlan()
SEEDED = CapturePlan(seeded=True)


@dataclass(frozen=True, slots=True)
class Held:
    """A tensor of a forward under a backend.

    ``in_pool``: its memory is
    the graphs'; not so what a break allocates for itself.  ``crosses``: a break reads or
    writes it and the graphs around the break use it too.  ``is_output``: the forward's result.
    """

    tensor: Tensor
    in_pool: bool
    crosses: bool
    is_output: bool


@dataclass(frozen=True, slots=True)
class ForwardScript:
    """Its tensors, and the calls of a forward: (tensor, True) allocates, (tensor, False) frees."""

    tensors: tuple[Held, ...]
    calls: tuple[tuple[int, bool], ...]


def forward_script(forward: ForwardPass, backend: CaptureBackend) -> ForwardScript:
    """The allocations of one forward under ``backend``; an op's results exist while it runs."""
    lives, ops = lifetimes(forward), forward.ops
    runs = _break_runs(ops) if backend.breaks else []
    run_of = {index: number for number, run in enumerate(runs) for index in run}
    output = max((i for i, life in enumerate(lives) if life.tensor.name == "hidden"), default=-1)
    tensors = tuple(
        Held(
            tensor=life.tensor,
            in_pool=not _is_a_breaks_own(life, run_of),
            crosses=_crosses(ops, life, run_of),
            is_output=number == output,
        )
        for number, life in enumerate(lives)
    )
    born: list[list[int]] = [[] for _ in ops]
    dead: list[list[int]] = [[] for _ in ops]
    for number, life in enumerate(lives):
        born[life.written].append(number)
        dead[life.last_held].append(number)
    calls = [
        (number, begins)
        for index in range(len(born))
        for numbers, begins in ((born[index], True), (dead[index], False))
        for number in numbers
    ]
    return ForwardScript(tensors, tuple(calls))


def _break_runs(ops: tuple[Op, ...]) -> list[range]:
    """Indices of the ops of each break."""
    runs, index = [], 0
    for is_break, group in groupby(ops, key=lambda op: op.is_break):
        length = len(list(group))
        if is_break:
            runs.append(range(index, index + length))
        index += length
    return runs


def _crosses(ops: tuple[Op, ...], life: Lifetime, run_of: dict[int, int]) -> bool:
    """Whether a break takes it as an argument or returns it, so that a replay needs its place."""
    if _is_a_breaks_own(life, run_of):
        return False
    read = (
        index in run_of and life.tensor.name in ops[index].reads
        for index in range(life.written + 1, life.last_read + 1)
    )
    return life.written in run_of or any(read)


def _is_a_breaks_own(life: Lifetime, run_of: dict[int, int]) -> bool:
    run = run_of.get(life.written)
    return run is not None and run_of.get(life.last_held) == run


def capture_trace(
    forward: ForwardPass,
    backend: CaptureBackend,
    sizes: tuple[int, ...],
    requests: int,
    plan: CapturePlan = AS_ENGINES,
) -> Trace:
    """The capture of the ladder with these sizes: inputs, then each bucket's warm-ups and graph.

    ``requests``: rows of the logits in every bucket. Warm-ups run outside the pool, and what they
    leave cached is returned to the device before each capture, as ``torch.cuda.graph`` does, and
    after it, as engines do before they report their memory.
    """
    if not sizes:
        return Trace((), ())
    require(min(sizes) >= 1, "ladder", "sizes", sizes, "integers >= 1")
    require(requests >= 1, "ladder", "requests", requests, "an integer >= 1")
    tracer = _Tracer(plan, max(sizes), requests)
    tracer.inputs(hidden_row_bytes(forward))
    if plan.seeded:
        tracer.seed(int(POOL_HEADROOM * peak_activation_bytes(forward, max(sizes), requests)))
    script = forward_script(forward, backend)
    ordered = sorted(set(sizes), reverse=plan.order == "largest first")
    for number, size in enumerate(ordered):
        tracer.bucket(script, size, MAIN_STREAM + 1 + number % plan.streams)
    return Trace(tuple(tracer.events), tuple(tracer.phases))


class _Tracer:
    """Writes the events of one ladder."""

    def __init__(self, plan: CapturePlan, ceiling: int, requests: int) -> None:
        self.plan, self.ceiling, self.requests = plan, ceiling, requests
        self.events: list[Event] = []
        self.phases: list[Phase] = []
        self._tensors = 0

    def inputs(self, output_row_bytes: int) -> None:
        """Static inputs, and the shared output, of the ceiling's rows."""
        each = STATIC_ROW_BYTES // STATIC_INPUTS * self.ceiling
        for _ in range(STATIC_INPUTS):
            self._allocate(each, ORDINARY, MAIN_STREAM)
        if self.plan.outputs == "shared":
            self._allocate(output_row_bytes * self.ceiling, ORDINARY, MAIN_STREAM)
        self._ends("inputs", self.ceiling)

    def seed(self, nbytes: int) -> None:
        """One block that the pool starts as, on the first capture stream."""
        self._free(self._allocate(nbytes, GRAPHS, MAIN_STREAM + 1))
        self._ends("seed", self.ceiling)

    def bucket(self, script: ForwardScript, tokens: int, stream: int) -> None:
        """Warm-ups and the recording of one bucket."""
        for _ in range(self.plan.warm_ups):
            self._run(script, tokens, stream, recording=False)
        self.events.append(Event("release_cached"))
        self._ends("warm-up", tokens)
        self._run(script, tokens, stream, recording=True)
        self.events.append(Event("release_cached"))
        self._ends("capture", tokens)

    def eager(self, script: ForwardScript, tokens: int) -> None:
        """One forward on the main stream."""
        self._run(script, tokens, MAIN_STREAM, recording=False)
        self._ends("eager", tokens)

    def _run(self, script: ForwardScript, tokens: int, stream: int, *, recording: bool) -> None:
        alive: dict[int, int] = {}
        for number, begins in script.calls:
            held = script.tensors[number]
            if begins:
                pool = GRAPHS if recording and held.in_pool else ORDINARY
                alive[number] = self._allocate(
                    held.tensor.nbytes(tokens, self.requests), pool, stream
                )
            elif not (recording and self._kept(held)):
                self._free(alive[number])

    def _kept(self, held: Held) -> bool:
        """Whether a graph keeps it allocated after the forward has dropped it."""
        strong = self.plan.holding == "strong" and held.crosses and held.in_pool
        return strong or (self.plan.outputs == "own" and held.is_output)

    def _allocate(self, nbytes: int, pool: int, stream: int) -> int:
        number = self._tensors
        self._tensors += 1
        self.events.append(Event("allocate", number, nbytes, pool, stream))
        return number

    def _free(self, tensor: int) -> None:
        self.events.append(Event("free", tensor))

    def _ends(self, name: PhaseName, tokens: int) -> None:
        first = self.phases[-1].stop if self.phases else 0
        self.phases.append(Phase(name, tokens, first, len(self.events)))


def eager_trace(forward: ForwardPass, backend: CaptureBackend, tokens: int, requests: int) -> Trace:
    """One eager forward in ordinary memory."""
    tracer = _Tracer(AS_ENGINES, tokens, requests)
    tracer.eager(forward_script(forward, backend), tokens)
    return Trace(tuple(tracer.events), tuple(tracer.phases))
