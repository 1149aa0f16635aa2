"""``simcg sweep``: many configurations of ``simcg simulate``, side by side."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import msgspec

from simcg.cli.child import check_output
from simcg.cli.setting import TrafficSource, scenario_from
from simcg.cli.show import console, print_json
from simcg.cli.simulate import arrivals_from, config_from
from simcg.cli.simulate import command as simulate_command
from simcg.des.serving import simulate
from simcg.des.serving.overload import overload
from simcg.errors import InputError, SimcgError, one_of, require
from simcg.optimize.scenario import Limits
from simcg.sweep.figures import FIGURES, best_first
from simcg.sweep.grid import Point, combined, grid, points_in
from simcg.sweep.store import Record, Store
from simcg.sweep.workers import over_dask, over_processes

FILES = ("traffic", "model", "hardware")
"""Parameters of simulate that may name a file."""
OUTPUTS = ("as_json", "timeline")
"""Parameters of simulate that say what to print, not what to run."""
BEST, DEFAULT = "best", "default"


@click.command("sweep", context_settings={"ignore_unknown_options": True})
@click.option("--vary", multiple=True, metavar="NAME=VALUE,...", help="An option of simcg simulate "
              "and the values to try; repeat it for a grid. A ladder may also be default or best, "
              "the one that is optimal for the traffic; write its sizes with spaces.")  # fmt: skip
@click.option("--configs", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Configurations, one a line: JSON objects, or CSV with a header.")  # fmt: skip
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Append results as JSON lines; again with the same sweep, it goes on where the "
              "file ends.")  # fmt: skip
@click.option("--jobs", type=click.IntRange(1), help="Processes.  [default: one a core]")
@click.option("--dask", metavar="ADDRESS", help="Scheduler of a Dask cluster, instead of --jobs.")
@click.option("--sort", default="p99_ttft_ms", show_default=True, metavar="FIGURE",
              help="Best first by this figure.")  # fmt: skip
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Draw that figure over the first option varied over numbers, a line for each "
              "combination of the others (.png, .svg, .pdf).")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def command(  # noqa: PLR0917 - one a flag
    vary: tuple[str, ...],
    configs: Path | None,
    out: Path | None,
    jobs: int | None,
    dask: str | None,
    sort: str,
    plot: Path | None,
    as_json: bool,
    options: tuple[str, ...],
) -> None:
    """Simulate a grid or a file of configurations; OPTIONS of simcg simulate hold for all.

    The exit code is 1 when every configuration failed.

    \b
    Examples:
      simcg sweep --vary request-rate=1,2,4 --vary ladder=default,best --out sweep.jsonl
      simcg sweep trace.csv --vary max-chunk=2048,8192 --vary policy=mixed,bucket-edge-mixed
    """
    require(sort in FIGURES, "--sort", "", sort, one_of(sort, FIGURES))
    require(jobs is None or dask is None, "--jobs", "", jobs, "no --dask: its cluster has workers")
    rows: list[Point] = [{}] if configs is None else points_in(configs)
    require(configs is not None or bool(vary), "--vary", "", vary, "at least one, or --configs")
    points = combined(rows, grid(vary), str(configs))
    if plot is not None:
        _check_plot(plot, points)
    keys = _keys(options, points)
    records = _records(keys, out, jobs or os.cpu_count() or 1, dask)
    if as_json:
        print_json([records[n] for n in best_first(records, sort)])
    else:
        from simcg.report.sweep import sweep_table  # noqa: PLC0415  # JSON does not need it

        paper = console()
        paper.print(sweep_table(points, records, sort, paper.width))
    if all("figures" not in record for record in records):
        first = records[0]["error"]
        raise click.ClickException(f"all {len(records)} configurations failed, the first: {first}")
    if plot is not None:
        from simcg.report.sweep_plot import plot_sweep  # noqa: PLC0415  # slow import

        plot_sweep(points, records, sort, plot)


def _check_plot(plot: Path, points: list[Point]) -> None:
    """Refuse a picture that cannot be drawn before the work for it starts."""
    from simcg.report.plots import check_picture  # noqa: PLC0415  # slow import
    from simcg.report.sweep_plot import check_lines  # noqa: PLC0415

    check_picture(plot)
    check_output("--plot", plot)
    check_lines(points)


def _records(keys: list[Record], out: Path | None, jobs: int, dask: str | None) -> list[Record]:
    """The record of each key: those in ``out``, then the others as they come, appended to it."""
    if out is None:
        return list(_run(keys, 0, jobs, dask))
    check_output("--out", out)
    with Store(out, keys) as store:
        for record in _run(keys, len(store.records), jobs, dask):
            store.append(record)
    return store.records


def _run(keys: list[Record], done: int, jobs: int, dask: str | None) -> Iterator[Record]:
    """Simulate the keys after the first ``done`` of them."""
    left = keys[done:]
    results = over_processes(run_key, left, jobs) if dask is None else over_dask(
        run_key, left, dask
    )  # fmt: skip
    with _progress(len(keys), done) as advance:
        for record in results:
            yield record
            advance()


def _keys(options: tuple[str, ...], points: list[Point]) -> list[Record]:
    """The key of each point: no two the same, with the digests of the files that they read."""
    keys, seen, digests = [], set(), dict[str, str]()
    for point in points:
        key = key_of(options, point)
        text = msgspec.json.encode(key, order="sorted")
        require(text not in seen, "sweep", "", point, "configurations that differ")
        seen.add(text)
        for name in FILES:
            value = key[name]
            if value is not None and value not in digests and Path(value).is_file():
                digests[value] = hashlib.sha256(Path(value).read_bytes()).hexdigest()
        keys.append(key | {"sha256": {n: digests[key[n]] for n in FILES if key[n] in digests}})
    return keys


def key_of(options: tuple[str, ...], point: Point) -> Record:
    """Every parameter of ``simcg simulate`` for one configuration, checked by its own rules."""
    names = {text[2:]: param for param in simulate_command.params for text in param.opts
             if text.startswith("--") and param.name not in OUTPUTS}  # fmt: skip
    words = list(options)
    for name, value in point.items():
        if name not in names:
            raise InputError("sweep", "", name, one_of(name, tuple(names)))
        words += [f"--{name}", value]
    params = simulate_command.make_context("simcg sweep", words).params
    for name in OUTPUTS:
        flag = "--" + name.removeprefix("as_")
        require(not params[name], "sweep", "", flag, "it before the first option of simulate"
                if name == "as_json" else "simcg simulate for a timeline")  # fmt: skip
    traffic = params["traffic"]
    streamed = traffic is not None and (
        traffic == "-" or (Path(traffic).exists() and not Path(traffic).is_file())
    )
    require(not streamed, "sweep", "", traffic, "a file: each configuration reads it anew")
    return {name: value for name, value in params.items() if name not in OUTPUTS}


def run_key(key: Record) -> Record:
    """Simulate one configuration; what its user got wrong becomes its record's ``error``."""
    try:
        options = {name: value for name, value in key.items() if name != "sha256"}
        return {"key": key, "figures": _figures(options)}
    except SimcgError as error:
        return {"key": key, "error": str(error)}


def _figures(options: dict[str, Any]) -> dict[str, Any]:
    scenario = scenario_from(TrafficSource.taken_from(options), options, Limits())
    if options["ladder"] == BEST:
        from simcg.optimize.study import study  # noqa: PLC0415  # only here

        options["ladder"] = " ".join(map(str, study(scenario).ladder.sizes)) or "none"
    elif options["ladder"] == DEFAULT:
        options["ladder"] = None
    arrivals = arrivals_from(scenario, options)
    config, _ = config_from(scenario, options)
    clock, seed = config.clock(), options["seed"]
    if config.policy.edges:
        config = config.priced(clock)
    result = simulate(config, arrivals, seed, clock=clock)
    over = overload(config, arrivals, result, seed=seed, clock=clock)
    return {
        **result.summary(),
        "graphs": len(config.ladder),
        "kv_tokens": config.kv_tokens,
        "capacity_per_s": None if over is None else over.capacity_per_s,
    }


@contextmanager
def _progress(total: int, done: int) -> Iterator[Any]:
    """A bar where standard error is a terminal."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console  # noqa: PLC0415  # only here
    from rich.progress import Progress  # noqa: PLC0415

    with Progress(console=Console(stderr=True), transient=True) as rich:
        task = rich.add_task("configurations", total=total, completed=done)
        yield lambda: rich.advance(task)
