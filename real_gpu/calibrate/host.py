"""Host costs and graph costs: dispatch, launch, replay, breaks, pieces, capture, exec memory."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812  # torch's own name for it

from real_gpu.calibrate import fused
from real_gpu.calibrate.kernels import BF16, DEVICE, flash
from real_gpu.calibrate.timing import capture, events_ns, host_ns, robust

Figure = tuple[float, float]


def _tiny() -> tuple[torch.Tensor, Callable[[], object]]:
    x = torch.zeros(64, device=DEVICE)
    return x, lambda: x.add_(1)


def dispatch() -> dict[str, Figure]:
    """Host time per kernel of each kind of op, issued eagerly through torch, in ns."""
    hidden, rows = 512, 4
    linear = torch.nn.Linear(hidden, hidden, bias=False, device=DEVICE, dtype=BF16)
    x = torch.randn(rows, hidden, device=DEVICE, dtype=BF16)
    residual, out = torch.zeros_like(x), torch.empty_like(x)
    weight = torch.ones(hidden, device=DEVICE, dtype=BF16)
    gated = torch.empty(rows, hidden // 2, device=DEVICE, dtype=BF16)
    logits = torch.randn(rows, 32, device=DEVICE)
    experts = torch.randn(8, hidden, hidden, device=DEVICE, dtype=BF16)
    ends = torch.tensor([1, 1, 2, 2, 3, 3, 4, 4], device=DEVICE, dtype=torch.int32)
    cos = torch.ones(rows, 32, device=DEVICE)
    slots = torch.arange(rows, device=DEVICE)
    cache = torch.zeros(64, hidden, device=DEVICE, dtype=BF16)
    q = torch.randn(rows, 8, 64, device=DEVICE, dtype=BF16)
    ends_q = torch.tensor([0, rows], device=DEVICE, dtype=torch.int32)
    table = torch.randn(1000, hidden, device=DEVICE, dtype=BF16)
    bodies: dict[str, tuple[Callable[[], object], int]] = {
        "gemm": (lambda: linear(x), 1),
        "norm": (lambda: fused.add_norm(x, residual, weight, out), 1),
        "torch_norm": (lambda: F.rms_norm(x, (hidden,), weight), 1),
        "activation": (lambda: fused.silu_mul(x, gated), 1),
        "rotary": (lambda: fused.rotary(x, cos, cos, 8), 1),
        "kv_write": (lambda: cache.index_copy_(0, slots, x), 1),
        "attention": (lambda: flash(q, q, q, ends_q, ends_q, rows, rows), 1),
        "router": (lambda: torch.topk(torch.softmax(logits, -1), 4), 2),
        "moe_sort": (lambda: torch.sort(slots), 1),
        "grouped_gemm": (
            lambda: torch._grouped_mm(x, experts, offs=ends, out_dtype=BF16),
            1,
        ),
        "moe_combine": (lambda: out.index_add_(0, slots, x), 1),
        "elementwise": (lambda: torch.mul(x, x, out=out), 1),
        "embedding": (lambda: F.embedding(slots, table), 1),
    }
    with torch.inference_mode():
        return {
            kind: tuple(v / kernels for v in host_ns(body, 200))  # type: ignore[misc]
            for kind, (body, kernels) in bodies.items()
        }


def replay(nodes: list[int]) -> list[tuple[int, Figure, float]]:
    """Host time of one replay and GPU time of the graph, for chains of tiny dependent nodes."""
    _, call = _tiny()
    out = []
    for count in nodes:
        graph = capture([call] * count)
        host = host_ns(graph.replay, 4 if count > 1000 else 50)
        out.append((count, host, statistics.median(events_ns(graph.replay))))
        del graph
    return out


def launch_latency() -> Figure:
    """From the end of an eager launch call to the end of its tiny kernel, seen by a sync, ns."""
    _, call = _tiny()
    samples = []
    for _ in range(200):
        torch.cuda.synchronize()
        call()
        issued = time.perf_counter_ns()
        torch.cuda.synchronize()
        samples.append(float(time.perf_counter_ns() - issued))
    return robust(samples)


def gaps() -> dict[str, Figure]:
    """GPU time that a stream adds per kernel, and a graph per start, over nodes in one graph."""
    x = torch.zeros(8 << 20, device=DEVICE)

    def call() -> object:
        return x.add_(1)

    count = 200
    one = capture([call] * count)
    small = capture([call] * 10)
    in_graph = robust([t / count for t in events_ns(one.replay, 9, behind_sleep=True)])
    eager = robust([t / count for t in events_ns(lambda: [call() for _ in range(count)], 9, True)])
    many = robust([t / 20 for t in events_ns(lambda: [small.replay() for _ in range(20)], 9, True)])
    mixed = robust(
        [t / 20 for t in events_ns(lambda: [(small.replay(), call()) for _ in range(20)], 9, True)]
    )
    stream = max(0.0, eager[0] - in_graph[0])
    return {
        "stream_gap": (stream, eager[1] + in_graph[1]),
        "graph_start": (max(0.0, many[0] - 10 * in_graph[0]), many[1] + 10 * in_graph[1]),
        "break_gap": (
            max(0.0, mixed[0] - 11 * in_graph[0] - stream),
            mixed[1] + 11 * in_graph[1],
        ),
    }


def break_body() -> dict[str, Figure]:
    """Host time that one break adds to a chain of replayed segments, and that of its parts."""
    _, call = _tiny()
    segment = capture([call] * 12)
    q = torch.randn(64, 8, 64, device=DEVICE, dtype=BF16)
    kept = torch.empty_like(q)
    ends = torch.tensor([0, 64], device=DEVICE, dtype=torch.int32)

    def step() -> None:
        segment.replay()
        kept.copy_(flash(q, q, q, ends, ends, 64, 64)[0])

    both, alone = host_ns(step, 36), host_ns(segment.replay, 36)
    return {"break": (both[0] - alone[0], both[1] + alone[1]), "segment": alone}


def piece() -> Figure:
    """Host time that entering a compiled callable adds: guard check and dispatch, in ns."""
    x, _ = _tiny()

    def body(y: torch.Tensor) -> torch.Tensor:
        return y.add_(1)

    compiled = torch.compile(body, backend="eager", fullgraph=True)
    with_guards, raw = host_ns(lambda: compiled(x), 200), host_ns(lambda: body(x), 200)
    return with_guards[0] - raw[0], with_guards[1] + raw[1]


def capture_costs() -> dict[str, object]:
    """Capture and instantiate time per node, memory of the first graph and of later execs."""
    _, call = _tiny()
    call()
    torch.cuda.synchronize()
    free = torch.cuda.mem_get_info()[0]
    first = capture([call])
    first.replay()
    torch.cuda.synchronize()
    context = free - torch.cuda.mem_get_info()[0]
    rows = []
    for nodes in (1024, 4096, 16384):
        free = torch.cuda.mem_get_info()[0]
        graph = torch.cuda.CUDAGraph(keep_graph=True)
        begin = time.perf_counter_ns()
        with torch.cuda.graph(graph):
            for _ in range(nodes):
                call()
        captured = time.perf_counter_ns()
        graph.instantiate()
        made = time.perf_counter_ns()
        graph.replay()
        torch.cuda.synchronize()
        ran = time.perf_counter_ns()
        rows.append(
            {
                "nodes": nodes,
                "capture_ns": captured - begin,
                "instantiate_ns": made - captured,
                "first_launch_ns": ran - made,
                "exec_bytes": free - torch.cuda.mem_get_info()[0],
            }
        )
        del graph
    return {"first_graph_bytes": context, "chains": rows}
