"""``simcg optimize``: the ladder to use, what it saves, its proof, and the flags."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from simcg.cli.options import Seconds, Size, Sizes, json_option, server_options, traffic_options
from simcg.cli.setting import TrafficSource, scenario_from, server_from
from simcg.cli.show import console, print_json, stages
from simcg.des.serving.policy import POLICIES
from simcg.errors import one_of, require
from simcg.optimize.scenario import Limits
from simcg.optimize.study import Study, study

STEP_TIME = "step-time"


@click.command("optimize")
@traffic_options
@server_options
@click.option("--buckets", type=click.IntRange(0, 512), metavar="K",
              help="At most so many graphs.  [default: as many as the engine's default, fewer "
              "where they do as well]")  # fmt: skip
@click.option("--ceiling", type=int, metavar="N", help="Exactly this largest size.")
@click.option("--include", type=Sizes(), default=(), help="Sizes that must be captured.")
@click.option("--align", type=click.IntRange(1), default=1, metavar="N",
              help="Only multiples of N, beside --include and --ceiling.")  # fmt: skip
@click.option("--max-memory", type=Size(), help="Most device memory of the graphs.")
@click.option("--max-startup", type=Seconds(),
              help="Longest start-up of the graphs.")  # fmt: skip
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Write a picture (png, svg or pdf).")  # fmt: skip
@click.option(
    "--objective",
    default=STEP_TIME,
    show_default=True,
    metavar="NAME",
    help="step-time, proved optimal; or ttft-p99, ttft-mean: simulated under load.",
)
@click.option(
    "--request-rate",
    type=float,
    metavar="R",
    help="For ttft objectives: requests a "
    "second that arrive at random instead of at the trace's times.",
)
@click.option("--policy", type=click.Choice(POLICIES), help="For ttft objectives: how steps are "
              "filled.  [default: the engine's]")  # fmt: skip
@click.option("--explain", is_flag=True, help="What each graph serves, and what it is worth.")
@json_option
def command(plot: Path | None, explain: bool, as_json: bool, **options: Any) -> None:
    """The capture ladder to use for TRAFFIC, with its proof and the flags to paste.

    TRAFFIC is a trace or a histogram (CSV or JSON lines, gzip too; - for standard input).

    \b
    Examples:
      simcg optimize --max-chunk 8192
      simcg optimize trace.csv --model gpt-oss-120b --hardware gb300 --tp 4 --plot ladder.png
      simcg optimize --objective ttft-p99 --request-rate 6 --requests 1000 --max-chunk 2048
    """
    limits = Limits(
        max_buckets=options.pop("buckets"),
        ceiling=options.pop("ceiling"),
        include=options.pop("include"),
        align=options.pop("align"),
        memory_bytes=options.pop("max_memory"),
        startup_ns=options.pop("max_startup"),
    )
    source = TrafficSource.taken_from(options)
    load = {name: options.pop(name) for name in ("objective", "request_rate", "policy")}
    if load["objective"] != STEP_TIME:
        _check_objective(load["objective"])
        for flag, given in (("--plot", plot is not None), ("--explain", explain)):
            require(not given, flag, "", load["objective"], f"--objective {STEP_TIME} beside it")
        _under_load(source, options, limits, load, as_json=as_json)
        return
    for name in ("request_rate", "policy"):
        flag = "--" + name.replace("_", "-")
        require(load[name] is None, flag, "", load[name], "--objective ttft-p99 beside it")
    if plot is not None:
        from simcg.report.plots import check_picture, plot_study  # noqa: PLC0415  # slow import

        check_picture(plot)  # before the work
    with stages() as notify:
        result = study(scenario_from(source, options, limits), notify)
        if plot is not None:
            notify("drawing")
            plot_study(result, plot)
    if as_json:
        from simcg.report.machine import study_json  # noqa: PLC0415  # only here

        print_json(study_json(result))
        return
    _print(result, explain)


def _check_objective(name: str) -> None:
    from simcg.optimize.under_load import OBJECTIVES  # noqa: PLC0415  # slow import

    known = (STEP_TIME, *OBJECTIVES)
    require(name in known, "--objective", "", name, one_of(name, known))


def _under_load(
    source: TrafficSource,
    server: dict[str, Any],
    limits: Limits,
    load: dict[str, Any],
    *,
    as_json: bool,
) -> None:
    """Choose by what a simulated server gives its users, and print that."""
    from simcg.cli.simulate import arrivals_from  # noqa: PLC0415  # slow imports, only here
    from simcg.optimize.under_load import Question, choose_under_load  # noqa: PLC0415
    from simcg.report import under_load  # noqa: PLC0415
    from simcg.report.links import link_note  # noqa: PLC0415

    with stages() as notify:
        scenario = scenario_from(source, server, limits)
        no = dict.fromkeys(("burstiness", "concurrency", "num_prompts", "output_tokens"))
        arrivals = arrivals_from(scenario, {**no, "request_rate": load["request_rate"]})
        wanted = server_from(server).wanted(scenario.default_ladder)
        wanted = replace(wanted, policy=load["policy"])
        question = Question(scenario, arrivals, wanted, load["objective"])
        choice = choose_under_load(question, notify)
    if as_json:
        print_json(under_load.choice_json(choice))
        return
    out = console()
    model = scenario.model
    policy = load["policy"] or "the engine's policy"
    out.print(f"{model.forward.name} on {model.profile.name}, {scenario.engine.name} "
              f"{scenario.engine.version}, backend {model.backend.name}, chunk "
              f"{scenario.max_chunk}, {policy}")  # fmt: skip
    out.print(f"{arrivals.requests.source}; {arrivals.process}", style="dim")
    out.print()
    first, *more = under_load.verdict(choice)
    out.print(first, style="bold")
    for line in more:
        out.print(line)
    out.print()
    out.print(under_load.candidates_table(choice))
    out.print()
    out.print(under_load.rounds(choice), style="dim")
    out.print(under_load.judged_on(choice), style="dim")
    note = link_note(model.forward, model.profile)
    if note is not None:
        out.print(f"note: {note}")
    out.print()
    name = f"{scenario.engine.name} {scenario.engine.version}"
    graphs = len(choice.chosen.ladder)
    out.print(f"flags of {name} for {choice.chosen.name} ({graphs}):", style="bold")
    click.echo(scenario.engine.flags(choice.chosen.ladder, model.backend))
    if len(choice.fewest.ladder) < graphs:
        fewer = len(choice.fewest.ladder)
        out.print(f"flags for the fewest graphs about as good as the best, {fewer}:", style="bold")
        click.echo(scenario.engine.flags(choice.fewest.ladder, model.backend))


def _print(result: Study, with_buckets: bool) -> None:
    """The study for a person: verdict, ladder, figures, regime, proof, flags."""
    from simcg.report import words  # noqa: PLC0415  # JSON does not need them
    from simcg.report.tables import explain_table, study_table  # noqa: PLC0415

    out = console()
    scenario, ladder = result.scenario, result.ladder
    out.print(words.heading(result))
    out.print(words.traffic_line(result), style="dim")
    out.print()
    first, *more = words.verdict(result)
    out.print(first, style="bold")
    for line in more:
        out.print(line)
    out.print()
    slots = f" with {scenario.model.slots} request slots each" if scenario.model.slots else ""
    kept = result.decision == "keep_default"
    title = words.ladder_title(result) if kept else "ladder"
    strong = "dim" if kept else "bold"
    out.print(f"{title}, {len(ladder)} graphs{slots}:", style=strong)
    out.print(" ".join(map(str, ladder.sizes)) or "none")
    out.print()
    out.print(study_table(result))
    out.print()
    if with_buckets:
        from simcg.optimize.explain import explain  # noqa: PLC0415  # only on request

        out.print(explain_table(explain(result)))
        out.print()
    out.print(f"regime: {words.regime(result)}")
    out.print(f"proof: {words.proof(result)}")
    for line in words.rests_on(result):
        out.print(f"  {line}", style="dim")
    for line in words.cautions(result):
        out.print(f"note: {line}")
    out.print()
    name = f"{scenario.engine.name} {scenario.engine.version}"
    for title, flags in words.flags_to_paste(result):
        out.print(f"flags of {name} for {title}:", style="bold")
        click.echo(flags)  # never wrapped: it is there to be pasted
