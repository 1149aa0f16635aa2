"""Memory of a captured ladder."""

from __future__ import annotations

from real_gpu.graphs.device import MemoryFigures
from real_gpu.measure.runner import Way
from simcg.runs.schema import Bytes, MemoryCell


def memory_cell(
    model: str, way: Way, before: MemoryFigures, after: MemoryFigures, eager_peak: int
) -> MemoryCell:
    """What all buckets of a way took together; figures of the last capture hold the pool."""
    figures = way.runner.figures
    buckets = sorted(figures)
    return MemoryCell(
        model=model, backend=way.backend, compiler=way.compiler,
        buckets=tuple(b.num_tokens for b in buckets), slots=buckets[-1].slots or 0,
        before=_bytes(before), after=_bytes(after),
        pool=max(f.pool_bytes for f in figures.values()), eager_peak=eager_peak,
        nodes=sum(f.nodes for f in figures.values()),
    )  # fmt: skip


def _bytes(figures: MemoryFigures) -> Bytes:
    return Bytes(figures.live, figures.reserved, figures.device)
