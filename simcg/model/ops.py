"""The ops of one forward: what each computes, launches, reads and allocates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from simcg.errors import require

Dtype = Literal["fp32", "bf16", "fp8", "mxfp4", "nvfp4"]
DTYPE_BITS: dict[str, float] = {"fp32": 32, "bf16": 16, "fp8": 8, "mxfp4": 4.25, "nvfp4": 4.5}
"""Stored bits a weight: block scales included (mxfp4: 8 bits per 32, nvfp4: 8 per 16)."""

OpKind = Literal[
    "embedding", "norm", "gemm", "rotary", "kv_write", "attention", "activation",
    "router", "moe_sort", "grouped_gemm", "moe_combine", "collective", "elementwise",
]  # fmt: skip
Rows = Literal["tokens", "requests"]


@dataclass(frozen=True, slots=True)
class Gemm:
    """rows x k times k x n, weights stored as ``weights``, activations as ``activations``."""

    k: int
    n: int
    weights: Dtype = "bf16"
    activations: Dtype = "bf16"


@dataclass(frozen=True, slots=True)
class GroupedGemm:
    """Every row goes to ``top_k`` of ``experts`` matrices k x n (sizes of one rank)."""

    experts: int
    top_k: int
    k: int
    n: int
    weights: Dtype = "bf16"
    activations: Dtype = "bf16"


@dataclass(frozen=True, slots=True)
class Attention:
    """Causal grouped-query attention of one rank; ``window`` None is full attention."""

    heads: int
    kv_heads: int
    head_dim: int
    window: int | None = None


@dataclass(frozen=True, slots=True)
class Elementwise:
    """Moves bytes and computes next to nothing; bytes are per row, of one rank."""

    read_bytes: int
    write_bytes: int


@dataclass(frozen=True, slots=True)
class AllReduce:
    """Sums ``row_bytes`` a row over ``ranks`` GPUs."""

    row_bytes: int
    ranks: int


Shape = Gemm | GroupedGemm | Attention | Elementwise | AllReduce


@dataclass(frozen=True, slots=True)
class Tensor:
    """An activation that an op allocates: ``row_bytes`` times its rows."""

    name: str
    row_bytes: int
    rows: Rows = "tokens"


@dataclass(frozen=True, slots=True)
class Op:
    """One op as an engine issues it.

    ``kernels``: device kernels it launches: so many eager dispatches, so many graph nodes.
    ``rows``: whether its rows are the step's tokens or its requests (logits).
    ``is_break``: runs eagerly between graph segments where a backend breaks.
    ``reads``: names of the activations it uses; ``writes``: the ones it allocates.
    """

    name: str
    kind: OpKind
    shape: Shape
    kernels: int
    reads: tuple[str, ...]
    writes: tuple[Tensor, ...]
    rows: Rows = "tokens"
    is_break: bool = False

    def __post_init__(self) -> None:
        require(self.kernels >= 1, f"Op {self.name}", "kernels", self.kernels, "an integer >= 1")


@dataclass(frozen=True, slots=True)
class ForwardPass:
    """The ordered ops of one forward on one rank: head, layers, tail."""

    name: str
    head: tuple[Op, ...]
    layers: tuple[tuple[Op, ...], ...]
    tail: tuple[Op, ...]

    @property
    def ops(self) -> tuple[Op, ...]:
        """All ops in the order they run."""
        return (*self.head, *(op for layer in self.layers for op in layer), *self.tail)
