"""The check of a ladder as rows of a table, lines and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from simcg.formal.ladder_check.check import LadderReport, named
from simcg.formal.ladder_check.ranges import Range
from simcg.formal.words import counted
from simcg.report.tables import Row, plain_table
from simcg.report.units import count, percent

MOST_ROWS = 60


def table(report: LadderReport) -> Table:
    """Holes first, then the other ranges, ascending; at most MOST_ROWS."""
    ordered = [*report.holes, *(r for r in report.ranges if not r.hole)][:MOST_ROWS]
    requests = ("requests",) if report.question.slotted else ()
    columns = ("tokens", *requests, "worst padding", "what happens")
    made = plain_table(columns, [_row(report, r) for r in ordered])
    made.columns[-1].justify = "left"
    return made


def notes(report: LadderReport) -> list[str]:
    """What else a user should know, and how many ranges the table leaves out."""
    hidden = len(report.ranges) - MOST_ROWS
    more = [f"... {hidden} more ranges: see --json"] if hidden > 0 else []
    return [*more, *(f"note: {note}" for note in report.notes)]


def _row(report: LadderReport, r: Range) -> Row:
    requests = (_span(r.first_m, r.last_m),) if report.question.slotted else ()
    padding = "-" if r.worst_rows is None else percent(r.worst_rows / r.least_n)
    return (_span(r.first_n, r.last_n), *requests, padding, _told(report, r))


def _told(report: LadderReport, r: Range) -> str:
    if r.bucket is not None:
        return f"replays in {named(r.bucket)}"
    ratio = report.question.rule.max_ratio
    why = {
        "above the ceiling": f"above the top size {count(report.question.ladder.ceiling)}",
        "too many requests": "no bucket has the rows and the slots",
        "guard": f"the bucket is above {ratio} n{', and smaller batches replay' * r.hole}",
        "range": "asked for by eager_ranges",
        "no graphs": "no graphs",
    }
    return f"{'HOLE: ' if r.hole else ''}eager, {why[r.reason or 'no graphs']}"


def _span(first: int, last: int) -> str:
    return count(first) if first == last else f"{count(first)}..{count(last)}"


def heading(report: LadderReport) -> str:
    """What was asked."""
    q = report.question
    ratio = q.rule.max_ratio
    guard = "no guard" if ratio is None else f"eager where the bucket is above {ratio} n"
    return (
        f"{counted(len(q.ladder), 'bucket')}, {guard}; batches of "
        f"{_spanned(1, q.max_tokens, 'token')} and {_spanned(1, q.max_requests, 'request')}"
    )


def proof_line(report: LadderReport) -> str:
    """How it is known that the table is right."""
    proof, cross = report.proof, report.cross
    if not proof.holds:
        return f"NOT PROVED by z3: {proof.counterexample}"
    if cross.wrong is not None:
        return (
            f"NOT PROVED: dispatch answers otherwise for n = {cross.wrong[0]}, m = {cross.wrong[1]}"
        )
    return (
        f"proved by z3 for all batches ({proof.ms:.0f} ms); "
        f"dispatch agrees on {count(cross.batches)} of them"
    )


def verdict(report: LadderReport) -> str:
    """The last line."""
    if not report.certain:
        return "not decided: the table above is not proved"
    if report.holes:
        holes = counted(len(report.holes), "hole")
        return f"{holes}: batches of {_batches(report, report.holes)} run eager, unasked"
    asked = [r for r in report.ranges if r.bucket is None]
    if asked:
        refused = _batches(report, asked)
        return f"no holes: every batch replays but those that the rule refuses, {refused}"
    return "no holes: every batch replays"


def _batches(report: LadderReport, found: Sequence[Range]) -> str:
    """The first few ranges: their tokens, and where slots count their requests."""
    if report.question.slotted:
        spans = [f"{_spanned(r.first_n, r.last_n, 'token')} with "
                 f"{_spanned(r.first_m, r.last_m, 'request')}" for r in found[:4]]  # fmt: skip
    else:
        spans = [_span(r.first_n, r.last_n) for r in found[:4]]
        spans[-1] = _spanned(found[:4][-1].first_n, found[:4][-1].last_n, "token")
    more = f" and {counted(len(found) - 4, 'more range')}" if len(found) > 4 else ""
    return ", ".join(spans) + more


def _spanned(first: int, last: int, noun: str) -> str:
    return f"{_span(first, last)} {noun}" + "s" * (last != 1)


def report_json(report: LadderReport) -> dict[str, Any]:
    """Everything, as JSON."""
    q = report.question
    return {
        "buckets": [asdict(bucket) for bucket in q.ladder.buckets],
        "max_ratio": None if q.rule.max_ratio is None else str(q.rule.max_ratio),
        "eager_ranges": q.rule.eager_ranges,
        "max_tokens": q.max_tokens,
        "max_requests": q.max_requests,
        "covered": report.good,
        "holes": [_range_json(r) for r in report.holes],
        "ranges": [_range_json(r) for r in report.ranges],
        "notes": report.notes,
        "proof": asdict(report.proof),
        "dispatched": report.cross.batches,
        "wrong": report.cross.wrong,
        "verdict": verdict(report),
    }


def _range_json(r: Range) -> dict[str, Any]:
    return {
        "tokens": (r.first_n, r.last_n),
        "requests": (r.first_m, r.last_m),
        "bucket": None if r.bucket is None else asdict(r.bucket),
        "reason": r.reason,
        "hole": r.hole,
        "worst_padding": None if r.worst_rows is None else r.worst_rows / r.least_n,
    }
