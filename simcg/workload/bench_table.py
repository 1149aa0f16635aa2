"""The result of a serving benchmark: one JSON object with a list per figure, an entry a request.

``vllm bench serve --save-result --save-detailed`` writes ``input_lens``, ``output_lens`` and
``start_times``; SGLang's ``bench_serving --output-details`` the first two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import msgspec

from simcg.errors import Finding, InputError
from simcg.workload.bad_rows import BadRows
from simcg.workload.table import BLOCK_ROWS, Block, shown

_PROMPTS = "input_lens"


@dataclass(frozen=True, slots=True)
class BenchTable:
    """The lists of a benchmark's result; ``names`` are those with an entry a request."""

    source: str
    lists: Mapping[str, list[object]]
    bad: BadRows
    is_json: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the lists."""
        return tuple(self.lists)

    def blocks(self, wanted: Sequence[str]) -> Iterator[Block]:
        """As Table's."""
        rows = len(self.lists[_PROMPTS])
        self.bad.rows = rows
        for start in range(0, rows, BLOCK_ROWS):
            numbers = range(start, min(start + BLOCK_ROWS, rows))
            yield numbers, [self.lists[name][start : numbers.stop] for name in wanted]

    def error(self, row: int, name: str, value: object, expected: str) -> InputError:
        """As Table's: the list's name and the entry's index from 0."""
        return InputError(self.source, f"{shown(name)}[{row}]", value, expected)


def bench_table(source: str, data: bytes, bad: BadRows) -> BenchTable | None:
    """The table, on one line or many; None where the bytes are something else.

    Raises InputError for several results in one file, which the tools append.
    """
    if f'"{_PROMPTS}"'.encode() not in data:
        return None
    result, others = _object(data), 0
    if result is None:
        first, _, rest = data.partition(b"\n")
        result, others = _object(first), len(rest.splitlines())
    if result is None or not isinstance(result.get(_PROMPTS), list):
        return None
    if others:
        found = Finding(f"{others + 1} lines")
        raise InputError(source, "", found, "the result of one benchmark: keep one line")
    rows = len(cast("list[object]", result[_PROMPTS]))
    lists = {
        name: cast("list[object]", values)
        for name, values in result.items()
        if isinstance(values, list) and len(values) == rows
    }
    return BenchTable(source, lists, bad)


def _object(data: bytes) -> dict[str, object] | None:
    """The JSON object, or None."""
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
