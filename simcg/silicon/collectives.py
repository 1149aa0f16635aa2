"""All-reduces inside a graph, and what issuing one eagerly costs the host more."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simcg.hardware.profile import Curve, CurveKey
from simcg.silicon.order import ordered, roughness
from simcg.silicon.source import Table

VALUE_BYTES = 2
"""Sizes of messages count 16-bit values: at half as many bytes each, the same counts take half as
long, and the largest reach the rate of the links."""
SMALL = 65_536
"""Values of a message that the GPU finishes before the host has issued the next one."""
ONE_HOST = 4
"""Ranks that share a host in every system of the tables."""


@dataclass(frozen=True)
class Fabric:
    """NVLink from host to host. ``host``: ranks of one; ``table``: of kernels that span hosts.

    A framework's own kernel maps memory of one host; beyond it SGLang 0.5.14 and vLLM 0.27 were
    timed with NCCL's ring, 27 us a small message on 8 GPUs of two GB300 hosts, where TensorRT-LLM's
    kernel takes 4.3. Both have that kernel by FlashInfer since (SGLang pull request 30700).
    ``source`` says where the table is from.
    """

    host: int
    table: Table
    source: str


def all_reduces(
    own: Table, nccl: Table | None, source: str, fabric: Fabric | None = None
) -> tuple[list[Curve], int]:
    """One curve for each number of ranks: the framework's kernel or NCCL's, the faster one.

    Across hosts of one ``fabric`` its kernel competes too. Also how many sizes were out of order.
    """
    graph = _in_graph(own)
    if nccl is not None:
        nccl = nccl.where(op_name="all_reduce", nccl_dtype="half")
    out, disordered = [], 0
    for ranks in np.unique(graph.rows["num_gpus"]).tolist():
        spanning = fabric if fabric is not None and ranks > fabric.host else None
        times: dict[int, float] = {}
        for table in (graph, nccl, None if spanning is None else spanning.table):
            if table is None:
                continue
            mine = table.where(num_gpus=ranks).rows
            for size, ms in zip(mine["message_size"], mine["latency"], strict=True):
                times[int(size)] = min(times.get(int(size), np.inf), float(ms) * 1e6)
        sizes = sorted(times)
        ns, late = ordered(np.array([times[size] for size in sizes]))
        disordered += late
        out.append(
            Curve(
                key=CurveKey("all_reduce", ranks=ranks),
                x=tuple(float(VALUE_BYTES * size) for size in sizes),
                ns=tuple(np.rint(ns).tolist()),
                spread_ns=(),
                provenance="measured",
                source=source if spanning is None else f"{source}, or {spanning.source}",
                sigma=roughness(ns),
            )
        )
    return out, disordered


def dispatch_ns(table: Table) -> float | None:
    """Median of eager less graph over small messages on one host; None if not timed both ways."""
    if "backend" not in table.rows:
        return None
    rows = table.rows
    small = (rows["message_size"] <= SMALL) & (rows["num_gpus"] <= ONE_HOST)
    ms: dict[tuple[int, int], dict[bool, float]] = {}
    columns = (rows[name][small] for name in ("num_gpus", "message_size", "backend", "latency"))
    for ranks, size, backend, latency in zip(*columns, strict=True):
        ms.setdefault((int(ranks), int(size)), {})[backend.endswith("eager")] = float(latency)
    more = [both[True] - both[False] for both in ms.values() if len(both) == 2]
    return float(np.median(more)) * 1e6 if more else None


def _in_graph(table: Table) -> Table:
    if "backend" not in table.rows:
        return table
    return table.kept(np.array([str(b).endswith("graph") for b in table.rows["backend"]]))
