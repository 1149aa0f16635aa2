"""What the checks of a recording found, as lines of at most 100 columns and as JSON."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from simcg.formal.audit.baked import ALONE, DERIVED, HIDDEN
from simcg.formal.audit.check import CHECKED, Report, check
from simcg.formal.audit.finding import Finding, bucket_name, bucket_of
from simcg.formal.invariants import INVARIANTS
from simcg.formal.recording import Failure, Recordings, decode_recordings, require_captures
from simcg.formal.words import counted
from simcg.report.tables import Row
from simcg.workload.source import read_utf8, source_name

SHOWN = 20
"""Findings of one verdict that are told in words; JSON has all."""
WIDTH = 100
TITLES = {
    "violated": "violated",
    "not decided": "not decided by this recording",
    "holds only while": "holds only while a tensor lives and is not replaced",
}
HINT = (
    "declare what lives as long as the graphs and is not replaced, such as parameters: "
    'audit({name: ("constant", p) for name, p in module.named_parameters()})'
)
WHYS = (DERIVED, ALONE, HIDDEN)
"""Why a host value is not decided, where no finding says so."""
LISTED = 4
"""Tensors of a family that are told in words."""
NOT_LOOKED_AT = tuple(key for key in INVARIANTS if key not in CHECKED)
"""Invariants that no recording shows."""


def read_recordings(path: str) -> Recordings:
    """The recordings in a file, plain or gzip, or in standard input for ``-``.

    ``SimcgError`` where there are none.
    """
    name = source_name(path)
    found = decode_recordings(read_utf8(path), name)
    require_captures(found, name)
    return found


def table_rows(report: Report) -> list[Row]:
    """One row an invariant: key, name, cases, and the worst verdict with its number."""
    rows: list[Row] = []
    for key in CHECKED:
        verdict, cases = report.verdict(key), report.cases[key]
        if verdict is None:
            said = "holds" if cases else "no case"
        else:
            number = sum(f.times for f in report.of(key) if f.verdict == verdict)
            if key == "I17" and verdict == "not decided":
                number += _unfound(report)
            tied = " a tensor lives" if verdict == "holds only while" else ""
            said = f"{verdict}{tied} ({number:,})"
        rows.append((key, INVARIANTS[key].name, f"{cases:,}", said))
    return rows


def told(report: Report) -> list[str]:
    """The findings in words, worst first; captures that failed; and what was not looked at."""
    lines: list[str] = []
    for verdict, title in TITLES.items():
        found = [finding for finding in report.findings if finding.verdict == verdict]
        if not found:
            continue
        texts = _families(found) if verdict == "holds only while" else list(map(str, found))
        lines += ["", f"{title}:", *_listed(texts)]
        if verdict == "holds only while":
            lines += _listed([HINT])
    if report.failed:
        lines += ["", "captures that failed, of which nothing was recorded:"]
        lines += _listed([_failure(failure) for failure in report.failed])
    return [*lines, "", *textwrap.wrap(scope_line(), WIDTH)]


def _listed(texts: Sequence[str]) -> list[str]:
    lines = []
    for text in texts[:SHOWN]:
        lines += textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="    ")
    if len(texts) > SHOWN:
        lines.append(f"  and {len(texts) - SHOWN:,} more (--json has all)")
    return lines


def _families(findings: Iterable[Finding]) -> list[str]:
    """One text for all tensors of which the same is found at operators of the same name."""
    families: dict[tuple[str, ...], list[Finding]] = {}
    for finding in findings:
        key = finding.invariant, finding.op, finding.found
        families.setdefault(key, []).append(finding)
    return [_family(family) for family in families.values()]


def _family(family: Sequence[Finding]) -> str:
    others = sorted({finding.tensor for finding in family[1:]} - {family[0].tensor})
    if not others:
        return str(family[0])
    return f"{family[0]}; and so for {len(others):,} more: {', '.join(others[:LISTED])}" + (
        ", ..." if len(others) > LISTED else ""
    )


def baked_lines(report: Report) -> list[str]:
    """What launches bake in, and each value of which no recording decides whether it may."""
    if not report.baked:
        return []
    alike = report.baked - sum(len(value.values) for value in report.undecided)
    lines = textwrap.wrap(
        f"host values and places in memory that launches bake in: {report.baked:,} (alike in "
        f"several captures: {alike:,}); every replay has them as they are", WIDTH,
    )  # fmt: skip
    for why in WHYS:
        found = [str(value) for value in report.undecided if value.why == why]
        if found:
            lines += ["", f"not decided, {why}:", *_listed(_repeated(found))]
    return lines


def _repeated(texts: Iterable[str]) -> list[str]:
    """Each once, with how often it is there."""
    return [
        f"{text} ({number:,} times)" if number > 1 else text
        for text, number in Counter(texts).items()
    ]


def scope_line() -> str:
    """What the table leaves out."""
    names = ", ".join(f"{key} {INVARIANTS[key].name}" for key in NOT_LOOKED_AT)
    return f"not looked at, as no recording shows it: {names}"


def _unfound(report: Report) -> int:
    """Host values that are not decided and are no findings."""
    return sum(value.why in WHYS for value in report.undecided)


def conclusion(report: Report) -> str:
    """The answer in one line."""
    number = dict.fromkeys(TITLES, 0)
    for finding in report.findings:
        number[finding.verdict] += finding.times
    if report.violated:
        return f"a replay can be wrong: {counted(number['violated'], 'violation')}"
    undecided, tied = number["not decided"] + _unfound(report), number["holds only while"]
    parts = []
    if undecided:
        parts.append(f"{undecided:,} thing{'s are' if undecided != 1 else ' is'} not decided")
    if tied:
        parts.append(f"{tied:,} hold{'s' * (tied == 1)} only while a tensor lives")
    if report.failed:
        parts.append(f"{counted(len(report.failed), 'capture')} failed")
    return f"nothing is violated; {', '.join(parts) or 'what a recording shows is decided'}"


def _failure(failure: Failure) -> str:
    bucket = bucket_of(failure.num_tokens, failure.slots)
    return f"{failure.backend}, {bucket}: {failure.reason}"


def report_json(recordings: Recordings, report: Report) -> dict[str, Any]:
    """Everything, for machines."""
    return {
        "device": recordings.device,
        "torch": recordings.torch,
        "captures": [
            {
                "backend": recording.backend,
                "bucket": bucket_name(recording),
                "group": recording.group,
                "released": recording.released,
                "items": len(recording.items),
                "storages": len(recording.storages),
            }
            for recording in recordings.captures
        ],
        "violated": report.violated,
        "invariants": [
            {
                "key": key,
                "name": INVARIANTS[key].name,
                "cases": report.cases[key],
                "verdict": report.verdict(key) or ("holds" if report.cases[key] else "no case"),
            }
            for key in CHECKED
        ],
        "not_looked_at": list(NOT_LOOKED_AT),
        "findings": [_finding_json(finding) for finding in report.findings],
        "baked": {
            "values": report.baked,
            "undecided": [
                {
                    "item": value.item,
                    "op": value.op,
                    "argument": value.argument,
                    "what": value.what,
                    "values": dict(value.values),
                    "why": value.why,
                }
                for value in report.undecided
            ],
        },
        "failed": [
            {
                "backend": failure.backend,
                "bucket": bucket_of(failure.num_tokens, failure.slots),
                "reason": failure.reason,
            }
            for failure in report.failed
        ],
    }


def _finding_json(finding: Finding) -> dict[str, Any]:
    return {
        "invariant": finding.invariant,
        "name": INVARIANTS[finding.invariant].name,
        "verdict": finding.verdict,
        "capture": finding.spot.capture,
        "item": finding.spot.item,
        "event": finding.spot.event,
        "line": finding.line,
        "bucket": finding.bucket,
        "op": finding.op,
        "tensor": finding.tensor,
        "storage": None if finding.storage < 0 else finding.storage,
        "address": None if finding.address < 0 else finding.address,
        "writer": finding.writer,
        "found": finding.found,
        "expected": finding.expected,
        "times": finding.times,
    }


def checked(path: str) -> tuple[Recordings, Report]:
    """Read a file and check it."""
    recordings = read_recordings(path)
    return recordings, check(recordings)
