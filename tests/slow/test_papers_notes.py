"""Notes on sources: their tables of published and simulated values are those of simcg reproduce."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from simcg.reproduce.outcome import Outcome, reproduce
from simcg.reproduce.parameters import BOUNDS
from simcg.reproduce.vllm_runs import outcomes

NOTES = Path(__file__).parents[2] / "papers" / "notes"
ROW = re.compile(r"^\| ([A-Z]\d[\w-]*) \| (\S+) \| (\S+) \| (\S+) \|$", re.MULTILINE)
FEWEST_ROWS = 24


@cache
def by_id() -> dict[str, Outcome]:
    return {outcome.published.id: outcome for outcome in reproduce().outcomes}


def percent(share: float) -> str:
    """With its sign, and no minus on zero."""
    text = f"{100 * share:+.1f}%"
    return "+0.0%" if text == "-0.0%" else text


def test_tables_in_notes_are_what_reproduce_says() -> None:
    seen = 0
    for path in NOTES.glob("*.md"):
        for row, published, simulated, error in ROW.findall(path.read_text(encoding="utf-8")):
            outcome = by_id()[row]
            assert outcome.simulated is not None, row
            assert outcome.error is not None, row
            assert published == outcome.published.digits, row
            assert simulated == f"{outcome.simulated:.4g}", row
            assert error == percent(outcome.error), row
            seen += 1
    assert seen >= FEWEST_ROWS


def test_rows_that_the_note_calls_fitted_are_the_fitted_ones() -> None:
    text = (NOTES / "sglang-breakable.md").read_text(encoding="utf-8")
    fitted, predicted = text.split("The others are predictions:")
    assert {row for row, *_ in ROW.findall(fitted)} == {
        row for row, outcome in by_id().items() if outcome.kind == "fitted"
    }
    assert {by_id()[row].kind for row, *_ in ROW.findall(predicted)} == {"predicted"}


def test_host_costs_in_the_note_on_grace_are_the_bound_and_the_fit() -> None:
    text = (NOTES / "te-2053.md").read_text(encoding="utf-8")
    (bound,) = [bound for bound in BOUNDS if bound.name == "dispatch_ns"]
    assert f"from below, at {bound.low / 1e3:.0f} us" in " ".join(text.split())
    assert f"asks for {reproduce().fit.parameters.dispatch_ns / 1e3:.0f} us a kernel" in text
    for row, value in (("H1-GB200", "37.08"), ("H1-GH200", "33.17"), ("H1-H100", "13.48")):
        assert by_id()[row].published.digits == value
        assert f"{value} us" in text


def test_recorded_runs_in_the_note_are_what_their_replay_says() -> None:
    text = (NOTES / "llmservingsim.md").read_text(encoding="utf-8")
    names = {"rtx-pro-6000": "RTX PRO 6000", "rtx-4090": "RTX 4090"}
    for one in outcomes():
        bare = f"{percent(one.bare_ttft_error)}, {percent(one.bare_tpot_error)}"
        cells = names[one.server.gpu], percent(one.ttft_error), percent(one.tpot_error), bare
        assert "| " + " | ".join(cells) + " |" in text
    first = outcomes()[0]
    assert f"One host cost ({first.step_ns / 1e6:.2f} ms a step on the first)" in text
    assert f"TTFT is off by {percent(first.rest_ttft_error)}" in text
