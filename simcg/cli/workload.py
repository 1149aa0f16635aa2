"""``simcg workload``: what is in a trace, and what a server makes of it."""

from __future__ import annotations

from typing import Any

import click

from simcg.cli.options import json_option, server_options, traffic_options
from simcg.cli.setting import TrafficSource, scenario_from
from simcg.cli.show import console, print_json, stages
from simcg.optimize.scenario import Limits
from simcg.optimize.study import scheduled
from simcg.workload.columns import column_names
from simcg.workload.describe import RequestFacts, describe
from simcg.workload.requests import Requests

NAMES = (
    "Columns of CSV and JSON-lines files by role, in any case and with any separators, times with "
    f"their unit (_ns, _us, _ms; else seconds): {column_names()}."
)


@click.command("workload", epilog=NAMES)
@traffic_options
@server_options
@json_option
def command(as_json: bool, **options: Any) -> None:
    """The requests of TRAFFIC, and the prefill steps that the server makes of them.

    \b
    Examples:
      simcg workload trace.csv
      simcg workload --workload azure-code --rate 3 --model gpt-oss-120b --hardware gb300 --tp 4
    """
    source = TrafficSource.taken_from(options)
    with stages() as notify:
        scenario = scenario_from(source, options, Limits(), any_length=True)
        notify("scheduling")
        traffic = scheduled(scenario, scenario.default_ladder)
    found = [describe(traffic.timed, traffic.load)]
    if isinstance(scenario.traffic, Requests):
        found.insert(0, describe(scenario.traffic))
    if as_json:
        print_json([one.to_json() for one in found])
        return
    from simcg.report.tables import description_rows, plain_table  # noqa: PLC0415  # not for JSON
    from simcg.report.units import count, percent, seconds  # noqa: PLC0415

    out = console()
    columns = ("", "mean", "p50", "p90", "p99", "max")
    for one in found:
        facts = one.facts
        if isinstance(facts, RequestFacts):
            line = f"{one.source}: {count(facts.requests)} requests"
            if facts.duration_ns and facts.requests_per_s and facts.burstiness is not None:
                line += (
                    f" in {seconds(facts.duration_ns)}, {facts.requests_per_s:.2f} a second, "
                    f"gaps vary by {facts.burstiness:.2f} of their mean (1: Poisson)"
                )
            if facts.cached_share:
                line += f"; {percent(facts.cached_share)} of the prompt tokens are cached"
        else:
            line = f"{count(facts.steps)} prefill steps of {count(facts.distinct_tokens)} sizes"
            if one.load is not None:
                line += f"; server {percent(one.load.busy_share, 0)} busy"
                line += ", MORE THAN IT CAN SERVE" if one.load.unstable else ""
        out.print(line)
        out.print(plain_table(columns, description_rows(one)))
        out.print()
