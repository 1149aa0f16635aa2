"""Numbers of the section that holds predictions against runs of an H200."""

from __future__ import annotations

from papers.sources import served, validation
from papers.text import interval, percent, signed
from simcg.runs.compare import Errors
from simcg.runs.limits import ERROR_RATIO, MOST_UTILISATION, SERVED

SESSIONS = {"the profile's": "h200-serving.jsonl.gz", "another": "h200-serving-later.jsonl.gz"}
STEP_GROUPS = {
    "timed rows": "sizes that calibration timed",
    "other rows": "other sizes",
    "unseen model": "a model it never saw",
}


def validation_numbers() -> dict[str, object]:
    """Errors by group, missed limits, decisions between ladders, served traces."""
    found = validation()
    missed = [check for check in found.checks if not check.holds]
    checks = {check.what: check for check in found.checks}
    return {
        "limits": str(len(found.checks)),
        "missed": str(len(missed)),
        "missed_rows": [[c.what, c.found, c.limit] for c in missed],
        "steps": step_rows(found.comparison.errors),
        "others": other_rows(found.comparison.errors),
        "decisions": decision_rows(),
        "off": f"{100 * max(abs(d.measured - d.predicted) for d in found.decisions):.1f}",
        "error_ratio": f"{ERROR_RATIO:g}",
        "bits": checks["A: replay equals eager at its bucket"].found,
        "rounding": checks["B: replay against eager at n"].found,
        "products": checks["products at n and at their bucket"].found,
        "served": served_rows(),
        "served_limits": [percent(share, 0) for share in SERVED.values()],
        "served_load": percent(MOST_UTILISATION, 0),
        "peers": peers(),
        "gpu": join_gpu(),
        "sampled": str(found.decisions[0].steps),
    }


def step_rows(errors: tuple[Errors, ...] | list[Errors]) -> list[list[str]]:
    """Median, 95th percentile and bias of step times, and the limit stated beforehand."""
    stated = {check.what: check for check in validation().checks}
    rows: list[list[str]] = []
    for group, name in STEP_GROUPS.items():
        for one in errors:
            if one.kind == "step" and one.group == group:
                first = not rows or rows[-1][-1] != group
                check = stated[f"step, {one.backend}, {group}"]
                limit = check.limit.replace("median ", "").replace("p95 ", "").replace(", ", " / ")
                rows.append(
                    [name if first else "", one.backend, str(one.count), percent(one.median),
                     percent(one.p95), signed(one.bias), limit,
                     "met" if check.holds else "missed", group]
                )  # fmt: skip
    return [row[:-1] for row in rows]


def other_rows(errors: tuple[Errors, ...] | list[Errors]) -> list[list[str]]:
    """The same of what is no step: traces, captures, memory."""
    return [
        [one.kind, one.backend, one.group, str(one.count), percent(one.median), percent(one.p95)]
        for one in errors
        if one.kind != "step"
    ]


def decision_rows() -> list[list[str]]:
    """What each ladder saved against each other one: measured and predicted."""
    return [
        [f"{one.ours} ({one.graphs[0]})", f"{one.theirs} ({one.graphs[1]})", signed(one.measured),
         interval(one.low, one.high), signed(one.predicted)]
        for one in validation().decisions
    ]  # fmt: skip


def served_rows() -> list[list[str]]:
    """Simulated over measured latencies of served traces, session by session."""
    rows = []
    for session, file in SESSIONS.items():
        for one in served(file).serving:
            names = ("ttft p50", "ttft p99", "tpot p50", "e2el p50")
            rows.append(
                [session, percent(one.run.line.utilisation or 0.0, 0), str(len(one.run.requests)),
                 *(signed(one.error(name)) for name in names)]
            )  # fmt: skip
    return rows


def peers() -> dict[str, str]:
    """Breakable replay over each other way, as the checks print it."""
    return {
        check.what.removeprefix("breakable over ").replace(" ", "_").replace("-", "_"):
            check.found.partition(" ")[0]
        for check in validation().checks
        if check.what.startswith("breakable over ")
    }  # fmt: skip


def join_gpu() -> str:
    """The GPU and the torch that ran."""
    where = validation().runs[0].header.environment
    return f"{where.gpu}, torch {where.torch}"
