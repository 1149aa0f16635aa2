"""Live bytes after one prefill of a whole chunk, above a server that has not run one."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from simcg.cost.memory import STATIC_ROW_BYTES, hidden_row_bytes
from simcg.des.memory.fused_experts import expert_buffers
from simcg.errors import require
from simcg.model.activations import break_peak_bytes, lifetimes
from simcg.model.ops import ForwardPass

CUBLAS_WORKSPACE_BYTES = 4096 * 1024 * 2 + 16 * 1024 * 8
"""cuBLAS's workspace of the capture stream, PyTorch's default of 8.125 MiB (:4096:2:16:8).

Assumed: newer PyTorch takes 32 MiB on compute capabilities 9, 10 and 12, and the published rows,
which leave 8 to 10 MiB beside output and inputs for both models, speak against it.
"""


@dataclass(frozen=True, slots=True)
class AfterPrefill:
    """Bytes by what holds them.

    ``output``: the one buffer that all buckets return their hidden states in.  ``inputs``: static
    inputs.  ``workspace``: of the capture stream.  ``eager``: activations of what ran eagerly.
    """

    output: int
    inputs: int
    workspace: int
    eager: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.output + self.inputs + self.workspace + self.eager


def after_prefill(
    forward: ForwardPass, chunk: int, ceiling: int, requests: int = 1
) -> AfterPrefill:
    """Live bytes after a prefill of ``chunk`` tokens under a ladder that ends at ``ceiling``.

    ``ceiling`` 0: no graphs. A chunk above the ceiling runs eager and pays for both; at the chunk
    only what breaks allocate for themselves is eager.
    """
    require(chunk >= 1, "after_prefill", "chunk", chunk, "an integer >= 1")
    require(ceiling >= 0, "after_prefill", "ceiling", ceiling, "an integer >= 0")
    peak = engine_peak if chunk > ceiling else break_peak_bytes
    eager = peak(forward, chunk, requests)
    if ceiling == 0:
        return AfterPrefill(0, 0, 0, eager)
    output = ceiling * hidden_row_bytes(forward)
    return AfterPrefill(output, ceiling * STATIC_ROW_BYTES, CUBLAS_WORKSPACE_BYTES, eager)


def engine_peak(forward: ForwardPass, tokens: int, requests: int = 1) -> int:
    """The most activation bytes alive at once in an eager step of an engine.

    As ``peak_activation_bytes``, with what it leaves out: the loop over the layers still holds
    each layer's input while the layer runs, and fused expert kernels pad rows and sizes.
    """
    ops, lives = forward.ops, lifetimes(forward)
    change = [0] * (len(ops) + 1)
    for life in lives:
        size = life.tensor.nbytes(tokens, requests)
        change[life.written] += size
        change[life.last_held + 1] -= size
    peak = 0
    for index, live in enumerate(accumulate(change[:-1])):
        layer = ops[index].part_of
        buffers = None if layer is None else expert_buffers(layer, tokens)
        if buffers is None:
            peak = max(peak, live)
            continue
        replaced = sum(
            life.tensor.nbytes(tokens, requests)
            for life in lives
            if life.written <= index <= life.last_held and ops[life.written].part_of == layer
        )
        peak = max(peak, live - replaced + buffers.total)
    return peak + tokens * hidden_row_bytes(forward)
