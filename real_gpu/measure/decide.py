"""Sampled steps of a trace, each in every bucket that some ladder sends it to."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
import torch

from real_gpu.measure.clock import sample
from real_gpu.measure.runner import Emit, Way, stretches
from real_gpu.runners.runner import Planned
from simcg.batch import Batch
from simcg.ladder import EAGER_INDEX, dispatch
from simcg.runs.schema import DecisionCell, LadderLine, Timed

MOST_ROUNDS = 5


def ways_of(batches: Sequence[Batch], ladders: Sequence[LadderLine]) -> list[list[int]]:
    """For each batch the buckets that some ladder sends it to, ascending; 0: it runs eager."""
    tokens = np.array([b.num_tokens for b in batches], dtype=np.int64)
    requests = np.array([b.num_requests for b in batches], dtype=np.int64)
    ways: list[set[int]] = [set() for _ in batches]
    for one in ladders:
        sizes = (*one.sizes, 0)
        chosen = dispatch(one.ladder, one.rule, tokens, requests).tolist()
        for way, index in zip(ways, chosen, strict=True):
            way.add(0 if index == EAGER_INDEX else sizes[index])
    return [sorted(way) for way in ways]


def measure_decisions(
    model: str,
    way: Way,
    batches: Sequence[tuple[int, Batch]],
    ways: Sequence[Sequence[int]],
    vocab: int,
    device: torch.device,
    wait: Callable[[], None],
    seconds: float,
    seed: int,
    emit: Emit,
) -> None:
    """Every step in all of its ways, in random order and again until ``seconds`` are spent.

    ``batches``: with the index of each step in the trace.
    """
    rng = np.random.default_rng(seed)
    inputs = [_ids(rng, batch, vocab, device) for _, batch in batches]
    found: list[dict[int, list[int]]] = [{bucket: [] for bucket in mine} for mine in ways]
    longest = max(range(len(batches)), key=lambda i: batches[i][1].num_tokens)
    _step_ns(way, batches[longest][1], inputs[longest], 0, wait)  # the allocator grows once
    begin = time.perf_counter()
    for number in range(1, MOST_ROUNDS + 1):
        for index in rng.permutation(len(batches)).tolist():
            for bucket in rng.permutation(ways[index]).tolist():
                ns = _step_ns(way, batches[index][1], inputs[index], bucket, wait)
                found[index][bucket].append(ns)
        spent = time.perf_counter() - begin
        if spent * (number + 1) / number > seconds:
            break
    for (place, batch), times in zip(batches, found, strict=True):
        timed = tuple(Timed(bucket, tuple(ns)) for bucket, ns in times.items())
        emit(
            DecisionCell(
                model=model, backend=way.backend, compiler=way.compiler, index=place,
                query_tokens=batch.query_tokens, context_tokens=batch.context_tokens, times=timed,
            )
        )  # fmt: skip


def _ids(rng: np.random.Generator, batch: Batch, vocab: int, device: torch.device) -> torch.Tensor:
    return torch.from_numpy(rng.integers(1, vocab, batch.num_tokens)).to(device)


def _step_ns(
    way: Way, batch: Batch, ids: torch.Tensor, bucket: int, wait: Callable[[], None]
) -> int:
    runner, starts = way.runner, stretches(batch)
    planned: list[Planned] = []
    return sample(
        lambda: planned.append(
            runner.plan(batch, ids, starts, way.bucket(bucket) if bucket else None)
        ),
        lambda: runner.run(planned[0]),
        wait,
    ).step_ns
