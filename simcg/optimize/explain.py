"""What each bucket of an answer is there for."""

from __future__ import annotations

from dataclasses import dataclass

from simcg.optimize.evaluate import ladder_cost
from simcg.optimize.study import Study


@dataclass(frozen=True, slots=True)
class BucketUse:
    """The traffic one bucket serves, of ``all_steps``; ``low``..``high`` are sizes seen in it.

    ``drop_ns``: what all steps together would take longer without it, by the cost table.
    """

    bucket: int
    low: int
    high: int
    steps: int
    all_steps: int
    padded_share: float
    drop_ns: int


def explain(study: Study) -> list[BucketUse]:
    """Each bucket of the answer in ascending order."""
    steps, scored = study.traffic.counted, study.answer.score
    sizes = scored.ladder.sizes
    cost_ns = ladder_cost(study.posed.problem, sizes)
    out = []
    for bucket in sizes:
        here = scored.bucket_tokens == bucket
        count, tokens = steps.count[here], steps.tokens[here]
        real = int((tokens * count).sum())
        rest = tuple(size for size in sizes if size != bucket)
        out.append(
            BucketUse(
                bucket=bucket,
                low=int(tokens.min(initial=bucket)),
                high=int(tokens.max(initial=0)),
                steps=int(count.sum()),
                all_steps=steps.total,
                padded_share=bucket * int(count.sum()) / real - 1 if real else 0.0,
                drop_ns=ladder_cost(study.posed.problem, rest) - cost_ns,
            )
        )
    return out
