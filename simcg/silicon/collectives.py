"""All-reduces inside a graph, and what issuing one eagerly costs the host more."""

from __future__ import annotations

import numpy as np

from simcg.hardware.profile import Curve, CurveKey
from simcg.silicon.order import roughness
from simcg.silicon.source import Table

VALUE_BYTES = 2
"""Sizes of messages count 16-bit values: at half as many bytes each, the same counts take half as
long, and the largest reach the rate of the links."""
SMALL = 65_536
"""Values of a message that the GPU finishes before the host has issued the next one."""
ONE_HOST = 4
"""Ranks that share a host in every system of the tables."""


def all_reduces(own: Table, nccl: Table | None, source: str) -> list[Curve]:
    """One curve for each number of ranks: the framework's kernel or NCCL's, the faster one."""
    graph = _in_graph(own)
    if nccl is not None:
        nccl = nccl.where(op_name="all_reduce", nccl_dtype="half")
    out = []
    for ranks in np.unique(graph.rows["num_gpus"]).tolist():
        times: dict[int, float] = {}
        for table in (graph, nccl):
            if table is None:
                continue
            mine = table.where(num_gpus=ranks).rows
            for size, ms in zip(mine["message_size"], mine["latency"], strict=True):
                times[int(size)] = min(times.get(int(size), np.inf), float(ms) * 1e6)
        sizes = sorted(times)
        out.append(
            Curve(
                key=CurveKey("all_reduce", ranks=ranks),
                x=tuple(float(VALUE_BYTES * size) for size in sizes),
                ns=tuple(float(round(times[size])) for size in sizes),
                spread_ns=(),
                provenance="measured",
                source=source,
                sigma=roughness(np.array([times[size] for size in sizes])),
            )
        )
    return out


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
