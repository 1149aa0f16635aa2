"""Live bytes after one prefill of a whole chunk, above a server that has not run one."""

from __future__ import annotations

from dataclasses import dataclass

from simcg.backend import BREAKABLE
from simcg.cost.memory import STATIC_ROW_BYTES, hidden_row_bytes
from simcg.des.memory.fused_experts import expert_buffers
from simcg.des.memory.trace import forward_script
from simcg.errors import require
from simcg.model.activations import lifetimes, live_row_bytes
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
    eager = engine_peak(forward, chunk, requests) if chunk > ceiling else breaks_own(forward, chunk)
    if ceiling == 0:
        return AfterPrefill(0, 0, 0, eager)
    output = ceiling * hidden_row_bytes(forward)
    return AfterPrefill(output, ceiling * STATIC_ROW_BYTES, CUBLAS_WORKSPACE_BYTES, eager)


def engine_peak(forward: ForwardPass, tokens: int, requests: int = 1) -> int:
    """The most activation bytes alive at once in an eager step of an engine.

    As ``peak_activation_bytes``, with what it leaves out: the loop over the layers still holds
    each layer's input while the layer runs, and fused expert kernels pad rows and sizes.
    """
    ops = forward.ops
    inside = [
        life
        for life in lifetimes(forward)
        if ops[life.written].part_of is not None and life.tensor.rows == "tokens"
    ]
    by_token, by_request = live_row_bytes(forward), live_row_bytes(forward, "requests")
    peak = 0
    for index, op in enumerate(ops):
        live = tokens * by_token[index] + requests * by_request[index]
        buffers = expert_buffers(op.part_of, tokens) if op.part_of is not None else None
        if buffers is not None:
            own = sum(
                life.tensor.row_bytes for life in inside if life.written <= index <= life.last_held
            )
            live += buffers.total - tokens * own
        peak = max(peak, live)
    return peak + tokens * hidden_row_bytes(forward)


def breaks_own(forward: ForwardPass, tokens: int) -> int:
    """The most bytes that breaks allocate for themselves while a bucket of ``tokens`` replays."""
    script = forward_script(forward, BREAKABLE)
    live = most = 0
    for number, begins in script.calls:
        held = script.tensors[number]
        if not held.in_pool and not held.by_request:
            live += held.row_bytes if begins else -held.row_bytes
            most = max(most, live)
    return most * tokens
