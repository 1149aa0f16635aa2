"""Small invented decoders of each family, and steps of them as an engine would run them.

Imports torch: test modules import this after ``pytest.importorskip("torch")``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from real_gpu.attention.attention import Attention, AttentionKernel, using
from real_gpu.attention.cache import KvCache
from real_gpu.attention.device import attention_kernel
from real_gpu.attention.plan import Planner
from real_gpu.models.decoder import Decoder
from simcg.batch import Batch
from simcg.model.architecture import Architecture, LayerKind

CPU = torch.device("cpu")
SLOTS = 257
NAN = float("nan")

DENSE, EXPERTS = LayerKind(), LayerKind(moe=True)
LLAMA = Architecture(
    name="small-llama", model_type="llama", layer_kinds=(DENSE,) * 3,
    hidden=32, heads=4, kv_heads=2, head_dim=8, vocab=50, max_position=128, intermediate=48,
)  # fmt: skip
QWEN3 = Architecture(
    name="small-qwen3", model_type="qwen3", layer_kinds=(DENSE,) * 2,
    hidden=24, heads=6, kv_heads=2, head_dim=8, vocab=50, max_position=128, intermediate=40,
    qk_norm=True, tied_embeddings=True,
)  # fmt: skip
QWEN3_MOE = Architecture(
    name="small-qwen3-moe", model_type="qwen3_moe", layer_kinds=(EXPERTS,) * 2,
    hidden=32, heads=4, kv_heads=1, head_dim=8, vocab=50, max_position=128,
    experts=8, top_k=3, moe_intermediate=16, qk_norm=True,
)  # fmt: skip
GPT_OSS = Architecture(
    name="small-gpt-oss", model_type="gpt_oss",
    layer_kinds=(LayerKind(window=4, moe=True), EXPERTS) * 2,
    hidden=32, heads=8, kv_heads=2, head_dim=8, vocab=50, max_position=128,
    experts=6, top_k=2, moe_intermediate=24,
    qkv_bias=True, o_bias=True, sinks=True, router_bias=True, expert_bias=True,
)  # fmt: skip
FAMILIES = [LLAMA, QWEN3, QWEN3_MOE, GPT_OSS]


@dataclass(frozen=True)
class Padded:
    """The shape that a step is padded to.

    ``in_graph``: attention gets the shape's bounds, as a full graph bakes them in, else the
    batch's own. ``filler``: the id of rows of padding.
    """

    tokens: int
    requests: int
    in_graph: bool = False
    filler: int = 0


@dataclass
class Engine:
    """A decoder with a cache and a planner; runs one step at a time, padded or not."""

    decoder: Decoder
    attention: Attention
    planner: Planner

    @staticmethod
    def of(
        arch: Architecture,
        device: torch.device = CPU,
        dtype: torch.dtype = torch.float64,
        kernel: AttentionKernel | None = None,
    ) -> Engine:
        """A fresh one for steps of up to 64 rows and 8 requests; equal arguments, equal weights."""
        decoder = Decoder(arch, device, dtype, seed=5)
        cache = KvCache.allocate(decoder.arch, SLOTS, device, dtype)
        decoder.bind(cache)
        attention = Attention(decoder.arch, cache, kernel or attention_kernel(device))
        return Engine(decoder, attention, Planner(cache, 64, 8))

    @property
    def cache(self) -> KvCache:
        """The cache that steps read and write."""
        return self.attention.cache

    def step(
        self,
        batch: Batch,
        starts: Sequence[int],
        ids: torch.Tensor,
        shape: Padded | None = None,
    ) -> torch.Tensor:
        """Hidden states [rows, hidden] of one step of ids [n], NaN where nothing is written."""
        shape = shape or Padded(batch.num_tokens, batch.num_requests)
        bounds = self.planner.write(batch, starts, shape.tokens, shape.requests)
        if shape.in_graph:
            bounds = self.planner.baked_bounds(shape.tokens, shape.requests)
        metadata = self.planner.metadata(shape.tokens, shape.requests)
        self.attention.use(metadata, bounds)
        rows = torch.full((shape.tokens,), shape.filler, dtype=torch.int64, device=ids.device)
        rows[: batch.num_tokens] = ids
        out = torch.full(
            (shape.tokens, self.decoder.arch.hidden), NAN, dtype=self.decoder.dtype,
            device=ids.device,
        )  # fmt: skip
        with using(self.attention), torch.no_grad():
            return self.decoder.forward(rows, metadata, out)


def random_ids(tokens: int, seed: int, arch: Architecture) -> torch.Tensor:
    """Token ids [tokens]."""
    return torch.randint(0, arch.vocab, (tokens,), generator=torch.Generator().manual_seed(seed))
