"""A forward without runner, backend or graph: what a replay must equal, bit for bit."""

from __future__ import annotations

import torch

from real_gpu.attention.attention import Attention, AttentionKernel, using
from real_gpu.attention.cache import KvCache
from real_gpu.attention.device import attention_kernel
from real_gpu.attention.plan import Planner
from real_gpu.measure.bench import Room
from real_gpu.measure.runner import Way, stretches
from real_gpu.models.decoder import Decoder
from simcg.batch import Batch

PADDING_ID = 0


class Plain:
    """Runs a decoder over tensors of its own, in a planner of its own."""

    def __init__(
        self, decoder: Decoder, cache: KvCache, room: Room,
        kernel: AttentionKernel | None = None,
    ) -> None:  # fmt: skip
        self.room, self._decoder, self._cache = room, decoder, cache
        self._planner = Planner(cache, room.tokens, room.requests)
        self._attention = Attention(decoder.arch, cache, kernel or attention_kernel(decoder.device))

    def at_own_size(self, batch: Batch, ids: torch.Tensor) -> torch.Tensor:
        """Hidden states [n, hidden] without padding."""
        return self._run(batch, ids, batch.num_tokens, batch.num_requests, baked=False)

    def as_in(self, way: Way, tokens: int, batch: Batch, ids: torch.Tensor) -> torch.Tensor:
        """Hidden states [n, hidden] in the way's bucket of that size, padding and bounds too."""
        kind = way.runner.backend.kind
        requests = way.slots or self._planner.requests
        return self._run(batch, ids, tokens, requests, baked=kind.captures and not kind.breaks)

    def _run(
        self, batch: Batch, ids: torch.Tensor, tokens: int, requests: int, baked: bool
    ) -> torch.Tensor:
        n, planner, decoder = batch.num_tokens, self._planner, self._decoder
        bounds = planner.write(batch, stretches(batch), tokens, requests)
        if baked:
            bounds = planner.baked_bounds(tokens, requests)
        metadata = planner.metadata(tokens, requests)
        padded = torch.full((tokens,), PADDING_ID, dtype=torch.int64, device=ids.device)
        padded[:n] = ids
        out = torch.empty(tokens, decoder.arch.hidden, dtype=decoder.dtype, device=ids.device)
        self._attention.use(metadata, bounds)
        decoder.bind(self._cache)
        with using(self._attention), torch.inference_mode():
            return decoder.forward(padded, metadata, out)[:n]
