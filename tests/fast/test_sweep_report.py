"""Laws of what a sweep prints and draws: nothing that tells configurations apart is lost."""

from __future__ import annotations

import math
from io import StringIO
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.lines import Line2D
from rich.console import Console

from simcg.errors import InputError
from simcg.report.sweep import sweep_table
from simcg.report.sweep_plot import check_lines, plot_sweep, sweep_figure
from simcg.sweep.grid import Point, grid, numeric_axis
from simcg.sweep.store import Record

RATES, POLICIES = (1, 2, 64), ("mixed", "prefill-first")
POINTS = [{"request-rate": str(r), "policy": p} for r, p in product(RATES, POLICIES)]


def record_of(point: Point, capacity: float | None = None) -> Record:
    """A made record: its figures follow from its point."""
    rate, mixed = float(point["request-rate"]), point["policy"] == "mixed"
    names = ("p99_ttft_ms", "mean_ttft_ms", "mean_tpot_ms", "request_throughput", "utilisation")
    figures: dict[str, Any] = dict.fromkeys(names, 10 * rate + mixed)
    key = {"model": "m", "hardware": "h"}
    return {"key": key, "figures": figures | {"capacity_per_s": capacity}}


RECORDS = [record_of(point) for point in POINTS]


def printed(points: list[Point], records: list[Record], width: int) -> list[str]:
    out = StringIO()
    Console(file=out, width=width).print(sweep_table(points, records, "p99_ttft_ms", width))
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [40, 50, 60, 80, 100])
def test_what_was_varied_and_the_sorted_figure_are_whole_at_every_width(width: int) -> None:
    """Wider terminals show more figures and never fewer; no number is cut."""
    lines = printed(POINTS, RECORDS, width)
    assert max(map(len, lines)) <= width
    rows = [line.split() for line in lines[-len(POINTS) :]]
    assert sorted(row[:2] for row in rows) == sorted([list(p.values()) for p in POINTS])
    for rate, policy, *figures in rows:
        assert set(figures) == {f"{10 * float(rate) + (policy == 'mixed'):.2f}"}
        assert len(figures) <= 5
        assert len(figures) == 5 or width < 80


@pytest.mark.parametrize("width", [30, 60, 100])
def test_values_that_begin_alike_are_told_apart(width: int) -> None:
    ladders = ["64 128 256 512 1024 2048 4096 8192", "64 128 256 512 1024 2048 4096 9000"]
    points = [{"ladder": ladder} for ladder in ladders]
    text = " ".join(printed(points, RECORDS[:2], width))
    assert "8192" in text
    assert "9000" in text


def test_an_error_is_read_beside_its_configuration() -> None:
    """Brackets in it are text, not colours."""
    failed: Record = {"key": {}, "error": "model: got '[bold]x', expected one of [a, b]"}
    text = " ".join(" ".join(printed(POINTS[:2], [RECORDS[0], failed], 100)).split())
    for word in ("[bold]x", "[a, b]", "prefill-first"):
        assert word in text
    lines = printed(POINTS[:2], [failed, RECORDS[1]], 100)
    assert [line.split()[1] for line in lines if "model:" in line] == ["mixed"]


def test_a_queue_that_diverges_is_marked_in_its_row() -> None:
    records = [record_of(point, 20.0 if n == 4 else None) for n, point in enumerate(POINTS)]
    marked = [line.split()[:2] for line in printed(POINTS, records, 100) if "diverges" in line]
    assert marked == [["64", "mixed"]]


def values_of(line: Line2D) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in np.asarray(line.get_xydata(), dtype=np.float64)]


def curves(points: list[Point], records: list[Record]) -> dict[str, list[tuple[float, float]]]:
    """Legend text to the values drawn with that line's colour and stroke."""
    axes = sweep_figure(points, records, "p99_ttft_ms").axes[0]
    lines = axes.get_lines()
    found = {}
    for named in lines:
        label = str(named.get_label())
        if label.startswith(("_", "hollow")):
            continue
        (own,) = [
            line for line in lines
            if values_of(line) and line.get_linestyle() == named.get_linestyle()
            and line.get_color() == named.get_color()
        ]  # fmt: skip
        found[label] = values_of(own)
    return found


def test_every_configuration_is_a_point_of_the_line_of_its_other_values() -> None:
    found = curves(POINTS[::-1], RECORDS[::-1])
    assert found == {
        f"policy {policy}": [(r, 10.0 * r + (policy == "mixed")) for r in RATES]
        for policy in POLICIES
    }


def test_failed_configurations_are_gaps() -> None:
    records = [*RECORDS[:2], {"key": RECORDS[0]["key"], "error": "no"}, *RECORDS[3:]]
    found = curves(POINTS, records)["policy mixed"]
    assert [x for x, _ in found] == list(RATES)
    assert [math.isnan(y) for _, y in found] == [False, True, False]
    axes = sweep_figure(POINTS, records, "p99_ttft_ms").axes[0]
    assert "1 of 6 configurations failed" in axes.get_title()


def test_a_point_is_hollow_where_the_queue_diverges() -> None:
    records = [record_of(point, 20.0 if n == 4 else None) for n, point in enumerate(POINTS)]
    lines = sweep_figure(POINTS, records, "p99_ttft_ms").axes[0].get_lines()
    hollow = [line for line in lines if line.get_markerfacecolor() == "white"]
    assert [point for line in hollow for point in values_of(line)] == [(64.0, 641.0)]


def test_twenty_lines_are_all_different_and_one_more_is_refused() -> None:
    points = [{"request-rate": str(r), "policy": "mixed", "seed": str(s)}
              for r in (1, 2) for s in "abcdefghijklmnopqrstu"]  # fmt: skip
    most = [point for point in points if point["seed"] != "u"]
    check_lines(most)
    assert len(curves(most, [record_of(point) for point in most])) == 20
    with pytest.raises(InputError, match="21 lines"):
        check_lines(points)


@pytest.mark.parametrize(
    ("varied", "axis"),
    [
        (["seed=1,2", "rate=1,2"], "seed"),
        (["tp=1", "rate=1,2"], "rate"),
        (["policy=mixed,fcfs", "rate=1e-2,2"], "rate"),
        (["ladder=64,64 128", "rate=1,2"], "rate"),
        (["ladder=64,default", "rate=1,2"], "rate"),
        (["rate=1,1.0", "seed=3,4"], "seed"),
        (["rate=1,inf", "seed=3,4"], "seed"),
    ],
)
def test_the_axis_is_the_first_option_with_different_numbers(varied: list[str], axis: str) -> None:
    assert numeric_axis(grid(varied)) == axis


def test_an_option_that_a_point_lacks_is_no_axis() -> None:
    with pytest.raises(InputError, match="over numbers"):
        numeric_axis([{"rate": "1"}, {"rate": "2"}, {}])


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_a_picture_with_odd_names_is_written_whole(tmp_path: Path, ending: str) -> None:
    """Dollars in a name are no formula."""
    path = tmp_path / f"p.{ending}"
    points = [point | {"model": f"$a_{n % 2}^"} for n, point in enumerate(POINTS)]
    plot_sweep(points, RECORDS, "p99_ttft_ms", path)
    assert path.stat().st_size > 5_000
    assert list(tmp_path.iterdir()) == [path]
