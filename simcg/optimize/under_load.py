"""A ladder for what users feel: the exact solver proposes, the simulated server decides.

Steps depend on the ladder: through step times, and with bucket-edge policies through the sizes
themselves. So ladder and steps take turns until they repeat. A ladder that is best for the mean
step is not always best for a quantile of latency, so near-optimal ladders are then served under
the same arrivals; they are ranked on one half of the runs and judged on the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from simcg.arrays import Floats
from simcg.des.serving import Arrivals, ServerConfig, ServingResult, Traced, simulate
from simcg.des.serving.clock import ServingClock
from simcg.des.serving.overload import Overload, overload
from simcg.des.serving.server import LoggedStep
from simcg.des.serving.setup import Wanted, server_setup
from simcg.des.serving.statistics import BATCHES, Interval, interval, paired
from simcg.errors import Finding, InputError, require
from simcg.ladder import Ladder
from simcg.optimize.scenario import Limits, Scenario
from simcg.optimize.study import Traffic, solved_on
from simcg.workload.step_sets import aggregate
from simcg.workload.steps import Steps

OBJECTIVES: dict[str, Callable[[Floats], float]] = {
    "ttft-p99": lambda ms: float(np.quantile(ms, 0.99)),
    "ttft-mean": lambda ms: float(ms.mean()),
}
"""Figures of the times to the first token in ms; less is better."""
MOST_ROUNDS = 5
REPLICATIONS = 8
"""Runs of random arrivals to rank candidates on, and as many fresh ones to judge the first."""
TIED = 0.01
"""Ladders that are worse by at most this share, and not significantly, are as good."""

Servers = Callable[[Ladder], tuple[ServerConfig, ServingClock]]
"""The server with that ladder; its clock takes a second, so none is made twice."""


@dataclass(frozen=True, slots=True)
class Question:
    """Which ladder serves ``arrivals`` best; ``wanted`` says all of the server but its ladder."""

    scenario: Scenario
    arrivals: Arrivals
    wanted: Wanted
    objective: str
    seed: int = 0

    def __post_init__(self) -> None:
        names = ", ".join(OBJECTIVES)
        require(self.objective in OBJECTIVES, "--objective", "", self.objective, f"one of {names}")

    def server(self, ladder: Ladder) -> tuple[ServerConfig, ServingClock]:
        """The server with this ladder, its KV cache with what the graphs leave."""
        scenario, wanted = self.scenario, replace(self.wanted, ladder=ladder)
        engine, model, chunk = scenario.engine, scenario.model, scenario.max_chunk
        config, _ = server_setup(engine, model, chunk, scenario.deployment, wanted)
        clock = config.clock()
        return (config.priced(clock) if config.policy.edges else config), clock


@dataclass(frozen=True, slots=True)
class Candidate:
    """A ladder under load. ``values``: the objective in ms, run by run; all saw the same."""

    name: str
    ladder: Ladder
    values: tuple[float, ...]
    overload: Overload | None

    @property
    def mean(self) -> Interval:
        """Over runs."""
        return interval(self.values)


@dataclass(frozen=True, slots=True)
class Choice:
    """The answer. ``ranked``: candidates that keep up, best first; ``dropped``: the others.

    ``judged``: winner less default in ms on runs that did not rank them, None where they are the
    same or the default does not keep up. ``chosen``: the default unless the winner is better
    beyond chance or limits forbid the default. ``fewest``: fewest graphs that are as good as the
    winner. ``path``: the ladders of each round; ``cycle``: rounds that repeat, 1 when the ladder
    rests, 0 when neither.
    """

    question: Question
    ranked: tuple[Candidate, ...]
    dropped: tuple[Candidate, ...]
    default: Candidate
    judged: Interval | None
    chosen: Candidate
    fewest: Candidate
    path: tuple[Ladder, ...]
    cycle: int

    @property
    def winner(self) -> Candidate:
        """First of the ranked."""
        return self.ranked[0]

    @property
    def is_significant(self) -> bool:
        """The winner differs from the default by more than chance."""
        return self.judged is not None and not self.judged.contains(0.0)


def choose_under_load(question: Question, notify: Callable[[str], None] = lambda _: None) -> Choice:
    """Iterate, rank and judge. Raises ``InputError`` when no candidate keeps up with the load."""
    servers = cache(question.server)
    path, proposed, cycle = iterated(question, servers, notify)
    default = question.scenario.default_ladder
    named = {default: "default"}
    named |= {ladder: name for name, ladder in proposed.items() if ladder not in named}
    served = []
    for ladder, name in named.items():
        notify(f"serving with {name}, {len(ladder)} graphs")
        served.append(_served(question, name, ladder, servers(ladder)))
    # under limits that it may break the default is what others are compared with, no candidate
    free = question.scenario.limits == Limits() or default in proposed.values()
    ranked = sorted((c for c in served[not free :] if c.overload is None),
                    key=lambda c: (c.mean.mean, len(c.ladder)))  # fmt: skip
    dropped = tuple(c for c in served if c.overload is not None)
    if not ranked:
        over = max((c.overload for c in dropped if c.overload), key=lambda o: o.capacity_per_s)
        raise InputError("load", "", Finding(str(over)), "less than the capacity")
    winner, judged = ranked[0], None
    if winner.ladder != default and served[0].overload is None:
        notify("judging the winner on fresh runs")
        pair = (servers(c.ladder) for c in (served[0], winner))
        judged = paired(*(_values(question, server, fresh=True) for server in pair))
    tied = [c for c in ranked if _is_tied(winner, c)]
    chosen = winner
    if free and judged is not None and judged.high >= 0:
        chosen = served[0]
    return Choice(
        question=question,
        ranked=tuple(ranked),
        dropped=dropped,
        default=served[0],
        judged=judged,
        chosen=chosen,
        fewest=min(tied, key=lambda c: len(c.ladder)),
        path=path,
        cycle=cycle,
    )


def simulated_steps(
    config: ServerConfig, clock: ServingClock, arrivals: Arrivals, seed: int
) -> Steps:
    """The steps with prefill tokens that the server runs, counted; decodes in them are rows."""
    log: list[LoggedStep] = []
    simulate(config, arrivals, seed, clock=clock, log=log)
    table = np.array(
        [(s.tokens, s.requests, s.decodes, s.keys, s.pairs, s.steps) for s in log if s.tokens],
        dtype=np.int64,
    )
    tokens, requests, decodes, keys, pairs, count = table.T
    beside = decodes if config.policy.mixes else np.zeros_like(decodes)
    shared = np.where(beside > 0, keys, 0)
    rows = tokens + beside
    pairs = np.maximum(pairs + shared, rows)
    none = np.zeros_like(rows)
    source = f"steps served from {arrivals.requests.source}"
    return aggregate(Steps(rows, requests + beside, none, pairs, count, None, source))


def iterated(
    question: Question, servers: Servers, notify: Callable[[str], None]
) -> tuple[tuple[Ladder, ...], dict[str, Ladder], int]:
    """Ladders by round, the proposals of the last one by name, and the length of the cycle."""
    scenario = question.scenario
    path, proposed = [scenario.default_ladder], dict[str, Ladder]()
    for rounds in range(1, MOST_ROUNDS + 1):
        notify(f"round {rounds}: serving and solving")
        config, clock = servers(path[-1])
        steps = simulated_steps(config, clock, question.arrivals, question.seed)
        solved = solved_on(replace(scenario, traffic=steps, rate=1.0), Traffic(steps, steps, None))
        frontier, slots = solved.frontier, scenario.model.slots
        proposed |= {f"optimal, round {rounds}": solved.ladder}
        if solved.ladder in path:
            cycle = len(path) - path.index(solved.ladder)
        else:
            cycle = 0
            path.append(solved.ladder)
        if cycle or rounds == MOST_ROUNDS:
            for count in _counts(len(scenario.default_ladder), frontier.max_buckets):
                best = frontier.best_count(count)
                if best is not None:
                    name = f"optimal, at most {count}"
                    proposed[name] = Ladder.of(frontier.ladder(best), slots)
            break
    return tuple(path), proposed, cycle


def _counts(default: int, most: int) -> list[int]:
    """Numbers of graphs to try: the default's, half of it, a quarter, and so on down to one."""
    out, count = [], min(default, most)
    while count >= 1:
        out.append(count)
        count //= 2
    return out


def _served(
    question: Question, name: str, ladder: Ladder, server: tuple[ServerConfig, ServingClock]
) -> Candidate:
    config, clock = server
    seed = question.seed + 1
    first = simulate(config, question.arrivals, seed, clock=clock)
    over = overload(config, question.arrivals, first, seed=seed, clock=clock)
    values = _values(question, server, first) if over is None else ()
    return Candidate(name, ladder, values, over)


def _values(
    question: Question,
    server: tuple[ServerConfig, ServingClock],
    first: ServingResult | None = None,
    *,
    fresh: bool = False,
) -> tuple[float, ...]:
    """The objective run by run; of a replayed trace, part by part of half of its time.

    ``first``: the first of the runs that rank, where it is known.
    """
    config, clock = server
    figure, arrivals = OBJECTIVES[question.objective], question.arrivals
    if isinstance(arrivals.process, Traced):
        result = simulate(config, arrivals, question.seed, clock=clock)
        parts = np.array_split(_ms(result), BATCHES)[fresh::2]
        return tuple(figure(part) for part in parts if len(part))
    begin = question.seed + 1 + (REPLICATIONS if fresh else 0)
    known = [] if first is None else [first]
    seeds = range(begin + len(known), begin + REPLICATIONS)
    runs = (*known, *(simulate(config, arrivals, s, clock=clock) for s in seeds))
    return tuple(figure(_ms(run)) for run in runs)


def _ms(result: ServingResult) -> Floats:
    out: Floats = result.ttft_ns / 1e6
    return out


def _is_tied(winner: Candidate, other: Candidate) -> bool:
    """Is the other as good, as far as these runs tell?"""
    if other.ladder == winner.ladder:
        return True
    worse = paired(winner.values, other.values)
    return worse.low <= 0 and worse.mean <= TIED * winner.mean.mean
