"""Which part of a prediction is to blame where a measured step took longer or shorter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simcg.arrays import Ints
from simcg.backend import backend_named
from simcg.cost.step import OpTimes, StepCost
from simcg.hardware.profile import HardwareProfile
from simcg.provenance import RELATIVE_ERROR, Provenance, weakest
from simcg.runs.predict import Predictor, StepSizes
from simcg.runs.read import Runs
from simcg.runs.schema import StepCell

HOST, GAPS = "host", "gaps"
"""Names of the parts that are no ops: issuing it all, and what lies between kernels."""


@dataclass(frozen=True, slots=True)
class Part:
    """The ops of one name in a step, in ns, and the weakest figure that they rest on.

    ``needed``: by which share it must be off to be the whole error of the step.
    """

    name: str
    predicted_ns: int
    needed: float
    provenance: Provenance

    @property
    def strain(self) -> float:
        """That, in units of what figures of this provenance are allowed to be off."""
        return abs(self.needed) / RELATIVE_ERROR[self.provenance]


@dataclass(frozen=True, slots=True)
class Account:
    """A measured step beside its prediction, taken apart.

    ``parts``: what the GPU does, the longest first, together ``device_ns``.  ``host``: issuing it
    all, beside the GPU's work, as far off as it was measured to be.
    """

    cell: StepCell
    predicted_ns: int
    device_ns: int
    parts: tuple[Part, ...]
    host: Part

    @property
    def error(self) -> float:
        """Predicted over measured, less 1."""
        return self.predicted_ns / self.cell.ns - 1

    @property
    def suspect(self) -> Part:
        """The host if its measured time explains half of the error; else the least strained part.

        An error that a part could only explain by being off many times is not that part's.
        """
        issued_ns = self.cell.host_ns
        left = abs(self.cell.ns - max(self.device_ns, issued_ns))
        is_felt = max(issued_ns, self.host.predicted_ns) > self.device_ns
        if is_felt and left <= abs(self.cell.ns - self.predicted_ns) / 2:
            return self.host
        return min(self.parts, key=lambda part: part.strain)


def accounts(runs: Runs, profile: HardwareProfile) -> list[Account]:
    """Every measured step of the runs, taken apart, the worst error first."""
    cells = runs.of(StepCell)
    found: list[Account] = []
    for key in dict.fromkeys((c.model, c.backend, c.compiler) for c in cells):
        same = [c for c in cells if (c.model, c.backend, c.compiler) == key]
        found += _accounts(same, Predictor(runs.header.models[key[0]], profile))
    return sorted(found, key=lambda one: -abs(one.error))


def _accounts(cells: Sequence[StepCell], predictor: Predictor) -> list[Account]:
    """Cells of one model and backend."""
    columns = np.array([(c.tokens, c.requests, c.pairs, c.bucket) for c in cells], dtype=np.int64)
    times = OpTimes(predictor.profile, StepSizes(*columns.T).work)
    cost = StepCost(predictor.forward, predictor.profile, backend_named(cells[0].backend))
    step = cost.times_from(times)
    distinct, order = predictor.forward.numbered
    spent: dict[str, Ints] = {}
    grounds: dict[str, Provenance] = {}
    for index, op in enumerate(distinct):
        time = times.of(op)
        spent[op.name] = spent.get(op.name, 0) + time.ns * order.count(index)
        grounds[op.name] = weakest((grounds.get(op.name, "measured"), time.provenance))
    known = cost.figures()
    spent[GAPS] = step.device_ns - sum(spent.values())
    grounds[GAPS] = weakest(figure.provenance for part, figure in known if part == "gaps")
    host = weakest(figure.provenance for part, figure in known if part != "gaps")
    out = []
    for i, cell in enumerate(cells):
        predicted = int(step.ns[i])
        missing = cell.ns - predicted
        parts = [
            Part(name, int(ns[i]), missing / int(ns[i]), grounds[name])
            for name, ns in spent.items()
            if ns[i] > 0
        ]
        parts.sort(key=lambda part: -part.predicted_ns)
        issuing = Part(HOST, step.host_ns, cell.host_ns / step.host_ns - 1, host)
        out.append(Account(cell, predicted, int(step.device_ns[i]), tuple(parts), issuing))
    return out
