"""The machine: memory, pool, generator; it runs launches and watches what they read and write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from simcg.formal.kernels import KERNELS, Kernel
from simcg.formal.launch import Key, Launch
from simcg.formal.memory import STATICS, UNWRITTEN, Addresses, Blocks, Layout, Memory, Tag
from simcg.formal.program import Program
from simcg.formal.reference import World
from simcg.formal.terms import Terms
from simcg.formal.violation import Violation
from simcg.formal.words import counted, operator, said

HOST = 0
"""The writer of tensor 0: the host, into the static input ``ids``."""


class Tags(dict[int | str, Tag]):
    """What cells carry that an operator (1 + its number) or the host (a name) wrote in a run."""

    def __init__(self, key: Key, epoch: int) -> None:
        super().__init__()
        self.key, self.epoch = key, epoch

    def __missing__(self, writer: int | str) -> Tag:
        if writer == HOST:
            tag = self["ids"]
        else:
            tag = (
                (writer, self.epoch) if isinstance(writer, str) else (writer, self.key, self.epoch)
            )
        self[writer] = tag
        return tag


@dataclass(slots=True)
class Run:
    """One replay or eager run of a step: n, m, the launch-time length, and where inputs lie.

    ``agreed``: the rows of collectives in breaks: the most tokens that any rank has.
    ``tags``: may be shared by runs of one key and epoch.
    """

    key: Key
    epoch: int
    tokens: int
    requests: int
    longest: int
    statics: Mapping[str, int]
    agreed: int
    tags: Tags
    breaking: bool = False

    def tag(self, writer: int | str) -> Tag:
        """What cells of that writer carry in this run; always the same object."""
        return self.tags[writer]


@dataclass(slots=True)
class Machine:
    """One rank's device. ``constants``: addresses of capture-once tensors by operator."""

    terms: Terms
    program: Program
    layout: Layout
    kernels: Mapping[str, Kernel] = field(default_factory=lambda: KERNELS)
    at: Addresses = field(init=False)
    memory: Memory = field(init=False)
    pool: Blocks = field(init=False)
    outside: Blocks = field(init=False)
    constants: dict[int, int] = field(default_factory=dict)
    collectives: list[tuple[int, int]] = field(default_factory=list)
    drawn: int = 0

    def __post_init__(self) -> None:
        self.at = self.layout.addresses()
        self.memory = Memory.of(self.at.cells, self.terms.poison)
        self.pool = Blocks(self.at.pool, self.layout.pool_cells)
        self.outside = Blocks(self.at.outside, self.layout.outside_cells)

    def run(self, launch: Launch, run: Run) -> None:
        """Run one kernel; a ``Violation`` that it raises names its operator."""
        try:
            self.kernels[launch.kind](self, launch, run)
        except Violation as violation:
            violation.op = violation.op or self.line(launch)
            raise

    def rows(self, launch: Launch, which: int, run: Run) -> list[int]:
        """An input's rows; those of real tokens must be what the program means there."""
        base = launch.inputs[which]
        want = run.tags[launch.expects[which]]
        found = self.memory.tag[base : base + run.tokens]
        if found.count(want) != run.tokens:
            raise self._stale(launch, run, want, found)
        return self.memory.value[base : base + launch.rows]

    def one(self, launch: Launch, run: Run) -> int:
        """The tensor of one cell that ``constant`` or ``borrow`` reads."""
        want, found = ("weight", launch.op), self.memory.tag[launch.extra]
        if found != want:
            key = "I2" if launch.kind == "constant" else "I5" if run.breaking else "I1"
            taken = launch.extra in self.pool.live or launch.extra in self.outside.live
            why = "" if taken else ": its block was freed"
            what = f"{said(self.program, want)} holds {said(self.program, found)}{why}"
            raise Violation(key, what)
        return self.memory.value[launch.extra]

    def make_weight(self, op: int, address: int) -> None:
        """Put there what ``constant`` or ``borrow`` of that number reads."""
        self.memory.fill(address, 1, self.terms.make("weight", op), ("weight", op))

    def static(self, name: str, count: int, run: Run) -> list[int]:
        """The first cells of a static input; all must have been written for this step."""
        base, want = run.statics[name], run.tags[name]
        found = self.memory.tag[base : base + count]
        if found.count(want) != count:
            bad = next(i for i, tag in enumerate(found) if tag != want)
            real = run.requests if name not in {"slots", "positions"} else run.tokens
            key = "I11" if bad < real else "I8" if name == "slots" else "I9"
            key = "I21" if _later(found[bad], want) else key
            raise Violation(key, f"{name}[{bad}] {self._instead(found[bad], want)}")
        return self.memory.value[base : base + count]

    def spans(self, launch: Launch, run: Run) -> list[tuple[int, int]]:
        """First row and end of each request slot; empty slots must be where the real rows end."""
        offsets = self.static("offsets", launch.slots + 1, run)
        if any(o != run.tokens for o in offsets[run.requests :]):
            shown = " ".join(map(str, offsets))
            what = f"offsets are {shown} for {counted(run.requests, 'request')} of "
            what += f"{counted(run.tokens, 'token')}, expected {run.tokens} in every unused slot"
            raise Violation("I9", what)
        return list(pairwise(offsets))

    def write(self, launch: Launch, values: list[int], run: Run) -> None:
        """The result of the whole launch."""
        self.memory.put(launch.out, values, run.tags[launch.op + 1])

    def write_at(self, launch: Launch, first: int, values: list[int], run: Run) -> None:
        """Rows of the result from ``first`` on."""
        self.memory.put(launch.out + first, values, run.tags[launch.op + 1])

    def world(self, world: World) -> list[int]:
        """All caches, then all states, as they lie in memory when the reference has this world.

        Cells that it does not have, and sinks, are poison.
        """
        length, first = self.layout.length, self.at.worlds[0]
        cells = [self.terms.poison] * (self.at.worlds[1] - first)
        for (index, row, position), term in world.caches.items():
            cells[self.at.caches[index] - first + row * length + position] = term
        for (index, row), term in world.states.items():
            cells[self.at.states[index] - first + row] = term
        return cells

    def line(self, launch: Launch) -> str:
        """The launch's operator as a person reads it."""
        return operator(self.program, launch.op)

    def _instead(self, found: Tag, want: Tag) -> str:
        """What a cell holds for what was expected there."""
        if want[0] in STATICS and found == UNWRITTEN:
            return f"was not written in step {want[1]}: it holds what was there before"
        return f"holds {said(self.program, found)}, expected {said(self.program, want)}"

    def _stale(self, launch: Launch, run: Run, want: Tag, found: list[Tag]) -> Violation:
        row = next(i for i, tag in enumerate(found) if tag != want)
        writer = int(str(want[0])) - 1 if want[0] != "ids" else -1
        from_break = writer >= 0 and self.program.ops[writer].breaks
        key = "I11" if writer < 0 else "I5" if run.breaking else "I3" if from_break else "I4"
        sides = writer >= 0 and (launch.side or self.program.ops[writer].side)
        key = "I21" if sides or _later(found[row], want) else key
        tensor = "ids" if writer < 0 else f"t{self.program.targets[writer]}"
        return Violation(key, f"row {row} of {tensor} {self._instead(found[row], want)}")


def _later(found: Tag, want: Tag) -> bool:
    """Whether the host has written a static input for a later step already."""
    match found, want:
        case (str() as name, int() as is_of), (str() as expected, int() as epoch):
            return name == expected and is_of > epoch
    return False


def layout_of(program: Program, *, tokens: int, slots: int, rows: int, length: int) -> Layout:
    """Room for this program and these largest steps."""
    tensors = len(program.ops) + 2
    return Layout(
        tokens=tokens,
        slots=slots,
        rows=rows,
        length=length,
        caches=tuple(i for i, op in enumerate(program.ops) if op.kind == "scatter"),
        states=tuple(i for i, op in enumerate(program.ops) if op.kind == "state"),
        pool_cells=3 * tensors * tokens + tensors,
        outside_cells=4 * tensors * tokens,
    )
