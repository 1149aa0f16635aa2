"""Writes the tables of the README between their marks, from committed data and the code.

python scripts/make_readme.py
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

from simcg.hardware.catalog import load_profile
from simcg.report.markdown import markdown
from simcg.report.properties import properties_table
from simcg.report.reproduction import outcome_table
from simcg.report.tables import plain_table
from simcg.report.validation import decisions_table, errors_table
from simcg.reproduce.outcome import Kind, reproduce
from simcg.runs.read import read_runs
from simcg.runs.validation import Validation, validate

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
RUNS = ROOT / "benchmarks" / "runs"
STEPS = tuple(f"h200-{name}.jsonl" for name in ("correctness", "decisions", "matrix", "moe"))
SERVED = ("h200-serving.jsonl.gz", "h200-serving-later.jsonl.gz")
SHOWN = ("simcg as", "simcg equal memory")
"""Ladders whose measured gain the README shows, against what they were chosen to better."""


@cache
def validated(*names: str) -> Validation:
    """The committed runs of these names beside the built-in profile h200."""
    return validate([read_runs(str(RUNS / name)) for name in names], load_profile("h200"))


def steps() -> Validation:
    """The runs of single steps."""
    return validated(
        *(f"h200-{name}.jsonl" for name in ("correctness", "decisions", "matrix", "moe"))
    )


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
    """Measured and predicted gains of ladders."""
    shown = [
        one for one in steps().decisions
        if one.ours.startswith(SHOWN) and (one.theirs != "no-graphs" or "sglang" in one.ours)
    ]  # fmt: skip
    return markdown(decisions_table(shown))


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
    """Published values, what they are simulated as, and the error."""
    result = reproduce()
    kinds: tuple[Kind, ...] = ("fitted", "predicted")
    columns = ("id", "what", "published", "simulated", "error")
    return "\n\n".join(
        f"{kind.capitalize()}:\n\n{markdown(outcome_table(result.of_kind(kind)), columns)}"
        for kind in kinds
    )


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
