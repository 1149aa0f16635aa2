"""The tc_piecewise backend: compiled pieces between breaks, one graph per piece and bucket."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch

from real_gpu.backends.backend import CaptureFigures, Forward
from real_gpu.backends.piecewise.compilers import CompilerName
from real_gpu.backends.piecewise.execute import Captured, record, run
from real_gpu.backends.piecewise.split import Program
from real_gpu.backends.piecewise.trace import TracedForward
from real_gpu.graphs.device import CaptureError, GraphDevice
from simcg.backend import TC_PIECEWISE, CaptureBackend
from simcg.ladder import Bucket

WARM_UPS = 2


class TcPiecewise:
    """``Backend`` that traces a forward once and captures its pieces per bucket in one pool.

    Forwards of all buckets are closures of the same code over tensors of their bucket's size.
    Marked functions take tensors, numbers and strings and write into an argument. On the CPU
    device pieces are recorded as traced, whatever the compiler: it sees only aten operators.
    """

    def __init__(self, device: GraphDevice, compiler: CompilerName = "eager") -> None:
        self._device, self._compiler = device, compiler
        self._pool = device.new_pool()
        self._traced: TracedForward | None = None
        self._compile_ns = 0
        self._buckets: dict[Bucket, tuple[Forward, Captured]] = {}

    @property
    def kind(self) -> CaptureBackend:
        """tc_piecewise."""
        return TC_PIECEWISE

    def capture_one(self, key: Bucket, forward: Forward) -> CaptureFigures:
        """See ``Backend.capture_one``; the first bucket's rows are those that are traced."""
        if key in self._buckets:
            raise CaptureError(f"{key} is captured already")
        try:
            with torch.inference_mode():
                figures = self._capture(key, forward)
        except CaptureError as error:
            raise CaptureError(f"bucket of {key.num_tokens} tokens: {error}") from error
        return figures

    def can_run(self, key: Bucket) -> bool:
        """Whether it was captured."""
        return key in self._buckets

    def replay(self, key: Bucket) -> torch.Tensor:
        """Enter the compiled forward; behind its guards the bucket's graphs and breaks run."""
        if self._traced is None or key not in self._buckets:
            raise CaptureError(f"{key} was not captured")
        forward, captured = self._buckets[key]
        with torch.inference_mode():
            return self._traced.enter(forward, captured.replay)

    def run(self, forward: Forward, rows: int) -> torch.Tensor:
        """Run the compiled pieces and the breaks at any number of rows, without graphs."""
        with torch.inference_mode():
            return self._trace(forward, rows).enter(forward, run)

    def cleanup(self) -> None:
        """Release every graph, the pool and the compiled code."""
        for _, captured in self._buckets.values():
            captured.release()
        self._buckets.clear()
        self._traced = None
        self._pool = self._device.new_pool()

    def _trace(self, forward: Forward, rows: int) -> TracedForward:
        if self._traced is None:
            traced = TracedForward(self._compiler)
            self._compile_ns = traced.trace(forward, rows)
            self._traced = traced
        return self._traced

    def _capture(self, key: Bucket, forward: Forward) -> CaptureFigures:
        device = self._device
        traced = self._trace(forward, key.num_tokens)
        began = time.perf_counter_ns()
        with device.on_capture_stream():
            for _ in range(WARM_UPS):
                traced.enter(forward, run)
        device.synchronize()
        warm = time.perf_counter_ns()
        captured: list[Captured] = []

        def recorded(program: Program, values: Sequence[Any]) -> Sequence[Any]:
            captured.append(record(device, self._pool, program, values))
            return captured[0].results

        traced.enter(forward, recorded)
        device.synchronize()
        done = time.perf_counter_ns()
        self._buckets[key] = forward, captured[0]
        compile_ns, self._compile_ns = self._compile_ns, 0
        return CaptureFigures(
            warm_up_ns=warm - began,
            capture_ns=done - warm,
            compile_ns=compile_ns,
            nodes=sum(segment.nodes for segment in captured[0].segments),
            segments=len(captured[0].segments),
            breaks=captured[0].breaks,
            pool_bytes=device.pool_bytes(self._pool),
        )
