"""What prefill and decode share: shapes, static inputs, metadata, admission, and one output."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch

from real_gpu.attention.attention import Attention, using
from real_gpu.attention.device import attention_kernel
from real_gpu.attention.plan import Planner
from real_gpu.backends.backend import Backend, CaptureFigures
from real_gpu.models.decoder import Decoder
from real_gpu.runners.inputs import StaticInput
from simcg.batch import Batch
from simcg.errors import Finding, InputError, require
from simcg.ladder import Bucket, Ladder


@dataclass(frozen=True, slots=True)
class Planned:
    """A step whose static inputs are written: n, m, and where it replays (None: eager)."""

    tokens: int
    requests: int
    bucket: Bucket | None


class Runner:
    """Runs a decoder's steps in captured buckets or eagerly, over static inputs.

    ``planner`` says how many tokens and requests a step may have. ``longest_query``: tokens of
    one request at most, where that is known; a graph of the whole forward bakes it in.
    """

    def __init__(
        self,
        decoder: Decoder,
        planner: Planner,
        backend: Backend,
        ladder: Ladder,
        longest_query: int | None = None,
    ) -> None:
        most, arch = planner.tokens, decoder.arch
        _check_shapes(ladder, planner, backend)
        self.backend, self.ladder = backend, ladder
        self.figures: dict[Bucket, CaptureFigures] = {}
        self._latest: Planned | None = None
        self._decoder, self._planner, self._longest_query = decoder, planner, longest_query
        kernel = attention_kernel(decoder.device)
        self._attention = Attention(arch, decoder.cache, kernel)
        # a graph of the whole forward has its attention in it, with baked bounds
        self._attends_outside = backend.kind.breaks or not backend.kind.captures
        self._ids = StaticInput(
            "ids", torch.zeros(most, dtype=torch.int64, device=decoder.device), pad=0
        )
        # warm-ups of equal tokens would send all rows to the same experts
        self._different_ids = torch.arange(most, device=decoder.device) % arch.vocab
        self._out = torch.zeros((most, arch.hidden), dtype=decoder.dtype, device=decoder.device)

    def capture(self, progress: Callable[[Bucket], object] = lambda _: None) -> None:
        """Capture every bucket, largest first, so that the smaller ones re-use its memory.

        Raises ``CaptureError`` for the first that fails; those before it stay usable.
        """
        for bucket in reversed(self.ladder.buckets):
            self._capture_one(bucket)
            progress(bucket)

    def plan(
        self, batch: Batch, ids: torch.Tensor, starts: Sequence[int], bucket: Bucket | None
    ) -> Planned:
        """Rewrite the static inputs for a step in ``bucket`` (None: eager at its own size).

        ``ids`` [n] int64; ``starts``: the first cache slot of each request. Raises ``InputError``
        for a batch that does not fit, or a bucket that is not in the ladder.
        """
        n, m = batch.num_tokens, batch.num_requests
        require(int(ids.shape[0]) == n, "ids", "rows", int(ids.shape[0]), f"the batch's {n} tokens")
        if bucket is not None and not self.backend.can_run(bucket):
            sizes = f"one of the captured sizes {_listed(b.num_tokens for b in self.figures)}"
            raise InputError("bucket", "num_tokens", bucket.num_tokens, sizes)
        rows, requests = self._shape(bucket) if bucket else (n, m)
        bounds = self._planner.write(batch, starts, rows, requests)
        self._ids.write(ids, rows)
        if bucket is None or self._attends_outside:
            self._attention.use(self._planner.metadata(rows, requests), bounds)
        self._latest = Planned(n, m, bucket)
        return self._latest

    def run(self, planned: Planned) -> torch.Tensor:
        """Replay, or run eagerly: hidden states [n, hidden], valid until the next run.

        ``planned`` must be the latest plan, as there is one set of static inputs; ``InputError``
        if another was written since.
        """
        latest = planned is self._latest
        require(latest, "Runner", "planned", Finding("an earlier plan"), "the latest plan")
        with using(self._attention):
            if planned.bucket is not None:
                self.backend.replay(planned.bucket)
            else:
                with torch.inference_mode():
                    self._forward(planned.tokens, planned.requests)()
        return self._out.narrow(0, 0, planned.tokens)

    def _capture_one(self, bucket: Bucket) -> None:
        rows, requests = self._shape(bucket)
        bounds = self._planner.write_idle(rows, requests)
        self._ids.buffer.copy_(self._different_ids)
        forward = self._forward(rows, requests)
        if self._attends_outside:
            self._attention.use(self._planner.metadata(rows, requests), bounds)
        else:
            forward = self._with_baked_bounds(forward, rows, requests)
        with using(self._attention):
            self.figures[bucket] = self.backend.capture_one(bucket, forward)

    def _shape(self, bucket: Bucket) -> tuple[int, int]:
        """Rows and request slots of the bucket's metadata."""
        return bucket.num_tokens, bucket.slots or self._planner.requests

    def _forward(self, rows: int, requests: int) -> Callable[[], torch.Tensor]:
        """The forward over views of the static inputs."""
        decoder, ids, out = self._decoder, self._ids.first(rows), self._out.narrow(0, 0, rows)
        metadata = self._planner.metadata(rows, requests)
        return lambda: decoder.forward(ids, metadata, out)

    def _with_baked_bounds(
        self, forward: Callable[[], torch.Tensor], rows: int, requests: int
    ) -> Callable[[], torch.Tensor]:
        """The forward with its attention at bounds that hold for every batch of that shape."""
        metadata = self._planner.metadata(rows, requests)
        bounds = self._planner.baked_bounds(rows, requests, self._longest_query)

        def whole() -> torch.Tensor:
            self._attention.use(metadata, bounds)
            return forward()

        return whole


def _check_shapes(ladder: Ladder, planner: Planner, backend: Backend) -> None:
    slotted = bool(ladder.buckets) and ladder.buckets[0].slots is not None
    if backend.kind.uses_slots and ladder.buckets and not slotted:
        expected = f"request slots on every bucket: backend {backend.kind.name} captures them"
        raise InputError("ladder", "slots", None, expected)
    most = planner.tokens
    require(ladder.ceiling <= most, "ladder", "ceiling", ladder.ceiling, f"at most {most} tokens")
    slots = max((b.slots or 1 for b in ladder.buckets), default=1)
    expected = f"at most {planner.requests} requests"
    require(slots <= planner.requests, "ladder", "slots", slots, expected)


def _listed(sizes: Iterable[int]) -> str:
    shown = sorted(set(sizes))
    return ", ".join(map(str, shown[:8])) + (", ..." if len(shown) > 8 else "") or "(none)"
