"""Traces of allocations, a plain allocator that plays them, and laws that a module keeps."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from simcg.backend import BREAKABLE, FULL, backend_named
from simcg.des.memory.check import violations
from simcg.des.memory.play import Played, play
from simcg.des.memory.trace import GRAPHS, Event, Phase, Trace
from simcg.model.lean import lean_pass
from simcg.model.ops import Elementwise, ForwardPass, Op, Tensor
from simcg.runs.read import join, read_runs
from simcg.runs.schema import MemoryCell
from tests.allocator import KIB, MIB, Allocator, Block

RUNS = Path(__file__).parents[1] / "benchmarks" / "runs"
SIZES = (1, 511, 512, 513, 40 * KIB, MIB - 512, MIB, MIB + 1, 2 * MIB, 3 * MIB + 512, 9 * MIB,
         10 * MIB - 512, 10 * MIB, 11 * MIB + 1, 19 * MIB, 20 * MIB, 33 * MIB)  # fmt: skip
"""Bytes on both sides of every limit of the allocator."""


def random_trace(seed: int, events: int = 300) -> Trace:
    """Allocations and frees in three pools and two streams, and now and then a release."""
    rng = random.Random(seed)
    out: list[Event] = []
    alive: list[int] = []
    tensors = 0
    for _ in range(events):
        if rng.random() < 0.02:
            out.append(Event("release_cached"))
        elif alive and rng.random() < 0.45:
            out.append(Event("free", alive.pop(rng.randrange(len(alive)))))
        else:
            size = rng.choice(SIZES) + rng.choice((0, 0, 0, 700, 300 * KIB))
            out.append(Event("allocate", tensors, size, rng.randrange(3), rng.randrange(2)))
            alive.append(tensors)
            tensors += 1
    return trace_of(out)


def trace_of(events: list[Event]) -> Trace:
    """A trace of one phase."""
    return Trace(tuple(events), (Phase("capture", 1, 0, len(events)),))


Places = list[tuple[tuple[int, int], int, int, int]]
"""Of each tensor: (pool, stream), number of the segment there, offset in it, its block's bytes."""


def plain_places(trace: Trace) -> tuple[Places, dict[tuple[int, int], int]]:
    """Where one plain allocator a pool and stream puts every tensor, and what each reserves."""
    rooms: dict[tuple[int, int], Allocator] = {}
    blocks: list[tuple[tuple[int, int], Block]] = []
    places: Places = []
    for event in trace.events:
        key = (event.pool, event.stream)
        if event.kind == "allocate":
            block = rooms.setdefault(key, Allocator()).take(event.nbytes)
            blocks.append((key, block))
            places.append((key, block.segment, block.offset, block.size))
        elif event.kind == "free":
            key, block = blocks[event.tensor]
            rooms[key].give(block)
        else:
            for (pool, _), room in rooms.items():
                if pool < GRAPHS:
                    room.trim()
    return places, {key: room.reserved for key, room in rooms.items()}


def places_of(played: Played) -> tuple[Places, dict[tuple[int, int], int]]:
    """The same of a played trace."""
    number: dict[int, int] = {}
    counted: dict[tuple[int, int], int] = {}
    reserved: dict[tuple[int, int], int] = {}
    lives = sorted(played.segments, key=lambda life: life.first)
    for life in lives:
        key = (life.segment.pool, life.segment.stream)
        number[life.segment.address] = counted.get(key, 0)
        counted[key] = counted.get(key, 0) + 1
        if life.last is None:
            reserved[key] = reserved.get(key, 0) + life.segment.nbytes
        else:
            reserved.setdefault(key, 0)
    places: Places = []
    for placed in played.placements:
        life = next(
            x for x in lives
            if x.segment.address <= placed.address < x.segment.address + x.segment.nbytes
        )  # fmt: skip
        key = (life.segment.pool, life.segment.stream)
        address = life.segment.address
        places.append((key, number[address], placed.address - address, placed.nbytes))
    return places, reserved


def allocations_agree(module: ModuleType) -> bool:
    """It breaks no rule, puts every tensor where the plain one does, and says when it is full."""
    for seed in range(12):
        trace = random_trace(seed)
        played = play(trace, module.Allocator())
        if next(violations(trace, played), None) or places_of(played) != plain_places(trace):
            return False
    return _says_when_full(module) and _refuses_a_second_free(module)


def _says_when_full(module: ModuleType) -> bool:
    """A segment that does not fit is refused with figures, but for what can be given back first."""
    memory = module.Allocator(40 * MIB)
    cached = memory.allocate(20 * MIB)
    memory.allocate(12 * MIB, GRAPHS)
    memory.release(cached)
    try:
        memory.allocate(28 * MIB, GRAPHS)
    except module.OutOfMemoryError as error:
        if error.free != 8 * MIB:
            return False
    else:
        return False
    memory.allocate(28 * MIB)  # outside a recording the cached 20 MiB go first
    try:
        memory.allocate(3 * MIB, GRAPHS)
    except module.OutOfMemoryError as error:
        return (error.asked, error.free, error.total) == (20 * MIB, 0, 40 * MIB)
    return False


def _refuses_a_second_free(module: ModuleType) -> bool:
    memory = module.Allocator()
    address = memory.allocate(1)
    memory.release(address)
    try:
        memory.release(address)
    except ValueError:
        return True
    return False


HIDDEN, QUERIES, KEYS, WIDE = 4096, 4096, 1024, 12288
"""Qwen3-8B."""


def unfused_decoder() -> ForwardPass:
    """A decoder of plain torch ops, one function a layer, whose locals live until it returns.

    Queries and keys are rotated out of place, values are a view of the fused product, the
    residual is a new tensor each time: at 8,192 tokens that is a peak of 1,136 MiB, as measured.
    """
    head = Op("embedding", "embedding", Elementwise(1, 1), 1, (),
              (Tensor("x", 2 * HIDDEN), Tensor("hidden", 2 * HIDDEN)))  # fmt: skip
    return ForwardPass("unfused", (head,), (tuple(_unfused_layer()),) * 36, ())


def _unfused_layer() -> Iterator[Op]:
    held: tuple[str, ...] = ()
    for name, reads, written in (
        ("norm", ("x",), ("h", 2 * HIDDEN)),
        ("qkv_product", ("h",), ("qkv", 2 * (QUERIES + 2 * KEYS))),
        ("rotate_q", ("qkv",), ("q", 2 * QUERIES)),
        ("rotate_k", ("qkv",), ("k", 2 * KEYS)),
        ("empty", (), ("out", 2 * QUERIES)),
        ("attention", ("q", "k", "qkv", "out"), None),
        ("o", ("out",), ("y", 2 * HIDDEN)),
        ("add", ("x", "y"), ("x", 2 * HIDDEN)),
        ("norm", ("x",), ("h", 2 * HIDDEN)),
        ("gate_up", ("h",), ("wide", 4 * WIDE)),
        ("silu", ("wide",), ("silu", 2 * WIDE)),
        ("mul", ("silu", "wide"), ("product", 2 * WIDE)),
        ("down", ("product",), ("y", 2 * HIDDEN)),
        ("add", ("x", "y"), ("x", 2 * HIDDEN)),
    ):
        writes = () if written is None else (Tensor(*written),)
        yield Op(
            name, "elementwise", Elementwise(1, 1), 1, reads, writes,
            is_break=name == "attention", holds=tuple(n for n in held if n not in reads),
        )  # fmt: skip
        if written is not None and written[0] in ("h", "qkv", "q", "k", "out"):
            held = (*held, written[0])


def traces_agree(module: ModuleType) -> bool:
    """Its traces reserve the pools that were measured, and what plans say of by hand."""
    return _measured_pools(module) and _plans(module) and _phases(module)


def _measured_pools(module: ModuleType) -> bool:
    """Of an H200: a mixture of experts captured whole and with breaks."""
    runs = read_runs(RUNS / "h200-moe.jsonl")
    for cell in join([runs], MemoryCell):
        forward, backend = lean_pass(runs.header.models[cell.model]), backend_named(cell.backend)
        requests = max(1, cell.slots)
        trace = module.capture_trace(forward, backend, cell.buckets, requests, module.SEEDED)
        if int(play(trace).graphs.reserved[-1]) != cell.pool:
            return False
    return True


def _plans(module: ModuleType) -> bool:
    """By hand: two layers of a product, a break with scratch of its own and a product; a norm."""
    layer = (
        _op("qkv", ("hidden",), ("qkv", 3 * KIB)),
        _op("attention", ("qkv",), ("out", KIB), ("scratch", 5 * KIB), is_break=True),
        _op("product", ("out",), ("hidden", KIB)),
    )
    norm = _op("norm", ("hidden",), ("hidden", 2 * KIB))
    head = (_op("embedding", (), ("hidden", KIB)),)
    forward = ForwardPass("tiny", head, (layer, layer), (norm,))

    def kept(rows: tuple[int, ...], **plan: object) -> tuple[int, int, int]:
        """The most and the last in the pool, and what is left outside."""
        trace = module.capture_trace(forward, BREAKABLE, rows, 1, module.CapturePlan(**plan))
        played = play(trace)
        graphs = played.graphs.allocated
        outside = int(played.everything.allocated[-1] - graphs[-1])
        return int(graphs.max()), int(graphs[-1]), outside

    rows, inputs, output = (512, 256), 3 * 512 * 8, 512 * KIB
    return (
        kept(rows) == (512 * 4 * KIB, 0, output + inputs)
        and kept(rows, holding="strong")[1:] == (768 * 2 * 4 * KIB, output + inputs)
        and kept(rows, outputs="own")[1:] == (768 * 2 * KIB, inputs)
        and kept(rows, seeded=True)[1:] == (0, output + inputs)
    )


def _phases(module: ModuleType) -> bool:
    """Buckets in the plan's order, each on its stream; warm-ups and scratch outside the pool."""
    forward = ForwardPass("tiny", (_op("embedding", (), ("hidden", KIB)),), (), ())
    plan = module.CapturePlan(order="smallest first", streams=2)
    trace = module.capture_trace(forward, FULL, (8, 4, 6), 1, plan)
    phases = [(phase.name, phase.tokens) for phase in trace.phases]
    made = [
        (event.nbytes, event.pool, event.stream)
        for event in trace.events
        if event.kind == "allocate"
    ][4:]
    return phases == [
        ("inputs", 8),
        *((name, size) for size in (4, 6, 8) for name in ("warm-up", "capture")),
    ] and made == [
        (size * KIB, pool, 1 + number % 2)
        for number, size in enumerate((4, 6, 8))
        for pool in (0, 0, GRAPHS)
    ]


def _op(name: str, reads: tuple[str, ...], *writes: tuple[str, int], is_break: bool = False) -> Op:
    tensors = tuple(Tensor(*written) for written in writes)
    return Op(name, "elementwise", Elementwise(1, 1), 1, reads, tensors, is_break=is_break)
