"""The sections of ``simcg reproduce`` on measured deployments and recorded runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from simcg.cli.show import console, print_json


def print_silicon(results: Path | None, *, as_json: bool) -> None:
    """Predict every claimed point and print the errors."""
    from simcg.report import deployments as tables  # noqa: PLC0415  # only here
    from simcg.reproduce import measured  # noqa: PLC0415
    from simcg.reproduce.calibration import server_costs  # noqa: PLC0415
    from simcg.reproduce.silicon import claimed_points, silicon_points  # noqa: PLC0415

    points = claimed_points()
    with _progress() as notify:
        found = measured.predicted(points, notify=notify, results=results)
    kept = measured.reported(found)
    total = measured.group(("all",), kept)
    by_place = measured.grouped(kept, lambda p: (p.system, p.framework))
    by_model = measured.grouped(kept, lambda p: (p.model.split("/")[-1],))
    if as_json:
        print_json(
            {
                "points": len(silicon_points()),
                "claimed": len(points),
                "reported": len(kept),
                "total": tables.group_json(total),
                "by_system_and_framework": [tables.group_json(g) for g in by_place],
                "by_model": [tables.group_json(g) for g in by_model],
                "server_costs": server_costs(),
            }
        )
        return
    out = console()
    out.print(
        f"{len(points)} of {len(silicon_points())} measured deployments are claimed; the "
        f"{len(points) - len(kept)} of the calibration are left out. |error| in %:"
    )
    for title, groups in (
        (("system", "framework"), by_place),
        (("model",), by_model),
        (("",), (total,)),
    ):
        out.print()
        out.print(tables.group_table(title, groups))
    out.print()
    out.print("[bold]Furthest off[/bold]")
    out.print(tables.worst_table(measured.worst(kept, 10)))
    out.print()
    out.print(tables.reasons_table(kept))
    out.print()
    out.print(tables.costs_table(server_costs()))
    out.print()
    out.print(tables.targets_line(total))


def print_runs(*, as_json: bool) -> None:
    """Simulate the recorded runs and print the errors."""
    from simcg.report.deployments import fit_line, runs_table  # noqa: PLC0415  # only here
    from simcg.reproduce.vllm_runs import outcomes  # noqa: PLC0415

    found = outcomes()
    if as_json:
        print_json(found)
        return
    out = console()
    out.print(runs_table(found))
    for run in found:
        out.print()
        out.print(fit_line(run))
        out.print(f"kernels: {run.kernels}")


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None] | None]:
    """A bar on a terminal's standard error only."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import Progress  # noqa: PLC0415

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("simulating deployments", total=None)
        yield lambda done, of: bar.update(task, completed=done, total=of)
