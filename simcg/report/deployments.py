"""Predicted deployments as tables of at most 100 columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich.table import Table

from simcg.report.tables import plain_table
from simcg.reproduce.calibration import BOUNDS, ServerCosts
from simcg.reproduce.measured import TPOT_TARGET, TTFT_TARGET, Group, Outcome, Quantiles
from simcg.reproduce.vllm_runs import FITTED, RunOutcome

SYSTEM_NAMES = {"h100_sxm": "h100", "h200_sxm": "h200", "b200_sxm": "b200", "b300_sxm": "b300"}


def group_table(title: Sequence[str], groups: Iterable[Group]) -> Table:
    """Median and 90th percentile of |error| in %: TPOT and TTFT, beside the other estimator's."""
    columns = (
        *title, "points", "TPOT", "p90", "TTFT", "p90", "aiconf. n", "TPOT", "p90", "TTFT", "p90",
    )  # fmt: skip
    rows = []
    for one in groups:
        name = (*(SYSTEM_NAMES.get(part, part) for part in one.name),)
        ours = 0 if one.ours is None else one.ours.count
        points = str(one.measured) if ours == one.measured else f"{ours} of {one.measured}"
        theirs = "0" if one.theirs is None else str(one.theirs.count)
        rows.append((*name, points, *_cells(one.ours), theirs, *_cells(one.theirs)))
    return plain_table(columns, rows)


def worst_table(outcomes: Iterable[Outcome]) -> Table:
    """One line a point: what it is, measured and predicted."""
    rows = []
    for outcome in outcomes:
        point, made = outcome.point, outcome.predicted
        if made is None:
            continue
        what = (
            f"{point.model.split('/')[-1]} {point.precision} {point.framework} {point.version} "
            f"{SYSTEM_NAMES.get(point.system, point.system)} tp{point.tp} "
            f"{point.isl}/{point.osl} c{point.concurrency}"
        )
        rows.append(
            (
                what[:62], f"{point.tpot_ms:.4g}", f"{made.tpot_ms:.4g}",
                f"{point.ttft_ms:.4g}", f"{made.ttft_ms:.4g}",
            )
        )  # fmt: skip
    columns = ("point", "TPOT ms", "predicted", "TTFT ms", "predicted")
    return plain_table(columns, rows)


def reasons_table(outcomes: Iterable[Outcome]) -> Table:
    """Why points were not simulated, and how many."""
    counts: dict[str, int] = {}
    for outcome in outcomes:
        if outcome.reason:
            counts[outcome.reason] = counts.get(outcome.reason, 0) + 1
    rows = [(reason, str(count)) for reason, count in sorted(counts.items())]
    return plain_table(("not simulated", "points"), rows)


def costs_table(costs: dict[str, ServerCosts]) -> Table:
    """What servers add to their kernels, by framework; a star is a figure at its bound."""
    names = sorted(costs)
    rows = []
    for field, (low, high) in BOUNDS.items():
        values = [getattr(costs[name], field) for name in names]
        cells = [f"{value:.4g}{'*' if value in (low, high) else ''}" for value in values]
        rows.append((field, f"{low:g} to {high:g}", *cells))
    return plain_table(("server cost", "bounds", *names), rows)


def targets_line(total: Group) -> str:
    """Whether the targets are met."""
    if total.ours is None:
        return "no point was simulated"
    parts = []
    for name, (median, _), target in (
        ("TPOT", total.ours.tpot, TPOT_TARGET),
        ("TTFT", total.ours.ttft, TTFT_TARGET),
    ):
        verdict = "met" if median <= target else "missed"
        parts.append(f"{name} median error {median:.1%}, target {target:.0%} {verdict}")
    return "; ".join(parts)


def runs_table(outcomes: Iterable[RunOutcome]) -> Table:
    """One line a run and metric: recorded, simulated, errors with the fitted costs and without."""
    rows = []
    for run in outcomes:
        for metric, real, made, errors in (
            ("mean TTFT", run.recorded_ttft_ms, run.ttft_ms,
             (run.ttft_error, run.rest_ttft_error, run.bare_ttft_error)),
            ("mean TPOT", run.recorded_tpot_ms, run.tpot_ms,
             (run.tpot_error, run.rest_tpot_error, run.bare_tpot_error)),
        ):  # fmt: skip
            cells = (f"{error:+.1%}" for error in errors)
            rows.append((run.server.gpu, metric, f"{real:.1f}", f"{made:.1f}", *cells))
    later = f"requests {FITTED + 1} on"
    columns = ("run", "metric, ms", "recorded", "simulated", "error", later, "no host costs")
    return plain_table(columns, rows)


def fit_line(run: RunOutcome) -> str:
    """What was fitted to the first requests, or why nothing could be."""
    fitted = (
        f"{run.server.gpu}: {run.step_ns / 1e6:.2f} ms of host a step and "
        f"{run.request_ns / 1e6:.2f} ms a request, fitted to the first {FITTED} requests"
    )
    if run.step_ns > 0:
        return fitted
    return f"{fitted}: at their least, as kernels alone take longer than was recorded"


def group_json(one: Group) -> dict[str, Any]:
    """A group as data, errors as shares."""
    return {
        "name": list(one.name),
        "points": one.measured,
        "simcg": _json(one.ours),
        "aiconfigurator": _json(one.theirs),
        "simcg_where_both": _json(one.ours_shared),
    }


def _json(found: Quantiles | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "points": found.count,
        "tpot_median": found.tpot[0],
        "tpot_p90": found.tpot[1],
        "ttft_median": found.ttft[0],
        "ttft_p90": found.ttft[1],
    }


def _cells(found: Quantiles | None) -> tuple[str, ...]:
    if found is None:
        return ("-",) * 4
    return tuple(f"{100 * share:.1f}" for share in (*found.tpot, *found.ttft))
