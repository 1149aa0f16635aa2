"""A thin lean decoder with one planned step: for what depends on the ops, not on their sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from real_gpu.attention.attention import Attention, AttentionKernel
from real_gpu.attention.cache import KvCache
from real_gpu.attention.device import attention_kernel
from real_gpu.attention.metadata import AttentionMetadata
from real_gpu.attention.plan import Planner
from real_gpu.models.decoder import Decoder
from simcg.batch import Batch
from simcg.model.architecture import Architecture

SEED = 7


def thin(arch: Architecture, layers: int) -> Architecture:
    """The same ops in the same order, over narrow matrices."""
    return replace(
        arch,
        layer_kinds=arch.layer_kinds[:layers],
        hidden=256,
        heads=4,
        kv_heads=2,
        head_dim=64,
        vocab=1024,
        max_position=1024,
        intermediate=512 if arch.intermediate else 0,
        moe_intermediate=256 if arch.experts else 0,
    )


@dataclass(frozen=True, slots=True)
class SmallDecoder:
    """A decoder, its attention and the buffers of one step of one request without context."""

    decoder: Decoder
    attention: Attention
    metadata: AttentionMetadata
    ids: torch.Tensor
    out: torch.Tensor

    @staticmethod
    def of(
        arch: Architecture,
        device: torch.device,
        tokens: int,
        kernel: AttentionKernel | None = None,
    ) -> SmallDecoder:
        """With random weights; bf16 on CUDA, fp64 elsewhere; the device's attention kernel."""
        dtype = torch.bfloat16 if device.type == "cuda" else torch.float64
        decoder = Decoder(arch, device, dtype, SEED)
        cache = KvCache.allocate(arch, arch.max_position, device, dtype)
        decoder.bind(cache)
        attention = Attention(arch, cache, kernel or attention_kernel(device))
        planner = Planner(cache, tokens, 1)
        bounds = planner.write(Batch((tokens,), (0,)), [1], tokens, 1)
        metadata = planner.metadata(tokens, 1)
        attention.use(metadata, bounds)
        ids = torch.arange(tokens, device=device) % arch.vocab
        out = torch.empty((tokens, arch.hidden), device=device, dtype=dtype)
        return SmallDecoder(decoder, attention, metadata, ids, out)

    def forward(self) -> Callable[[], torch.Tensor]:
        """The step as a closure; it must run within ``using(self.attention)``."""
        decoder, ids, metadata, out = self.decoder, self.ids, self.metadata, self.out

        def step() -> torch.Tensor:
            return decoder.forward(ids, metadata, out)

        return step
