"""Numbers of the section that holds predictions against runs of an H200."""

from __future__ import annotations

from collections.abc import Sequence

from papers.sources import served, validation
from papers.text import interval, percent, signed
from simcg.runs.compare import Errors
from simcg.runs.limits import ERROR_RATIO, MOST_UTILISATION, SERVED

SESSIONS = {"the profile's": "h200-serving.jsonl.gz", "another": "h200-serving-later.jsonl.gz"}
GROUPS = {
    "timed rows": "sizes calibration timed",
    "other rows": "other sizes",
    "unseen model": "model it never saw",
}
KINDS = (
    "step", "trace step", "capture", "compile", "graph pool", "eager peak", "graph memory"
)  # fmt: skip
ORDER = (*GROUPS, "all")
BACKENDS = ("eager", "full", "breakable", "tc_piecewise (eager)")


def validation_numbers() -> dict[str, object]:
    """Errors by group, missed limits, decisions between ladders, served traces."""
    found = validation()
    missed = [check for check in found.checks if not check.holds]
    checks = {check.what: check for check in found.checks}
    return {
        "limits": str(len(found.checks)),
        "missed": str(len(missed)),
        "missed_rows": [[c.what, c.found, c.limit] for c in missed],
        "errors": error_rows(found.comparison.errors),
        "decisions": decision_rows(),
        "compared": str(len(found.decisions)),
        "inside": str(sum(d.low <= d.predicted <= d.high for d in found.decisions)),
        "off": f"{100 * max(abs(d.measured - d.predicted) for d in found.decisions):.1f}",
        "error_ratio": f"{ERROR_RATIO:g}",
        "bits": checks["A: replay equals eager at its bucket"].found,
        "rounding": checks["B: replay against eager at n"].found,
        "products": checks["products at n and at their bucket"].found.removesuffix(
            " row-invariant"
        ),
        "served": served_rows(),
        "served_limits": [percent(share, 0) for share in SERVED.values()],
        "served_load": percent(MOST_UTILISATION, 0),
        "peers": peers(),
        "gpu": join_gpu(),
        "sampled": str(found.decisions[0].steps),
    }


def error_rows(errors: Sequence[Errors]) -> list[list[str]]:
    """Median and 95th percentile in percent, a column a backend; a dagger: a limit is missed."""
    missed = {check.what for check in validation().checks if not check.holds}
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for one in errors:
        name = f"{one.kind}, {one.backend}" + ("" if one.group == "all" else f", {one.group}")
        text = f"{100 * one.median:.1f} / {100 * one.p95:.1f}" + ("†" if name in missed else "")
        cells.setdefault((one.kind, one.group), {})[one.backend] = f"{text} ({one.count})"
    order = sorted(cells, key=lambda key: (KINDS.index(key[0]), ORDER.index(key[1])))
    return [
        [kind, GROUPS.get(group, ""), *(cells[kind, group].get(name, "-") for name in BACKENDS)]
        for kind, group in order
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
