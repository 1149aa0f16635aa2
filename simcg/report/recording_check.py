"""What the checks of a recording found, as lines of at most 100 columns and as JSON."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

from simcg.errors import InputError
from simcg.formal.audit.baked import DIFFERS
from simcg.formal.audit.check import CHECKED, Report, check
from simcg.formal.audit.finding import Finding, bucket_name
from simcg.formal.invariants import INVARIANTS
from simcg.formal.recording import Recordings, decode_recordings
from simcg.report.tables import Row

SHOWN = 20
"""Findings of one verdict that are told in words; JSON has all."""
WIDTH = 100
TITLES = {
    "violated": "violated",
    "not decided": "not decided by this recording",
    "holds only while": "holds only while a tensor lives",
}


def read_recordings(path: str) -> Recordings:
    """The recordings in a file; ``InputError`` or ``SimcgError`` where there are none."""
    try:
        data = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(path, "", reason, "a readable file of recordings") from None
    return decode_recordings(data, path)


def table_rows(report: Report) -> list[Row]:
    """One row an invariant: key, name, cases, and the worst verdict with its number."""
    rows: list[Row] = []
    for key in CHECKED:
        verdict, cases = report.verdict(key), report.cases[key]
        if verdict is None:
            said = "holds" if cases else "no case"
        else:
            number = sum(f.times for f in report.of(key) if f.verdict == verdict)
            tied = " a tensor lives" if verdict == "holds only while" else ""
            said = f"{verdict}{tied} ({number:,})"
        rows.append((key, INVARIANTS[key].name, f"{cases:,}", said))
    return rows


def told(report: Report) -> list[str]:
    """The findings in words, worst first, each with a hanging indent."""
    lines: list[str] = []
    for verdict, title in TITLES.items():
        found = [finding for finding in report.findings if finding.verdict == verdict]
        if not found:
            continue
        lines += ["", f"{title}:"]
        for finding in found[:SHOWN]:
            lines += textwrap.wrap(
                str(finding), WIDTH, initial_indent="  ", subsequent_indent="    "
            )
        if len(found) > SHOWN:
            lines.append(f"  and {len(found) - SHOWN:,} more (--json has all)")
    return lines


def baked_lines(report: Report) -> list[str]:
    """The host values that launches bake in, in a sentence."""
    derived = sum(value.why != DIFFERS for value in report.differing)
    rest = len(report.differing) - derived
    return [
        f"host values baked in: {report.baked:,}; {len(report.differing):,} differ between "
        f"captures, of which {derived:,} follow from the bucket's size and {rest:,} do not"
    ]


def conclusion(report: Report) -> str:
    """The answer in one line."""
    number = dict.fromkeys(TITLES, 0)
    for finding in report.findings:
        number[finding.verdict] += finding.times
    if report.violated:
        wrong = number["violated"]
        return f"a replay can be wrong: {wrong:,} violation{'s' * (wrong != 1)}"
    undecided, tied = number["not decided"], number["holds only while"]
    parts = []
    if undecided:
        parts.append(f"{undecided:,} thing{'s are' if undecided != 1 else ' is'} not decided")
    if tied:
        parts.append(f"{tied:,} hold{'s' * (tied == 1)} only while a tensor lives")
    return "nothing is violated" + (
        f"; {' and '.join(parts)}" if parts else ", and everything was decided"
    )


def report_json(recordings: Recordings, report: Report) -> dict[str, Any]:
    """Everything, for machines."""
    return {
        "device": recordings.device,
        "torch": recordings.torch,
        "captures": [
            {
                "backend": recording.backend,
                "bucket": bucket_name(recording),
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
        "findings": [_finding_json(finding) for finding in report.findings],
        "baked": {
            "values": report.baked,
            "differing": [
                {
                    "item": value.item,
                    "op": value.op,
                    "argument": value.argument,
                    "values": dict(value.values),
                    "why": value.why,
                }
                for value in report.differing
            ],
        },
    }


def _finding_json(finding: Finding) -> dict[str, Any]:
    return {
        "invariant": finding.invariant,
        "name": INVARIANTS[finding.invariant].name,
        "verdict": finding.verdict,
        "capture": finding.spot.capture,
        "item": finding.spot.item,
        "event": finding.spot.event,
        "bucket": finding.bucket,
        "op": finding.op,
        "tensor": finding.tensor,
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
