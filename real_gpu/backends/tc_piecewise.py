"""The tc_piecewise backend: compiled pieces between breaks, one graph per piece and bucket."""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from real_gpu.backends.backend import CaptureFigures, Forward
from real_gpu.backends.capture import Captured, GraphBackend
from real_gpu.backends.output import kept_output
from real_gpu.backends.piecewise.compilers import CompilerName
from real_gpu.backends.piecewise.execute import Pieces, record, run
from real_gpu.backends.piecewise.split import Program
from real_gpu.backends.piecewise.trace import TracedForward
from real_gpu.graphs.device import CaptureError, GraphDevice, ReplayError
from simcg.backend import TC_PIECEWISE, CaptureBackend
from simcg.ladder import Bucket


class TcPiecewise:
    """``Backend`` that traces a forward once and captures its pieces per bucket in one pool.

    Forwards of all buckets are closures of the same code over tensors of their bucket's size.
    Marked functions take tensors, numbers and strings, and write into an argument. On the CPU
    device pieces are recorded as traced, whatever the compiler: it sees only torch's operators.
    """

    def __init__(self, device: GraphDevice, compiler: CompilerName = "eager") -> None:
        self._compiler = compiler
        self._graphs = GraphBackend(TC_PIECEWISE, device, _record)
        self._any_rows: TracedForward | None = None
        self._one_row: TracedForward | None = None
        self._unreported_ns = 0

    @property
    def kind(self) -> CaptureBackend:
        """tc_piecewise."""
        return TC_PIECEWISE

    @property
    def pool(self) -> Hashable:
        """The pool of all buckets; None before the first."""
        return self._graphs.pool

    def capture_one(self, key: Bucket, forward: Forward) -> CaptureFigures:
        """See ``Backend.capture_one``; the first bucket's forward is traced for all buckets."""
        figures = self._graphs.capture_one(key, _Entry(self, forward, key.num_tokens))
        compile_ns, self._unreported_ns = self._unreported_ns, 0
        warm_up_ns = figures.warm_up_ns - compile_ns  # it is traced when it first runs
        return replace(figures, warm_up_ns=warm_up_ns, compile_ns=compile_ns)

    def can_run(self, key: Bucket) -> bool:
        """Whether the bucket is captured."""
        return self._graphs.can_run(key)

    def replay(self, key: Bucket) -> torch.Tensor:
        """Enter the compiled forward; behind its guards the bucket's graphs and breaks run."""
        return self._graphs.replay(key)

    def run(self, forward: Forward, rows: int) -> torch.Tensor:
        """Run the compiled pieces and the breaks at any number of rows, without graphs."""
        with torch.inference_mode():
            return _Entry(self, forward, rows)()

    def cleanup(self) -> None:
        """Release every graph, the pool and the compiled code."""
        self._graphs.cleanup()
        self._any_rows = self._one_row = None

    def traced(self, forward: Forward, rows: int) -> TracedForward:
        """The trace for that many rows, made from this forward if there is none yet.

        There is one for all; one row gets its own where the other takes rows to be several.
        """
        began = time.perf_counter_ns()
        known = self._known(forward, rows)
        if known is not None:
            return known
        traced = TracedForward(self._compiler)
        traced.trace(forward, rows)
        self._unreported_ns += time.perf_counter_ns() - began
        if rows > 1:
            self._any_rows = traced
        else:
            self._one_row = traced
        return traced

    def _known(self, forward: Forward, rows: int) -> TracedForward | None:
        if rows > 1 or self._one_row is not None:
            return self._any_rows if rows > 1 else self._one_row
        any_rows = self._any_rows
        return any_rows if any_rows is not None and any_rows.holds(forward) else None


@dataclass(frozen=True, slots=True)
class _Entry:
    """A forward by way of the compiled code, which is made when it is first needed."""

    backend: TcPiecewise
    forward: Forward
    rows: int

    @property
    def traced(self) -> TracedForward:
        return self.backend.traced(self.forward, self.rows)

    def __call__(self) -> torch.Tensor:
        return self.traced.enter(self.forward, run)


def _record(device: GraphDevice, pool: Hashable, entry: Forward) -> Captured:
    """Record every piece; a replay enters the compiled code again."""
    assert isinstance(entry, _Entry)
    forward, traced, mark = entry.forward, entry.traced, device.mark(pool)
    recorded: list[Pieces] = []

    def execute(program: Program, values: Sequence[Any]) -> Sequence[Any]:
        recorded.append(record(device, pool, program, values))
        return recorded[0].results

    output = kept_output(device, mark, traced.enter(forward, execute))
    pieces = recorded[0]

    def replay() -> None:
        try:
            traced.enter(forward, pieces.replay)
        except CaptureError as error:
            raise ReplayError(str(error)) from error

    return Captured(pieces.segments, (replay,), pieces.breaks, output)
