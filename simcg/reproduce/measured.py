"""All measured deployments predicted: what is off by system, framework and model."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec
import numpy as np

from simcg.arrays import Floats
from simcg.errors import InputError, SimcgError
from simcg.reproduce.calibration import (
    ServerCosts,
    configuration,
    is_calibration,
    overheads,
    server_costs,
)
from simcg.reproduce.point import Point
from simcg.reproduce.predict import Prediction, predict
from simcg.reproduce.silicon import estimates
from simcg.sweep.lines import Lines
from simcg.sweep.workers import over_processes

TPOT_TARGET, TTFT_TARGET = 0.08, 0.15
"""Median errors that are aimed at."""
CHUNK = 24
"""Configurations that a process takes at once: neighbours share their tables."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One point: predicted, or why not; ``estimate``: TTFT and TPOT in ms by aiconfigurator."""

    point: Point
    predicted: Prediction | None
    reason: str
    estimate: tuple[float, float] | None

    @property
    def errors(self) -> tuple[float, float] | None:
        """TTFT and TPOT, as shares of the measured values."""
        if self.predicted is None:
            return None
        point, made = self.point, self.predicted
        return made.ttft_ms / point.ttft_ms - 1, made.tpot_ms / point.tpot_ms - 1

    @property
    def estimate_errors(self) -> tuple[float, float] | None:
        """Those of the other estimator."""
        if self.estimate is None:
            return None
        ttft, tpot = self.estimate
        return ttft / self.point.ttft_ms - 1, tpot / self.point.tpot_ms - 1


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Of |error| as shares: median and 90th percentile, TTFT and TPOT, over ``count`` points."""

    count: int
    ttft: tuple[float, float]
    tpot: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Group:
    """Points with something in common. ``measured``: all of them, ``ours`` and ``theirs`` over
    those that simcg and the other estimator price, ``ours_shared`` over those that both do.
    """

    name: tuple[str, ...]
    measured: int
    ours: Quantiles | None
    theirs: Quantiles | None
    ours_shared: Quantiles | None


def predicted(
    points: Sequence[Point],
    *,
    processes: int | None = None,
    notify: Callable[[int, int], None] | None = None,
    results: Path | None = None,
) -> tuple[Outcome, ...]:
    """The outcome of each point. Repeated measurements of a configuration are simulated once.

    ``notify`` is told how many configurations are done, of how many. ``results``: a file of lines
    that grows as they are; what stands in it is not simulated again.
    """
    costs = server_costs()
    by_configuration: dict[str, Point] = {}
    for point in sorted(points, key=lambda p: (p.system, p.framework, p.model, p.precision, p.tp)):
        by_configuration.setdefault(_key(point), point)
    with nullcontext() if results is None else Lines(results, "--results") as kept:
        known = {} if kept is None else _read(kept)
        todo = [key for key in by_configuration if key not in known]
        jobs = [(key, by_configuration[key]) for key in todo]
        done = len(by_configuration) - len(todo)
        workers = processes or os.cpu_count() or 1
        for key, found in over_processes(partial(_one, costs), jobs, workers, CHUNK):
            known[key] = found
            done += 1
            if kept is not None:
                kept.append(json.dumps([key, *found]).encode())
            if notify is not None:
                notify(done, len(by_configuration))
    other = estimates()
    return tuple(_outcome(point, known[_key(point)], other.get(point.id)) for point in points)


Found = tuple[float, float, str]


def _one(costs: dict[str, ServerCosts], job: tuple[str, Point]) -> tuple[str, Found]:
    key, point = job
    try:
        made = predict(point, overheads(point, costs[point.framework]))
    except SimcgError as error:
        return key, (0.0, 0.0, str(error))
    return key, (made.ttft_ms, made.tpot_ms, "")


def _key(point: Point) -> str:
    """What decides the prediction."""
    costs = hashlib.sha256(msgspec.json.encode(server_costs()[point.framework])).hexdigest()[:8]
    own = point.source == "gap-analysis"
    return f"{configuration(point)} {point.version} {own} {costs}"


def _outcome(point: Point, found: Found, estimate: tuple[float, float] | None) -> Outcome:
    ttft_ms, tpot_ms, reason = found
    made = None if reason else Prediction(ttft_ms, tpot_ms)
    return Outcome(point, made, reason, estimate)


def _read(kept: Lines) -> dict[str, Found]:
    """The results in the file by key; ``InputError`` where a line is none."""
    out: dict[str, Found] = {}
    for number, line in enumerate(kept.lines, 1):
        try:
            key, ttft_ms, tpot_ms, reason = msgspec.json.decode(
                line, type=tuple[str, float, float, str]
            )
        except msgspec.DecodeError:
            where, got = f"line {number}", line.decode(errors="replace")
            raise InputError(str(kept.path), where, got, "a result of this command") from None
        out[key] = ttft_ms, tpot_ms, reason
    kept.settle()
    return out


def reported(outcomes: Iterable[Outcome]) -> tuple[Outcome, ...]:
    """Those that the costs of servers were not fitted to."""
    return tuple(outcome for outcome in outcomes if not is_calibration(outcome.point))


def grouped(
    outcomes: Sequence[Outcome], name: Callable[[Point], tuple[str, ...]]
) -> tuple[Group, ...]:
    """Errors by that name, sorted by it."""
    members: dict[tuple[str, ...], list[Outcome]] = {}
    for outcome in outcomes:
        members.setdefault(name(outcome.point), []).append(outcome)
    return tuple(group(key, members[key]) for key in sorted(members))


def group(name: tuple[str, ...], outcomes: Sequence[Outcome]) -> Group:
    """Errors of these points together."""
    both = [o for o in outcomes if o.errors is not None and o.estimate_errors is not None]
    return Group(
        name,
        len(outcomes),
        _quantiles([o.errors for o in outcomes if o.errors is not None]),
        _quantiles([o.estimate_errors for o in outcomes if o.estimate_errors is not None]),
        _quantiles([o.errors for o in both if o.errors is not None]),
    )


def _quantiles(errors: Sequence[tuple[float, float]]) -> Quantiles | None:
    if not errors:
        return None
    found: Floats = np.quantile(np.abs(np.array(errors)), (0.5, 0.9), axis=0)
    (ttft, tpot), (ttft_90, tpot_90) = found.tolist()
    return Quantiles(len(errors), (ttft, ttft_90), (tpot, tpot_90))


def worst(outcomes: Iterable[Outcome], count: int) -> tuple[Outcome, ...]:
    """The points with the largest |log error| of TTFT and TPOT together."""

    def off(outcome: Outcome) -> float:
        ttft, tpot = outcome.errors or (0.0, 0.0)
        return float(abs(np.log1p(ttft)) + abs(np.log1p(tpot)))

    simulated = (o for o in outcomes if o.predicted is not None)
    return tuple(sorted(simulated, key=off, reverse=True)[:count])
