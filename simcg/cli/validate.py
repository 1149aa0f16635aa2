"""``simcg validate``: predictions held against real runs, and against stated limits."""

from __future__ import annotations

from pathlib import Path

import click

from simcg.cli.options import json_option
from simcg.cli.show import console, print_json, stages
from simcg.errors import Finding, require
from simcg.hardware.catalog import load_profile
from simcg.runs.read import join, read_runs
from simcg.runs.schema import PeerCell
from simcg.runs.validation import Validation, validate


@click.command("validate")
@click.argument("runs", nargs=-1, required=True, metavar="RUNS...")
@click.option("--hardware", default="h200", show_default=True, metavar="NAME|FILE",
              help="Built-in profile or a profile file.")  # fmt: skip
@click.option("--cells", is_flag=True, help="List every cell.")
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Write a picture (png, svg or pdf).")  # fmt: skip
@json_option
def command(
    runs: tuple[str, ...], hardware: str, cells: bool, plot: Path | None, as_json: bool
) -> int:
    """Predictions of a profile beside the figures in RUNS, files of simcg measure.

    Exit code 1 when a stated limit is missed.

    \b
    Example:
      simcg validate benchmarks/runs/h200-matrix.jsonl --plot errors.png
    """
    if plot is not None:
        from simcg.report.plots import check_picture  # noqa: PLC0415  # slow import

        check_picture(plot)  # before the work
    with stages() as notify:
        many = [read_runs(path) for path in runs]
        notify("predicting")
        result = validate(many, load_profile(hardware))
        nothing = Finding("nothing that a stated limit is about")
        expected = "steps, captures, memory, peers, decisions or serving of a GPU, or bits"
        require(bool(result.checks), ", ".join(runs), "", nothing, expected)
        if plot is not None:
            from simcg.report.validation_plot import plot_validation  # noqa: PLC0415

            notify("drawing")
            plot_validation(result, plot)
    for line in result.warnings:
        click.echo(f"simcg: warning: {line}", err=True)
    if as_json:
        from simcg.report.validation import validation_json  # noqa: PLC0415  # only here

        print_json(validation_json(result))
    else:
        _print(result, cells)
    return 0 if result.passed else 1


def _print(result: Validation, with_cells: bool) -> None:
    from simcg.report import validation as report  # noqa: PLC0415  # JSON does not need it

    out = console()
    for runs in result.runs:
        where = runs.header.environment
        what = where.gpu or "CPU device"
        out.print(f"{runs.source}: {len(runs.lines)} lines, {what}, torch {where.torch}, "
                  f"{where.date}")  # fmt: skip
    out.print()
    errors = result.comparison.errors
    if errors:
        out.print(f"predicted by profile {result.profile.name} beside measured", style="bold")
        out.print(report.errors_table(errors))
        out.print()
        out.print(report.worst_table(errors))
        out.print()
    if with_cells:
        out.print(report.cells_table(result.comparison.cells))
        out.print()
    if result.orders:
        out.print(report.order_table(result.orders))
        out.print()
    peers = join(result.runs, PeerCell)
    if peers:
        out.print(report.peers_table(peers))
        out.print()
    if result.decisions:
        out.print("decisions on sampled steps", style="bold")
        out.print(report.decisions_table(result.decisions))
        out.print()
    if result.serving:
        out.print(report.serving_table(result.serving))
        out.print()
        out.print(report.served_steps_table(result.serving))
        out.print()
    if result.checks:
        out.print(report.checks_table(result.checks))
        out.print()
    missed = sum(not check.holds for check in result.checks)
    held = len(result.checks) - missed
    out.print(f"{held} of {len(result.checks)} stated limits met", style="bold")
