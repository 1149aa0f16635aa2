"""May this batch replay, and in which bucket? simcg's dispatch answers, for one batch at a time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from simcg.ladder import EAGER_INDEX, AdmissionRule, Bucket, Ladder, dispatch, fallback_reason


@dataclass(frozen=True, slots=True)
class Admission:
    """A ladder with its rule; counts what ran where.

    ``replays``: steps by bucket. ``fallbacks``: eager steps by reason.
    """

    ladder: Ladder
    rule: AdmissionRule
    replays: Counter[Bucket] = field(default_factory=Counter)
    fallbacks: Counter[str] = field(default_factory=Counter)

    def admit(self, tokens: int, requests: int) -> tuple[Bucket | None, str | None]:
        """The batch's bucket, or the reason why it runs eager."""
        bucket, reason = _answer(self.ladder, self.rule, tokens, requests)
        if bucket is not None:
            self.replays[bucket] += 1
        else:
            self.fallbacks[str(reason)] += 1
        return bucket, reason

    def uncaptured(self, bucket: Bucket) -> str:
        """Take back that the step replays: its bucket was never captured."""
        self.replays[bucket] -= 1
        self.fallbacks["not captured"] += 1
        return "not captured"


@lru_cache(maxsize=1 << 16)
def _answer(
    ladder: Ladder, rule: AdmissionRule, tokens: int, requests: int
) -> tuple[Bucket | None, str | None]:
    index = int(dispatch(ladder, rule, np.array([tokens]), np.array([requests]))[0])
    if index != EAGER_INDEX:
        return ladder.buckets[index], None
    return None, fallback_reason(ladder, rule, tokens, requests)
