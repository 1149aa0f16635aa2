"""Prefill: chunks of several requests, padded to a bucket of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from real_gpu.runners.admission import Admission
from real_gpu.runners.runner import Planned, Runner
from simcg.batch import Batch
from simcg.ladder import AdmissionRule, Bucket


@dataclass(frozen=True, slots=True)
class Step:
    """Hidden states [n, hidden], valid until the next step; where it ran, or why it ran eager."""

    hidden: torch.Tensor
    bucket: Bucket | None
    reason: str | None


class PrefillRunner:
    """Admits each batch by simcg's dispatch, then replays its bucket or runs it eagerly."""

    def __init__(self, runner: Runner, rule: AdmissionRule) -> None:
        self.runner = runner
        self.admission = Admission(runner.ladder, rule)

    def step(self, batch: Batch, ids: torch.Tensor, starts: Sequence[int]) -> Step:
        """One forward of the batch's tokens ``ids`` [n] int64; see ``Runner.plan``.

        A bucket that is not captured, as after a failed capture, counts as a reason too.
        """
        planned, reason = self.plan(batch, ids, starts)
        return Step(self.runner.run(planned), planned.bucket, reason)

    def plan(
        self, batch: Batch, ids: torch.Tensor, starts: Sequence[int]
    ) -> tuple[Planned, str | None]:
        """The first half of ``step``: what ``Runner.run`` takes, or the reason why it is eager."""
        bucket, reason = self.admission.admit(batch.num_tokens, batch.num_requests)
        if bucket is not None and not self.runner.backend.can_run(bucket):
            reason = self.admission.uncaptured(bucket)
            bucket = None
        return self.runner.plan(batch, ids, starts, bucket), reason
