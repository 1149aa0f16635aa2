"""Mutants of capture: what is held, freed, recorded, baked, refused, and what it leaves behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simcg.formal.kernels import KERNELS
from simcg.formal.launch import Launch
from simcg.formal.mutants.mutant import Mutant
from simcg.formal.program import ONLY_AS_BREAK, Kind, Op
from simcg.formal.rules import Rules

if TYPE_CHECKING:
    from simcg.formal.machine import Machine, Run


def _refuses_all_but(kind: Kind) -> Rules:
    """Rules under which one operator is captured that must be a break."""

    def wrongly(op: Op, *, breaking: bool) -> bool:
        return op.kind in ONLY_AS_BREAK - {kind} and not breaking

    return Rules(refuses=wrongly)


def _baked_draw(machine: Machine, launch: Launch, run: Run) -> None:
    """Draws from the generator's position at capture, and does not advance it."""
    drawn = machine.drawn
    if not run.breaking and launch.rows != run.tokens:
        machine.drawn = 0
    KERNELS["draw"](machine, launch, run)
    machine.drawn = drawn


def _without_side(ops: tuple[Op, ...]) -> tuple[int, ...]:
    return tuple(index for index, op in enumerate(ops) if not op.side)


def _without_scatter(ops: tuple[Op, ...]) -> tuple[int, ...]:
    return tuple(index for index, op in enumerate(ops) if op.kind != "scatter")


def _scatter_last(ops: tuple[Op, ...]) -> tuple[int, ...]:
    """The cache writes are recorded after everything else."""
    return tuple(sorted(range(len(ops)), key=lambda index: (ops[index].kind == "scatter", index)))


def _positions_of_capture(machine: Machine, launch: Launch, run: Run) -> None:
    """Takes the positions that the warm-up had: row i is at position i."""
    x, make = machine.rows(launch, 0, run), machine.terms.make
    machine.write(launch, [make("random", launch.op, a, i) for i, a in enumerate(x)], run)


CAPTURING = (
    Mutant(
        "outside argument held weakly",
        "a break's argument from outside the pool is freed after capture, and the break reads its "
        "new owner's data",
        Rules(hold=lambda _born: "weak"),
        ("I5",),
        ("borrow",),
    ),
    Mutant(
        "outside tensor of a graph not held",
        "a tensor that a graph reads is freed after capture: nobody kept it",
        Rules(keeps_outside=False),
        ("I1",),
        ("borrow",),
    ),
    Mutant(
        "break's result rebound",
        "a break's result is bound to a name instead of copied to where the next segment reads",
        Rules(copies_results=False),
        ("I3",),
        ("gemm",),
    ),
    Mutant(
        "memory freed one operator early",
        "a tensor's block is handed on before its last reader",
        Rules(last_use=lambda program, tensor: program.last_use[tensor] - 1),
        ("I4", "I5", "I3"),
        ("gemm", "add"),
        ops=3,
    ),
    Mutant(
        "constant freed after capture",
        "a tensor that was made once at capture is freed, and a later bucket takes its block",
        Rules(keeps_constants=False),
        ("I2",),
        ("constant",),
    ),
    Mutant(
        "unmasked operator captured",
        "an operator over all rows is in the graph, and padding reaches real rows",
        _refuses_all_but("mix_all"),
        ("I7",),
        ("mix_all",),
    ),
    Mutant(
        "generator captured",
        "random numbers are drawn for all rows of the bucket, so the generator runs ahead",
        _refuses_all_but("draw"),
        ("I15",),
        ("draw",),
    ),
    Mutant(
        "generator's offset baked",
        "each replay draws the numbers that the capture drew",
        Rules(refuses=_refuses_all_but("draw").refuses, kernels={**KERNELS, "draw": _baked_draw}),
        ("I15",),
        ("draw",),
    ),
    Mutant(
        "host read captured",
        "the host reads a value of the device during capture, and the graph keeps that value",
        _refuses_all_but("host"),
        ("I16", "I17"),
        ("host",),
    ),
    Mutant(
        "bound of the capture's batch",
        "attention is launched for the longest request at capture; later ones are cut",
        Rules(bound=lambda _layout, _step: 1),
        ("I17",),
        ("scatter", "attend"),
        ops=2,
        slotted=True,
    ),
    Mutant(
        "key without a scalar",
        "a host scalar is baked in the graph and missing from the key",
        Rules(scalars=lambda _program, _step: ()),
        ("I17",),
        ("launch",),
        modes=(0, 1),
    ),
    Mutant(
        "one compilation for all",
        "what the compiler took for a constant at the first capture serves all others",
        Rules(one_compile=True),
        ("I17",),
        ("launch",),
        modes=(0, 1),
    ),
    Mutant(
        "positions of the warm-up captured",
        "per-step state of the warm-up is recorded as if it were constant",
        Rules(kernels={**KERNELS, "random": _positions_of_capture}),
        ("I4", "I11", "I17"),
        ("random",),
    ),
    Mutant(
        "kernel on an escaped stream",
        "a kernel was launched on a stream that was never forked, and is in no graph",
        Rules(recorded=_without_side),
        ("I12", "I4"),
        ("gemm",),
        ops=2,
    ),
    Mutant(
        "cache write left out",
        "an operator without a result is dropped as dead code",
        Rules(recorded=_without_scatter),
        ("I12", "I4"),
        ("scatter", "gemm"),
        ops=2,
    ),
    Mutant(
        "cache write after its reader",
        "a compiler moves the cache write behind the attention that reads it",
        Rules(recorded=_scatter_last),
        ("I12", "I4"),
        ("scatter", "attend"),
        ops=2,
    ),
    Mutant(
        "stream not forked",
        "the second stream does not wait for what the first wrote",
        Rules(forks=False),
        ("I21",),
        ("gemm",),
        ops=2,
    ),
    Mutant(
        "stream not joined",
        "the first stream reads a result of the second without waiting for it",
        Rules(joins=False),
        ("I21",),
        ("gemm",),
        ops=2,
    ),
    Mutant(
        "block of a second stream reused",
        "memory that the second stream still reads is handed to the first",
        Rules(frees_unjoined=True),
        ("I21",),
        ("gemm", "add"),
        ops=3,
    ),
    Mutant(
        "warm-up writes real slots",
        "warm-up and capture run with slot 0 and state row 0 of the first request",
        Rules(warms_on_sink=False),
        ("I20", "I22"),
        ("scatter", "state", "gemm"),
        ops=2,
    ),
    Mutant(
        "generator not restored",
        "warm-up and capture draw random numbers, and the generator stays ahead",
        Rules(restores=False),
        ("I20", "I22"),
        ("draw",),
    ),
    Mutant(
        "failed capture keeps its memory",
        "blocks of a capture that broke off stay taken, and what it made stays in use",
        Rules(undoes_failure=False),
        ("I20",),
        ("gemm", "constant"),
        ops=2,
    ),
)
