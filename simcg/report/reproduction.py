"""The reproduction as tables of at most 100 columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

from rich.table import Table

from simcg.report.tables import plain_table
from simcg.report.units import percent
from simcg.reproduce.facts import Fact
from simcg.reproduce.fit import Fit
from simcg.reproduce.outcome import Outcome, Reproduction, errors
from simcg.reproduce.parameters import BOUNDS, Bound

SHORT = {
    "dispatch_ns": "dispatch",
    "attention_ns": "attention",
    "outside_ns": "outside",
    "piece_ns": "piece",
    "compiled_dispatch_ns": "compiled",
    "compile_per_op_ns": "compile",
    "exec_factor": "exec",
}


def outcome_table(outcomes: Iterable[Outcome]) -> Table:
    """id, what, published, simulated, error, and the parameters that the value rests on."""
    table = _text_table(("id", "what", "published", "simulated", "error", "rests on"), (1, 5))
    for outcome in outcomes:
        row = outcome.published
        table.add_row(
            row.id,
            what(outcome),
            row.shown,
            "-" if outcome.simulated is None else figure(outcome.simulated),
            _error(outcome),
            " ".join(SHORT[name] for name in outcome.rests_on) or "no parameter",
        )
    return table


def what(outcome: Outcome) -> str:
    """Model, metric and unit, and whether the value follows from others or cannot miss."""
    row = outcome.published
    mark = f" ({outcome.follows})" if outcome.follows else ""
    return f"{_model(row.model)}{row.metric}, {row.unit}{mark}"


def _error(outcome: Outcome) -> str:
    """The relative error; where the value as printed leaves none, why there is none."""
    row = outcome.published
    if outcome.error is None:
        return "-"
    if outcome.error == 0 and row.low < row.high:
        return "in range"
    if outcome.error == 0 and row.one_digit:
        return "rounds to it"
    return signed(outcome.error)


def draft_table(outcomes: Sequence[Outcome]) -> Table:
    """One line a prompt length: published, simulated ms and error of each backend."""
    cells: dict[str, dict[str, str]] = {}
    for outcome in outcomes:
        tokens, backend = outcome.published.id[1:].split("-", maxsplit=1)
        if outcome.simulated is not None and outcome.error is not None:
            pair = f"{outcome.published.shown} {outcome.simulated:.1f} {signed(outcome.error)}"
            cells.setdefault(tokens, {})[backend] = pair
    backends = list(next(iter(cells.values()), {}))
    rows = [(tokens, *(row.get(b, "-") for b in backends)) for tokens, row in cells.items()]
    return plain_table(("prompt", *backends), rows)


def sensitivity_table(outcomes: Iterable[Outcome]) -> Table:
    """d log simulated / d log parameter: +1 means that 1 % more of it is 1 % more of the value."""
    table = plain_table(("id", *(SHORT[bound.name] for bound in BOUNDS)), ())
    for outcome in outcomes:
        known = dict(outcome.sensitivity)
        cells = [f"{known[b.name]:+.2f}" if b.name in known else "." for b in BOUNDS]
        table.add_row(outcome.published.id, *cells)
    return table


def parameter_table(fit: Fit) -> Table:
    """The solved parameters, what they were solved for, and their ranges."""
    table = _text_table(("parameter", "value", "range", "solved for", "meaning and bounds"), (4,))
    for bound in BOUNDS:
        value = getattr(fit.parameters, bound.name)
        stuck = " (at its bound)" if bound.name in fit.at_bound else ""
        table.add_row(
            SHORT[bound.name],
            quantity(bound, value) + stuck,
            f"{quantity(bound, bound.low)} .. {quantity(bound, bound.high)}",
            bound.row,
            f"{bound.meaning}; {bound.source}",
        )
    return table


def quantity(bound: Bound, value: float) -> str:
    """A parameter's value with its unit."""
    if not bound.name.endswith("_ns"):
        return f"x{value:.2f}"
    return f"{value / 1e6:.2f} ms" if bound.high >= 5e6 else f"{value / 1e3:.0f} us"


def notes_table(outcomes: Iterable[Outcome]) -> Table:
    """The outcomes that have a note, those with the same note together, and the note."""
    return _told("why", ((outcome, outcome.note) for outcome in outcomes))


def changes_table(outcomes: Iterable[Outcome]) -> Table:
    """The outcomes whose model was changed after the first comparison, and the change."""
    return _told("first error, and change", ((outcome, outcome.changed) for outcome in outcomes))


def _told(what: str, texts: Iterable[tuple[Outcome, str]]) -> Table:
    ids: dict[str, list[str]] = {}
    for outcome, text in texts:
        if text:
            error = "" if outcome.error is None else f" ({signed(outcome.error)})"
            ids.setdefault(text, []).append(outcome.published.id + error)
    table = _text_table(("values", what), (0, 1))
    table.columns[0].max_width = 30
    for note, names in ids.items():
        table.add_row(", ".join(names), note)
    return table


def facts_table(facts: Sequence[Fact]) -> Table:
    """Claims about shape, with verdicts."""
    table = _text_table(("what the curves show", "verdict", "simulated"), (0, 2))
    for fact in facts:
        table.add_row(fact.claim, "holds" if fact.holds else "does not hold", fact.simulated)
    return table


def targets_line(reproduction: Reproduction) -> str:
    """What was reached against each target, and the median with the values that follow."""
    parts = [
        f"{name} {percent(reached)} ({'within' if reached <= limit else 'misses'} {percent(limit)})"
        for name, reached, limit in reproduction.targets
    ]
    every = errors(reproduction.of_kind("predicted"))
    counted = f"{len(reproduction.independent)} of {len(every)} predictions are independent"
    return f"{'; '.join(parts)}; {counted}, the median of all is {percent(median(every))}"


def figure(value: float) -> str:
    """Four significant digits or so, without an exponent."""
    if abs(value) >= 1000:
        return f"{value:.0f}"
    return f"{value:.4g}" if abs(value) >= 0.01 else f"{value:.5f}"


def signed(error: float) -> str:
    """A relative error in percent with its sign."""
    return f"{100 * error:+.1f} %"


def reproduction_json(reproduction: Reproduction, facts: Sequence[Fact]) -> dict[str, Any]:
    """All of it for machines."""
    parameters = {
        bound.name: {
            "value": getattr(reproduction.fit.parameters, bound.name),
            "low": bound.low,
            "high": bound.high,
            "row": bound.row,
            "at_bound": bound.name in reproduction.fit.at_bound,
        }
        for bound in BOUNDS
    }
    return {
        "parameters": parameters,
        "targets": [
            {"what": name, "reached": reached, "limit": limit}
            for name, reached, limit in reproduction.targets
        ],
        "median_of_all_predictions": median(errors(reproduction.of_kind("predicted"))),
        "rows": [outcome_json(outcome) for outcome in reproduction.outcomes],
        "facts": [{"claim": f.claim, "simulated": f.simulated, "holds": f.holds} for f in facts],
    }


def outcome_json(outcome: Outcome) -> dict[str, Any]:
    """One value."""
    row = outcome.published
    return {
        "id": row.id,
        "kind": outcome.kind,
        "model": row.model,
        "hardware": row.hardware,
        "setup": row.setup,
        "metric": row.metric,
        "unit": row.unit,
        "source": row.source,
        "published": [row.low, row.high],
        "simulated": outcome.simulated,
        "relative_error": outcome.error,
        "sensitivity": dict(outcome.sensitivity),
        "note": outcome.note,
        "changed": outcome.changed,
        "follows": outcome.follows,
    }


def _model(model: str) -> str:
    return f"{model.partition(' (')[0]}: " if model else ""


def _text_table(columns: Sequence[str], left: Sequence[int]) -> Table:
    """A plain table whose ``left`` columns hold text that may wrap."""
    table = plain_table(columns, ())
    for index in left:
        table.columns[index].justify = "left"
        table.columns[index].no_wrap = False
        table.columns[index].overflow = "fold"
    table.columns[0].no_wrap = 0 not in left
    return table
