"""Does the server keep up? What it can do when more always waits, against what comes."""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass

import numpy as np

from simcg.arrays import Floats, Ints
from simcg.des.serving.arrivals import Arrivals, Traced, shown_rate
from simcg.des.serving.clock import ServingClock
from simcg.des.serving.config import ServerConfig
from simcg.des.serving.result import ServingResult
from simcg.des.serving.server import Columns
from simcg.des.serving.simulate import serve
from simcg.des.serving.statistics import BATCHES, Interval, batch_means, interval

FILLS, LEAST = 10, 2_000
"""A saturated run serves so many times the requests that it holds at once, and not fewer."""


@dataclass(frozen=True, slots=True)
class Overload:
    """More requests a second come than can be served, so the queue diverges."""

    offered_per_s: float
    capacity_per_s: float

    def __str__(self) -> str:
        """One line for the user."""
        return (
            f"the queue diverges: offered {shown_rate(self.offered_per_s)}, capacity "
            f"{self.capacity_per_s:.2f} requests/s"
        )


@dataclass(frozen=True, slots=True)
class Load:
    """Requests a second that come and that can be served, both with 95 % intervals."""

    offered: Interval
    capacity: Interval

    @property
    def overload(self) -> Overload | None:
        """Is it certain that more comes than can be served?"""
        if self.offered.low <= self.capacity.high:
            return None
        return Overload(self.offered.mean, self.capacity.mean)

    @property
    def keeps_up(self) -> bool:
        """Is it certain that less comes?"""
        return self.offered.high < self.capacity.low

    @property
    def warning(self) -> str | None:
        """What the user must know: that the queue diverges, or that nobody can tell."""
        if self.overload is not None:
            return str(self.overload)
        if self.keeps_up:
            return None
        why = "short" if self.offered.half_width > self.capacity.half_width else "close"
        return (
            f"too {why} to tell whether the queue diverges: offered {_span(self.offered)}, "
            f"capacity {_span(self.capacity)} requests/s"
        )


def load_of(
    config: ServerConfig,
    arrivals: Arrivals,
    result: ServingResult,
    *,
    seed: int,
    clock: ServingClock,
) -> Load | None:
    """What comes in this run and what can be served; None where no rate is offered.

    That is so in a closed loop and where all requests come at once.
    """
    mean = result.offered_per_s
    if mean is None or math.isinf(mean):
        return None
    offered = Interval(mean, mean, mean)
    if isinstance(arrivals.process, Traced):
        offered = _rate_of(_gap(np.diff(result.arrival_ns) / 1e9))
    return Load(offered, capacity(config, arrivals, seed=seed, clock=clock))


def overload(
    config: ServerConfig,
    arrivals: Arrivals,
    result: ServingResult,
    *,
    seed: int,
    clock: ServingClock,
) -> Overload | None:
    """Whether the run was one of a server that cannot keep up; None if that is not certain."""
    load = load_of(config, arrivals, result, seed=seed, clock=clock)
    return None if load is None else load.overload


def capacity(
    config: ServerConfig, arrivals: Arrivals, *, seed: int, clock: ServingClock
) -> Interval:
    """Requests a second when more always wait, whatever the rate and number that arrive.

    The lengths of all requests of the traffic, again and again; those that the cache can never
    hold are left out. Counted from the time when twice as many are done as it holds at once until
    the last but so many starts, in batches as long as a request stays, by the share of its stay
    that each request has behind it. Both ends are ends of requests: where all are equally long they
    are done together, wave by wave, and part of a wave is no fair sample.
    """
    waiting = _saturating(config, arrivals, seed)
    server = serve(clock, config.policy, config.limits, waiting, len(waiting.prompt))
    columns = (server.start, server.finish)
    start, finish = (np.frombuffer(column, dtype=np.int64) for column in columns)
    done, begun = np.sort(finish), np.sort(start)
    many = len(done)
    held = int((np.arange(1, many + 1) - np.searchsorted(done, begun, side="right")).max())
    first = int(done[min(2 * held, many - 1)])
    last = int(done[np.searchsorted(done, begun[max(many - 1 - held, 0)], side="right") - 1])
    batches = min(int((last - first) / (finish - start).mean()), BATCHES)
    if batches < 1:  # it never came to rest
        return _rate_of(interval([done[-1] / many / 1e9]))
    edges = np.linspace(first, last, batches + 1)
    shares = [np.clip((at - start) / (finish - start), 0, 1).sum() for at in edges]
    return interval(np.diff(shares) / (np.diff(edges) / 1e9))


def _saturating(config: ServerConfig, arrivals: Arrivals, seed: int) -> Columns:
    """Requests that all wait from the start, enough of them for several times the cache."""
    requests, room = arrivals.requests, config.kv_tokens // config.block_tokens
    output = np.maximum(requests.output_tokens, 1)
    if arrivals.output_tokens is not None:
        output = np.full_like(output, arrivals.output_tokens)
    known = np.flatnonzero(requests.prompt_tokens + output - 1 <= room * config.block_tokens)
    tokens = (requests.prompt_tokens + output / 2)[known]  # in the cache, at half of its life
    held = min(config.max_running, config.kv_tokens / float(tokens.mean()))
    count = max(LEAST, round(FILLS * held))
    random = np.random.default_rng([seed, 2])
    rounds = [random.permutation(known) for _ in range(-(-count // len(known)))]
    rows: Ints = np.concatenate(rounds)[:count]
    parts = (requests.prompt_tokens[rows], requests.cached_tokens[rows], output[rows])
    columns = (array("q", part.astype(np.int64).tobytes()) for part in parts)
    return Columns(array("q", bytes(8 * count)), *columns)


def _gap(gaps_s: Floats) -> Interval:
    """The mean gap of a trace, as far as so many gaps tell."""
    return batch_means(gaps_s) if len(gaps_s) >= 2 * BATCHES else interval(gaps_s)


def _rate_of(gap_s: Interval) -> Interval:
    """The rate of a mean gap; a gap that may be 0 has no highest rate."""
    low = 1 / gap_s.high if math.isfinite(gap_s.high) else 0.0
    return Interval(1 / gap_s.mean, low, 1 / gap_s.low if gap_s.low > 0 else math.inf)


def _span(found: Interval) -> str:
    """A rate, and its interval where it has one."""
    mean = shown_rate(found.mean)
    if found.low == found.high:
        return mean
    high = "more" if math.isinf(found.high) else shown_rate(found.high)
    return f"{mean} ({shown_rate(found.low)} to {high})"
