"""``simcg compare``: ladders side by side on one workload."""

from __future__ import annotations

import re
from typing import Any

import click

from simcg.cli.options import json_option, server_options, traffic_options
from simcg.cli.setting import TrafficSource, scenario_from
from simcg.cli.show import console, print_json, stages
from simcg.engines.registry import LADDER_RULES, ladder_rule_sizes
from simcg.engines.traps import warnings
from simcg.errors import InputError, one_of, require
from simcg.ladder import Ladder
from simcg.optimize.scenario import Limits, Scenario
from simcg.optimize.score import LadderScore
from simcg.optimize.side_by_side import DEFAULT, side_by_side


@click.command("compare")
@traffic_options
@click.option("--ladder", "ladders", multiple=True, required=True, metavar="[NAME=]SIZES|RULE",
              help="Token counts such as 64,128,256, or a rule's name; repeatable.")  # fmt: skip
@server_options
@json_option
def command(ladders: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Ladders beside the engine's default, on the steps that the default gives rise to.

    \b
    Example:
      simcg compare --workload azure-code --ladder mine=256,1024,4096,8192 \\
                    --ladder tokenspeed-prefill
    """
    source = TrafficSource.taken_from(options)
    with stages() as notify:
        scenario = scenario_from(source, options, Limits())
        notify("scheduling")
        named: dict[str, Ladder] = {}
        for text in ladders:
            name, ladder = _ladder(text, scenario)
            fresh = bool(name) and name not in (DEFAULT, *named)
            require(fresh, "--ladder", "", text, "a name that no other ladder has")
            named[name] = ladder
        scores = side_by_side(scenario, named)
    if as_json:
        from simcg.report.machine import score_json  # noqa: PLC0415  # only here

        print_json({name: score_json(one) for name, one in scores.items()})
        return
    _print(scenario, list(scores.items()))


def _print(scenario: Scenario, scores: list[tuple[str, LadderScore]]) -> None:
    from simcg.report.tables import ladders_table  # noqa: PLC0415  # JSON does not need it

    out = console()
    model, engine = scenario.model, scenario.engine
    out.print(
        f"{model.forward.name} on {model.profile.name}, {engine.name} {engine.version}, backend "
        f"{model.backend.name}, chunk {scenario.max_chunk}; {scenario.traffic.source}"
    )
    for at in range(0, len(scores), 5):  # five columns fit the width
        out.print(ladders_table(scores[at : at + 5], model.fallback.name, None))
        out.print()
    for name, one in scores[1:]:
        for line in warnings(one.ladder, scenario.engine, scenario.max_chunk):
            out.print(f"note on {name}: {line}")


def _ladder(text: str, scenario: Scenario) -> tuple[str, Ladder]:
    """A name and a ladder from ``[NAME=]SIZES`` or the name of a rule."""
    label, equals, body = text.rpartition("=")
    name = label if equals else text
    if re.fullmatch(r"[0-9]{1,9}([,\s]+[0-9]{1,9})*", body):
        sizes = tuple(int(size) for size in re.split(r"[,\s]+", body))
        require(min(sizes) >= 1, "--ladder", "", text, "sizes >= 1")
    elif body in LADDER_RULES:
        sizes = ladder_rule_sizes(body, scenario.max_chunk, scenario.deployment)
    else:
        known = one_of(body, tuple(LADDER_RULES))
        raise InputError("--ladder", "", text, f"sizes such as 64,128,256 or {known}")
    return name, Ladder.of(sizes, scenario.model.slots)
