"""Mutants of static inputs: what padding holds, what is rewritten, where inputs lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simcg.formal.kernels import KERNELS
from simcg.formal.launch import Launch
from simcg.formal.memory import Layout
from simcg.formal.mutants.mutant import Mutant
from simcg.formal.rules import Rules, padding
from simcg.formal.step import Step

if TYPE_CHECKING:
    from simcg.formal.machine import Machine, Run


def padded_with(wrong: str, value: int) -> Rules:
    """Rules whose padding of one input holds another value."""

    def wrongly(name: str, step: Step, layout: Layout) -> int:
        return value if name == wrong else padding(name, step, layout)

    return Rules(padding=wrongly)


def stale(*wrong: str) -> Rules:
    """Rules that leave the tail of some inputs as the step before left it."""
    return Rules(rewritten=lambda name, real, captured: real if name in wrong else captured)


def _offsets_at_the_bucket(name: str, step: Step, layout: Layout) -> int:
    return layout.tokens if name == "offsets" else padding(name, step, layout)


def _wrapping_scatter(machine: Machine, launch: Launch, run: Run) -> None:
    """A writer that indexes real slots only: -1 is the last of them."""
    f, base = machine.terms.applied("scatter", launch.op), machine.at.caches[launch.op]
    slots, x = machine.static("slots", launch.rows, run), machine.rows(launch, 0, run)
    for row, (slot, a) in enumerate(zip(slots, x, strict=True)):
        cell = base + (slot if slot >= 0 else slot % machine.layout.sink)
        real = row < run.tokens
        tag = run.tag(launch.op + 1) if real else ("padding", launch.op + 1, run.key, run.epoch)
        machine.memory.put(cell, [f[a]], tag)


def _mask_of_the_bucket(machine: Machine, launch: Launch, run: Run) -> None:
    """Masks by the captured shape, as metadata made after padding has it."""
    x, make = machine.rows(launch, 0, run), machine.terms.make
    machine.write(launch, [make("mix", launch.op, a, *x) for a in x], run)


def _mask_by_zero(machine: Machine, launch: Launch, run: Run) -> None:
    """Multiplies padding by zero instead of leaving it out: 0 * NaN is NaN."""
    (count,) = machine.static("count", 1, run)
    x, make = machine.rows(launch, 0, run), machine.terms.make
    zeros = [make("zero times", launch.op, a) for a in x[count:]]
    machine.write(launch, [make("mix", launch.op, a, *x[:count], *zeros) for a in x], run)


def _state_of_empty_slots(machine: Machine, launch: Launch, run: Run) -> None:
    """Advances the state of every slot, those without rows by a step of nothing."""
    KERNELS["state"](machine, launch, run)
    spans = machine.spans(launch, run)
    rows = machine.static("rows", launch.slots, run)
    base, make = machine.at.states[launch.op], machine.terms.make
    for (first, end), row in zip(spans, rows, strict=True):
        if first == end:
            past = machine.memory.value[base + row]
            machine.memory.put(base + row, [make("state", launch.op, past)], run.tag(launch.op + 1))


def _whole_tiles(machine: Machine, launch: Launch, run: Run) -> None:
    """Writes an even number of rows."""
    f, rows = machine.terms.applied(launch.kind, launch.op), machine.rows(launch, 0, run)
    machine.write(launch, [f[a] for a in rows + rows[: len(rows) % 2]], run)


INPUTS = (
    Mutant(
        "slot zero as the sink",
        "padded rows write the cache slot of the first request",
        padded_with("slots", 0),
        ("I8",),
        ("scatter", "gemm"),
        ops=2,
        reports=(
            "rvllm #32: padded rows reuse the live cache slot 0",
            "SGLang #26019: an empty page table sends every request to cache slot 0",
        ),
    ),
    Mutant(
        "minus one as the sink",
        "padded rows have slot -1, and a writer that indexes puts them into the last real slot",
        Rules(
            padding=padded_with("slots", -1).padding,
            kernels={**KERNELS, "scatter": _wrapping_scatter},
        ),
        ("I8",),
        ("scatter", "gemm"),
        ops=2,
        reports=(
            "vLLM #43810: padding slot -1 overwrites the last cache slot",
            "SGLang #36885: padding at -1 is mapped to a slot that a request owns",
        ),
    ),
    Mutant(
        "stale slots in the tail",
        "cache slots behind the real rows are those of an earlier, larger step",
        stale("slots"),
        ("I8",),
        ("scatter", "gemm"),
        ops=2,
        reports=("TensorRT-LLM #13278: a stale tail of indices corrupts parked requests",),
    ),
    Mutant(
        "stale lengths in the tail",
        "lengths of unused request slots are those of an earlier step with more requests",
        stale("lengths"),
        ("I9",),
        ("scatter", "attend"),
        ops=2,
        reports=(
            "SGLang #1094: sequence lengths of padding left as they were",
            "SGLang #1469: lengths of padding must be neutral",
            "vLLM #41841: padded rows keep counters of earlier requests",
        ),
    ),
    Mutant(
        "stale positions in the tail",
        "positions behind the real rows are those of an earlier, larger step",
        stale("positions"),
        ("I9",),
        ("random",),
        reports=(
            "SGLang #10892: positions not reset where the batch is smaller than its bucket",
            "SGLang #24401: the same in another runner",
        ),
    ),
    Mutant(
        "offsets of unused slots end at the bucket",
        "the offsets of unused request slots are T instead of n, so padding is somebody's tokens",
        Rules(padding=_offsets_at_the_bucket),
        ("I9",),
        ("causal",),
        reports=("vLLM #42947: padded requests without tokens are taken for prefills",),
    ),
    Mutant(
        "offsets of unused slots are zero",
        "the offsets of unused request slots point into the tokens of real requests",
        padded_with("offsets", 0),
        ("I9",),
        ("causal",),
        reports=("xLLM #1939: padded requests must repeat the last offset",),
    ),
    Mutant(
        "stale offsets",
        "the offsets of unused request slots are left from a step with more requests",
        stale("offsets"),
        ("I9",),
        ("causal",),
        reports=("torchtitan #3893: a full graph replays stale offsets, and gives NaN",),
    ),
    Mutant(
        "stale ids in the tail",
        "tokens behind the real rows are those of an earlier, larger step",
        stale("ids"),
        (),
        ("gemm", "scatter", "mix"),
        ops=2,
        equivalent="rows of padding are computed from these tokens and reach nothing: their cache "
        "slots are the sink, masks leave them out, and the view ends before them",
    ),
    Mutant(
        "mask made after padding",
        "the count of real rows is that of the padded batch",
        Rules(kernels={**KERNELS, "mix": _mask_of_the_bucket}),
        ("I7",),
        ("mix",),
        reports=(
            "SGLang #30895: the number of real tokens does not reach the router",
            "FlashInfer #3057: scales of real rows computed with rows of padding",
        ),
    ),
    Mutant(
        "mask by multiplication with zero",
        "padding is multiplied by zero instead of left out, and spreads as 0 * NaN",
        Rules(kernels={**KERNELS, "mix": _mask_by_zero}),
        ("I7",),
        ("mix",),
        reports=(
            "SGLang #35351: NaN in padding comes back as 0 * NaN",
            "SGLang #32477: the same by a page of padding",
            "vLLM #40047: NaN of padding reaches real tokens in several kernels",
        ),
    ),
    Mutant(
        "state of an empty slot",
        "a recurrent state is advanced for request slots that nobody uses",
        Rules(
            padding=padded_with("rows", 0).padding,
            kernels={**KERNELS, "state": _state_of_empty_slots},
        ),
        ("I15",),
        ("state",),
        reports=(
            "SGLang #38997: padded rows write the state of a live request",
            "tokenspeed #700: padding at -1 clamped to state row 0",
            "TensorRT-LLM #13278: padding aliases states of parked requests",
        ),
    ),
    Mutant(
        "metadata rebuilt before each replay",
        "a metadata tensor is made anew for each step, and the graph reads the old address",
        Rules(moves_static=lambda name: name == "lengths", checks_addresses=False),
        ("I1", "I11"),
        ("scatter", "attend"),
        ops=2,
        reports=(
            "SGLang #26019: metadata rebuilt at replay while graphs hold the old pointers",
            "imp #1648: an address allocated at each step is baked into a graph",
            "vLLM #44868: full graphs replay the metadata of their capture",
        ),
    ),
    Mutant(
        "metadata rebuilt, addresses checked",
        "as the one before, but a replay compares addresses first",
        Rules(moves_static=lambda name: name == "lengths"),
        (),
        ("scatter", "attend"),
        ops=2,
        equivalent="a step whose inputs have moved runs eager: slower, never wrong",
        reports=("vLLM #52440: addresses of metadata compared before a replay",),
    ),
    Mutant(
        "inputs rewritten during a replay",
        "the scheduler writes the next step's inputs while the replay before still reads them",
        Rules(waits=False),
        ("I21",),
        ("gemm",),
        checks=("traces",),
        reports=(
            "SGLang #26380: the scheduler writes tables that the forward before still reads",
            "tokenspeed #376: a host buffer is refilled before its copy has run",
        ),
    ),
    Mutant(
        "metadata left from the step before",
        "the host takes the lengths for unchanged and does not write them",
        Rules(rewritten=lambda name, _real, captured: 0 if name == "lengths" else captured),
        ("I11",),
        ("scatter", "attend"),
        ops=2,
        reports=("vLLM #44868: full graphs replay the metadata of their capture",),
    ),
    Mutant(
        "kernel writes whole tiles",
        "a kernel rounds its rows up and writes behind its result",
        Rules(kernels={**KERNELS, "gemm": _whole_tiles}),
        ("I6", "I4", "I14"),
        ("gemm",),
        ops=2,
        breaks=0,
        reports=("SGLang #27338: a kernel writes past its row into other memory of the graphs",),
    ),
)
