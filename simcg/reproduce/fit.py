"""Solves the fitted parameters: as many published values as parameters, within their bounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from simcg.arrays import Floats
from simcg.errors import SimcgError
from simcg.reproduce.parameters import Bound, Parameters, start

Simulate = Callable[[Parameters, str], float]
"""The simulated value of a published row, by its id."""

STEPS = 60
HALVINGS = 12
WIDTH = 1e-3
"""Of the finite differences, as a share of a range: costs are whole nanoseconds, so simulated
values are staircases whose treads are a hundred times narrower."""
PRECISION = 1e-5
"""The fit rests when every row is met as closely, or when no step meets them better."""


@dataclass(frozen=True, slots=True)
class Fit:
    """The solved parameters, those that stopped at a bound, and the steps it took."""

    parameters: Parameters
    at_bound: tuple[str, ...]
    steps: int


def fit(simulate: Simulate, target: Callable[[str], float], bounds: tuple[Bound, ...]) -> Fit:
    """Gauss-Newton on log(simulated / published), in units of the ranges, kept inside them.

    A parameter that a step would push out of its range stays at the bound, and the others take
    the step of least squares without it.
    """

    def misses(x: Floats) -> Floats:
        values = _parameters(x, bounds)
        return np.array([np.log(simulate(values, b.row) / target(b.row)) for b in bounds])

    x = np.full(len(bounds), 0.5)
    miss = misses(x)
    for step in range(STEPS):
        if np.abs(miss).max() <= PRECISION:
            return _fit(x, bounds, step)
        move = _step(x, miss, _slopes(misses, x, miss))
        for halving in range(HALVINGS):
            nearer = np.clip(x + move / 2**halving, 0, 1)
            there = misses(nearer)
            if there @ there < miss @ miss:
                break
        else:
            return _fit(x, bounds, step)
        x, miss = nearer, there
    raise SimcgError(f"the fit has not come to rest after {STEPS} steps")


def _parameters(x: Floats, bounds: tuple[Bound, ...]) -> Parameters:
    values = start()
    for share, bound in zip(x, bounds, strict=True):
        values = values.with_value(bound.name, bound.low + float(share) * (bound.high - bound.low))
    return values


def _slopes(misses: Callable[[Floats], Floats], x: Floats, miss: Floats) -> Floats:
    """Column j: the change of every miss with parameter j, by a difference inside the range."""
    columns = []
    for j in range(len(x)):
        aside = x.copy()
        aside[j] += WIDTH if x[j] < 0.5 else -WIDTH
        columns.append((misses(aside) - miss) / (aside[j] - x[j]))
    return np.array(columns).T


def _step(x: Floats, miss: Floats, slopes: Floats) -> Floats:
    """The step of least squares over the parameters that it does not push out of their range."""
    free = np.ones(len(x), dtype=np.bool_)
    move = np.zeros(len(x))
    for _ in range(len(x)):
        move = np.zeros(len(x))
        move[free] = np.linalg.lstsq(slopes[:, free], -miss, rcond=None)[0]
        stuck = free & (((x <= 0) & (move < 0)) | ((x >= 1) & (move > 0)))
        if not stuck.any():
            break
        free &= ~stuck
    return move


def _fit(x: Floats, bounds: tuple[Bound, ...], steps: int) -> Fit:
    edge = tuple(b.name for b, share in zip(bounds, x, strict=True) if not 0 < share < 1)
    return Fit(_parameters(x, bounds), edge, steps)
