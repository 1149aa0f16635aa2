"""Clocks: GPU time of calls inside a graph, host time of calls, robust medians."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

import torch

Call = Callable[[], object]
SAMPLES = 7
LEAST_GRAPH_US = 500.0  # long enough that the start of the graph is under one percent
SUSTAIN_MS = 20.0  # long enough for the clocks to settle under load


def robust(samples: Sequence[float]) -> tuple[float, float]:
    """Median and robust spread (1.4826 * MAD, at least 0.1 % of the median) of the samples."""
    median = statistics.median(samples)
    mad = statistics.median(abs(s - median) for s in samples)
    return median, max(1.4826 * mad, 1e-3 * abs(median), 1e-3)


def capture(calls: Sequence[Call]) -> torch.cuda.CUDAGraph:
    """One graph of all calls, after two warm-ups on the capture stream."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            for call in calls:
                call()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for call in calls:
            call()
    return graph


def events_ns(body: Call, samples: int = SAMPLES, behind_sleep: bool = False) -> list[float]:
    """GPU time of ``body`` in ns, several samples; ``behind_sleep`` hides the host's part."""
    out = []
    for _ in range(samples):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        if behind_sleep:
            torch.cuda._sleep(20_000_000)  # some 10 ms: the host gets ahead
        begin.record()
        body()
        end.record()
        torch.cuda.synchronize()
        out.append(begin.elapsed_time(end) * 1e6)
    return out


def graph_ns(calls: Sequence[Call], guess_us: float) -> tuple[float, float]:
    """GPU time of one call inside a graph, in ns: (median, spread).

    The calls are repeated in order until the graph lasts ``LEAST_GRAPH_US`` by the guess.
    """
    rounds = max(1, round(LEAST_GRAPH_US / max(guess_us, 1.0) / len(calls)))
    sequence = list(calls) * min(rounds, 200)
    graph = capture(sequence)
    samples = [t / len(sequence) for t in sustained_ns(graph.replay)]
    del graph
    return robust(samples)


def sustained_ns(body: Call, samples: int = SAMPLES) -> list[float]:
    """GPU time of ``body`` in ns under the clocks of a busy GPU.

    A short burst on an idle GPU runs at clocks that a forward of several milliseconds does not
    keep (6-14 % faster at 256-1,024 rows on an H200), so the body first runs for SUSTAIN_MS,
    and the samples follow without a pause.
    """
    pairs = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(samples + 1)]
    body()
    for begin, end in pairs:
        begin.record()
        body()
        end.record()
        if begin is pairs[0][0]:
            torch.cuda.synchronize()
            for _ in range(int(SUSTAIN_MS / begin.elapsed_time(end))):
                body()
    torch.cuda.synchronize()
    return [begin.elapsed_time(end) * 1e6 for begin, end in pairs[1:]]


def host_ns(body: Call, calls: int, samples: int = 15) -> tuple[float, float]:
    """Host time of one of ``calls`` calls made in a row without waiting for the GPU, in ns."""
    for _ in range(3):
        body()
    out = []
    for _ in range(samples):
        torch.cuda.synchronize()
        begin = time.perf_counter_ns()
        for _ in range(calls):
            body()
        out.append((time.perf_counter_ns() - begin) / calls)
    torch.cuda.synchronize()
    return robust(out)
