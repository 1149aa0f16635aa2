"""What is left of a GPU for the KV cache once weights, graphs and activations have theirs."""

from __future__ import annotations

from dataclasses import dataclass

from simcg.backend import FULL
from simcg.cost.table import ReplayModel
from simcg.des.memory.pool import ladder_memory
from simcg.des.serving.clock import Captured
from simcg.errors import Finding, InputError, require
from simcg.model.activations import peak_activation_bytes
from simcg.model.architecture import Architecture
from simcg.model.ops import ForwardPass


@dataclass(frozen=True, slots=True)
class KvBudget:
    """Device bytes on one rank, and what a token of the cache takes.

    ``usable``: the share of the GPU's memory that the server may use. ``prefill_graphs``,
    ``decode_graphs``: pools and instantiated graphs. ``activations``: of the largest step that
    runs eager. ``states``: what linear layers keep for every running request. ``reserve``: left
    alone.
    """

    usable: int
    weights: int
    prefill_graphs: int
    decode_graphs: int
    activations: int
    states: int
    reserve: int
    bytes_per_token: int

    @property
    def kv_bytes(self) -> int:
        """What is left; below 0 where it does not fit."""
        taken = self.weights + self.prefill_graphs + self.decode_graphs + self.activations
        return self.usable - taken - self.states - self.reserve

    def tokens(self) -> int:
        """Capacity of the KV cache; ``InputError`` says what is short where it holds none."""
        if self.kv_bytes < self.bytes_per_token:
            short = self.bytes_per_token - self.kv_bytes
            graphs = self.prefill_graphs + self.decode_graphs
            parts = {
                "weights": self.weights, "graphs": graphs, "activations": self.activations,
                "states": self.states,
            }  # fmt: skip
            taken = ", ".join(f"{name} {value / 2**30:.1f}" for name, value in parts.items())
            found = Finding(f"{_gib(self.usable)}: {taken}")  # an error shows 80 characters
            expected = f"{_gib(short)} more, for a first token of the KV cache"
            raise InputError("memory of a rank", "", found, expected)
        return self.kv_bytes // max(self.bytes_per_token, 1)


def kv_budget(  # noqa: PLR0913 - keyword-only; each is one thing that takes memory
    model: ReplayModel,
    arch: Architecture,
    captured: Captured,
    *,
    tp: int,
    chunk: int,
    largest_eager: int,
    max_running: int,
    decode_forward: ForwardPass | None = None,
    memory_fraction: float = 0.9,
    reserve_bytes: int = 0,
) -> KvBudget:
    """The budget of one rank; ``arch`` with the dtype of the weights that ``model`` has.

    ``largest_eager``: tokens of the largest step with prefills that no bucket takes, of at most
    ``chunk``. Steps with prefills have logits for as many requests as the decode graphs. Engines
    take graphs from the same share of the memory, or from the rest of it: here it is always from
    the share.
    """
    inside = 0 < memory_fraction <= 1
    require(inside, "--memory-fraction", "", memory_fraction, "a number above 0, at most 1")
    require(largest_eager <= chunk, "largest_eager", "", largest_eager, f"at most {chunk}")
    sizes = captured.decode_ladder.sizes
    top = sizes[-1] if sizes else 0
    prefill = ladder_memory(
        captured.ladder.sizes, largest_eager, min(top or max_running, max_running), model
    )
    forward = decode_forward or model.forward
    graphs = ReplayModel(forward, model.profile, FULL, model.fallback)
    decode = ladder_memory(sizes, 0, top or 1, graphs)
    eager_decode = peak_activation_bytes(forward, max_running, max_running)
    return KvBudget(
        usable=int(model.profile.gpu.memory_bytes.value * memory_fraction),
        weights=arch.weight_bytes(tp),
        prefill_graphs=prefill.device,
        decode_graphs=decode.device,
        activations=max(prefill.eager_peak, eager_decode if max_running > top else 0),
        states=arch.state_bytes_per_request(tp) * max_running,
        reserve=reserve_bytes,
        bytes_per_token=arch.kv_bytes_per_token(tp),
    )


def _gib(size: int) -> str:
    return f"{size / 2**30:.2f} GiB"
