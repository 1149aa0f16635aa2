"""Clocks: GPU time of calls inside a graph, host time of calls, robust medians."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import torch

Call = Callable[[], object]
FEWEST_SAMPLES = 3
SAMPLED_MS = 12.0
"""A graph that is longer than a share of this is sampled less often, but FEWEST_SAMPLES times."""
MOST_ROUNDS = 200


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a figure may take.

    ``samples`` of a graph of at least ``graph_us``, so that its start is under one percent, after
    ``busy_ms`` of the same work, so that the clocks have settled under load.
    """

    samples: int
    graph_us: float
    busy_ms: float


CAREFUL = Pace(samples=7, graph_us=500.0, busy_ms=20.0)
QUICK = Pace(samples=3, graph_us=50.0, busy_ms=1.0)


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

    torch's own context would also empty the allocator's cache, which costs more than a capture.
    """
    stream = _capture_stream()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph(keep_graph=keep)
    with torch.cuda.stream(stream):
        graph.capture_begin(pool=pool)
        try:
            for call in calls:
                call()
        finally:
            graph.capture_end()
    return graph


def warm(calls: Sequence[Call]) -> None:
    """Run each once on the capture stream: compiles, picks algorithms, makes workspaces."""
    torch.cuda.synchronize()  # what made the arguments ran on another stream
    with torch.cuda.stream(_capture_stream()):
        for call in calls:
            call()
    torch.cuda.synchronize()


def graph_ns(calls: Sequence[Call], guess_us: float, pace: Pace) -> tuple[float, float]:
    """GPU time of one call inside a graph, in ns: (median, spread).

    The calls are repeated in order until the graph lasts ``pace.graph_us`` by the guess.
    """
    warm(calls)
    rounds = max(1, round(pace.graph_us / max(guess_us, 1.0) / len(calls)))
    sequence = list(calls) * min(rounds, MOST_ROUNDS)
    graph = capture(sequence)
    samples = [t / len(sequence) for t in sustained_ns(graph.replay, pace)]
    graph.reset()
    return robust(samples)


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


def sustained_ns(body: Call, pace: Pace) -> list[float]:
    """GPU time of ``body`` in ns under the clocks of a busy GPU.

    A short burst on an idle GPU runs at clocks that a forward of several milliseconds does not
    keep (6-14 % faster at 256-1,024 rows on an H200), so the body first runs for ``busy_ms``,
    and the samples follow without a pause.
    """
    body()  # uploads a graph
    first = _timed(body)
    torch.cuda.synchronize()
    ms = max(first[0].elapsed_time(first[1]), 1e-3)
    for _ in range(int(pace.busy_ms / ms)):
        body()
    samples = max(min(FEWEST_SAMPLES, pace.samples), min(pace.samples, round(SAMPLED_MS / ms)))
    pairs = [_timed(body) for _ in range(samples)]
    torch.cuda.synchronize()
    return [begin.elapsed_time(end) * 1e6 for begin, end in pairs]


def _timed(body: Call) -> tuple[torch.cuda.Event, torch.cuda.Event]:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    body()
    end.record()
    return begin, end


def host_ns(
    body: Call, calls: int, wait: Call = torch.cuda.synchronize, samples: int = 15
) -> tuple[float, float]:
    """Host time of one of ``calls`` calls made in a row without waiting for the GPU, in ns.

    ``wait`` waits for the device, between samples.
    """
    for _ in range(3):
        body()
    out = []
    for _ in range(samples):
        wait()
        begin = time.perf_counter_ns()
        for _ in range(calls):
            body()
        out.append((time.perf_counter_ns() - begin) / calls)
    wait()
    return robust(out)
