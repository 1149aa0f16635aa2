"""Whole forwards of a dense decoder, timed under three backends: the check on the op curves.

Qwen3-8B sizes, random weights, one request without cached context. The ops are those of an
engine's forward: fused QKV and gate-up GEMMs, fused add-norm, head norm, rotary, SiLU-mul.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from real_gpu.calibrate import fused
from real_gpu.calibrate.kernels import BF16, DEVICE, flash
from real_gpu.calibrate.timing import robust

HIDDEN, HEADS, KV_HEADS, DIM, INTER, LAYERS, VOCAB = 4096, 32, 8, 128, 12288, 36, 151936
QKV = (HEADS + 2 * KV_HEADS) * DIM
Issued = tuple[str, Callable[[], object]]
"""An op's kind and the call that issues it."""


@dataclass(frozen=True)
class Weights:
    """Random weights of every layer, the embedding and the head."""

    layers: list[dict[str, torch.Tensor]]
    embedding: torch.Tensor
    head: torch.Tensor

    @staticmethod
    def random() -> Weights:
        """Scaled so that activations neither vanish nor overflow."""

        def matrix(n: int, k: int) -> torch.Tensor:
            return torch.randn(n, k, device=DEVICE, dtype=BF16) / k**0.5

        layers = [
            {
                "qkv": matrix(QKV, HIDDEN), "o": matrix(HIDDEN, HEADS * DIM),
                "gate_up": matrix(2 * INTER, HIDDEN), "down": matrix(HIDDEN, INTER),
                "norm": torch.ones(HIDDEN, device=DEVICE, dtype=BF16),
                "head_norm": torch.ones(DIM, device=DEVICE, dtype=BF16),
            }
            for _ in range(LAYERS)
        ]  # fmt: skip
        return Weights(layers, matrix(VOCAB, HIDDEN), matrix(VOCAB, HIDDEN))


class Forward:
    """One forward of ``rows`` tokens over buffers at fixed addresses."""

    def __init__(self, weights: Weights, rows: int) -> None:
        def buffer(*shape: int) -> torch.Tensor:
            return torch.empty(*shape, device=DEVICE, dtype=BF16)

        self.w, self.rows = weights, rows
        self.ids = torch.randint(0, VOCAB, (rows,), device=DEVICE)
        self.x, self.residual, self.normed = (buffer(rows, HIDDEN) for _ in range(3))
        self.qkv, self.attended = buffer(rows, QKV), buffer(rows, HEADS, DIM)
        self.gate_up, self.act = buffer(rows, 2 * INTER), buffer(rows, INTER)
        self.logits = buffer(1, VOCAB)
        self.cos = torch.rand(rows, DIM // 2, device=DEVICE)
        self.slots = torch.arange(rows, device=DEVICE)
        self.cache = buffer(rows, 2 * KV_HEADS * DIM)
        self.ends = torch.tensor([0, rows], device=DEVICE, dtype=torch.int32)

    def before(self, w: dict[str, torch.Tensor]) -> list[Issued]:
        """The ops of a layer before its attention."""
        heads = HEADS + KV_HEADS
        return [
            ("norm", lambda: fused.add_norm(self.x, self.residual, w["norm"], self.normed)),
            ("gemm", lambda: torch.mm(self.normed, w["qkv"].t(), out=self.qkv)),
            ("norm", lambda: fused.head_norm(self.qkv, w["head_norm"], heads)),
            ("rotary", lambda: fused.rotary(self.qkv, self.cos, self.cos, heads)),
            ("kv_write", lambda: fused.write_rows(self.qkv, self.slots, self.cache)),
        ]

    def attend(self) -> None:
        """The attention of a layer and the copy of its result to a fixed address: the break."""
        heads = self.qkv.view(self.rows, HEADS + 2 * KV_HEADS, DIM)
        q, k, v = heads.split([HEADS, KV_HEADS, KV_HEADS], dim=1)
        ends, rows = self.ends, self.rows
        self.attended.copy_(flash(q, k, v, ends, ends, rows, rows)[0])

    def after(self, w: dict[str, torch.Tensor]) -> list[Issued]:
        """The ops of a layer after its attention."""
        attended = self.attended.view(self.rows, HEADS * DIM)
        return [
            ("gemm", lambda: torch.mm(attended, w["o"].t(), out=self.x)),
            ("norm", lambda: fused.add_norm(self.x, self.residual, w["norm"], self.normed)),
            ("gemm", lambda: torch.mm(self.normed, w["gate_up"].t(), out=self.gate_up)),
            ("activation", lambda: fused.silu_mul(self.gate_up, self.act)),
            ("gemm", lambda: torch.mm(self.act, w["down"].t(), out=self.x)),
        ]

    def head(self) -> list[Issued]:
        """Embedding."""
        return [
            ("embedding", lambda: torch.index_select(self.w.embedding, 0, self.ids, out=self.x)),
            ("elementwise", self.residual.zero_),
        ]

    def tail(self) -> list[Issued]:
        """Final norm and the logits of the last row."""
        norm = self.w.layers[0]["norm"]
        return [
            ("norm", lambda: fused.add_norm(self.x, self.residual, norm, self.normed)),
            ("gemm", lambda: torch.mm(self.normed[-1:], self.w.head.t(), out=self.logits)),
        ]

    def ops(self) -> list[Issued]:
        """The whole forward in order."""
        body = [
            op
            for w in self.w.layers
            for op in (*self.before(w), ("break", self.attend), *self.after(w))
        ]
        return [*self.head(), *body, *self.tail()]

    def segments(self) -> list[list[Issued]]:
        """The ops between attentions, in order."""
        out: list[list[Issued]] = [[]]
        for kind, call in self.ops():
            if kind == "break":
                out.append([])
            else:
                out[-1].append((kind, call))
        return out


def _run(ops: list[Issued]) -> None:
    for _, call in ops:
        call()


def host_by_kind(forward: Forward, samples: int = 15) -> dict[str, tuple[float, float]]:
    """Host time of each kind of op where it stands in an eager forward: (median, spread), ns."""
    ops = forward.ops()
    times: dict[str, list[float]] = {}
    for sample in range(samples + 2):
        torch.cuda.synchronize()
        for kind, call in ops:
            begin = time.perf_counter_ns()
            call()
            if sample >= 2:
                times.setdefault(kind, []).append(float(time.perf_counter_ns() - begin))
    torch.cuda.synchronize()
    return {kind: robust(values) for kind, values in times.items()}


def _captured(ops: list[Issued], pool: object) -> torch.cuda.CUDAGraph:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        _run(ops)
    return graph


def _step_ns(step: Callable[[], None], samples: int) -> dict[str, float]:
    """Wall time from an idle start to the end of the last kernel, and the host's part of it."""
    wall, host = [], []
    for _ in range(samples + 2):
        torch.cuda.synchronize()
        begin = time.perf_counter_ns()
        step()
        issued = time.perf_counter_ns()
        torch.cuda.synchronize()
        wall.append(float(time.perf_counter_ns() - begin))
        host.append(float(issued - begin))
    median, spread = robust(wall[2:])
    return {"step_ns": median, "spread_ns": spread, "host_ns": statistics.median(host[2:])}


def _captures(forward: Forward) -> dict[str, tuple[Callable[[], None], float, int]]:
    """Each backend's step, its capture time in ns and the device bytes that its graphs took."""
    out: dict[str, tuple[Callable[[], None], float, int]] = {}
    ops, segments = forward.ops(), forward.segments()
    out["eager"] = (lambda: _run(ops), 0.0, 0)
    free, begin = torch.cuda.mem_get_info()[0], time.perf_counter_ns()
    full = _captured(ops, None)
    full.replay()
    torch.cuda.synchronize()
    out["full"] = (
        full.replay, time.perf_counter_ns() - begin, free - torch.cuda.mem_get_info()[0]
    )  # fmt: skip
    free, begin = torch.cuda.mem_get_info()[0], time.perf_counter_ns()
    pool = torch.cuda.graph_pool_handle()
    graphs = [_captured(segment, pool) for segment in segments]

    def breakable() -> None:
        graphs[0].replay()
        for graph in graphs[1:]:
            forward.attend()
            graph.replay()

    breakable()
    torch.cuda.synchronize()
    took = free - torch.cuda.mem_get_info()[0]
    out["breakable"] = (breakable, time.perf_counter_ns() - begin, took)
    return out


def run_forwards(sizes: list[int]) -> dict[str, object]:
    """Step times of each backend at each size; outputs of replays are checked against eager."""
    weights = Weights.random()
    rows: list[dict[str, object]] = []
    hosts: dict[str, object] = {}
    with torch.inference_mode():
        for n in sizes:
            forward = Forward(weights, n)
            for _ in range(2):
                _run(forward.ops())
            torch.cuda.synchronize()
            truth = forward.logits.clone()
            if n <= 128:
                hosts[str(n)] = host_by_kind(forward)
            for name, (step, capture_ns, graph_bytes) in _captures(forward).items():
                forward.logits.fill_(float("nan"))
                timed = _step_ns(step, 25 if n <= 1024 else 9)
                equal = bool(torch.equal(forward.logits, truth))
                rows.append(
                    {
                        "tokens": n, "backend": name, **timed, "bit_equal": equal,
                        "capture_ns": capture_ns, "graph_bytes": graph_bytes,
                    }
                )  # fmt: skip
            del forward
    return {"steps": rows, "host_by_kind": hosts}
