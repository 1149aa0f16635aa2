"""``simcg simulate``: one server under load."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simcg.cli.child import check_output
from simcg.cli.ladders import typed_sizes
from simcg.cli.options import json_option, server_options, traffic_options
from simcg.cli.setting import TrafficSource, scenario_from, server_from
from simcg.cli.show import console, print_json, stages
from simcg.des.serving import (
    Arrivals,
    AtOnce,
    Closed,
    Gamma,
    Poisson,
    ServerConfig,
    Traced,
)
from simcg.des.serving.arrivals import Process
from simcg.des.serving.defaults import graph_top
from simcg.des.serving.memory import KvBudget
from simcg.des.serving.policy import POLICIES
from simcg.des.serving.server import LoggedStep
from simcg.des.serving.setup import server_setup
from simcg.errors import InputError, require
from simcg.ladder import Ladder
from simcg.optimize.scenario import Limits, Scenario
from simcg.workload.requests import Requests

if TYPE_CHECKING:
    from simcg.report.serving import ServingReport


@click.command("simulate")
@traffic_options
@click.option("--request-rate", type=float, metavar="R", help="Requests a second that arrive at "
              "random instead of at the trace's times; inf: all at once.")  # fmt: skip
@click.option("--burstiness", type=float, metavar="B", help="Shape of the gaps of --request-rate: "
              "1 is Poisson, less is burstier (as in vLLM's bench serve).")  # fmt: skip
@click.option("--concurrency", type=int, metavar="N", help="Clients in a closed loop: each sends "
              "a request when its last one is done.")  # fmt: skip
@click.option("--num-prompts", type=int, metavar="N", help="Requests to send.  "
              "[default: as many as the traffic has]")  # fmt: skip
@click.option("--output-tokens", type=int, metavar="N", help="Output of every request.  "
              "[default: the traffic's]")  # fmt: skip
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True,
              help="Of random arrivals and the order of requests.")  # fmt: skip
@server_options
@click.option("--policy", type=click.Choice(POLICIES), help="How steps are filled.  "
              "[default: the engine's]")  # fmt: skip
@click.option("--ladder", metavar="SIZES|RULE|none", help="Token counts of the prefill graphs.  "
              "[default: the engine's]")  # fmt: skip
@click.option("--decode-ladder", metavar="SIZES|RULE|none", help="Requests of the decode graphs.  "
              "[default: the engine's]")  # fmt: skip
@click.option("--memory-fraction", type=float, default=0.9, show_default=True,
              help="Share of the GPU's memory that the server uses.")  # fmt: skip
@click.option("--kv-tokens", type=click.IntRange(1), metavar="N",
              help="Capacity of the KV cache, instead of what memory leaves.")  # fmt: skip
@click.option("--step-overhead", type=float, default=0.0, show_default=True, metavar="US",
              help="Host time of every step outside the forward, in microseconds.")  # fmt: skip
@click.option("--timeline", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Write a trace for Perfetto (.json or .json.gz).")  # fmt: skip
@json_option
def command(as_json: bool, timeline: Path | None, **options: Any) -> None:
    """Latency, throughput, padding and memory of one server under TRAFFIC.

    TRAFFIC is a trace (CSV or JSON lines, gzip too; - for standard input).

    \b
    Examples:
      simcg simulate --request-rate 8
      simcg simulate trace.csv --rate 2 --ladder 256,1024,8192 --policy bucket-edge
      simcg simulate --workload sharegpt --concurrency 64 --engine vllm --timeline run.json.gz
    """
    if timeline is not None:
        check_output("--timeline", timeline)
    source = TrafficSource.taken_from(options)
    with stages() as notify:
        scenario = scenario_from(source, options, Limits())
        arrivals = arrivals_from(scenario, options)
        config, budget = config_from(scenario, options)
        notify("pricing steps")
        clock = config.clock()
    from simcg.report.serving import ServingReport  # noqa: PLC0415  # slow import, after checks

    log: list[LoggedStep] | None = None if timeline is None else []
    with _progress(arrivals.total) as progress:
        report = ServingReport.of_run(
            config, budget, arrivals, seed=options["seed"], clock=clock, log=log, progress=progress
        )
    if timeline is not None and log is not None:
        _write(timeline, log, report.config)
    if as_json:
        from simcg.report.serving import serving_json  # noqa: PLC0415  # slow import

        print_json(serving_json(report))
        return
    _print(scenario, report, arrivals)


def _write(path: Path, log: list[LoggedStep], config: ServerConfig) -> None:
    from simcg.report.serving_timeline import serving_timeline  # noqa: PLC0415  # only here
    from simcg.report.timeline import write_timeline  # noqa: PLC0415

    write_timeline(path, serving_timeline(config, log))


def arrivals_from(scenario: Scenario, options: dict[str, Any]) -> Arrivals:
    """Traffic and the process by which it arrives."""
    traffic = scenario.traffic
    if not isinstance(traffic, Requests):
        raise InputError(traffic.source, "", "a histogram of steps", "requests")
    rate, shape, clients = (options[k] for k in ("request_rate", "burstiness", "concurrency"))
    if shape is not None:
        require(rate is not None, "--burstiness", "", shape, "--request-rate beside it")
        require(rate < math.inf, "--burstiness", "", shape, "a finite --request-rate beside it")
        inside = 1e-4 <= shape <= 1e6
        require(inside, "--burstiness", "", shape, "a number from 0.0001 to 1000000")
    process: Process = Traced(scenario.rate)
    if clients is not None:
        require(rate is None, "--concurrency", "", clients, "no --request-rate beside it")
        process = Closed(clients)
    elif rate is not None:
        require(rate > 0, "--request-rate", "", rate, "requests a second > 0")
        if math.isinf(rate):
            process = AtOnce()
        else:
            process = Poisson(rate) if shape is None else Gamma(rate, shape**-0.5)
    if not isinstance(process, Traced):
        require(scenario.rate == 1, "--rate", "", scenario.rate, "1: it speeds up a trace's times")
    return Arrivals(traffic, process, options["num_prompts"], options["output_tokens"])


def config_from(scenario: Scenario, options: dict[str, Any]) -> tuple[ServerConfig, KvBudget]:
    """The server that the options describe, and where its memory goes."""
    chunk, deployment = scenario.max_chunk, scenario.deployment
    ladder, decode = scenario.default_ladder, None
    if options["ladder"] is not None:
        sizes = typed_sizes("--ladder", options["ladder"], chunk, deployment)
        ladder = Ladder.of(sizes, scenario.model.slots)
    if options["decode_ladder"] is not None:
        limit = options["max_num_seqs"] or graph_top(scenario.model.profile, options["tp"])
        typed = options["decode_ladder"]
        decode = Ladder.of(typed_sizes("--decode-ladder", typed, limit, deployment))
    overhead = options["step_overhead"]
    require(0 <= overhead <= 1e6, "--step-overhead", "", overhead, "0 to 1000000 microseconds")
    wanted = replace(
        server_from(options).wanted(ladder),
        decode_ladder=decode,
        policy=options["policy"],
        memory_fraction=options["memory_fraction"],
        kv_tokens=options["kv_tokens"],
        step_overhead_ns=round(overhead * 1e3),
    )
    return server_setup(scenario.engine, scenario.model, chunk, deployment, wanted)


def _print(scenario: Scenario, report: ServingReport, arrivals: Arrivals) -> None:
    from simcg.des.serving.grounds import server_grounds  # noqa: PLC0415  # JSON does not need them
    from simcg.report import grounds, serving  # noqa: PLC0415

    out, config = console(), report.config
    model, engine = scenario.model, scenario.engine
    out.print(
        f"{model.forward.name} on {model.profile.name}, {engine.name} {engine.version}, backend "
        f"{model.backend.name}, policy {config.policy.name}, chunk {config.chunk}, at most "
        f"{config.max_running} requests"
    )
    out.print(f"{arrivals.requests.source}; {arrivals.process}", style="dim")
    out.print()
    warnings = serving.warnings_of(report)
    for warning in warnings:
        out.print(warning, style="bold")
    if warnings:
        out.print()
    tables = (
        serving.latency_table, serving.load_table, serving.steps_table, serving.memory_table,
    )  # fmt: skip
    for table in tables:
        out.print(table(report))
        out.print()
    out.print(f"rests on {report.result.provenance} costs", style="dim")
    for line in grounds.grounds_lines(server_grounds(config)):
        out.print(f"  {line}", style="dim")
    better = grounds.better_profile(model.profile, engine.name)
    if better is not None:
        out.print(f"note: {better}")


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None] | None]:
    """A bar where standard error is a terminal."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console  # noqa: PLC0415  # only here
    from rich.progress import Progress  # noqa: PLC0415

    with Progress(console=Console(stderr=True), transient=True) as rich:
        task = rich.add_task("requests served", total=total)
        yield lambda done: rich.update(task, completed=done)
