"""Decode: one new token a request, so that tokens and request slots are one number."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from real_gpu.attention.plan import Planner
from real_gpu.backends.backend import Backend
from real_gpu.models.decoder import Decoder
from real_gpu.runners.prefill import PrefillRunner, Step
from real_gpu.runners.runner import Runner
from simcg.batch import Batch
from simcg.errors import require
from simcg.ladder import AdmissionRule, Bucket, Ladder


class DecodeRunner:
    """Steps of one token a request; a bucket of T tokens has T request slots."""

    def __init__(
        self,
        decoder: Decoder,
        planner: Planner,
        backend: Backend,
        sizes: Sequence[int],
        rule: AdmissionRule,
    ) -> None:
        ladder = Ladder(tuple(Bucket(size, size) for size in sorted(set(sizes))))
        self.runner = Runner(decoder, planner, backend, ladder, longest_query=1)
        self.steps = PrefillRunner(self.runner, rule)
        self.admission = self.steps.admission

    def step(self, context_tokens: Sequence[int], ids: torch.Tensor, starts: Sequence[int]) -> Step:
        """The next token of each request, ``ids`` [m] int64, after its cached tokens."""
        require(len(context_tokens) >= 1, "DecodeRunner", "context_tokens", 0, "a request")
        batch = Batch((1,) * len(context_tokens), tuple(context_tokens))
        return self.steps.step(batch, ids, starts)
