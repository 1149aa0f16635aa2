"""A study as plain JSON values: exact integers, named units."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from simcg.optimize.explain import explain
from simcg.optimize.score import LadderScore
from simcg.optimize.study import Answer, Study
from simcg.report.grounds import study_grounds
from simcg.report.words import cautions, fewest_withheld, proof, regime, rests_on, verdict


def score_json(score: LadderScore) -> dict[str, Any]:
    """One ladder's figures; times in ns, memory in bytes, shares from 0 to 1."""
    return {
        "sizes": list(score.ladder.sizes),
        "slots": score.ladder.buckets[0].slots if score.ladder.buckets else None,
        "eager_ranges": [list(span) for span in score.rule.eager_ranges],
        "mean_step_ns": score.mean_step_ns,
        "padded_share": score.padded_share,
        "eager_share": score.eager_share,
        "memory_bytes": {**asdict(score.memory), "peak": score.memory.peak},
        "startup_ns": {**asdict(score.startup), "total": score.startup.ns},
    }


def _answer_json(answer: Answer | None) -> dict[str, Any] | None:
    if answer is None:
        return None
    return {
        **score_json(answer.score),
        "max_buckets": answer.max_buckets,
        "cost_ns": answer.cost_ns,
        "price_ns": answer.price_ns,
    }


def study_json(study: Study) -> dict[str, Any]:
    """Everything a study says."""
    scenario, steps = study.scenario, study.traffic.counted
    load = study.traffic.load
    return {
        "engine": f"{scenario.engine.name}=={scenario.engine.version}",
        "backend": scenario.model.backend.name,
        "model": scenario.model.forward.name,
        "hardware": scenario.model.profile.name,
        "max_chunk": scenario.max_chunk,
        "traffic": {
            "source": steps.source,
            "steps": steps.total,
            "rate": scenario.rate,
            "busy_share": None if load is None else load.busy_share,
            "unstable": None if load is None else load.unstable,
        },
        "decision": study.decision,
        "verdict": list(verdict(study)),
        "regime": regime(study),
        "proof": proof(study),
        "notes": list(rests_on(study)),
        "warnings": list(cautions(study)),
        "flags": study.flags,
        "flags_fewest": None if study.fewest is None else study.flags_of(study.fewest),
        "flags_fewest_withheld": fewest_withheld(study),
        "gain": asdict(study.gain),
        "provenance": study.table.provenance,
        "rests_on": [asdict(ground) for ground in study_grounds(study)],
        "largest_correction": study.table.correction.largest_correction,
        "largest_fall": study.table.correction.fall,
        "table_error": study.table_error,
        "eager_host_margin": study.eager_host_margin,
        "no_loss_host_margin": study.no_loss_margin,
        "holdout_gain": study.holdout,
        "rounds": study.rounds,
        "settled": study.settled,
        "every_size_step_ns": study.limit_ns,
        "answer": _answer_json(study.answer),
        "default": score_json(study.default),
        "half": _answer_json(study.half),
        "no_loss": _answer_json(study.no_loss),
        "no_graphs": score_json(study.no_graphs),
        "research": None if study.research is None else score_json(study.research),
        "cost_by_buckets_ns": list(study.curve_ns),
        "buckets": [asdict(use) for use in explain(study)],
    }
