"""Memory of a captured ladder and of the steps that still run eager: live, reserved, device."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from simcg.arrays import Ints
from simcg.backend import CaptureBackend
from simcg.cost.memory import STATIC_ROW_BYTES, graph_bytes, hidden_row_bytes
from simcg.cost.table import ReplayModel
from simcg.des.memory.allocator import Allocator
from simcg.des.memory.play import played_out
from simcg.des.memory.trace import AS_ENGINES, GRAPHS, SEEDED, CapturePlan, capture_trace
from simcg.model.activations import peak_activation_bytes
from simcg.model.ops import ForwardPass


@dataclass(frozen=True, slots=True)
class LadderMemory:
    """Bytes of a captured ladder, and of the largest eager step beside it.

    ``live``: allocated once capture is over: the shared output of the ceiling's size and the
    static inputs.  ``reserved``: with the pool that the largest bucket needs, as all buckets share
    it, largest first, and tensors that cross a break are held weakly.  ``device``: with the
    instantiated graphs and the first graph's context.  ``eager_peak``: transient activations of
    the largest step that still runs eager.
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
    """Live and reserved bytes of an engine's graphs whose largest bucket has ``ceiling`` tokens.

    Played for that bucket alone, so that they depend on nothing else: over engines' default
    ladders the other buckets add at most two small segments of 2 MiB.
    """
    live = ceiling * (hidden_row_bytes(model.forward) + STATIC_ROW_BYTES)
    return live, _reserved(few_layers(model.forward), ceiling, requests, model)


def pool_curve(ceilings: Ints, requests: int, model: ReplayModel, most: int) -> Ints:
    """The most that ``pool_bytes`` reserves for any of these rising ceilings up to each.

    A larger bucket may reserve less, where its tensors fit what others leave. Ends with the first
    above ``most``.
    """
    forward = few_layers(model.forward)
    pools = [0]
    for ceiling in ceilings.tolist():
        pools.append(max(pools[-1], _reserved(forward, ceiling, requests, model)))
        if pools[-1] > most:
            break
    return np.array(pools[1:], dtype=np.int64)


def _reserved(forward: ForwardPass, ceiling: int, requests: int, model: ReplayModel) -> int:
    return captured(forward, model.backend, (ceiling,), requests, AS_ENGINES).usage.reserved


def seeded_pool_bytes(
    forward: ForwardPass, backend: CaptureBackend, sizes: tuple[int, ...], requests: int
) -> int:
    """Reserved bytes of the graphs' pool of a whole ladder as ``real_gpu`` captures it."""
    return captured(forward, backend, sizes, requests, SEEDED).of_pool(GRAPHS).reserved


def captured(
    forward: ForwardPass,
    backend: CaptureBackend,
    sizes: tuple[int, ...],
    requests: int,
    plan: CapturePlan,
) -> Allocator:
    """Memory after a ladder's capture; warm-ups are left out, as they leave nothing."""
    return played_out(capture_trace(forward, backend, sizes, requests, replace(plan, warm_ups=0)))


def few_layers(forward: ForwardPass) -> ForwardPass:
    """The forward cut after the first layers that show every pair of neighbours and its last layer.

    Without a first block, layers that follow each other as others did find free what those left.
    """
    layers = forward.layers
    numbers: dict[object, int] = {}
    kinds = [numbers.setdefault(layer, len(numbers)) for layer in layers]
    pairs = list(pairwise(kinds))
    missing = set(pairs)
    for stop, pair in enumerate(pairs, 2):
        missing.discard(pair)
        if not missing and kinds[stop - 1] == kinds[-1]:
            return replace(forward, layers=layers[:stop])
    return forward
