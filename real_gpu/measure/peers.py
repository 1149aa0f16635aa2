"""The breakable backend beside its peers: one program with breaks, replayed by each in turn."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from real_gpu.backends.breakable import breakable
from real_gpu.backends.breaks import eager_on_graph
from real_gpu.graphs.device import GraphDevice
from real_gpu.graphs.pool import CudaPool
from real_gpu.measure.runner import Emit
from simcg.ladder import Bucket
from simcg.runs.schema import PeerCell

BREAKS = 36
ROWS, WIDTH = 16, 256
WARM_UPS = 2


@dataclass(frozen=True, slots=True)
class Program:
    """Small products with an eager op after each of the first ``BREAKS`` segments."""

    x: torch.Tensor
    weights: list[torch.Tensor]
    kept: torch.Tensor
    out: torch.Tensor

    @staticmethod
    def on(device: torch.device, dtype: torch.dtype) -> Program:
        """Random weights; ``kept`` is where an out-parameter break writes."""
        torch.manual_seed(0)

        def rows() -> torch.Tensor:
            return torch.zeros(ROWS, WIDTH, device=device, dtype=dtype)

        def weight() -> torch.Tensor:
            return torch.randn(WIDTH, WIDTH, device=device, dtype=dtype) / WIDTH**0.5

        return Program(
            torch.randn(ROWS, WIDTH, device=device, dtype=dtype),
            [weight() for _ in range(BREAKS + 1)], rows(), rows(),
        )  # fmt: skip

    def segment(self, x: torch.Tensor, index: int) -> torch.Tensor:
        """Captured: a product and two small ops."""
        return torch.mm(x, self.weights[index]).relu_().add_(1.0)


@dataclass(frozen=True, slots=True)
class _Ready:
    """A captured program."""

    replay: Callable[[], object]
    capture_ns: int
    pool: int


def measure_peers(device: GraphDevice, replays: int, emit: Emit) -> None:
    """Out-parameters by every contender, then returned tensors by ours, ``replays`` times."""
    dtype = torch.bfloat16 if device.device.type == "cuda" else torch.float32
    program = Program.on(device.device, dtype)
    contenders = {
        "breakable": _ours(device, lambda: _with_out_parameters(program, eager_on_graph(_into))),
        "bare loop": _bare_loop(device, program),
    }
    package = _package(program) if device.device.type == "cuda" else None
    if package is not None:
        contenders["breakable-cuda-graphs"] = package
    _alternate(device, program, "out-parameters", contenders, replays, emit)
    returned = {"breakable": _ours(device, lambda: _with_returns(program, eager_on_graph(_new)))}
    _alternate(device, program, "returned tensors", returned, replays, emit)


def _into(y: torch.Tensor, kept: torch.Tensor) -> None:
    """The break: an eager op that writes an out-parameter."""
    torch.add(y, 1.0, out=kept)


def _new(y: torch.Tensor) -> torch.Tensor:
    """The break that returns a tensor."""
    return torch.add(y, 1.0)


def _with_out_parameters(
    program: Program, step: Callable[[torch.Tensor, torch.Tensor], object]
) -> torch.Tensor:
    x = program.x
    for index in range(BREAKS):
        step(program.segment(x, index), program.kept)
        x = program.kept
    program.out.copy_(program.segment(x, BREAKS))
    return program.out


def _with_returns(program: Program, step: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    x = program.x
    for index in range(BREAKS):
        x = step(program.segment(x, index))
    program.out.copy_(program.segment(x, BREAKS))
    return program.out


def _ours(device: GraphDevice, forward: Callable[[], torch.Tensor]) -> _Ready:
    backend, key = breakable(device), Bucket(ROWS)
    figures = backend.capture_one(key, forward)
    return _Ready(lambda: backend.replay(key), figures.capture_ns, figures.pool_bytes)


def _bare_loop(device: GraphDevice, program: Program) -> _Ready:
    """Launches and eager calls by hand: the least that any breakable replay must do."""
    for _ in range(WARM_UPS):
        _with_out_parameters(program, _into)
    device.synchronize()
    pool, x = device.new_pool(), program.x
    begin = time.perf_counter_ns()
    held, graphs = [], []
    for index in range(BREAKS + 1):
        device.begin(pool)
        y = program.segment(x, index)
        if index == BREAKS:
            program.out.copy_(y)
        graphs.append(device.end())
        held.append(device.alias(y))
        del y  # the next segment may use its memory again, as the breakable backend's does
        x = program.kept
    capture_ns = time.perf_counter_ns() - begin
    kept = program.kept
    last = graphs.pop()
    pairs = [(graph.replay, y) for graph, y in zip(graphs, held, strict=False)]

    def replay() -> None:
        for launch, y in pairs:
            launch()
            torch.add(y, 1.0, out=kept)
        last.replay()

    return _Ready(replay, capture_ns, device.pool_bytes(pool))


def _package(program: Program) -> _Ready | None:
    """The public package, if it is installed."""
    try:
        package: Any = importlib.import_module("breakable_cuda_graphs")
    except ImportError:
        return None
    step = package.no_graph(_into)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(WARM_UPS):
            _with_out_parameters(program, _into)
    torch.cuda.synchronize()
    pool = CudaPool(torch.cuda.graph_pool_handle(), torch.cuda.current_device())
    graph = package.BreakableCUDAGraph(pool.handle)
    begin = time.perf_counter_ns()
    with package.breakable_graph(graph, stream=stream):
        _with_out_parameters(program, step)
    capture_ns = time.perf_counter_ns() - begin
    return _Ready(graph.replay, capture_ns, pool.reserved())


def _alternate(
    device: GraphDevice,
    program: Program,
    name: str,
    contenders: dict[str, _Ready],
    replays: int,
    emit: Emit,
) -> None:
    """Each replays once in every round, in an order that rotates; its bits are held to eager's."""
    truth = _with_out_parameters(program, _into).clone()
    times: dict[str, list[int]] = {contender: [] for contender in contenders}
    equal = dict.fromkeys(contenders, True)
    order = list(contenders)
    for number in range(-WARM_UPS, replays):
        for contender in order[number % len(order) :] + order[: number % len(order)]:
            program.out.fill_(float("nan"))
            device.synchronize()
            begin = time.perf_counter_ns()
            contenders[contender].replay()
            device.synchronize()
            if number >= 0:
                times[contender].append(time.perf_counter_ns() - begin)
            equal[contender] &= bool(torch.equal(program.out, truth))
    for contender, ready in contenders.items():
        ns = tuple(times[contender])
        emit(PeerCell(name, contender, ns, ready.capture_ns, ready.pool, equal[contender]))
