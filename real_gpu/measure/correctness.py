"""Is a replay what eager is? Bit by bit at its bucket, and by its error at the batch's own size.

Poison: id 0 has an embedding of NaN, and stands in every row of padding; batches of nothing else
replay between the compared ones and leave NaN all over the shared pool; every cache slot that the
batch does not own is NaN; free pool blocks and the output are NaN.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, TypeVar

import numpy as np
import torch

from real_gpu.attention.cache import KvCache
from real_gpu.attention.reference import reference_attention
from real_gpu.measure.bench import Bench, Room
from real_gpu.measure.plain import Plain
from real_gpu.measure.runner import Emit, Way, slots_of, stretches
from real_gpu.models.decoder import Decoder
from real_gpu.models.kernels import Kernels
from simcg.batch import Batch
from simcg.runs.schema import EqualityCell, InvarianceCell

T = TypeVar("T")
POISON_ID = 0
NAN = float("nan")
NAN_BYTE = 0xFF
"""Of these every 16- or 32-bit float is NaN."""
INVARIANCE_ROWS = ((1, 16), (9, 16), (33, 64), (50, 64), (65, 256), (200, 256), (400, 512),
                   (900, 1024))  # fmt: skip
"""(n, bucket) pairs at which products are compared."""


@dataclass(frozen=True)
class Case:
    """A batch with its ids and the size of its bucket."""

    batch: Batch
    ids: torch.Tensor
    bucket: int


def cases(
    sizes: Sequence[int], most_requests: int, count: int, most_context: int, vocab: int,
    device: torch.device, rng: np.random.Generator,
) -> list[Case]:  # fmt: skip
    """Random batches that fit random buckets, some of them exactly full; ids from 1 up."""
    out = []
    for index in range(count):
        top = sizes[int(rng.integers(len(sizes)))]
        n = top if index % 4 == 0 else int(rng.integers(1, top + 1))
        m = int(rng.integers(1, min(n, most_requests) + 1))
        cuts = np.sort(rng.choice(n - 1, m - 1, replace=False) + 1) if m > 1 else np.array([])
        query = np.diff(np.concatenate(([0], cuts, [n]))).astype(np.int64)
        context = rng.integers(0, most_context + 1, m)
        batch = Batch(tuple(query.tolist()), tuple(context.tolist()))
        ids = torch.from_numpy(rng.integers(1, vocab, n)).to(device)
        out.append(Case(batch, ids, top))
    return out


def measure_equality(
    model: str,
    ways: Sequence[Way],
    bench: Bench,
    plain: Plain,
    tried: Sequence[Case],
    emit: Emit,
) -> None:
    """Every way on every case, against a plain forward at its bucket and at the batch's own size.

    Every replay comes after one of NaN in the same pool.
    """
    poison = Poison(bench)
    wide = torch.promote_types(bench.decoder.dtype, torch.float32)
    exact, exact_cache = exact_twin(bench, plain.room, wide)
    for number, case in enumerate(tried):
        poison.refill(case, number)
        copy_cache(bench.cache, exact_cache)
        truth = exact.at_own_size(case.batch, case.ids)
        own = plain.at_own_size(case.batch, case.ids)
        for way in ways:
            padded = plain.as_in(way, case.bucket, case.batch, case.ids)
            poison.spoil(way, case)
            runner, bucket = way.runner, way.bucket(case.bucket)
            out = runner.run(runner.plan(case.batch, case.ids, stretches(case.batch), bucket))
            emit(
                EqualityCell(
                    model=model, backend=way.backend, compiler=way.compiler,
                    tokens=case.batch.num_tokens, bucket=case.bucket,
                    at_bucket=bool(torch.equal(out, padded)),
                    at_tokens=bool(torch.equal(out, own)),
                    error=distance(out, truth), eager_error=distance(own, truth),
                    debug_graph=way.debug_graph,
                )
            )  # fmt: skip


def distance(one: torch.Tensor, truth: torch.Tensor) -> float | None:
    """Root mean square of the difference, None where it is no number."""
    value = float((one.to(torch.float64) - truth.to(torch.float64)).square().mean().sqrt())
    return value if math.isfinite(value) else None


@contextmanager
def poisoned_embedding(decoder: Decoder) -> Iterator[None]:
    """Within it the embedding of ``POISON_ID`` is NaN."""
    row = decoder.weights.embedding[POISON_ID]
    kept = row.clone()
    row.fill_(float("nan"))
    try:
        yield
    finally:
        row.copy_(kept)


class Poison:
    """Spoils the pool, the output, free blocks, the sink and foreign slots before a replay."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def refill(self, case: Case, seed: int) -> None:
        """Seeded keys and values in the contexts of the case's requests, NaN everywhere else."""
        cache = self._bench.cache
        source = torch.Generator(cache.keys[0].device).manual_seed(seed)
        spans = list(zip(stretches(case.batch), case.batch.context_tokens, strict=True))
        for tensor in (*cache.keys, *cache.values):
            tensor.fill_(NAN)
            for start, length in spans:
                tensor[start : start + length].normal_(generator=source)

    def spoil(self, way: Way, case: Case) -> None:
        """Run a batch of NaN in the largest bucket, beside the case's slots; poison free blocks."""
        size = max(way.runner.ladder.sizes)
        ids = torch.full((size,), POISON_ID, dtype=torch.int64, device=case.ids.device)
        batch, start = Batch((size,), (0,)), slots_of(case.batch)
        runner = way.runner
        runner.run(runner.plan(batch, ids, [start], way.bucket(size)))
        pool = getattr(runner.backend, "pool", None)
        if pool is not None:
            self._bench.device.fill_free(pool, NAN_BYTE)


class LoopedExperts:
    """Kernels whose grouped product is a loop: for types that the grouped kernel lacks."""

    def __init__(self, kernels: Kernels) -> None:
        self._kernels = kernels

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kernels, name)

    def grouped_mm(self, x: torch.Tensor, weight: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        """See ``Kernels.grouped_mm``; reads the ends on the host."""
        out, start = x.new_empty(x.shape[0], weight.shape[2]), 0
        for expert, end in enumerate(ends.tolist()):
            torch.mm(x[start:end], weight[expert], out=out[start:end])
            start = end
        return out


def exact_twin(bench: Bench, room: Room, dtype: torch.dtype) -> tuple[Plain, KvCache]:
    """Forwards of the bench's weights in a wider type, over a cache that starts empty."""
    decoder = copy.copy(bench.decoder)
    decoder.dtype, decoder.weights = dtype, widened(bench.decoder.weights, dtype)
    decoder.kernels = LoopedExperts(decoder.kernels)
    cache = KvCache.allocate(bench.arch, room.slots, bench.device.device, dtype)
    return Plain(decoder, cache, room, reference_attention), cache


def copy_cache(source: KvCache, target: KvCache) -> None:
    """The same keys and values, in the target's type."""
    for one, other in zip(
        (*source.keys, *source.values), (*target.keys, *target.values), strict=True
    ):
        other.copy_(one)


def widened(value: T, dtype: torch.dtype) -> T:
    """A copy of nested weights with every floating-point tensor in another type."""
    if isinstance(value, torch.Tensor):
        return value.to(dtype) if value.is_floating_point() else value  # type: ignore[no-any-return]
    if isinstance(value, tuple):
        return tuple(widened(one, dtype) for one in value)  # type: ignore[return-value]
    if is_dataclass(value) and not isinstance(value, type):
        parts = {f.name: widened(getattr(value, f.name), dtype) for f in fields(value)}
        return type(value)(**parts)
    return value


def measure_invariance(
    shapes: Sequence[tuple[int, int]], device: torch.device, dtype: torch.dtype, emit: Emit
) -> None:
    """For each product [T, k] x [k, n]: are its first rows those of fewer rows, bit for bit?"""
    source = torch.Generator(device).manual_seed(0)
    for k, n in shapes:
        weight = torch.empty(n, k, device=device, dtype=dtype).normal_(generator=source).t()
        top = max(bucket for _, bucket in INVARIANCE_ROWS)
        x = torch.empty(top, k, device=device, dtype=dtype).normal_(generator=source)
        for rows, bucket in INVARIANCE_ROWS:
            padded, own = torch.mm(x[:bucket], weight), torch.mm(x[:rows], weight)
            emit(InvarianceCell(k, n, rows, bucket, bool(torch.equal(padded[:rows], own))))
