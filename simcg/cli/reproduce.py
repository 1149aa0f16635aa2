"""``simcg reproduce``: published results beside simulated ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.table import Table

from simcg.cli.deployments import print_runs, print_silicon
from simcg.cli.options import json_option
from simcg.cli.show import console, print_json, stages
from simcg.errors import require

if TYPE_CHECKING:
    from simcg.reproduce.outcome import Reproduction

SECTIONS = ("published", "silicon", "vllm-runs")


@click.command("reproduce")
@click.argument("section", type=click.Choice(SECTIONS), default="published")
@click.option("--row", metavar="ID", help="One published value, or a group of them such as M2.")
@click.option(
    "--results",
    type=click.Path(dir_okay=False, path_type=Path),
    help="silicon: keep results in this file, and go on from those that it holds.",
)
@json_option
def command(section: str, row: str | None, results: Path | None, as_json: bool) -> None:
    """Published results beside simulated ones: errors, parameters and their leverage.

    published: a handful of host and memory costs is fitted to seven values; all others are
    predictions, marked where they follow from other rows or cannot miss. silicon: 2,754 measured
    deployments, predicted from kernel tables, minutes. vllm-runs: two recorded runs, request by
    request. The exit code is 0 whether or not the targets are met: the last line says which.

    \b
    Example:
      simcg reproduce
      simcg reproduce --row M2
      simcg reproduce silicon
      simcg reproduce vllm-runs
    """
    if section != "published":
        require(row is None, "--row", "", row, "only with the published values")
    if section != "silicon":
        require(results is None, "--results", "", str(results), "only with silicon")
    if section == "silicon":
        print_silicon(results, as_json=as_json)
        return
    if section == "vllm-runs":
        print_runs(as_json=as_json)
        return
    from simcg.reproduce.outcome import reproduce  # noqa: PLC0415  # only here
    from simcg.reproduce.published import matching, published_rows  # noqa: PLC0415

    wanted = matching(row, tuple(r.id for r in published_rows())) if row else ()
    with stages() as notify:
        notify("fitting and simulating")
        result = reproduce()
    if as_json:
        _print_json(result, wanted)
    elif wanted:
        _print_rows(result, wanted)
    else:
        _print_all(result)


def _print_json(result: Reproduction, wanted: tuple[str, ...]) -> None:
    from simcg.report.reproduction import outcome_json, reproduction_json  # noqa: PLC0415
    from simcg.reproduce.facts import facts  # noqa: PLC0415

    if not wanted:
        print_json(reproduction_json(result, facts(result)))
        return
    chosen = [o for o in result.outcomes if o.published.id in wanted]
    print_json([outcome_json(outcome) for outcome in chosen])


def _print_rows(result: Reproduction, wanted: tuple[str, ...]) -> None:
    from simcg.report import reproduction as tables  # noqa: PLC0415  # JSON does not need it

    out = console()
    chosen = [o for o in result.outcomes if o.published.id in wanted]
    for kind in dict.fromkeys(o.kind for o in chosen):
        out.print(f"[bold]{kind.capitalize()}[/bold]")
        out.print(tables.outcome_table(o for o in chosen if o.kind == kind))
        out.print()
    for source in dict.fromkeys((o.published.source, o.published.setup) for o in chosen):
        out.print(": ".join(part for part in source if part))
    if any(o.sensitivity for o in chosen):
        out.print()
        out.print(tables.sensitivity_table(o for o in chosen if o.simulated is not None))
    if any(o.note for o in chosen):
        out.print()
        out.print(tables.notes_table(chosen))
    if any(o.changed for o in chosen):
        out.print()
        out.print(tables.changes_table(chosen))


def _print_all(result: Reproduction) -> None:
    from simcg.report import reproduction as tables  # noqa: PLC0415  # JSON does not need it
    from simcg.reproduce.facts import facts  # noqa: PLC0415

    fitted, predicted = result.of_kind("fitted"), result.of_kind("predicted")
    missed = [o for o in predicted if o.note]
    left_out = (*result.of_kind("not simulated"), *result.of_kind("input"))
    sections: tuple[tuple[str, Table], ...] = (
        ("Fitted", tables.outcome_table(fitted)),
        ("Predicted", tables.outcome_table(predicted)),
        ("Why predictions miss", tables.notes_table(missed)),
        ("Changed after the first comparison", tables.changes_table(predicted)),
        ("Fitted parameters", tables.parameter_table(result.fit)),
        ("d log prediction / d log parameter", tables.sensitivity_table(predicted)),
        ("Shape", tables.facts_table(facts(result))),
        ("Not simulated", tables.notes_table(left_out)),
        (
            "Draft chart, TTFT in ms (its authors dropped it; it disagrees with R1-R3 by 4.5 %; "
            "nothing is fitted to it): published, simulated, error",
            tables.draft_table(result.of_kind("draft")),
        ),
    )
    out = console()
    for title, table in sections:
        out.print(f"[bold]{title}[/bold]")
        out.print(table)
        out.print()
    out.print(tables.targets_line(result))
