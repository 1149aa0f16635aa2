"""Numbers of the section about published and measured results of others."""

from __future__ import annotations

import statistics

from papers.sources import kept, reproduction
from papers.text import count, percent, signed
from simcg.report.reproduction import SHORT, figure, quantity, what
from simcg.reproduce.facts import facts
from simcg.reproduce.measured import TPOT_TARGET, TTFT_TARGET
from simcg.reproduce.outcome import Outcome, errors
from simcg.reproduce.parameters import BOUNDS
from simcg.reproduce.published import published
from simcg.reproduce.vllm_runs import FITTED, outcomes

WORST = 0.10


def reproduction_numbers() -> dict[str, object]:
    """Fitted costs, predictions with their errors, silicon points, recorded runs."""
    found = reproduction()
    _, median, worst = found.targets
    predicted, independent = found.of_kind("predicted"), found.independent
    missed = next(one for one in predicted if abs(one.error or 0.0) == worst[1])
    shape = facts(found)
    return {
        "fitted": str(len(found.of_kind("fitted"))),
        "predicted": str(len(predicted)),
        "independent": str(len(independent)),
        "following": str(len(predicted) - len(independent)),
        "others": str(len(found.beside_memory)),
        "median_others": percent(statistics.median(errors(found.beside_memory))),
        "median_all": percent(statistics.median(errors(predicted))),
        "ttft_speedup": published("R2").shown,
        "left_out": str(len(found.of_kind("not simulated"))),
        "median": percent(median[1]),
        "median_limit": percent(median[2], 0),
        "worst": percent(worst[1]),
        "worst_limit": percent(worst[2], 0),
        "next": percent(sorted(errors(independent))[-2]),
        "miss": {
            "name": missed.published.id,
            "what": f"{missed.published.metric} for {missed.published.model}",
            "published": missed.published.shown,
            "simulated": f"{missed.simulated:.2f}",
            "why": missed.note,
            "changed": missed.changed.replace("-", "−", 1),
        },
        "parameters": parameter_rows(),
        "rows": [outcome_row(one) for one in (*found.of_kind("fitted"), *predicted)],
        "facts": [[fact.claim, "holds" if fact.holds else "does not hold"] for fact in shape],
        "changed": str(sum(bool(one.changed) for one in predicted)),
        "changed_independent": str(sum(bool(one.changed) for one in independent)),
        "draft": str(len(found.of_kind("draft"))),
        "draft_median": draft_median(found.of_kind("draft")),
        "silicon": silicon(),
        "runs": run_rows(),
        "run_fit": str(FITTED),
    }  # fmt: skip


def parameter_rows() -> list[list[str]]:
    """The solved costs, their bounds, and the value each was solved for."""
    solved = reproduction().fit.parameters
    return [
        [SHORT[bound.name], bound.meaning, _unit(quantity(bound, getattr(solved, bound.name))),
         _unit(f"{quantity(bound, bound.low)} to {quantity(bound, bound.high)}"), bound.row]
        for bound in BOUNDS
    ]  # fmt: skip


def _unit(text: str) -> str:
    return text.replace(" us", " µs").replace("x", "× ")


def outcome_row(one: Outcome) -> list[str]:
    """id, kind, what, published, simulated, error."""
    error = signed(one.error or 0.0)
    if one.error == 0 and one.published.low < one.published.high:
        error = "in range"
    elif one.error == 0 and one.published.one_digit:
        error = "rounds to it"
    return [
        one.published.id, one.kind, what(one), one.published.shown,
        figure(one.simulated or 0.0), error,
    ]  # fmt: skip


def draft_median(found: tuple[Outcome, ...]) -> str:
    """Median error on the chart that its authors dropped."""
    return percent(statistics.median(errors(found)))


def silicon() -> dict[str, object]:
    """Measured deployments predicted from kernel tables."""
    found = kept("silicon")
    ours, theirs = found["total"]["simcg"], found["total"]["aiconfigurator"]
    return {
        "points": count(found["points"]),
        "claimed": count(found["claimed"]),
        "reported": count(found["reported"]),
        "calibration": count(found["claimed"] - found["reported"]),
        "simulated": count(ours["points"]),
        "tpot_target": percent(TPOT_TARGET, 0),
        "ttft_target": percent(TTFT_TARGET, 0),
        "left_out": count(found["reported"] - ours["points"]),
        "costs": str(sum(len(costs) for costs in found["server_costs"].values())),
        "tpot": percent(ours["tpot_median"]),
        "ttft": percent(ours["ttft_median"]),
        "tpot_p90": percent(ours["tpot_p90"]),
        "ttft_p90": percent(ours["ttft_p90"]),
        "their_tpot": percent(theirs["tpot_median"]),
        "their_ttft": percent(theirs["ttft_median"]),
        "rows": [silicon_row(one) for one in found["by_system_and_framework"]],
    }


def silicon_row(one: dict[str, object]) -> list[str]:
    """System, framework, points, and medians of both estimators."""
    cells = []
    for who in ("simcg", "aiconfigurator"):
        found = one[who]
        for figure_name in ("tpot_median", "ttft_median"):
            cells.append(percent(found[figure_name]) if isinstance(found, dict) else "-")
    name = one["name"]
    names = [str(part) for part in name] if isinstance(name, list) else [str(name)]
    return [names[0].removesuffix("_sxm"), names[-1], str(one["points"]), *cells]


def run_rows() -> list[list[str]]:
    """Recorded runs: mean TTFT and TPOT, recorded, simulated and error."""
    rows = []
    for run in outcomes():
        rows.append(
            [run.server.gpu, f"{run.recorded_ttft_ms:,.0f}", f"{run.ttft_ms:,.0f}",
             signed(run.ttft_error), f"{run.recorded_tpot_ms:.1f}", f"{run.tpot_ms:.1f}",
             signed(run.tpot_error)]
        )  # fmt: skip
    return rows
