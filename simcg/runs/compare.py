"""Predicted beside measured, cell by cell, and the errors of each kind summed up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from simcg.hardware.profile import HardwareProfile
from simcg.runs.predict import Predictor, StepSizes
from simcg.runs.read import Runs
from simcg.runs.schema import CaptureCell, DecisionCell, MemoryCell, StepCell

Kind = Literal[
    "step", "trace step", "capture", "compile", "graph pool", "eager peak", "graph memory"
]
Group = Literal["timed rows", "other rows", "unseen model", "all"]


@dataclass(frozen=True, slots=True)
class Compared:
    """One cell: ``predicted`` and ``measured`` in ns or bytes.

    ``backend`` names the compiler too. ``floor``: repeat-to-repeat spread as a share, None where
    the cell was measured once. ``blame``: the largest part of the prediction, "" if unknown.
    """

    kind: Kind
    model: str
    backend: str
    group: Group
    label: str
    tokens: int
    predicted: float
    measured: float
    floor: float | None = None
    blame: str = ""

    @property
    def error(self) -> float:
        """Predicted over measured, less 1."""
        return self.predicted / self.measured - 1


@dataclass(frozen=True, slots=True)
class Errors:
    """|predicted / measured - 1| of a group of cells; ``bias``: the median with its sign.

    ``floor``: the median repeat-to-repeat spread, None if nothing was repeated.
    """

    kind: Kind
    backend: str
    group: Group
    count: int
    median: float
    p95: float
    worst: float
    bias: float
    floor: float | None
    worst_cell: Compared


@dataclass(frozen=True, slots=True)
class Comparison:
    """All cells of some runs on one profile."""

    cells: tuple[Compared, ...]
    errors: tuple[Errors, ...]


def compare(many: Sequence[Runs], profile: HardwareProfile) -> Comparison:
    """Every measured time and size beside its prediction from ``profile`` alone."""
    cells: list[Compared] = []
    for runs in many:
        captures = runs.of(CaptureCell)
        compiled = [c for c in captures if c.compile_ns > 0]
        firsts = {c.compiler: c for c in reversed(compiled)}
        for name, architecture in runs.header.models.items():
            one = _Model(name, Predictor(architecture, profile))
            cells += one.steps([c for c in runs.of(StepCell) if c.model == name])
            cells += one.trace_steps([c for c in runs.of(DecisionCell) if c.model == name])
            for capture in captures:
                if capture.model == name:
                    cells += one.capture(capture, firsts.get(capture.compiler) is capture)
            memories = [c for c in runs.of(MemoryCell) if c.model == name]
            cells += [cell for memory in memories for cell in one.memory(memory)]
    return Comparison(tuple(cells), tuple(summed_up(cells)))


def summed_up(cells: Iterable[Compared]) -> list[Errors]:
    """The errors of each (kind, backend, group) in the order in which they appear."""
    groups: dict[tuple[Kind, str, Group], list[Compared]] = {}
    for cell in cells:
        groups.setdefault((cell.kind, cell.backend, cell.group), []).append(cell)
    return [_errors(*key, members) for key, members in groups.items()]


def _errors(kind: Kind, backend: str, group: Group, cells: list[Compared]) -> Errors:
    signed = np.array([cell.error for cell in cells])
    size = np.abs(signed)
    floors = [cell.floor for cell in cells if cell.floor is not None]
    return Errors(
        kind=kind,
        backend=backend,
        group=group,
        count=len(cells),
        median=float(np.median(size)),
        p95=float(np.percentile(size, 95)),
        worst=float(size.max()),
        bias=float(np.median(signed)),
        floor=float(np.median(floors)) if floors else None,
        worst_cell=cells[int(size.argmax())],
    )


@dataclass(frozen=True, slots=True)
class _Model:
    """The cells of one model."""

    name: str
    predictor: Predictor

    def steps(self, cells: list[StepCell]) -> list[Compared]:
        """Latency; cells of one backend are predicted together."""
        out = []
        for key in dict.fromkeys((c.backend, c.compiler) for c in cells):
            same = [c for c in cells if (c.backend, c.compiler) == key]
            sizes = _sizes((c.tokens, c.requests, c.pairs, c.bucket) for c in same)
            predicted = self.predictor.step_ns(key[0], sizes)
            parts = self.predictor.largest_part(key[0], sizes)
            groups = self._groups(sizes)
            for cell, ns, group, part in zip(same, predicted.tolist(), groups, parts, strict=True):
                label = f"n={cell.tokens} m={cell.requests}"
                label += f" in {cell.bucket}" if cell.bucket not in (0, cell.tokens) else ""
                out.append(
                    Compared(
                        "step", self.name, _backend(*key), group, label, cell.tokens, ns, cell.ns,
                        cell.floor, part,
                    )
                )  # fmt: skip
        return out

    def trace_steps(self, cells: list[DecisionCell]) -> list[Compared]:
        """Each step of a trace in each bucket that it was timed in, and eager."""
        timed = [(cell, t) for cell in cells for t in cell.times]
        if not timed:
            return []
        sizes = _sizes(
            (b.num_tokens, b.num_requests, b.pairs, t.bucket)
            for b, t in ((cell.batch, t) for cell, t in timed)
        )
        groups = self._groups(sizes)
        out = []
        predicted: dict[str, list[int]] = {
            backend: self.predictor.step_ns(backend, sizes).tolist()
            for backend in dict.fromkeys(cell.backend for cell, _ in timed)
        }
        for i, (cell, t) in enumerate(timed):
            backend = _backend(cell.backend, cell.compiler) if t.bucket else "eager"
            out.append(
                Compared(
                    "trace step", self.name, backend, groups[i],
                    f"step {cell.index} in {t.bucket or 'eager'}", cell.batch.num_tokens,
                    predicted[cell.backend][i], float(np.median(t.ns)),
                )
            )  # fmt: skip
        return out

    def capture(self, cell: CaptureCell, first: bool) -> list[Compared]:
        """Capture time: what a bucket adds to a start-up, two warm-ups, recording, instantiation.

        The compiler's time apart, where it was paid; ``first``: it paid for imports as well.
        """
        predicted = self.predictor.startup(cell.backend, cell.compiler, cell.bucket)
        backend, label = _backend(cell.backend, cell.compiler), f"T={cell.bucket}"

        def one(kind: Kind, ns: int, measured: int) -> Compared:
            return Compared(kind, self.name, backend, "all", label, cell.bucket, ns, measured)

        out = [one("capture", predicted.capture_ns, cell.warm_up_ns + cell.capture_ns)]
        if cell.compile_ns > 0:
            once = 0 if first else self.predictor.compile_once_ns(cell.compiler)
            out.append(one("compile", predicted.compile_ns - once, cell.compile_ns))
        return out

    def memory(self, cell: MemoryCell) -> list[Compared]:
        """The pool, what it stands beside, and what all graphs took from the device."""
        top, predictor = max(cell.buckets), self.predictor
        backend = _backend(cell.backend, cell.compiler)
        took = cell.after.device - cell.before.device
        ladder = cell.backend, cell.buckets, max(1, cell.slots)
        rows: list[tuple[Kind, int, int]] = [
            ("graph pool", predictor.pool_bytes(*ladder), cell.pool),
            ("eager peak", predictor.eager_peak_bytes(top), cell.eager_peak),
            ("graph memory", predictor.device_bytes(*ladder), took),
        ]
        label = f"{len(cell.buckets)} graphs up to {top}"
        return [
            Compared(kind, self.name, backend, "all", label, top, predicted, measured)
            for kind, predicted, measured in rows
            if measured > 0
        ]

    def _groups(self, sizes: StepSizes) -> list[Group]:
        """What calibration knew of each step's dense ops."""
        if self.predictor.unmeasured():
            return ["unseen model"] * len(sizes.tokens)
        timed = self.predictor.timed_rows()
        rows = sizes.work.rows.tolist()
        return ["timed rows" if n in timed else "other rows" for n in rows]


def _sizes(rows: Iterable[tuple[int, int, int, int]]) -> StepSizes:
    return StepSizes(*np.array(list(rows), dtype=np.int64).T)


def _backend(name: str, compiler: str) -> str:
    return f"{name} ({compiler})" if compiler else name
