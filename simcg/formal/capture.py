"""Capture: a program over tensors becomes launches over addresses, segments and breaks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from simcg.backend import EAGER, CaptureBackend
from simcg.formal.launch import Break, Capture, Item, Key, Launch, Marker, Segment, scheduled
from simcg.formal.machine import HOST, Machine
from simcg.formal.memory import Blocks
from simcg.formal.program import IN_PLACE, Op
from simcg.formal.rules import Rules, breaks_at
from simcg.formal.step import Step
from simcg.formal.violation import Refused


class CaptureFailed(Exception):  # noqa: N818  # injected: what a capture does about it is checked
    """The capture breaks off at an operator, as when memory runs out."""


@dataclass(slots=True)
class Lowering:
    """One pass over the program. ``step``: the one that it is captured, or run, with."""

    machine: Machine
    backend: CaptureBackend
    rules: Rules
    step: Step
    rows: int
    slots: int
    statics: dict[str, int]
    blocks: Blocks
    baked: Key
    fails_at: int = -1
    place: dict[int, int] = field(default_factory=dict)
    writer: dict[int, int] = field(default_factory=dict)
    entries: list[Launch | Marker] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    holds: list[int] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    footprint: set[tuple[int, int]] = field(default_factory=set)
    alive: set[int] = field(default_factory=set)  # tensors whose memory is theirs
    unjoined: set[int] = field(default_factory=set)  # tensors that the second stream touches
    waiting: list[int] = field(default_factory=list)  # blocks to free at the next join

    @property
    def captures(self) -> bool:
        """Whether this is a capture, not an eager run."""
        return self.backend is not EAGER

    def all(self) -> tuple[Item, ...]:
        """The items of the whole forward."""
        program = self.machine.program
        self.place[0], self.writer[0] = self.statics["ids"], HOST
        for index in self.rules.recorded(program.ops) if self.captures else range(len(program.ops)):
            if index == self.fails_at:
                raise CaptureFailed
            self._op(index, program.ops[index])
            self._free(index)
        self._output(len(program.ops))
        self._close()
        return tuple(self.items)

    def _op(self, index: int, op: Op) -> None:
        breaking = breaks_at(op, self.backend)
        if self.captures and self.rules.refuses(op, breaking=breaking):
            raise Refused(f"{self.machine.program.words(index)} is no break")
        touched = {*op.inputs, self.machine.program.targets[index]} - {0}
        if not op.side and touched & self.unjoined:
            self._join()
        if breaking:
            self._break(index, op)
            return
        if op.side and self.rules.forks:
            self.entries.append("fork")
        launch = self._launch(index, op, self._out(op))
        if not (self.captures and self.rules.escapes(op)):
            self.entries.append(launch)
        self._wrote(index, launch.out)
        if op.side:
            self.unjoined |= touched

    def _break(self, index: int, op: Op) -> None:
        self._close()
        launch = self._launch(index, op, -1)
        held = tuple(self.rules.hold(i != 0) for i in op.inputs)
        if launch.extra >= 0:
            held = (*held, self.rules.hold(False))
        in_place = op.kind in IN_PLACE or op.kind == "scatter"
        result = self._out(op) if not in_place else -1
        item = Break(launch, held, result, not self.rules.copies_results)
        outer = self.items[-1] if op.nested else None
        if isinstance(outer, Break):
            self.items[-1] = replace(outer, inner=(*outer.inner, item))
        if outer is None or not self.rules.nests:
            self.items.append(item)
        self._wrote(index, launch.inputs[0] if op.kind in IN_PLACE else result)

    def _launch(self, index: int, op: Op, out: int) -> Launch:
        return Launch(
            op=index,
            kind=op.kind,
            inputs=tuple(self.place[i] for i in op.inputs),
            expects=tuple(self.writer[i] for i in op.inputs),
            out=out,
            rows=self.rows,
            slots=self.slots,
            baked=self._scalar(op),
            extra=self._extra(index, op),
            side=op.side,
        )

    def _out(self, op: Op) -> int:
        if op.kind == "scatter":
            return -1
        if op.kind in IN_PLACE:
            return self.place[op.inputs[0]]
        address = self.blocks.allocate(self.rows)
        self.footprint.add((address, self.rows))
        return address

    def _wrote(self, index: int, address: int) -> None:
        target = self.machine.program.targets[index]
        if target:
            self.place[target], self.writer[target] = address, index + 1
        if target == index + 1:
            self.alive.add(target)

    def _scalar(self, op: Op) -> int:
        """The host scalar of a launch; 0 for attention that takes the step's own bound."""
        if op.kind == "attend":
            return self.rules.bound(self.machine.layout, self.step) if self.captures else 0
        if op.kind == "launch":
            if breaks_at(op, self.backend) or not self.captures:
                return self.step.mode
            return self.baked[0] if self.baked else 0
        if op.kind == "draw" and self.captures and not breaks_at(op, self.backend):
            return self.machine.drawn  # where the generator stands when a graph of it is made
        return self.step.tokens if op.kind == "host" else 0

    def _extra(self, index: int, op: Op) -> int:
        """The tensor of ``constant``, made once in the pool, or of ``borrow``, made each time."""
        machine = self.machine
        if op.kind not in {"constant", "borrow"}:
            return -1
        known = machine.constants.get(index, -1) if op.kind == "constant" else -1
        if known >= 0 and not (self.captures and self.rules.remakes_constants):
            return known
        blocks = machine.pool if op.kind == "constant" else machine.outside
        address = blocks.allocate(1)
        machine.make_weight(index, address)
        if op.kind == "constant":
            machine.constants[index] = address
            if known >= 0:
                self.dropped.append(known)
            if not self.rules.keeps_constants:
                self.dropped.append(address)
        elif self.captures and self._keeps_outside(op):
            self.holds.append(address)
        else:
            self.dropped.append(address)
        return address

    def _keeps_outside(self, op: Op) -> bool:
        if breaks_at(op, self.backend):
            return self.rules.hold(False) == "strong"
        return self.rules.keeps_outside

    def _free(self, index: int) -> None:
        """Free what no operator after this one uses."""
        program = self.machine.program
        for tensor in [t for t in self.alive if self.rules.last_use(program, t) <= index]:
            self.alive.remove(tensor)
            if tensor in self.unjoined and not self.rules.frees_unjoined:
                self.waiting.append(self.place[tensor])
            else:
                self.blocks.free(self.place[tensor])

    def _join(self) -> None:
        if self.rules.joins:
            self.entries.append("join")
        for address in self.waiting:
            self.blocks.free(address)
        self.waiting.clear()
        self.unjoined.clear()

    def _output(self, index: int) -> None:
        tensor = self.machine.program.output
        if tensor in self.unjoined:
            self._join()
        place, writer, out = self.place[tensor], self.writer[tensor], self.machine.at.out
        self.entries.append(
            Launch(index, "output", (place,), (writer,), out, self.rows, self.slots)
        )
        self._free(index)

    def _close(self) -> None:
        """End the segment; one without kernels is none."""
        if self.unjoined:
            self._join()
        if self.entries:
            entries = tuple(self.entries)
            self.items.append(
                Segment(entries, scheduled(entries, late=False), scheduled(entries, late=True))
            )
            self.entries.clear()


def capture(lowering: Lowering, key: Key) -> Capture:
    """Record a key; when it fails, the pool is as it was (unless a rule says otherwise)."""
    machine, before = lowering.machine, dict(lowering.blocks.live)
    constants = set(machine.constants)
    try:
        items = lowering.all()
    except (CaptureFailed, Refused):
        if lowering.rules.undoes_failure:
            for address in set(lowering.blocks.live) - set(before):
                lowering.blocks.free(address)
            for address in lowering.holds:
                machine.outside.free(address)
            for index in set(machine.constants) - constants:
                del machine.constants[index]
        raise
    finally:
        for address in lowering.dropped:
            blocks = machine.pool if address in machine.pool.live else machine.outside
            if address in blocks.live:
                blocks.free(address)
    return Capture(
        key,
        lowering.rows,
        lowering.slots,
        items,
        dict(lowering.statics),
        tuple(lowering.holds),
        frozenset(lowering.footprint),
    )
