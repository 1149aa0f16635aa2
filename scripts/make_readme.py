"""Writes the tables of the README between their marks, from committed data and the code.

python scripts/make_readme.py
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from statistics import median
from textwrap import fill

from simcg.hardware.catalog import load_profile
from simcg.report.markdown import markdown
from simcg.report.properties import properties_table
from simcg.report.reproduction import outcome_table
from simcg.report.tables import plain_table
from simcg.report.units import percent
from simcg.report.validation import decisions_table, errors_table
from simcg.reproduce.outcome import Kind, Reproduction, reproduce
from simcg.reproduce.outcome import errors as errors_of
from simcg.runs.read import read_runs
from simcg.runs.validation import Validation, validate

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
RUNS = ROOT / "benchmarks" / "runs"
STEPS = tuple(f"h200-{name}.jsonl" for name in ("correctness", "decisions", "matrix", "moe"))
WIDTH = 100
SERVED = ("h200-serving.jsonl.gz", "h200-serving-later.jsonl.gz")


@cache
def validated(*names: str) -> Validation:
    """The committed runs of these names beside the built-in profile h200."""
    return validate([read_runs(str(RUNS / name)) for name in names], load_profile("h200"))


def steps() -> Validation:
    """The runs of single steps."""
    return validated(*STEPS)


def errors() -> str:
    """Errors by kind, backend and group, and how many of the stated limits are met."""
    result = steps()
    columns = ("predicted", "backend", "group", "cells", "median", "p95", "worst", "bias")
    met = sum(check.holds for check in result.checks)
    table = markdown(errors_table(result.comparison.errors), columns)
    return (
        f"{table}\n\n{met} of the {len(result.checks)} limits that were stated beforehand are met."
    )


def decisions() -> str:
    """Measured and predicted gains of ladders, and in how many the interval has the prediction."""
    found = steps().decisions
    inside = sum(one.low <= one.predicted <= one.high for one in found)
    most = 100 * max(abs(one.predicted - one.measured) for one in found)
    text = (
        f"These are all {len(found)} comparisons. The predicted gain lies inside the measured "
        f"interval in {inside} of them; it is at most {most:.1f} percentage points off."
    )
    return f"{markdown(decisions_table(found))}\n\n{fill(text, WIDTH)}"


def serving() -> str:
    """Simulated over measured serving, in the profile's session and in another."""
    sessions = [
        {one.run.line.utilisation or 0.0: one for one in validated(file).serving} for file in SERVED
    ]
    rows = [
        (
            f"{name}, load {load:g}",
            *(f"{100 * session[load].error(name):+.1f}%" for session in sessions),
        )
        for name in ("ttft p50", "ttft p99", "tpot p50")
        for load in sorted(sessions[0])
    ]
    return markdown(plain_table(("served", "the profile's session", "another session"), rows))


def reproduction() -> str:
    """Published values, what they are simulated as, the error, and what the errors count."""
    result = reproduce()
    kinds: tuple[Kind, ...] = ("fitted", "predicted")
    columns = ("id", "what", "published", "simulated", "error")
    tables = "\n\n".join(
        f"{kind.capitalize()}:\n\n{markdown(outcome_table(result.of_kind(kind)), columns)}"
        for kind in kinds
    )
    return f"{counted(result)}\n\n{tables}"


def counted(result: Reproduction) -> str:
    """Errors over the predictions that are none of other rows, and which were not blind."""
    predicted, own = result.of_kind("predicted"), result.independent
    changed = sum(bool(one.changed) for one in predicted)
    worst = max(own, key=lambda one: abs(one.error or 0.0))
    rest = result.beside_memory
    text = (
        f"{len(predicted) - len(own)} of the {len(predicted)} predicted values follow from other "
        f"rows or cannot miss, as marked. Over the other {len(own)} the median error is "
        f"{percent(median(errors_of(own)))}, the worst {percent(max(errors_of(own)))} "
        f"({worst.published.id}). Rows M, most of them, are memory of two models at neighbouring "
        f"ceilings; over the {len(rest)} others the median is {percent(median(errors_of(rest)))}. "
        f"Over all {len(predicted)} it is {percent(median(errors_of(predicted)))}. Not all were "
        f"blind: for {changed} values the model was changed after a first comparison, by sources "
        f"that do not know the value but with it in view; the command prints each first error and "
        f"each change."
    )
    return fill(text, WIDTH)


SECTIONS: dict[str, Callable[[], str]] = {
    "errors": errors,
    "decisions": decisions,
    "serving": serving,
    "reproduction": reproduction,
    "properties": properties_table,
}


def filled(text: str) -> str:
    """The README with each marked section made anew."""
    for name, made in SECTIONS.items():
        begin, end = f"<!-- {name}: scripts/make_readme.py -->", f"<!-- end of {name} -->"
        between = re.compile(f"{re.escape(begin)}\n.*?{re.escape(end)}", re.DOTALL)
        section = f"{begin}\n{made()}\n{end}".replace("\\", r"\\")
        text, found = between.subn(section, text)
        if found != 1:
            raise ValueError(f"README.md has {found} sections {name}, not one")
    return text


def main() -> None:
    """Replace what stands between the marks."""
    README.write_text(filled(README.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
