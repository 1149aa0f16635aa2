"""The file of a measuring run: JSON lines, a header first, then one line per measured cell.

Times are integer or float ns, memory is bytes, shares are 0 to 1. ``backend`` is one of simcg's
backends; ``compiler`` is "" but for tc_piecewise ("eager" or "inductor"). ``bucket`` is the
captured token count, 0 where the step ran eager; ``slots`` its request slots, 0 without.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from simcg.backend import BackendName
from simcg.batch import Batch
from simcg.des.serving.policy import POLICIES
from simcg.ladder import AdmissionRule, Ladder
from simcg.model.architecture import Architecture

VERSION = 1
Compiler = Literal["", "eager", "inductor"]
Ns = Annotated[int, Meta(ge=1, le=10**15)]
MeanNs = Annotated[float, Meta(gt=0, le=1e15)]
Amount = Annotated[float, Meta(ge=0, le=1e30)]
Count = Annotated[int, Meta(ge=1, le=2**62)]
Size = Annotated[int, Meta(ge=0, le=2**62)]
MOST_TOKENS = 2**40
"""Of tokens, requests, context and pairs; with more, sums and costs would leave 64 bits."""
Tokens = Annotated[int, Meta(ge=1, le=MOST_TOKENS)]
Context = Annotated[int, Meta(ge=0, le=MOST_TOKENS)]
Several = Annotated[tuple[Tokens, ...], Meta(min_length=1)]


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

    tokens: Tokens
    requests: Tokens
    context: Context
    pairs: Tokens
    bucket: Context
    slots: Size
    ns: MeanNs
    spread_ns: Amount
    floor: Amount
    samples: Count
    host_ns: MeanNs
    plan_ns: Amount
    gpu_bound: bool
    bit_equal: bool | None = None

    def __post_init__(self) -> None:
        if (self.backend == "eager") != (self.bucket == 0):
            raise ValueError(f"bucket must be 0 for eager alone, not {self.bucket}")
        if 0 < self.bucket < self.tokens:
            raise ValueError(f"bucket {self.bucket} must hold all {self.tokens} tokens")


class CaptureCell(Cell, frozen=True, forbid_unknown_fields=True, kw_only=True, tag="capture"):
    """What one bucket's capture took; as ``CaptureFigures`` of the real backends."""

    bucket: Tokens
    slots: Size
    warm_up_ns: Ns
    capture_ns: Ns
    compile_ns: Size
    nodes: Size
    segments: Count
    breaks: Size


class Bytes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Allocated to tensors, held by the allocator, in use on the device."""

    live: Size
    reserved: Size
    device: Size


class MemoryCell(Cell, frozen=True, forbid_unknown_fields=True, kw_only=True, tag="memory"):
    """Memory of a captured ladder: the device before and after, the pool, and the eager peak.

    ``eager_peak``: what one eager step of the largest bucket allocates at its most. ``nodes``: of
    all graphs.
    """

    buckets: Several
    slots: Size
    before: Bytes
    after: Bytes
    pool: Count
    eager_peak: Count
    nodes: Size


class EqualityCell(Cell, frozen=True, forbid_unknown_fields=True, kw_only=True, tag="equality"):
    """One replay with poison in its padding, in a random order of buckets.

    ``at_bucket``: bit-equal to eager at the bucket's size; ``at_tokens``: to eager at its own.
    ``error``: root mean square of the difference from an fp32 reference, None if that is no
    number; ``eager_error``: that of eager at its own size. ``debug_graph``: the whole forward was
    one break, so that no operator was captured.
    """

    tokens: Count
    bucket: Count
    at_bucket: bool
    at_tokens: bool
    error: Amount | None
    eager_error: Amount | None
    debug_graph: bool = False


class InvarianceCell(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="invariance"):
    """Whether a product's first ``tokens`` rows are bit-equal at ``bucket`` rows."""

    k: Count
    n: Count
    tokens: Count
    bucket: Count
    equal: bool


class LadderLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="ladder"):
    """A ladder that decisions are compared for, under its own admission rule.

    ``max_ratio``: numerator and denominator of the guard. ``against``: for a ladder of simcg's,
    the ladders that it must not lose to; () for those others.
    """

    name: str
    sizes: tuple[Count, ...]
    max_ratio: tuple[Count, Count] | None = None
    eager_ranges: tuple[tuple[Count, Count], ...] = ()
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
        return _rule(self.max_ratio, self.eager_ranges)


def _rule(
    max_ratio: tuple[int, int] | None, eager_ranges: tuple[tuple[int, int], ...] = ()
) -> AdmissionRule:
    from fractions import Fraction  # noqa: PLC0415  # slow to import, and seldom needed

    return AdmissionRule(None if max_ratio is None else Fraction(*max_ratio), eager_ranges)


class Timed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The samples of one way to run a step: in a bucket, or eager (0)."""

    bucket: Context
    ns: Annotated[tuple[Ns, ...], Meta(min_length=1)]


class DecisionCell(Cell, frozen=True, forbid_unknown_fields=True, kw_only=True, tag="decision"):
    """One step of a trace in every bucket that some ladder sends it to.

    ``index``: of the step in the trace. Where no times of requests are known, requests of equal
    length stand for the step's own.
    """

    index: Size
    query_tokens: Several
    context_tokens: tuple[Context, ...]
    times: tuple[Timed, ...]

    def __post_init__(self) -> None:
        if len(self.context_tokens) != len(self.query_tokens):
            raise ValueError("context_tokens must have an entry for each of query_tokens")
        most = max(self.batch.num_tokens, self.batch.pairs)
        if most > MOST_TOKENS:
            raise ValueError(f"query_tokens must make at most 2**40 tokens and pairs, not {most}")

    @property
    def batch(self) -> Batch:
        """The step's requests."""
        return Batch(self.query_tokens, self.context_tokens)


class PeerCell(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="peer"):
    """One way to replay a program with breaks; the i-th replays of all ways alternate.

    ``program``: what is replayed; ``contender``: by what. ``pool``: bytes it has reserved.
    ``equal``: every replay gave eager's bits.
    """

    program: str
    contender: str
    replay_ns: Annotated[tuple[Ns, ...], Meta(min_length=1)]
    capture_ns: Ns
    pool: Size
    equal: bool


class ServingLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="serving"):
    """One run of the server: its settings and the load; rows with the same ``run`` are its own.

    ``prefill_sizes`` replay by the breakable backend under the guard ``max_ratio``,
    ``decode_sizes`` whole. ``chunk``: most tokens of a step with prompts; ``running``: most
    requests at once, ``longest`` tokens each. ``utilisation``: the offered rate over the finished
    requests a second of the full server, None where all requests waited from the start.
    """

    run: Size
    model: str
    trace: str
    policy: str
    prefill_sizes: tuple[Count, ...]
    max_ratio: tuple[Count, Count] | None
    decode_sizes: tuple[Count, ...]
    chunk: Count
    running: Count
    longest: Count
    utilisation: Annotated[float, Meta(gt=0, le=10)] | None = None

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise ValueError(f"policy must be one of {', '.join(POLICIES)}, not {self.policy}")
        for sizes in (self.prefill_sizes, self.decode_sizes):
            Ladder.of(sizes)
        _ = self.rule

    @property
    def rule(self) -> AdmissionRule:
        """The admission rule of steps with prompts."""
        return _rule(self.max_ratio)


class ServingRequest(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="serving_request"
):
    """A finished request: when it came, its first token, its last; ns since the run began."""

    run: Size
    arrival_ns: Size
    prompt: Tokens
    output: Tokens
    first_token_ns: Ns
    finish_ns: Ns

    def __post_init__(self) -> None:
        if not self.arrival_ns < self.first_token_ns <= self.finish_ns:
            raise ValueError("arrival_ns, first_token_ns and finish_ns must be in that order")


class ServingStep(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="serving_step"):
    """A step of the server: ``prefills`` requests compute ``tokens`` prompt tokens that attend to
    ``pairs`` keys, ``decodes`` requests add a token each and attend to ``keys`` keys, ``lengths``
    of each; () where only their sum was written.

    ``start_ns``: when it was chosen; ``end_ns``: when its tokens were handed out. In that,
    ``plan_ns``: rewriting the static inputs; ``host_ns``: issuing it all; ``device_ns``: the GPU's
    time from its start on the step to the end of the logits.
    """

    run: Size
    tokens: Context
    prefills: Size
    pairs: Context
    decodes: Size
    keys: Context
    bucket: Context
    start_ns: Size
    end_ns: Ns
    plan_ns: Ns
    host_ns: Ns
    device_ns: Ns
    lengths: tuple[Count, ...] = ()

    def __post_init__(self) -> None:
        if self.lengths and (len(self.lengths), sum(self.lengths)) != (self.decodes, self.keys):
            raise ValueError("lengths must have an entry for each of the decodes and make keys")
        if not self.prefills <= self.tokens <= self.pairs or not self.decodes <= self.keys:
            raise ValueError("prefills, tokens and pairs, and decodes and keys must ascend")
        if (self.prefills == 0) != (self.tokens == 0) or self.prefills + self.decodes == 0:
            raise ValueError("a step must have requests, and tokens where it has prefills")
        if self.start_ns + self.device_ns > self.end_ns:
            raise ValueError(f"end_ns {self.end_ns} must not be before the device is done")

    @property
    def kind(self) -> Literal["prefill", "decode", "mixed"]:
        """What its requests do."""
        if not self.decodes:
            return "prefill"
        return "mixed" if self.prefills else "decode"

    @property
    def keys_each(self) -> tuple[int, ...]:
        """Of each decode; all alike where only the sum is known."""
        if self.lengths:
            return self.lengths
        each, more = divmod(self.keys, max(1, self.decodes))
        return tuple(each + (i < more) for i in range(self.decodes))

    @property
    def overhead_ns(self) -> int:
        """What the server took beside the forward: planning, sampling, and all its own."""
        return self.end_ns - self.start_ns - self.device_ns


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
    | ServingLine
    | ServingRequest
    | ServingStep
)
