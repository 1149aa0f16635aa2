"""What is asked: an engine, a model on a GPU, traffic, and the limits on the ladder."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from simcg.arguments import check_fields
from simcg.arrays import Bools
from simcg.cost.kernels import Kernels
from simcg.cost.memory import graph_bytes
from simcg.cost.table import ReplayModel
from simcg.des.memory.pool import pool_curve
from simcg.engines import Engine
from simcg.engines.engine import PLAIN_DEPLOYMENT, Deployment
from simcg.errors import InputError, SimcgError, require
from simcg.ladder import Ladder
from simcg.workload.requests import Requests
from simcg.workload.steps import Steps

LARGEST_CHUNK = 1 << 17
"""Tables have an entry a size, so chunks end here, far above what servers run."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the ladder must satisfy; None or 1 or () where there is no limit.

    ``max_buckets``: at most so many.  ``ceiling``: exactly this top.  ``include``: sizes that
    must be in it.  ``align``: every size is a multiple, the ceiling and ``include`` excepted.
    ``memory_bytes``: most device bytes of the graphs.  ``startup_ns``: longest start-up.
    """

    max_buckets: int | None = None
    ceiling: int | None = None
    include: tuple[int, ...] = ()
    align: int = 1
    memory_bytes: int | None = None
    startup_ns: int | None = None

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True)
class Scenario:
    """One question to the optimizer.

    ``max_chunk``: the scheduler's cap on the tokens of a step.  ``rate``: arrivals are so many
    times faster.  ``max_requests``: most requests a step, None for no cap.
    """

    engine: Engine
    model: ReplayModel
    traffic: Requests | Steps
    max_chunk: int
    rate: float = 1.0
    max_requests: int | None = None
    limits: Limits = field(default_factory=Limits)
    deployment: Deployment = PLAIN_DEPLOYMENT

    def __post_init__(self) -> None:
        check_chunk(self.max_chunk)
        require(0 < self.rate < math.inf, "--rate", "", self.rate, "a number > 0")
        timed = isinstance(self.traffic, Requests) and self.traffic.arrival_ns is not None
        untimed = f"1: {self.traffic.source} has no times"
        require(timed or self.rate == 1, "--rate", "", self.rate, untimed)

    def __repr__(self) -> str:
        model, engine = self.model, self.engine
        where = f"{model.forward.name} on {model.profile.name}, {engine.name} {engine.version}"
        return f"Scenario({where}, chunk {self.max_chunk}, {self.traffic!r})"

    @property
    def default_ladder(self) -> Ladder:
        """What the engine captures when nobody says anything."""
        bare = self.engine.default_ladder(self.max_chunk, self.deployment)
        return Ladder.of(bare.sizes, self.model.slots)


def check_chunk(max_chunk: int) -> None:
    """Raise ``InputError`` for a chunk that no server has."""
    inside = 1 <= max_chunk <= LARGEST_CHUNK
    require(inside, "--max-chunk", "", max_chunk, f"an integer from 1 to {LARGEST_CHUNK}")


@dataclass(frozen=True, slots=True)
class Choices:
    """The limits as the solver takes them: how many, which sizes, which tops, which always.

    ``top_by_count``: as in ``LadderProblem``, from the memory limit.
    """

    max_buckets: int
    allowed: Bools
    tops: Bools
    required: tuple[int, ...]
    top_by_count: tuple[int, ...] = ()


def choices(scenario: Scenario, requests: int) -> Choices:
    """The limits as masks over 0..max_chunk; ``requests``: rows of the logits in a bucket.

    Raises ``SimcgError`` when limits contradict each other, saying which, or when the memory
    limit admits nothing, saying the least that would.
    """
    limits, top = scenario.limits, scenario.max_chunk
    require(1 <= limits.align <= top, "--align", "", limits.align, f"1 to --max-chunk {top}")
    engine_sizes = scenario.engine.allowed_sizes(top, scenario.deployment)
    sizes = np.arange(top + 1)
    allowed = engine_sizes & (sizes % limits.align == 0)
    if limits.align == 1:
        proposed = measured_sizes(scenario.model, top)
        # under a guard a size below a measured one admits more steps: the default's own stay
        proposed[[size for size in scenario.default_ladder.sizes if size <= top]] = True
        allowed &= proposed
    for flag, size in _named(limits):
        require(1 <= size <= top, flag, "", size, f"1 to --max-chunk {top}")
        known = f"a size that {scenario.engine.name} can be told to capture"
        require(bool(engine_sizes[size]), flag, "", size, known)
        allowed[size] = True
    decode = scenario.engine.decode_sizes(top, scenario.deployment)
    allowed[list(decode)] = True
    required = tuple(sorted({*decode, *(size for _, size in _named(limits))}))
    buckets = _max_buckets(scenario, required)
    tops = allowed.copy()
    if limits.ceiling is not None:
        tops = sizes == limits.ceiling
        allowed[limits.ceiling + 1 :] = False
        if required[-1] > limits.ceiling:
            why = _demand(scenario, required[-1])
            raise SimcgError(f"--ceiling {limits.ceiling} contradicts {why}: it is larger")
    top_by_count = _within_memory(scenario, buckets, required, tops, requests)
    return Choices(buckets, allowed, tops, required, top_by_count)


def measured_sizes(model: ReplayModel, top: int) -> Bools:
    """Where a dense op's time was measured, over 0..top, and ``top``; everywhere if none was.

    Between measured points a size is priced as the next one, so it is never the better bucket.
    """
    kernels = Kernels(model.profile)
    distinct, _ = model.forward.numbered
    points = {int(x) for op in distinct for x in kernels.measured_rows(op) if x <= top}
    if not points:
        return np.ones(top + 1, dtype=np.bool_)
    out = np.zeros(top + 1, dtype=np.bool_)
    out[[*points, top]] = True
    return out


def _named(limits: Limits) -> list[tuple[str, int]]:
    """Sizes that the user names, each with its flag."""
    named = [("--include", size) for size in limits.include]
    return named if limits.ceiling is None else [*named, ("--ceiling", limits.ceiling)]


def _demand(scenario: Scenario, size: int) -> str:
    """What demands that this size be captured."""
    for flag, named in _named(scenario.limits):
        if named == size:
            return f"{flag} {size}"
    seqs = scenario.deployment.max_num_seqs
    batches = "any size (see --max-num-seqs)" if seqs is None else f"up to {seqs} requests"
    return (
        f"size {size}, which {scenario.engine.name}'s one list keeps for decode graphs of {batches}"
    )


def _max_buckets(scenario: Scenario, required: tuple[int, ...]) -> int:
    """The limit on the number of buckets, which must hold the required ones."""
    limits = scenario.limits
    if limits.max_buckets is None:
        return max(len(scenario.default_ladder), len(required), 1)
    require(limits.max_buckets >= 0, "--buckets", "", limits.max_buckets, "an integer >= 0")
    if limits.max_buckets < len(required):
        why = _demand(scenario, required[-1])
        raise SimcgError(
            f"--buckets {limits.max_buckets} contradicts {why}: {len(required)} sizes are needed"
        )
    return limits.max_buckets


def _within_memory(
    scenario: Scenario, buckets: int, required: tuple[int, ...], tops: Bools, requests: int
) -> tuple[int, ...]:
    """The largest top up to which all pools fit beside the graphs of k buckets, k = 0..buckets."""
    limit, model = scenario.limits.memory_bytes, scenario.model
    if limit is None:
        return ()
    possible = np.flatnonzero(tops)
    possible = possible[possible >= max(required, default=1)]
    fewest = max(1, len(required))
    most = limit - graph_bytes(1, model)
    pools = pool_curve(possible, requests, model, most)
    need = int(pools[0]) + graph_bytes(fewest, model)
    if need > limit and (required or buckets > 0):
        least = f"at least {need} bytes, for a ceiling of {possible[0]} and {fewest} graphs"
        without = "" if required else "; without graphs use --buckets 0"
        raise InputError("--max-memory", "", limit, least + without)
    out = [0]
    for count in range(1, buckets + 1):
        room = limit - graph_bytes(count, model)
        fitting = int(np.searchsorted(pools, room, side="right"))
        out.append(int(possible[fitting - 1]) if fitting else 0)
    return tuple(out)
