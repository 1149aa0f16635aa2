"""A choice under load in words, in a table and as JSON values."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.table import Table

from simcg.des.serving import Traced
from simcg.optimize.under_load import Candidate, Choice
from simcg.report.tables import Row, plain_table
from simcg.report.units import percent


def verdict(choice: Choice) -> tuple[str, ...]:
    """What to use, and how sure that is."""
    winner, default, what = choice.winner, choice.default, choice.question.objective
    if default.overload is not None:
        return (
            f"Use {winner.name}, {_graphs(winner)}: {what} {winner.mean.mean:.2f} ms.",
            f"The default does not keep up: {default.overload}.",
        )
    if choice.judged is None:
        return (f"Keep the default, {_graphs(default)}: no candidate has a lower {what}.",)
    saved = -choice.judged.mean / default.mean.mean
    bounds = f"95 % interval {-choice.judged.high:+.2f} to {-choice.judged.low:+.2f} ms"
    found = f"saves {-choice.judged.mean:+.2f} ms of {what} ({percent(saved)}), {bounds}"
    if choice.chosen is winner:
        if choice.judged.high < 0:
            return (f"Use {winner.name}, {_graphs(winner)}: it {found}.",)
        worse = f"{choice.judged.mean:+.2f} ms of {what} ({percent(-saved)})"
        span = f"95 % interval {choice.judged.low:+.2f} to {choice.judged.high:+.2f} ms"
        first = f"Use {winner.name}, {_graphs(winner)}: the best that the limits permit."
        unsure = "" if choice.is_significant else ": not significant"
        return (first, f"Against the default, {worse}, {span}{unsure}.")
    first = f"Keep the default, {_graphs(default)}: the best candidate is not better beyond chance."
    return (first, f"{winner.name}, {_graphs(winner)}, {found}: not significant.")


def rounds(choice: Choice) -> str:
    """Whether steps and ladder came to rest."""
    count = len(choice.path) - 1 + bool(choice.cycle)
    if choice.cycle == 1:
        return f"steps and ladder rest after {count} rounds"
    if choice.cycle:
        return f"steps and ladder repeat every {choice.cycle} rounds, after {count} rounds"
    return f"steps and ladder still change after {count} rounds"


def judged_on(choice: Choice) -> str:
    """The runs behind ranking and verdict."""
    many = len(choice.winner.values)
    if isinstance(choice.question.arrivals.process, Traced):
        return (
            f"ranked on {many} parts of the trace, judged on the parts between them; intervals "
            "take the parts as independent"
        )
    return f"ranked on {many} runs with the same arrivals for all, judged on {many} fresh ones"


def candidates_table(choice: Choice) -> Table:
    """Candidates, best first on the runs that rank them, and the winner's gain on fresh ones.

    The first of many is lucky, so its lead on the runs that made it the first is no gain.
    """
    default, rows = choice.default, list[Row]()
    alone = () if default in (*choice.ranked, *choice.dropped) else (default,)
    for one in (*choice.ranked, *alone):
        mean = one.mean
        less = ""
        if default.values and one is not default:
            less = f"{mean.mean - default.mean.mean:+.2f}"
        span = f"{mean.low:.2f} to {mean.high:.2f}"
        judged = choice.judged if one is choice.winner else None
        fresh = "" if judged is None else f"{judged.mean:+.2f}"
        rows.append((one.name, str(len(one.ladder)), f"{mean.mean:.2f}", span, less, fresh))
    for one in choice.dropped:
        rows.append((one.name, str(len(one.ladder)), "diverges", "", "", ""))
    figure = f"{choice.question.objective} (ms)"
    columns = ("ladder", "graphs", figure, "95%", "less default: ranking", "fresh runs")
    return plain_table(columns, rows)


def choice_json(choice: Choice) -> dict[str, Any]:
    """Everything; times in ms as the names say."""
    judged = choice.judged
    return {
        "objective": choice.question.objective,
        "arrivals": str(choice.question.arrivals.process),
        "policy": choice.question.wanted.policy,
        "chosen": choice.chosen.name,
        "ladder": list(choice.chosen.ladder.sizes),
        "significant": choice.is_significant,
        "winner_less_default_ms": None if judged is None else asdict(judged),
        "fewest": list(choice.fewest.ladder.sizes),
        "path": [list(ladder.sizes) for ladder in choice.path],
        "cycle": choice.cycle,
        "candidates": [
            {
                "name": one.name,
                "ladder": list(one.ladder.sizes),
                "values_ms": list(one.values),
                "overload": None if one.overload is None else asdict(one.overload),
            }
            for one in (*choice.ranked, *choice.dropped)
        ],
    }


def _graphs(one: Candidate) -> str:
    return f"{len(one.ladder)} graph" + ("" if len(one.ladder) == 1 else "s")
