"""What one ladder does to the traffic: time, padding, fallback, memory, start-up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simcg.arrays import Ints
from simcg.cost.startup import Startup, startup
from simcg.cost.table import ReplayModel, exact_step_ns
from simcg.des.memory.pool import LadderMemory, ladder_memory
from simcg.ladder import EAGER_INDEX, AdmissionRule, Ladder, dispatch
from simcg.workload.steps import Steps


@dataclass(frozen=True, slots=True)
class LadderScore:
    """A ladder on counted steps; times by the full timeline.

    ``step_ns``: each row's time.  ``bucket_tokens``: the bucket each row runs in, 0 for eager.
    ``padded_share``: padded rows over real rows, all steps.  ``eager_share``: of the steps.
    """

    ladder: Ladder
    rule: AdmissionRule
    step_ns: Ints
    bucket_tokens: Ints
    mean_step_ns: float
    padded_share: float
    eager_share: float
    memory: LadderMemory
    startup: Startup


def score(
    ladder: Ladder, rule: AdmissionRule, steps: Steps, model: ReplayModel, max_tokens: int
) -> LadderScore:
    """The score of a ladder under a rule on these steps; sizes up to ``max_tokens`` may come."""
    step_ns, chosen = exact_step_ns(steps, model, ladder, rule)
    sizes = np.array((*ladder.sizes, 0), dtype=np.int64)
    bucket = np.where(chosen == EAGER_INDEX, 0, sizes[chosen])
    padded = np.where(bucket > 0, bucket - steps.tokens, 0)
    real = int((steps.tokens * steps.count).sum())
    return LadderScore(
        ladder=ladder,
        rule=rule,
        step_ns=step_ns,
        bucket_tokens=bucket,
        mean_step_ns=float(np.average(step_ns, weights=steps.count)),
        padded_share=int((padded * steps.count).sum()) / real,
        eager_share=int(steps.count[bucket == 0].sum()) / steps.total,
        memory=ladder_memory(
            ladder.sizes,
            largest_eager(ladder, rule, max_tokens),
            logits_rows(steps, model),
            model,
        ),
        startup=startup(ladder.sizes, model),
    )


def logits_rows(steps: Steps, model: ReplayModel) -> int:
    """Rows of the logits in every bucket: the slots, else the most requests of a step."""
    return int(steps.requests.max()) if model.slots is None else model.slots


def largest_eager(ladder: Ladder, rule: AdmissionRule, max_tokens: int) -> int:
    """The largest size of 1..max_tokens that runs eager: by tail, by guard or by choice."""
    tokens = np.arange(1, max_tokens + 1, dtype=np.int64)
    eager = dispatch(ladder, rule, tokens, np.ones_like(tokens)) == EAGER_INDEX
    return int(tokens[eager].max(initial=0))
