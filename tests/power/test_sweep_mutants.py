"""Wrong sweeps, each told from the right one by a law of tests/fast.

Workers are left out: other processes import the original.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import simcg.cli.sweep  # noqa: F401  # before a mutant takes the place of what it imports
import tests.fast.test_sweep_report as report_laws
import tests.slow.test_sweep as laws
from tests.mutants import told_apart

Test = Callable[[Path], None]
CLI, GRID, STORE = "simcg.cli.sweep", "simcg.sweep.grid", "simcg.sweep.store"
LINES = "simcg.sweep.lines"
FIGURES, TABLE, PLOT = "simcg.sweep.figures", "simcg.report.sweep", "simcg.report.sweep_plot"


def resumed(path: Path) -> None:
    laws.test_a_sweep_resumed_after_any_byte_equals_a_fresh_one(path, -3)


def refused(*args: str, word: str) -> Test:
    return lambda _: laws.test_a_bad_sweep_is_one_line(args, word)


def axis(*varied: str, name: str) -> Test:
    return lambda _: report_laws.test_the_axis_is_the_first_option_with_different_numbers(
        list(varied), name
    )


def alone(test: Callable[[], None]) -> Test:
    return lambda _: test()


MUTANTS: dict[str, tuple[str, str, str, Test]] = {
    "the first name changes fastest": (
        GRID,
        "in itertools.product(*axes.values())]",
        "in sorted(itertools.product(*axes.values()), key=lambda values: values[::-1])]",
        alone(laws.test_a_grid_is_every_combination_and_the_last_name_changes_fastest),
    ),
    "values may repeat": (
        GRID, "len(set(words)) == len(words)", "True",
        refused("--vary", "seed=1,1", word="different"),
    ),
    "empty cells are values": (
        GRID, "zip(names, row, strict=True) if v}", "zip(names, row, strict=True)}",
        laws.test_files_and_words_give_the_same_points,
    ),
    "an open quote goes on": (
        GRID, "csv.reader([line], strict=True)", "csv.reader([line])",
        laws.test_files_and_words_give_the_same_points,
    ),
    "the last of two columns counts": (
        GRID, "all(names) and len(set(names)) == len(names)", "all(names)",
        laws.test_files_and_words_give_the_same_points,
    ),
    "blank lines are not counted": (
        GRID,
        "for n, line in enumerate(text.splitlines(), 1) if line.strip()]",
        "for n, line in enumerate(filter(str.strip, text.splitlines()), 1)]",
        laws.test_the_line_that_is_wrong_is_named,
    ),
    "a grid overrides its file": (
        GRID, "in set().union(*rows) & set().union(*varied):", "in set():",
        laws.test_files_and_words_give_the_same_points,
    ),
    "one configuration too many": (
        GRID, "len(points) <= MOST_POINTS", "len(points) <= MOST_POINTS + 100",
        alone(laws.test_a_sweep_of_more_than_can_be_run_is_refused),
    ),
    "an axis of one number": (
        GRID, "len(values) > 1 and None", "None", axis("tp=1", "rate=1,2", name="rate"),
    ),
    "an axis of words": (
        GRID, "and None not in values", "", axis("ladder=64,default", "rate=1,2", name="rate"),
    ),
    "an axis to infinity": (
        GRID, "value if math.isfinite(value) else None", "value",
        axis("rate=1,inf", "seed=3,4", name="seed"),
    ),
    "half a line is kept": (
        LINES, 'data[: data.rfind(b"\\n") + 1]', "data", resumed,
    ),
    "half a line stays in the file": (
        LINES, "self._file.truncate(len(self._whole))", "pass", resumed,
    ),
    "results of any sweep are taken": (
        STORE, '_text(record["key"]) == _text(keys[number])', "True",
        laws.test_a_store_holds_the_first_configurations_only,
    ),
    "the order of options matters": (
        STORE, 'order="sorted"', "order=None",
        laws.test_options_in_another_order_are_the_same_sweep,
    ),
    "two may write": (
        LINES, "fcntl.LOCK_EX", "fcntl.LOCK_SH", laws.test_two_sweeps_do_not_write_one_file,
    ),
    "half a write is a write": (
        LINES, "rest = rest[self._file.write(rest) :]", "rest = rest[:0 * self._file.write(rest)]",
        laws.test_a_full_disk_is_one_error_and_the_file_goes_on_later,
    ),
    "a key is a result": (
        STORE, '"key" in found and ended', '"key" in found',
        lambda path: laws.test_a_line_that_is_no_result_is_refused_and_kept(path, b'{"key": {}}'),
    ),
    "more is never better": (
        FIGURES, "-1 if name in MORE_IS_BETTER else 1", "1",
        alone(laws.test_the_best_come_first_then_the_unknown_then_the_failed),
    ),
    "the unknown are the best": (
        FIGURES, "value is None, sign", "False, sign",
        alone(laws.test_the_best_come_first_then_the_unknown_then_the_failed),
    ),
    "failed among the unknown": (
        FIGURES, 'return "figures" not in record, value', "return False, value",
        alone(laws.test_the_best_come_first_then_the_unknown_then_the_failed),
    ),
    "files are known by name": (
        CLI, "{n: digests[key[n]] for n in FILES if key[n] in digests}", "{}",
        laws.test_results_of_a_file_that_changed_are_of_another_sweep,
    ),
    "the same twice": (
        CLI, "require(text not in seen,", "require(True,",
        laws.test_configurations_that_are_the_same_in_other_words_are_refused,
    ),
    "a stream is read by each": (
        CLI, 'traffic == "-" or (', "(",
        lambda _: laws.test_traffic_that_can_be_read_only_once_is_refused("-"),
    ),
    "any figure to sort by": (
        CLI, "require(sort in FIGURES,", "require(True,",
        laws.test_a_figure_to_sort_by_is_checked_before_the_work,
    ),
    "processes and a cluster": (
        CLI, "jobs is None or dask is None", "True",
        refused("--vary", "seed=1", "--dask", "nowhere", "--jobs", "2", word="no --dask"),
    ),
    "one failure is failure": (
        CLI, 'if all("figures"', 'if any("figures"',
        laws.test_a_sweep_of_which_all_failed_has_exit_code_1_and_says_why,
    ),
    "what is there runs again": (
        CLI, "left = keys[done:]", "left = keys", laws.test_what_is_there_is_not_run_again,
    ),
    "the seed is forgotten": (
        CLI, 'config.clock(), options["seed"]', "config.clock(), 0",
        lambda _: laws.test_a_sweep_gives_what_simulate_gives("prefill-first"),
    ),
    "edges have no price": (
        CLI, "if config.policy.edges:", "if False:",
        lambda _: laws.test_a_sweep_gives_what_simulate_gives("bucket-edge"),
    ),
    "the best ladder is the default": (
        CLI, 'options["ladder"] = " ".join(map(str, study(scenario).ladder.sizes)) '
        'or "none"', 'options["ladder"] = None',
        alone(laws.test_the_best_ladder_is_that_of_optimize),
    ),
    "overload is not said": (
        CLI, "None if over is None else over.capacity_per_s", "None",
        alone(laws.test_overload_is_said),
    ),
    "values are always cut": (
        TABLE, "cut if len(set(cut)) == len(set(values)) else list(values)", "cut",
        lambda _: report_laws.test_values_that_begin_alike_are_told_apart(100),
    ),
    "brackets are colours": (
        TABLE, "escape(c.cells[n])", "c.cells[n]",
        alone(report_laws.test_an_error_is_read_beside_its_configuration),
    ),
    "errors stand beside others": (
        TABLE, "for c in columns) for n in order]",
        "for c in columns[:-1]) + (remarks[m],) for m, n in enumerate(order)]",
        alone(report_laws.test_an_error_is_read_beside_its_configuration),
    ),
    "figures are shown beyond the edge": (
        TABLE, "while len(shown) > 1 and", "while False and",
        lambda _: report_laws.test_what_was_varied_and_the_sorted_figure_are_whole_at_every_width(
            50
        ),
    ),
    "lines in the order of the sweep": (
        PLOT, "sorted(line, key=lambda pair: pair[0])", "line",
        alone(report_laws.test_every_configuration_is_a_point_of_the_line_of_its_other_values),
    ),
    "failed ones are at zero": (
        PLOT, 'float("nan") if y is None', "0.0 if y is None",
        alone(report_laws.test_failed_configurations_are_gaps),
    ),
    "strokes repeat": (
        PLOT, "STROKES[index // len(COLOURS)]", "STROKES[index % len(STROKES) // 2]",
        alone(report_laws.test_twenty_lines_are_all_different_and_one_more_is_refused),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_sweep_is_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    """The law holds for a copy of the original, and not for the mutant."""
    right, wrong = tmp_path / "right", tmp_path / "wrong"
    right.mkdir()
    wrong.mkdir()
    module, old, new, law = MUTANTS[name]
    with monkeypatch.context() as place:
        assert not told_apart(place, module, (old, old), lambda: law(right))
    assert told_apart(monkeypatch, module, (old, new), lambda: law(wrong))
