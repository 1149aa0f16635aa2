"""``simcg verify``: is a replay equal to eager?"""

from __future__ import annotations

import click

from simcg.cli.options import json_option
from simcg.cli.show import console, print_json


@click.command("verify")
@click.option("--recording", metavar="FILE",
              help="Recordings of captures, as real_gpu.audit writes them.")  # fmt: skip
@click.option("--ladder", metavar="FILE", help="A ladder with its rule and limits (JSON): which "
              "batches run eager, and which are padded most.")  # fmt: skip
@json_option
def command(recording: str | None, ladder: str | None, as_json: bool) -> int:
    """Check recordings (which operator or break would make a replay differ from eager) or a ladder.

    Exit code 1 if an invariant is violated, or if batches within the ladder's limits run eager
    unasked. What a recording does not show is "not decided".

    \b
    A ladder's file, of which only sizes (or buckets, pairs of tokens and slots) must be given:
      {"sizes": [1, 2, 4, 8, 16], "rule": {"max_ratio": 2, "eager_ranges": [[1, 1]]},
       "max_tokens": 17, "max_requests": 8, "align": 8, "query_len": 1}

    \b
    Example:
      simcg verify --recording capture.json
      simcg verify --ladder ladder.json
    """
    if (recording is None) == (ladder is None):
        raise click.UsageError("say what to verify: --recording FILE or --ladder FILE")
    if ladder is not None:
        return _ladder(ladder, as_json)
    return _recording(str(recording), as_json)


def _recording(path: str, as_json: bool) -> int:
    from simcg.report.recording_check import (  # noqa: PLC0415  # other modes do without
        baked_lines,
        checked,
        conclusion,
        report_json,
        table_rows,
        told,
    )

    recordings, report = checked(path)
    if as_json:
        print_json(report_json(recordings, report))
        return int(report.violated)
    from simcg.report.tables import plain_table  # noqa: PLC0415  # JSON does not need it

    out = console()
    out.print(f"{path}: {len(recordings.captures)} captures on {recordings.device}, "
              f"torch {recordings.torch}", markup=False, soft_wrap=True)  # fmt: skip
    out.print(plain_table(("", "invariant", "cases", "verdict"), table_rows(report)))
    for line in (*baked_lines(report), *told(report), "", conclusion(report)):
        out.print(line, markup=False)
    return int(report.violated)


def _ladder(path: str, as_json: bool) -> int:
    from simcg.formal.ladder_check.check import check_ladder  # noqa: PLC0415  # z3: this mode alone
    from simcg.formal.ladder_check.read import read_question  # noqa: PLC0415
    from simcg.report import ladder_check as told  # noqa: PLC0415

    report = check_ladder(read_question(path))
    if as_json:
        print_json(told.report_json(report))
        return int(not report.good)
    out = console()
    out.print(f"{path}: {told.heading(report)}", markup=False, soft_wrap=True)
    out.print(told.table(report))
    for line in (*told.notes(report), told.proof_line(report), "", told.verdict(report)):
        out.print(line, markup=False)
    return int(not report.good)
