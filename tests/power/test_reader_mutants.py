"""Wrong readers of traffic, each told from the right one by a law of tests/fast."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

import simcg.workload.read  # noqa: F401  # before a mutant takes the place of what it imports
import tests.fast.test_workload_ordinary as laws
from simcg.workload.open_table import open_table
from simcg.workload.options import ReadOptions
from tests.mutants import SEEN, told_apart

Law = Callable[[Path], None]
BAD, BENCH, CSV = (
    "simcg.workload.bad_rows",
    "simcg.workload.bench_table",
    "simcg.workload.csv_table",
)
JSON, COLUMNS, GATHER = (
    "simcg.workload.json_table",
    "simcg.workload.columns",
    "simcg.workload.gather",
)
GROUPS_TOO = (*SEEN, ExceptionGroup)
TIMES, VALUES, MOONCAKE = "simcg.workload.times", "simcg.workload.values", "simcg.workload.mooncake"


def alone(test: Callable[[], None]) -> Law:
    return lambda _: test()


def nested(path: Path) -> None:
    laws.test_nested_fields_are_flat_ones(
        path, "usage.prompt_tokens", "usage.completion_tokens", known=True
    )


def separated(path: Path) -> None:
    laws.test_separators(path, "\t")


def milliseconds(path: Path) -> None:
    laws.test_times_since_1970(path, "1794918273277", "1794918274777", "milliseconds")


def commas(path: Path) -> None:
    first, second = '"2026-11-12 08:00:00,123"', '"2026-11-12 08:00:01,623"'
    laws.test_times_since_1970(path, first, second, None)


def bench(path: Path) -> None:
    laws.test_benchmarks_are_tables(path, 2)


def hits(path: Path) -> None:
    """The latest prompt stands first in the file, and finds the block of the earliest."""
    trace = path / "trace"
    rows = [(7, [1, 2]), (3, [1]), (5, [3])]
    trace.write_text(
        "\n".join(
            json.dumps({"timestamp": t, "input_length": 512 * len(h), "hash_ids": h})
            for t, h in rows
        )
    )
    read = import_module(MOONCAKE).read_mooncake
    assert read(open_table(trace), ReadOptions()).cached_tokens.tolist() == [0, 0, 512]


bad_lines = alone(laws.test_bad_lines_are_skipped)
bad_rows = laws.test_bad_rows_of_tables_are_skipped
sorted_rows = alone(laws.test_any_order_is_the_sorted_one)

MUTANTS: dict[str, tuple[str, str, str, Law]] = {
    "nested fields have no names": (JSON, "level < _MOST_LEVELS", "level < 1", nested),
    "usage is not known": (COLUMNS, '".usage."', '".use."', nested),
    "details are not in usage": (
        COLUMNS, 'inner.rpartition("_details.")[2]', "inner",
        laws.test_own_names_go_before_usage,
    ),
    "usage goes before the line's own": (
        COLUMNS, "candidates = [n for n in free if _bare(n) in _KNOWN[role]]", "candidates = []",
        laws.test_own_names_go_before_usage,
    ),
    "parts go before the whole name": (
        JSON, 'if name in one or "." not in name', 'if "." not in name',
        laws.test_a_whole_name_goes_before_its_parts,
    ),
    "equal times change places": (
        GATHER, 'np.argsort(times, kind="stable")', "np.lexsort((-np.arange(len(times)), times))",
        sorted_rows,
    ),
    "times alone are sorted": (
        GATHER, "values[places] for name, values in self.columns.items()",
        "values[places] if name == 'ts_ms' else values "
        "for name, values in self.columns.items()", sorted_rows,
    ),
    "late is later than the last": (
        GATHER, "(times < np.maximum.accumulate(times)).sum()", "(np.diff(times) < 0).sum()",
        sorted_rows,
    ),
    "the cache sees the file's order": (
        MOONCAKE, 'prompts = [hashes[place] for place in data["hash_ids"].tolist()]',
        "prompts = hashes", hits,
    ),
    "commas only": (CSV, "if len(names) == 1:", "if False:", separated),
    "semicolons only": (CSV, '_OTHER_SEPARATORS = ";\\t"', '_OTHER_SEPARATORS = ";"', separated),
    "a comma parts thousands everywhere": (
        CSV, 'if self.separator != ","', "if False", laws.test_decimal_commas,
    ),
    "a point is dropped": (
        CSV, 'f"{match[1]}.{match[2]}"', 'f"{match[1]}{match[2]}"', laws.test_decimal_commas,
    ),
    "a decimal zero is no integer": (VALUES, r"(?:\.0)?", "", laws.test_spellings_of_integers),
    "thousands are no integer": (VALUES, "(?:,[0-9]{3}){1,5}", "", laws.test_spellings_of_integers),
    "floats are no integers": (
        VALUES, "int(value) if value.is_integer() else None", "None",
        laws.test_spellings_of_integers,
    ),
    "milliseconds are seconds": (TIMES, "if least <= size < limit:", "if False:", milliseconds),
    "a guess is not said": (TIMES, "self._unit_ns, self.guessed = found_ns, name",
                            "self._unit_ns = found_ns", milliseconds),
    "no comma in a time": (TIMES, "(?:[.,][0-9]", "(?:[.][0-9]", commas),
    "a time column must be": (
        COLUMNS, "if role in found or role in absent:", "if role in found:",
        laws.test_a_time_column_can_be_left_out,
    ),
    "bad rows are not counted": (BAD, "self.count += 1", "self.count = 1", bad_lines),
    "the first found is the first": (
        BAD, "self._first is None or row < self._first[0]", "self._first is None", bad_lines,
    ),
    "the first is the last": (
        BAD, "self._first is None or row < self._first[0]", "True", bad_lines,
    ),
    "the whole block is bad": (
        GATHER, "good = _readable(table, parsers, numbers, block)",
        "good = _readable(table, parsers, numbers, block)[:0]", bad_lines,
    ),
    "junk decides the kind of times": (
        TIMES,
        "        times = kind.parse(values)\n        self._kind = kind\n",
        "        self._kind = kind\n        times = kind.parse(values)\n", bad_rows,
    ),
    "numbers of rows shift": (
        JSON, "good.append((number, one))", "good.append((number + 1, one))", bad_lines,
    ),
    "other rows than the bad ones go": (
        GATHER, "self._taken(np.flatnonzero(~wrong))", "self._taken(np.flatnonzero(wrong))",
        bad_rows,
    ),
    "nothing left is nothing wrong": (BAD, "        if used:\n", "        if True:\n", bad_rows),
    "a result has one line": (BENCH, "= _object(data), 0", "= None, 0", bench),
    "a benchmark's times are not known": (COLUMNS, "starttimes ", "", bench),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_each_mutant_is_caught(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    """Its law fails with the mutant, and holds with the original put in place the same way."""
    module, old, new, law = MUTANTS[name]
    with monkeypatch.context() as patch:
        assert told_apart(patch, module, (old, new), lambda: law(tmp_path), GROUPS_TOO)
    with monkeypatch.context() as patch:
        assert not told_apart(patch, module, (old, old), lambda: law(tmp_path), GROUPS_TOO)
