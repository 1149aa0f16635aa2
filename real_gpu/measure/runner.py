"""A runner under the name that its figures have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from real_gpu.runners.runner import Runner
from simcg.backend import BackendName
from simcg.batch import Batch
from simcg.ladder import Bucket
from simcg.runs.schema import Compiler, Line


@dataclass(frozen=True, slots=True)
class Way:
    """A way to run steps; ``slots``: request slots of all its buckets, None without.

    ``debug_graph``: the whole forward is one break.
    """

    backend: BackendName
    compiler: Compiler
    runner: Runner
    slots: int | None = None
    debug_graph: bool = False

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.backend} ({self.compiler})" if self.compiler else self.backend

    def bucket(self, tokens: int) -> Bucket:
        """Its bucket of that size."""
        return Bucket(tokens, self.slots)


Emit = Callable[[Line], None]
"""Takes one line of the runs."""


def stretches(batch: Batch) -> list[int]:
    """A first cache slot for each request, one stretch after the other, behind the sink."""
    starts, at = [], 1
    for new, cached in zip(batch.query_tokens, batch.context_tokens, strict=True):
        starts.append(at)
        at += new + cached
    return starts


def slots_of(batch: Batch) -> int:
    """Cache slots that ``stretches`` needs, the sink included."""
    return 1 + batch.num_tokens + sum(batch.context_tokens)
