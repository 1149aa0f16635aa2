"""When requests arrive, and how long they are: a trace, random processes, a closed loop."""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass, field

import numpy as np

from simcg.arguments import check_fields
from simcg.arrays import Floats, Ints
from simcg.des.serving.server import NEVER, Columns
from simcg.errors import Finding, InputError, require
from simcg.workload.requests import MAX_TIME_NS, MAX_TOKENS, Requests
from simcg.workload.scheduler import scaled_arrivals


@dataclass(frozen=True, slots=True)
class Traced:
    """At the times of the trace, ``rate`` times faster."""

    rate: float = 1.0

    def __post_init__(self) -> None:
        check_fields(self)
        require(0 < self.rate < math.inf, "rate", "", self.rate, "a number > 0")

    def __str__(self) -> str:
        return "at the times of the trace" + (
            "" if self.rate == 1 else f", {self.rate:g} times faster"
        )


@dataclass(frozen=True, slots=True)
class Poisson:
    """``per_s`` requests a second in the mean, each on its own."""

    per_s: float

    def __post_init__(self) -> None:
        check_fields(self)
        _check_rate(self.per_s)

    def __str__(self) -> str:
        return f"{self.per_s:g} requests a second at random (Poisson)"

    def gaps_s(self, count: int, random: np.random.Generator) -> Floats:
        """Gaps between arrivals in seconds."""
        return random.exponential(1 / self.per_s, count)


@dataclass(frozen=True, slots=True)
class Gamma:
    """Gaps whose standard deviation is ``cv`` times their mean: 1 is Poisson, more is bursty."""

    per_s: float
    cv: float

    def __post_init__(self) -> None:
        check_fields(self)
        _check_rate(self.per_s)
        require(0 < self.cv <= 100, "cv", "", self.cv, "a number > 0, at most 100")

    def __str__(self) -> str:
        return f"{self.per_s:g} requests a second, gaps vary by {self.cv:.2f} of their mean"

    def gaps_s(self, count: int, random: np.random.Generator) -> Floats:
        """Gaps between arrivals in seconds."""
        shape = self.cv**-2
        return random.gamma(shape, 1 / (self.per_s * shape), count)


@dataclass(frozen=True, slots=True)
class OnOff:
    """A Markov-modulated Poisson process: ``per_s`` in the mean, all of it in the on phases.

    Phases last ``on_s`` and ``off_s`` seconds in the mean, exponentially distributed.
    """

    per_s: float
    on_s: float
    off_s: float

    def __post_init__(self) -> None:
        check_fields(self)
        _check_rate(self.per_s)
        for name in ("on_s", "off_s"):
            value = getattr(self, name)
            require(0 < value < math.inf, name, "", value, "seconds > 0")

    def __str__(self) -> str:
        return f"{self.per_s:g} requests a second, {self.on_s:g} s on and {self.off_s:g} s off"

    def gaps_s(self, count: int, random: np.random.Generator) -> Floats:
        """Gaps between arrivals in seconds."""
        # arrivals on the clock of the on phases, then the off phases that lie between them
        share = self.on_s / (self.on_s + self.off_s)
        on_clock = np.cumsum(random.exponential(share / self.per_s, count))
        phases = max(1, math.ceil(2 * float(on_clock[-1]) / self.on_s) + 10)
        ends = np.cumsum(random.exponential(self.on_s, phases))
        while ends[-1] < on_clock[-1]:
            ends = np.concatenate([ends, ends[-1] + np.cumsum(random.exponential(self.on_s, 10))])
        passed = np.searchsorted(ends, on_clock)
        pauses = np.cumsum(random.exponential(self.off_s, len(ends)))
        times = on_clock + np.where(passed > 0, pauses[passed - 1], 0.0)
        return np.diff(times, prepend=0.0)


@dataclass(frozen=True, slots=True)
class Closed:
    """``concurrency`` clients: each sends its next request as soon as its last one is done.

    That is just after a step: where others still run, it waits for a whole step of theirs.
    """

    concurrency: int

    def __post_init__(self) -> None:
        check_fields(self)
        require(self.concurrency >= 1, "--concurrency", "", self.concurrency, "an integer >= 1")

    def __str__(self) -> str:
        return f"a closed loop of {self.concurrency} clients"


@dataclass(frozen=True, slots=True)
class AtOnce:
    """All requests wait from the start, as with an infinite rate of vLLM's ``bench serve``."""

    def __str__(self) -> str:
        return "all requests at once"


Process = Traced | Poisson | Gamma | OnOff | Closed | AtOnce


@dataclass(frozen=True, slots=True)
class Arrivals:
    """``requests`` give lengths, and times where the process is ``Traced``.

    ``count``: how many are sent (None: as many as there are). In the trace's order where it is
    replayed; otherwise shuffled by the seed, and drawn again and again where more are wanted.
    ``output_tokens``: of every request, instead of the trace's.
    """

    requests: Requests
    process: Process = field(default_factory=Traced)
    count: int | None = None
    output_tokens: int | None = None

    def __post_init__(self) -> None:
        source, process = self.requests.source, self.process
        timed = self.requests.arrival_ns is not None
        if isinstance(process, Traced) and not timed:
            expected = "times, or another arrival process (Poisson, a closed loop)"
            raise InputError(source, "arrivals", Finding("no times"), expected)
        if self.count is not None:
            require(self.count >= 1, "--num-prompts", "", self.count, "an integer >= 1")
            replayed = isinstance(process, Traced) and self.count > len(self.requests)
            most = f"at most the {len(self.requests)} of the trace that is replayed"
            require(not replayed, "--num-prompts", "", self.count, most)
        if self.output_tokens is not None:
            inside = 1 <= self.output_tokens <= MAX_TOKENS
            require(inside, "--output-tokens", "", self.output_tokens, f"1 to {MAX_TOKENS}")
        elif not bool((self.requests.output_tokens > 0).any()):
            expected = "output lengths: a column, or one length for all (--output-tokens)"
            raise InputError(source, "output tokens", Finding("none"), expected)

    @property
    def total(self) -> int:
        """How many requests are sent."""
        return len(self.requests) if self.count is None else self.count

    def rows(self, seed: int) -> Ints:
        """Which request comes when: indices into ``requests``."""
        total, known = self.total, len(self.requests)
        if isinstance(self.process, Traced):
            return np.arange(total, dtype=np.int64)
        random = np.random.default_rng([seed, 0])
        rounds = [random.permutation(known) for _ in range(-(-total // known))]
        rows: Ints = np.concatenate(rounds)[:total].astype(np.int64)
        return rows

    def times_ns(self, seed: int) -> Ints:
        """Arrival times (int64, from 0); ``NEVER`` for those that a completion sends."""
        process, total = self.process, self.total
        if isinstance(process, Traced):
            times = scaled_arrivals(self.requests, process.rate)[:total]
            since_first: Ints = times - times[0]
            return since_first
        if isinstance(process, Closed):
            times = np.full(total, NEVER, dtype=np.int64)
            times[: process.concurrency] = 0
            return times
        if isinstance(process, AtOnce):
            return np.zeros(total, dtype=np.int64)
        gaps = process.gaps_s(total, np.random.default_rng([seed, 1]))
        within, late = float(gaps.sum()) * 1e9 < MAX_TIME_NS, "arrivals within 146 years"
        require(within, "--request-rate", "", process.per_s, late)
        return np.rint(np.cumsum(gaps) * 1e9).astype(np.int64)

    def columns(self, seed: int) -> tuple[Columns, int]:
        """What the server reads, and how many requests are sent before any is done."""
        rows, times, requests = self.rows(seed), self.times_ns(seed), self.requests
        output = np.maximum(requests.output_tokens[rows], 1)
        if self.output_tokens is not None:
            output = np.full_like(output, self.output_tokens)
        parts = (times, requests.prompt_tokens[rows], requests.cached_tokens[rows], output)
        sent = int((times < NEVER).sum())
        return Columns(*(array("q", part.tobytes()) for part in parts)), sent

    def offered_per_s(self, arrival_ns: Ints) -> float | None:
        """Requests a second that come whatever the server does.

        Infinite where all come at once; None in a closed loop.
        """
        if isinstance(self.process, Closed):
            return None
        if isinstance(self.process, Poisson | Gamma | OnOff):
            return self.process.per_s
        span = int(arrival_ns[-1] - arrival_ns[0])
        return (len(arrival_ns) - 1) * 1e9 / span if span else math.inf


def shown_rate(per_s: float) -> str:
    """Two digits after the point, or three in all where the rate is huge."""
    return f"{per_s:.2f}" if per_s < 1e6 else f"{per_s:.3g}"


def _check_rate(per_s: float) -> None:
    require(0 < per_s < math.inf, "--request-rate", "", per_s, "requests a second > 0")
