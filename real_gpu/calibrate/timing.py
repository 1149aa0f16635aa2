"""Clocks: GPU time of calls inside a graph, host time of calls, robust medians."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import torch

from real_gpu.backends.capture import gc_paused

Call = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a figure may take.

    ``samples`` of a graph of at least ``graph_us``, fewer if they would take longer than
    ``sampled_ms``, after ``busy_ms`` of other work, so that the clocks have settled under load.
    """

    samples: int
    graph_us: float
    busy_ms: float
    sampled_ms: float


CAREFUL = Pace(samples=6, graph_us=500.0, busy_ms=10.0, sampled_ms=16.0)
QUICK = Pace(samples=3, graph_us=50.0, busy_ms=1.0, sampled_ms=5.0)
FEWEST_SAMPLES = 3


def robust(samples: Sequence[float]) -> tuple[float, float]:
    """Median and robust spread (1.4826 * MAD, at least 0.1 % of the median) of the samples."""
    median = statistics.median(samples)
    mad = statistics.median(abs(s - median) for s in samples)
    return median, max(1.4826 * mad, 1e-3 * abs(median), 1e-3)


@cache
def _capture_stream() -> torch.cuda.Stream:
    """One for all: a library keeps a workspace for each stream that it has seen."""
    return torch.cuda.Stream()


def capture(calls: Sequence[Call], keep: bool = False, pool: object = None) -> torch.cuda.CUDAGraph:
    """One graph of all calls; they must have run before. ``keep``: instantiate it yourself.

    The GPU may be at work meanwhile. torch's own context would wait for it and empty the
    allocator's cache, which costs more than a capture.
    """
    graph = torch.cuda.CUDAGraph(keep_graph=keep)
    with torch.cuda.stream(_capture_stream()):
        graph.capture_begin(pool=pool)
        try:
            for call in calls:
                call()
        finally:
            graph.capture_end()
    return graph


def warm(calls: Sequence[Call]) -> None:
    """Run each once on the capture stream: compiles, picks algorithms, makes workspaces.

    In order with the current stream, on which the arguments were made; nothing waits on the host.
    """
    stream = _capture_stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for call in calls:
            call()
    torch.cuda.current_stream().wait_stream(stream)


def events_ns(body: Call, samples: int) -> list[float]:
    """GPU time of ``body`` in ns behind a sleep that lets the host get ahead."""
    out = []
    for _ in range(samples):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(40_000_000)  # some 20 ms
        begin.record()
        body()
        end.record()
        torch.cuda.synchronize()
        out.append(begin.elapsed_time(end) * 1e6)
    return out


def sustained_ns(body: Call, samples: int) -> list[float]:
    """GPU time of ``body`` in ns, so many times without a pause, after it ran once."""
    body()  # uploads a graph
    pairs = [timed(body) for _ in range(samples)]
    torch.cuda.synchronize()
    return [begin.elapsed_time(end) * 1e6 for begin, end in pairs]


def timed(body: Call) -> tuple[torch.cuda.Event, torch.cuda.Event]:
    """Run ``body`` between two events."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    body()
    end.record()
    return begin, end


def host_ns(
    body: Call, wait: Call = torch.cuda.synchronize, samples: int = 101
) -> tuple[float, float]:
    """Host time of one call on an idle device, in ns: (median, spread).

    ``wait`` waits for the device, before each call: calls in a row would wait for each other as
    soon as the GPU takes longer than the host, since a graph is not launched while it runs.
    """
    for _ in range(3):
        body()
    out = []
    with gc_paused():
        for _ in range(samples):
            wait()
            begin = time.perf_counter_ns()
            body()
            out.append(float(time.perf_counter_ns() - begin))
    wait()
    return robust(out)
