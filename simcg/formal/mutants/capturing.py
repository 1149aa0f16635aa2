"""Mutants of capture: what is held, freed, recorded, baked, refused, and what it leaves behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simcg.formal.kernels import KERNELS
from simcg.formal.launch import Launch
from simcg.formal.mutants.mutant import Mutant
from simcg.formal.program import ONLY_AS_BREAK, Kind, Op, Program
from simcg.formal.rules import Rules

if TYPE_CHECKING:
    from simcg.formal.machine import Machine, Run


def _refuses_all_but(kind: Kind) -> Rules:
    """Rules under which one operator is captured that must be a break."""

    def wrongly(op: Op, *, breaking: bool) -> bool:
        return op.kind in ONLY_AS_BREAK - {kind} and not breaking

    return Rules(refuses=wrongly)


def _baked_draw(machine: Machine, launch: Launch, run: Run) -> None:
    """In a graph, draws from where the generator stood at capture, and does not advance it."""
    drawn = machine.drawn
    if run.key and not run.breaking:
        machine.drawn = launch.baked
        KERNELS["draw"](machine, launch, run)
        machine.drawn = drawn
    else:
        KERNELS["draw"](machine, launch, run)


def _without_scatter(ops: tuple[Op, ...]) -> tuple[int, ...]:
    return tuple(index for index, op in enumerate(ops) if op.kind != "scatter")


def _scatter_last(ops: tuple[Op, ...]) -> tuple[int, ...]:
    """The cache writes are recorded after everything else."""
    return tuple(sorted(range(len(ops)), key=lambda index: (ops[index].kind == "scatter", index)))


def _positions_of_capture(machine: Machine, launch: Launch, run: Run) -> None:
    """Takes the positions that the warm-up had: row i is at position i."""
    x, make = machine.rows(launch, 0, run), machine.terms.make
    machine.write(launch, [make("random", launch.op, a, i) for i, a in enumerate(x)], run)


_OVERTAKEN = Program(
    (Op("gemm", (0,)), Op("gemm", (1,), side=True), Op("gemm", (0,)), Op("add", (2, 3)))
)
"""The second stream reads tensor 1 while the first may take its block for tensor 3."""

_LATE_READERS = tuple(
    Program((Op("gemm", (0,), breaks=early), Op("gemm", (0,)), Op("add", (1, 2), breaks=late)))
    for early, late in ((False, False), (True, False), (False, True))
)
"""Tensor 1 is read after tensor 2 was made: from a graph or a break, in a graph or a break."""

CAPTURING = (
    Mutant(
        "outside argument held weakly",
        "a break's argument from outside the pool is freed after capture, and the break reads its "
        "new owner's data",
        Rules(hold=lambda _born: "weak"),
        ("I5",),
        ("borrow",),
        reports=(
            "SGLang #37606: a break's inputs held weakly are handed to later buckets",
            "SGLang #22218: found in review when the weak references came",
            "TensorRT-LLM #16609: a break's tensor made outside the graph must be owned",
        ),
    ),
    Mutant(
        "outside tensor of a graph not held",
        "a tensor that a graph reads is freed after capture: nobody kept it",
        Rules(keeps_outside=False),
        ("I1",),
        ("borrow",),
        reports=(
            "cuda-python #166: what a graph's kernel was given is freed before the second run",
            "cuda-python #2041: kernel arguments kept alive in graph nodes",
        ),
    ),
    Mutant(
        "break's result rebound",
        "a break's result is bound to a name instead of copied to where the next segment reads",
        Rules(copies_results=False),
        ("I3",),
        ("gemm",),
        reports=(
            "vLLM #37361: what runs between pieces returns new tensors, and the next reads old",
            "vLLM #53915: the same, told at the first replay",
        ),
    ),
    Mutant(
        "memory freed too early",
        "a tensor's block is handed to an operator before its last reader",
        Rules(last_use=lambda program, tensor: program.last_use[tensor] - 2),
        ("I4", "I5", "I3"),
        ("gemm", "add"),
        programs=_LATE_READERS,
        reports=("cubecl #1612: work between replays corrupts what graphs read",),
    ),
    Mutant(
        "constant freed after capture",
        "a tensor that was made once at capture is freed, and replays go on reading its block, "
        "which is anybody's now",
        Rules(keeps_constants=False),
        ("I2",),
        ("constant",),
        reports=(
            "PyTorch #141171: a tensor cached in the first run lies in the graph's memory",
            "PyTorch #193402: graphs share a cached workspace that is freed with one of them",
        ),
    ),
    Mutant(
        "unmasked operator captured",
        "an operator over all rows is in the graph, and padding reaches real rows",
        _refuses_all_but("mix_all"),
        ("I7",),
        ("mix_all",),
        reports=("vLLM #38436: scales shared by rows spread the NaN of padding",),
    ),
    Mutant(
        "generator captured",
        "random numbers are drawn for all rows of the bucket, so the generator runs ahead",
        _refuses_all_but("draw"),
        ("I15",),
        ("draw",),
        reports=("PyTorch #46148: how far a graph advances the generator",),
    ),
    Mutant(
        "generator's offset baked",
        "each replay draws the numbers that the capture drew, where the generator then stood",
        Rules(refuses=_refuses_all_but("draw").refuses, kernels={**KERNELS, "draw": _baked_draw}),
        ("I15", "I16"),
        ("draw",),
        checks=("steps", "captures"),
        reports=("PyTorch #84967: a graph keeps the seed of its capture",),
    ),
    Mutant(
        "host read captured",
        "the host reads a value of the device during capture, and the graph keeps that value",
        _refuses_all_but("host"),
        ("I16", "I17"),
        ("host",),
        reports=(
            "PyTorch #78549: an operator that needs the host breaks capture",
            "ONNX Runtime #15002: a synchronisation during capture",
        ),
    ),
    Mutant(
        "bound of the capture's batch",
        "attention is launched for the longest request at capture; later ones are cut",
        Rules(bound=lambda _layout, _step: 1),
        ("I17",),
        ("scatter", "attend"),
        ops=2,
        reports=(
            "transformers #45323: the longest length is a launch constant of the graph",
            "aprender #2030: the kernel chosen at capture serves sequences that have grown",
            "ONNX Runtime #32239: split counts planned from the lengths at capture",
        ),
    ),
    Mutant(
        "key without a scalar",
        "a host scalar is baked in the graph and missing from the key",
        Rules(scalars=lambda _program, _step: ()),
        ("I17",),
        ("launch",),
        reports=("transformers #45323: graphs are looked up by sizes alone",),
    ),
    Mutant(
        "one compilation for all",
        "what the compiler took for a constant at the first capture serves all others",
        Rules(one_compile=True),
        ("I17",),
        ("launch",),
        reports=("vLLM #54243: sizes of the first compilation are used for all batches",),
    ),
    Mutant(
        "positions of the warm-up captured",
        "per-step state of the warm-up is recorded as if it were constant",
        Rules(kernels={**KERNELS, "random": _positions_of_capture}),
        ("I4", "I11", "I17"),
        ("random",),
        reports=("torchtitan #3893: offsets of one step are baked into the graph",),
    ),
    Mutant(
        "kernel on an escaped stream",
        "a kernel was launched on a stream that was never forked, and is in no graph",
        Rules(escapes=lambda op: op.side),
        ("I12", "I4"),
        ("gemm",),
        ops=2,
        reports=(
            "SageAttention #371: kernels on the default stream are missing from the graph",
            "PyTorch #114048: kernels that do not use the current stream are no part of the graph",
            "Mirage #207: generated kernels on the default stream are not captured",
        ),
    ),
    Mutant(
        "cache write left out",
        "an operator without a result is dropped as dead code",
        Rules(recorded=_without_scatter),
        ("I12", "I4"),
        ("scatter", "gemm"),
        ops=2,
        reports=("vLLM #33945: a pass removes the cache update",),
    ),
    Mutant(
        "cache write after its reader",
        "a compiler moves the cache write behind the attention that reads it",
        Rules(recorded=_scatter_last),
        ("I12", "I4"),
        ("scatter", "attend"),
        ops=2,
        reports=(
            "vllm-project/flash-attention #148: the cache is declared read-only to the compiler",
        ),
    ),
    Mutant(
        "stream not forked",
        "the second stream does not wait for what the first wrote",
        Rules(forks=False),
        ("I21",),
        ("gemm",),
        ops=2,
        reports=(
            "chipStar #1523: a capture does not follow work that is forked to another stream",
        ),
    ),
    Mutant(
        "stream not joined",
        "the first stream reads a result of the second without waiting for it",
        Rules(joins=False),
        ("I21",),
        ("gemm",),
        ops=2,
        reports=(
            "vLLM #57785: a break leaves work on a second stream that nobody waits for",
            "DeepEP #62: a capture ends with unjoined work",
        ),
    ),
    Mutant(
        "block of a second stream reused",
        "memory that the second stream still reads is handed to the first",
        Rules(frees_unjoined=True),
        ("I21",),
        ("gemm", "add"),
        programs=(_OVERTAKEN,),
        reports=(
            "local-inference-lab/vllm #93: a second stream's output is recycled while it is read",
            "SGLang #30460: a side kernel reads what the main branch has disposed of",
        ),
    ),
    Mutant(
        "warm-up writes real slots",
        "warm-up and capture run with slot 0 and state row 0 of the first request",
        Rules(warms_on_sink=False),
        ("I20", "I22"),
        ("scatter", "gemm"),
        programs=(Program((Op("scatter", (0,)), Op("gemm", (0,)))),),
        checks=("steps", "traces"),
        reports=(
            "SGLang #17404: capture writes a state row that requests are given later",
            "vLLM #38719: dummy runs write cache slot 0",
        ),
    ),
    Mutant(
        "generator not restored",
        "warm-up and capture draw random numbers, and the generator stays ahead",
        Rules(restores=False),
        ("I20", "I22", "I15"),
        ("draw",),
        checks=("steps", "traces"),
    ),
    Mutant(
        "failed capture keeps its memory",
        "blocks of a capture that broke off stay taken, and what it made stays in use",
        Rules(undoes_failure=False),
        ("I20",),
        ("gemm", "constant"),
        ops=2,
        checks=("captures",),
        reports=("AiDotNet.Tensors #581: seen in review, a capture that throws leaves its state",),
    ),
    Mutant(
        "workspace grown by a later capture",
        "a tensor made once is made anew for a larger bucket, and earlier graphs read the old one",
        Rules(remakes_constants=True),
        ("I2", "I18"),
        ("constant",),
        reports=(
            "vLLM #55341: kernels warmed up after capture grow what graphs point into",
            "FlashInfer #4398: a workspace grows, and graphs captured before replay freed memory",
            "vLLM #46067: scratch of graphs captured first dangles when later ones grow it",
        ),
    ),
    Mutant(
        "bound of whoever came first",
        "attention is launched for the longest request of the batch that was captured",
        Rules(bound=lambda _layout, step: step.longest),
        ("I17",),
        ("scatter", "attend"),
        ops=2,
        reports=("xformers #968: graphs are wrong for longer sequences than at capture",),
    ),
    Mutant(
        "nested break recorded",
        "a break called inside a break ends a segment of its own, and runs twice",
        Rules(nests=False),
        ("I13",),
        ("gemm",),
        ops=2,
        breaks=2,
        nested=True,
    ),
)
