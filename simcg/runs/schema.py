"""The file of a measuring run: JSON lines, a header first, then one line per measured cell.

Times are integer or float ns, memory is bytes, shares are 0 to 1. ``backend`` is one of simcg's
backends; ``compiler`` is "" but for tc_piecewise ("eager" or "inductor"). ``bucket`` is the
captured token count, 0 where the step ran eager; ``slots`` its request slots, 0 without.
"""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from simcg.backend import BackendName
from simcg.batch import Batch
from simcg.ladder import AdmissionRule, Ladder
from simcg.model.architecture import Architecture

VERSION = 1
Compiler = Literal["", "eager", "inductor"]


class Environment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What it ran on; ``device`` "cpu" marks figures that say nothing of any GPU."""

    device: Literal["cuda", "cpu"]
    gpu: str
    host: str
    torch: str
    cuda: str
    python: str
    date: str


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="header"):
    """The first line. ``models``: the architectures that ran, with the layers that ran."""

    version: int
    command: str
    seed: int
    environment: Environment
    models: dict[str, Architecture]


class Cell(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which execution a line is about."""

    model: str
    backend: BackendName
    compiler: Compiler = ""


class StepCell(Cell, frozen=True, forbid_unknown_fields=True, kw_only=True, tag="step"):
    """The latency of one batch, from an idle start to the end of the last kernel.

    ``tokens``, ``requests``, ``context`` (cached tokens, summed) and ``pairs`` describe the batch.
    ``ns``: median over rounds, which alternate with all other cells; ``spread_ns``: one robust
    sigma of the samples; ``floor``: one robust sigma of the rounds' medians, as a share of ``ns``.
    ``host_ns``: until the host had issued everything; ``plan_ns``: rewriting the static inputs,
    not part of ``ns``. ``gpu_bound``: the GPU still worked when the host was done.
    ``bit_equal``: the output against eager at the bucket, None for eager itself.
    """

    tokens: int
    requests: int
    context: int
    pairs: int
    bucket: int
    slots: int
    ns: float
    spread_ns: float
    floor: float
    samples: int
    host_ns: float
    plan_ns: float
    gpu_bound: bool
    bit_equal: bool | None = None

    def __post_init__(self) -> None:
        _check_times(self, "ns", "host_ns")
        _check_counts(self, "tokens", "requests", "samples", "pairs")


class CaptureCell(Cell, frozen=True, forbid_unknown_fields=True, kw_only=True, tag="capture"):
    """What one bucket's capture took; as ``CaptureFigures`` of the real backends."""

    bucket: int
    slots: int
    warm_up_ns: int
    capture_ns: int
    compile_ns: int
    nodes: int
    segments: int
    breaks: int

    def __post_init__(self) -> None:
        _check_times(self, "warm_up_ns", "capture_ns")
        _check_counts(self, "bucket", "segments")


class Bytes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Allocated to tensors, held by the allocator, in use on the device."""

    live: int
    reserved: int
    device: int


class MemoryCell(Cell, frozen=True, forbid_unknown_fields=True, kw_only=True, tag="memory"):
    """Memory of a captured ladder: the device before and after, the pool, and the eager peak.

    ``eager_peak``: what one eager step of the largest bucket allocates at its most. ``nodes``: of
    all graphs.
    """

    buckets: tuple[int, ...]
    slots: int
    before: Bytes
    after: Bytes
    pool: int
    eager_peak: int
    nodes: int

    def __post_init__(self) -> None:
        _check_counts(self, "pool", "eager_peak")
        if not self.buckets or min(self.buckets) < 1:
            raise ValueError("buckets must be token counts >= 1, and one at least")


class EqualityCell(Cell, frozen=True, forbid_unknown_fields=True, kw_only=True, tag="equality"):
    """One replay with poison in its padding, in a random order of buckets.

    ``at_bucket``: bit-equal to eager at the bucket's size; ``at_tokens``: to eager at its own.
    ``error``: largest difference from an fp32 reference; ``eager_error``: that of eager at its
    own size.
    """

    tokens: int
    bucket: int
    at_bucket: bool
    at_tokens: bool
    error: float
    eager_error: float


class InvarianceCell(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="invariance"):
    """Whether a product's first ``tokens`` rows are bit-equal at ``bucket`` rows."""

    k: int
    n: int
    tokens: int
    bucket: int
    equal: bool


class LadderLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="ladder"):
    """A ladder that decisions are compared for, under its own admission rule.

    ``max_ratio``: numerator and denominator of the guard. ``against``: for a ladder of simcg's,
    the ladders that it must not lose to; () for those others.
    """

    name: str
    sizes: tuple[int, ...]
    max_ratio: tuple[int, int] | None = None
    eager_ranges: tuple[tuple[int, int], ...] = ()
    against: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        Ladder.of(self.sizes)
        _ = self.rule

    @property
    def ladder(self) -> Ladder:
        """The buckets."""
        return Ladder.of(self.sizes)

    @property
    def rule(self) -> AdmissionRule:
        """The admission rule."""
        from fractions import Fraction  # noqa: PLC0415  # slow to import, and seldom needed

        ratio = None if self.max_ratio is None else Fraction(*self.max_ratio)
        return AdmissionRule(ratio, self.eager_ranges)


class Timed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The samples of one way to run a step: in a bucket, or eager (0)."""

    bucket: int
    ns: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.ns or min(self.ns) < 1:
            raise ValueError("ns must hold times >= 1, and one at least")


class DecisionCell(Cell, frozen=True, forbid_unknown_fields=True, kw_only=True, tag="decision"):
    """One step of a trace in every bucket that some ladder sends it to.

    ``index``: of the step in the trace. Where no times of requests are known, requests of equal
    length stand for the step's own.
    """

    index: int
    query_tokens: tuple[int, ...]
    context_tokens: tuple[int, ...]
    times: tuple[Timed, ...]

    def __post_init__(self) -> None:
        if not self.query_tokens or min(self.query_tokens) < 1:
            raise ValueError("query_tokens must be counts >= 1, and one at least")
        if len(self.context_tokens) != len(self.query_tokens):
            raise ValueError("context_tokens must have an entry for each of query_tokens")

    @property
    def batch(self) -> Batch:
        """The step's requests."""
        return Batch(self.query_tokens, self.context_tokens)


class PeerCell(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="peer"):
    """One way to replay a program with breaks; the i-th replays of all ways alternate.

    ``program``: what is replayed; ``contender``: by what. ``pool`` -1 where it cannot be told.
    """

    program: str
    contender: str
    replay_ns: tuple[int, ...]
    capture_ns: int
    pool: int

    def __post_init__(self) -> None:
        if not self.replay_ns or min(self.replay_ns) < 1:
            raise ValueError("replay_ns must hold times >= 1, and one at least")


Line = (
    Header
    | StepCell
    | CaptureCell
    | MemoryCell
    | EqualityCell
    | InvarianceCell
    | LadderLine
    | DecisionCell
    | PeerCell
)


def _check_times(line: msgspec.Struct, *names: str) -> None:
    for name in names:
        value = getattr(line, name)
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name} is {value}, not a finite number > 0")


def _check_counts(line: msgspec.Struct, *names: str) -> None:
    for name in names:
        value = getattr(line, name)
        if value < 1:
            raise ValueError(f"{name} is {value}, not an integer >= 1")
