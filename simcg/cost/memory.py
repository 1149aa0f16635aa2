"""Memory that graphs take beside their pool, and what every ladder's memory is counted in."""

from __future__ import annotations

from simcg.cost.table import ReplayModel
from simcg.errors import InputError
from simcg.model.ops import ForwardPass

POOL_HEADROOM = 1.1
"""``real_gpu`` starts a pool as one block of so many times the largest bucket's activation peak.

Left to itself, the allocator reserves a segment per large tensor and cannot join free blocks of
different segments: 1.2 times the peak for dense models, 1.9 times with experts, on an H200.
"""
STATIC_ROW_BYTES = 3 * 8
"""Static inputs a row: token id, position and KV slot, int64 each."""


def graph_bytes(buckets: int, model: ReplayModel) -> int:
    """Device bytes of the instantiated graphs of that many buckets."""
    memory = model.profile.memory
    execs = buckets * model.replay.nodes * memory.exec_bytes_per_node.value
    if memory.exec_bytes_per_graph is not None:
        execs += buckets * model.replay.segments * memory.exec_bytes_per_graph.value
    return round(execs + memory.first_graph_bytes.value)


def hidden_row_bytes(forward: ForwardPass) -> int:
    """Bytes a row of the forward's result."""
    for op in forward.head:
        for tensor in op.writes:
            if tensor.name == "hidden":
                return tensor.row_bytes
    raise InputError(forward.name, "head", "no such tensor", "an op that writes hidden")
