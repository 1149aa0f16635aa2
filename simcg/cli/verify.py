"""``simcg verify``: is a replay equal to eager?"""

from __future__ import annotations

import click

from simcg.cli.options import json_option
from simcg.cli.show import console, print_json


@click.command("verify")
@click.option("--recording", metavar="FILE",
              help="Recordings of captures, as real_gpu.audit writes them.")  # fmt: skip
@json_option
def command(recording: str | None, as_json: bool) -> int:
    """Check the recordings in FILE: which operator or break would make a replay differ from eager.

    Exit code 1 if an invariant is violated. What a recording does not show is "not decided".

    \b
    Example:
      simcg verify --recording capture.json
    """
    if recording is None:
        raise click.UsageError("say what to verify: --recording FILE")
    return _recording(recording, as_json)


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
