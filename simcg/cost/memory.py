"""Memory of a captured ladder and of the steps that still run eager: live, reserved, device."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simcg.arrays import Ints
from simcg.cost.table import ReplayModel
from simcg.errors import InputError
from simcg.model.activations import peak_activation_bytes, peak_activation_curve
from simcg.model.ops import ForwardPass

SEGMENT_BYTES = 2 << 20
"""The caching allocator reserves large blocks in multiples of this (PyTorch)."""
POOL_HEADROOM = 1.1
"""A pool starts as one block of so many times the largest bucket's activation peak.

Left to itself, the allocator reserves a segment per large tensor and cannot join free blocks of
different segments: 1.2 times the peak for dense models, 1.9 times with experts, on an H200.
"""
STATIC_ROW_BYTES = 3 * 8
"""Static inputs a row: token id, position and KV slot, int64 each."""


@dataclass(frozen=True, slots=True)
class LadderMemory:
    """Bytes of a captured ladder, and of the largest eager step beside it.

    ``live``: allocated once capture is over: the shared output of the ceiling's size and the
    static inputs.  ``reserved``: with the pool, POOL_HEADROOM times the activations of the
    largest bucket, as all buckets share it, largest first, and tensors that cross a break are
    held weakly.  ``device``: with the instantiated graphs and the first graph's context.
    ``eager_peak``: transient activations of the largest step that still runs eager.
    """

    live: int
    reserved: int
    device: int
    eager_peak: int

    @property
    def peak(self) -> int:
        """The most device bytes at any moment beside weights and KV cache."""
        return self.device + self.eager_peak


def ladder_memory(
    sizes: tuple[int, ...], largest_eager: int, requests: int, model: ReplayModel
) -> LadderMemory:
    """Memory of a ladder with these sizes, when eager steps reach ``largest_eager`` tokens.

    ``requests``: rows of the logits. ``largest_eager`` 0: no step runs eager.
    """
    eager = peak_activation_bytes(model.forward, largest_eager, requests) if largest_eager else 0
    if not sizes:
        return LadderMemory(0, 0, 0, eager)
    live, reserved = pool_bytes(sizes[-1], requests, model)
    device = reserved + graph_bytes(len(sizes), model)
    return LadderMemory(live, reserved, device, eager)


def pool_bytes(ceiling: int, requests: int, model: ReplayModel) -> tuple[int, int]:
    """Live and reserved bytes of the pool whose largest bucket has ``ceiling`` tokens."""
    live, reserved = pool_curve(np.array([ceiling], dtype=np.int64), requests, model)
    return int(live[0]), int(reserved[0])


def pool_curve(ceilings: Ints, requests: int, model: ReplayModel) -> tuple[Ints, Ints]:
    """``pool_bytes`` for each of several ceilings."""
    live = ceilings * (hidden_row_bytes(model.forward) + STATIC_ROW_BYTES)
    high_water = live + with_headroom(peak_activation_curve(model.forward, ceilings, requests))
    return live, in_segments(high_water)


def in_segments(sizes: Ints) -> Ints:
    """What the allocator reserves for blocks of these bytes."""
    return -(-sizes // SEGMENT_BYTES) * SEGMENT_BYTES


def with_headroom(peaks: Ints) -> Ints:
    """Bytes of the block that the pool of a bucket with that activation peak starts as."""
    return (POOL_HEADROOM * peaks).astype(np.int64)


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
