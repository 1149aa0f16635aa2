"""Latency of every way to run at every size, all cells alternating in one process."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from real_gpu.measure.clock import BUSY_NS, Sample, keep_busy, sample, summary
from real_gpu.measure.plain import Plain
from real_gpu.measure.runner import Way, stretches
from real_gpu.runners.runner import Planned
from simcg.backend import backend_named
from simcg.batch import Batch
from simcg.ladder import Bucket
from simcg.runs.schema import CaptureCell, StepCell
from simcg.workload.batches import even_batch

MOST_ROUNDS = 3
FEWEST_ROUNDS = 2
SAMPLED_NS = 20_000_000
"""A cell is sampled for about so long in each round, within the bounds below."""
FEWEST_SAMPLES, MOST_SAMPLES = 2, 5


@dataclass
class _Cell:
    """One way to run one batch, with its samples by round."""

    way: Way
    batch: Batch
    ids: torch.Tensor
    bucket: Bucket | None
    rounds: list[list[Sample]] = field(default_factory=list)
    bit_equal: bool | None = None

    def planned(self) -> Planned:
        """The static inputs, rewritten."""
        starts = stretches(self.batch)
        return self.way.runner.plan(self.batch, self.ids, starts, self.bucket)

    def measure(self, wait: Callable[[], None], busy_ns: int) -> int:
        """One more round of samples, all after the device has worked on this batch for ``BUSY_NS``.

        ``busy_ns``: how long other cells have just kept it at work on the batch. Returns how long
        it is now: 0 after a cell in which the device waits for the host.
        """
        begin = time.perf_counter_ns()
        runner = self.way.runner

        def once() -> Sample:
            planned = []
            return sample(
                lambda: planned.append(self.planned()),
                lambda: runner.run(planned[0]),
                wait,
            )

        first = once() if busy_ns >= BUSY_NS else None
        if first is None or not first.gpu_bound:
            keep_busy(once, wait)
            first = once()
        count = max(FEWEST_SAMPLES, min(MOST_SAMPLES, math.ceil(SAMPLED_NS / first.step_ns)))
        self.rounds.append([first, *(once() for _ in range(count - 1))])
        return busy_ns + time.perf_counter_ns() - begin if first.gpu_bound else 0


def matrix(
    model: str,
    ways: Sequence[Way],
    plain: Plain,
    sizes: Iterable[tuple[int, int]],
    vocab: int,
    wait: Callable[[], None],
    device: torch.device,
    seconds: float,
    seed: int,
) -> list[StepCell]:
    """Every way at every (tokens, requests), in rounds of random order, for about ``seconds``.

    All ways of a batch follow each other, so that not each has to warm the device.
    """
    rng = np.random.default_rng(seed)
    batches = [even_batch(n, m, 0) for n, m in sizes if m <= n]
    groups: list[list[_Cell]] = []
    for batch in batches:
        ids = torch.from_numpy(rng.integers(1, vocab, batch.num_tokens)).to(device)
        groups.append([_Cell(way, batch, ids, bucket_of(way, batch)) for way in ways])
    cells = [cell for group in groups for cell in group]
    for cell in cells:
        _compare(cell, plain)
    begin = time.perf_counter()
    for number in range(1, MOST_ROUNDS + 1):
        for which in rng.permutation(len(groups)).tolist():
            busy_ns = 0
            for index in rng.permutation(len(ways)).tolist():
                busy_ns = groups[which][index].measure(wait, busy_ns)
        spent = time.perf_counter() - begin
        if number >= FEWEST_ROUNDS and spent * (number + 1) / number > seconds:
            break
    return [_line(model, cell) for cell in cells]


def bucket_of(way: Way, batch: Batch) -> Bucket | None:
    """The bucket of the batch's own size; None for a way that captures nothing."""
    captured = backend_named(way.backend).captures
    return way.bucket(batch.num_tokens) if captured else None


def captures(model: str, way: Way) -> list[CaptureCell]:
    """What capturing each bucket of a way took, in the order of capture."""
    return [
        CaptureCell(
            model=model, backend=way.backend, compiler=way.compiler,
            bucket=bucket.num_tokens, slots=bucket.slots or 0,
            warm_up_ns=figures.warm_up_ns, capture_ns=figures.capture_ns,
            compile_ns=figures.compile_ns, nodes=figures.nodes, segments=figures.segments,
            breaks=figures.breaks,
        )
        for bucket, figures in way.runner.figures.items()
    ]  # fmt: skip


def _compare(cell: _Cell, plain: Plain) -> None:
    """Hold one run of the cell against a plain forward at its bucket."""
    if cell.bucket is None:
        return
    truth = plain.as_in(cell.way, cell.bucket.num_tokens, cell.batch, cell.ids)
    out = cell.way.runner.run(cell.planned())
    cell.bit_equal = bool(torch.equal(out, truth))


def _line(model: str, cell: _Cell) -> StepCell:
    found, batch, bucket = summary(cell.rounds), cell.batch, cell.bucket
    return StepCell(
        model=model, backend=cell.way.backend, compiler=cell.way.compiler,
        tokens=batch.num_tokens, requests=batch.num_requests, context=sum(batch.context_tokens),
        pairs=batch.pairs, bucket=bucket.num_tokens if bucket else 0,
        slots=(bucket.slots or 0) if bucket else 0, ns=found.ns,
        spread_ns=found.spread_ns, floor=found.floor, samples=found.samples,
        host_ns=found.host_ns, plan_ns=found.plan_ns, gpu_bound=found.gpu_bound,
        bit_equal=cell.bit_equal,
    )  # fmt: skip
