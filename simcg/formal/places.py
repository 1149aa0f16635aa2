"""What a cell of the machine's memory is called: by the tensor, cache or input that lies there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from simcg.formal.launch import Capture, Launch, Segment
from simcg.formal.machine import Machine
from simcg.formal.words import said_bucket
from simcg.ladder import Ladder


def place(machine: Machine, ladder: Ladder, captures: Iterable[Capture], address: int) -> str:
    """The cell as a person finds it: tensor and row, cache row and position, or input and index."""
    for base, cells, name in _regions(machine):
        if base <= address < base + cells:
            return name.format(address - base)
    length, rows = machine.layout.length, machine.layout.rows
    for index, base in machine.at.caches.items():
        if base <= address < base + machine.layout.sink:
            row, position = divmod(address - base, length)
            return f"row {row}, position {position} of the cache of {machine.program.words(index)}"
    for index, base in machine.at.states.items():
        if base <= address < base + rows:
            return f"the state of row {address - base} of {machine.program.words(index)}"
    if address in machine.at.sinks:
        return "the sink"
    return _in_blocks(machine, ladder, list(captures), address)


def _regions(machine: Machine) -> Iterator[tuple[int, int, str]]:
    """(base, cells, name of each) of what lies at fixed addresses, one row a cell."""
    for name, base in machine.at.statics.items():
        yield base, machine.layout.static_cells(name), name + "[{}]"
    yield machine.at.out, machine.layout.tokens, "row {} of the output"
    for op, address in machine.constants.items():
        yield address, 1, f"the tensor of {machine.program.words(op)}"


def _in_blocks(machine: Machine, ladder: Ladder, captures: list[Capture], address: int) -> str:
    """A cell of pool or outside: the rows that captures have there, or have just before it."""
    program, where = machine.program, "pool" if address < machine.at.outside else "outside"
    for shift, behind in ((0, ""), (1, "the cell behind ")):
        names = []
        for capture in captures:
            bucket = said_bucket(ladder, capture.key)
            for launch, base in _results(capture):
                row = address - shift - base
                if base >= 0 and 0 <= row < launch.rows and launch.op < len(program.ops):
                    names.append(f"row {row} of t{program.targets[launch.op]} of {bucket}")
                if launch.extra == address - shift:
                    names.append(f"the tensor of {program.words(launch.op)} of {bucket}")
        if names:
            return behind + " and ".join(dict.fromkeys(names))
    base = machine.at.pool if where == "pool" else machine.at.outside
    return f"cell {address - base} {'of the pool' if where == 'pool' else 'outside the pool'}"


def _results(capture: Capture) -> Iterator[tuple[Launch, int]]:
    """The launches of a capture, each with the address of its result."""
    for item in capture.items:
        if isinstance(item, Segment):
            yield from ((entry, entry.out) for entry in item.entries if isinstance(entry, Launch))
        else:
            yield from ((call.launch, call.result) for call in (item, *item.inner))
