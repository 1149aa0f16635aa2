"""What each launch does to memory: reads and writes at addresses, whatever lies there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from simcg.formal.launch import Launch

if TYPE_CHECKING:
    from simcg.formal.machine import Machine, Run

Kernel = Callable[["Machine", Launch, "Run"], None]


def unary(machine: Machine, launch: Launch, run: Run) -> None:
    """Row-local kernels and collectives."""
    f = machine.terms.applied(launch.kind, launch.op)
    machine.write(launch, [f[a] for a in machine.rows(launch, 0, run)], run)


def binary(machine: Machine, launch: Launch, run: Run) -> None:
    """``add`` and ``accumulate``; the output of the latter is its first input."""
    x, y = machine.rows(launch, 0, run), machine.rows(launch, 1, run)
    make, kind, op = machine.terms.make, launch.kind, launch.op
    machine.write(launch, [make(kind, op, a, b) for a, b in zip(x, y, strict=True)], run)


def reduce(machine: Machine, launch: Launch, run: Run) -> None:
    """A collective: every rank must come here with as many rows."""
    machine.collectives.append((launch.op, launch.rows))
    unary(machine, launch, run)


def scatter(machine: Machine, launch: Launch, run: Run) -> None:
    """Cache writes; a slot beyond the last real one is the sink, a negative one wraps."""
    cells = machine.layout.sink + 1
    slots = machine.static("slots", launch.rows, run)
    f = machine.terms.applied(launch.kind, launch.op)
    base, tag = machine.at.caches[launch.op], run.tags[launch.op + 1]
    value, tags = machine.memory.value, machine.memory.tag
    for row, (slot, a) in enumerate(zip(slots, machine.rows(launch, 0, run), strict=True)):
        cell = base + slot % cells
        value[cell] = f[a]
        tags[cell] = tag if row < run.tokens else ("padding", launch.op + 1, run.key, run.epoch)


def attend(machine: Machine, launch: Launch, run: Run) -> None:
    """Attention over the cache; rows that belong to no request are left as they are."""
    x, spans = machine.rows(launch, 0, run), machine.spans(launch, run)
    lengths = machine.static("lengths", launch.slots, run)
    rows = machine.static("rows", launch.slots, run)
    base = machine.at.caches[machine.program.caches[launch.op]]
    value, make, op = machine.memory.value, machine.terms.make, launch.op
    bound = launch.baked or run.longest
    for (first, end), length, row in zip(spans, lengths, rows, strict=True):
        start = base + row * machine.layout.length
        new = [
            make("attend", op, x[i], *value[start : start + min(length - (end - 1 - i), bound)])
            for i in range(first, end)
        ]
        machine.write_at(launch, first, new, run)


def causal(machine: Machine, launch: Launch, run: Run) -> None:
    """Attention of each row over the rows of its request up to it."""
    x, make, op = machine.rows(launch, 0, run), machine.terms.make, launch.op
    for first, end in machine.spans(launch, run):
        new = [make("causal", op, *x[first : i + 1]) for i in range(first, end)]
        machine.write_at(launch, first, new, run)


def mix(machine: Machine, launch: Launch, run: Run) -> None:
    """Crosses rows, those before the count on the device."""
    (count,) = machine.static("count", 1, run)
    x, make = machine.rows(launch, 0, run), machine.terms.make
    machine.write(launch, [make("mix", launch.op, a, *x[:count]) for a in x], run)


def mix_all(machine: Machine, launch: Launch, run: Run) -> None:
    """Crosses all rows of the launch."""
    x, make = machine.rows(launch, 0, run), machine.terms.make
    machine.write(launch, [make("mix_all", launch.op, a, *x) for a in x], run)


def state(machine: Machine, launch: Launch, run: Run) -> None:
    """A recurrence along each request; a slot without rows updates nothing."""
    x, spans = machine.rows(launch, 0, run), machine.spans(launch, run)
    rows = machine.static("rows", launch.slots, run)
    fresh = machine.static("fresh", launch.slots, run)
    value, tags = machine.memory.value, machine.memory.tag
    base, make, op = machine.at.states[launch.op], machine.terms.make, launch.op
    for (first, end), row, new in zip(spans, rows, fresh, strict=True):
        if first == end:
            continue
        past = make("fresh state") if new else value[base + row]
        along = []
        for a in x[first:end]:
            past = make("state", op, past, a)
            along.append(past)
        value[base + row], tags[base + row] = past, run.tags[op + 1]
        machine.write_at(launch, first, along, run)


def with_tensor(machine: Machine, launch: Launch, run: Run) -> None:
    """``constant`` and ``borrow``: every row with one more tensor."""
    c, make = machine.one(launch, run), machine.terms.make
    x = machine.rows(launch, 0, run)
    machine.write(launch, [make(launch.kind, launch.op, a, c) for a in x], run)


def random(machine: Machine, launch: Launch, run: Run) -> None:
    """Keyed by position: padding draws for itself."""
    positions = machine.static("positions", launch.rows, run)
    x, make, op = machine.rows(launch, 0, run), machine.terms.make, launch.op
    machine.write(
        launch, [make("random", op, a, p) for a, p in zip(x, positions, strict=True)], run
    )


def draw(machine: Machine, launch: Launch, run: Run) -> None:
    """Takes one number a row from the generator."""
    x, make, first = machine.rows(launch, 0, run), machine.terms.make, machine.drawn
    machine.drawn += launch.rows
    new = [make("draw", launch.op, a, first + i) for i, a in enumerate(x)]
    machine.write(launch, new, run)


def with_scalar(machine: Machine, launch: Launch, run: Run) -> None:
    """``launch`` and ``host``: a scalar that a graph bakes, and an eager launch has anew."""
    make, scalar = machine.terms.make, launch.baked
    x = machine.rows(launch, 0, run)
    machine.write(launch, [make(launch.kind, launch.op, a, scalar) for a in x], run)


def output(machine: Machine, launch: Launch, run: Run) -> None:
    """The rows go to the runner's buffer."""
    machine.write(launch, machine.rows(launch, 0, run), run)


KERNELS: dict[str, Kernel] = {
    "gemm": unary,
    "add": binary,
    "accumulate": binary,
    "scatter": scatter,
    "attend": attend,
    "causal": causal,
    "mix": mix,
    "mix_all": mix_all,
    "state": state,
    "constant": with_tensor,
    "borrow": with_tensor,
    "random": random,
    "draw": draw,
    "reduce": reduce,
    "launch": with_scalar,
    "host": with_scalar,
    "output": output,
}
