"""``simcg compare``: ladders side by side on one workload."""

from __future__ import annotations

import re
from typing import Any

import click

from simcg.cli.options import Sizes, json_option, server_options, traffic_options
from simcg.cli.setting import TrafficSource, scenario_from
from simcg.cli.show import console, print_json, stages
from simcg.engines.registry import LADDER_RULES, ladder_rule_sizes
from simcg.engines.traps import warnings
from simcg.errors import InputError
from simcg.ladder import Ladder
from simcg.optimize.scenario import Limits, Scenario
from simcg.optimize.score import LadderScore, score
from simcg.optimize.study import scheduled


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
    names = TrafficSource.__dataclass_fields__
    source = TrafficSource(**{name: options.pop(name) for name in names})
    with stages() as notify:
        scenario = scenario_from(source, options, Limits())
        notify("scheduling")
        named = [("default", scenario.default_ladder)]
        named += [_ladder(text, scenario) for text in ladders]
        steps = scheduled(scenario, scenario.default_ladder).counted
        rule, model, chunk = scenario.engine.admission, scenario.model, scenario.max_chunk
        scores = [(name, score(ladder, rule, steps, model, chunk)) for name, ladder in named]
    if as_json:
        from simcg.report.machine import score_json  # noqa: PLC0415  # only here

        print_json({name: score_json(one) for name, one in scores})
        return
    _print(scenario, scores)


def _print(scenario: Scenario, scores: list[tuple[str, LadderScore]]) -> None:
    from simcg.report.tables import ladders_table  # noqa: PLC0415  # JSON does not need it

    out = console()
    for at in range(0, len(scores), 5):  # five columns fit the width
        out.print(ladders_table(scores[at : at + 5], None))
        out.print()
    for name, one in scores[1:]:
        for line in warnings(one.ladder, scenario.engine, scenario.max_chunk):
            out.print(f"note on {name}: {line}")


def _ladder(text: str, scenario: Scenario) -> tuple[str, Ladder]:
    """A name and a ladder from ``[NAME=]SIZES`` or the name of a rule."""
    label, equals, body = text.rpartition("=")
    name = label if equals else text
    if re.fullmatch(r"[\d,\s]+", body):
        sizes: tuple[int, ...] = Sizes().convert(body, None, None)
    elif body in LADDER_RULES:
        sizes = ladder_rule_sizes(body, scenario.max_chunk, scenario.deployment)
    else:
        known = ", ".join(LADDER_RULES)
        raise InputError("--ladder", "", text, f"sizes such as 64,128,256 or one of {known}")
    return name, Ladder.of(sizes, scenario.model.slots)
