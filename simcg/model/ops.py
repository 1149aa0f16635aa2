"""The ops of one forward: what each computes, launches, reads and allocates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

from simcg.errors import require

Dtype = Literal["fp32", "bf16", "fp8", "fp8_block", "mxfp4", "nvfp4", "int4"]
DTYPE_BITS: dict[str, float] = {
    "fp32": 32, "bf16": 16, "fp8": 8, "fp8_block": 8 + 32 / 16_384, "mxfp4": 4.25, "nvfp4": 4.5,
    "int4": 4.5,
}  # fmt: skip
"""Stored bits a weight, block scales included: fp8_block an fp32 for 128 x 128, mxfp4 8 bits for
32, nvfp4 8 for 16, int4 (weights only) 16 for 32; fp8 has one scale a matrix or row."""
WEIGHT_DTYPES: tuple[Dtype, ...] = ("bf16", "fp8", "fp8_block", "mxfp4", "nvfp4", "int4")
"""What matrices may be stored as."""

OpKind = Literal[
    "embedding", "norm", "gemm", "rotary", "kv_write", "attention", "activation",
    "router", "moe_sort", "grouped_gemm", "moe_combine", "collective", "elementwise",
    "batched_gemm", "indexer", "linear_attention",
]  # fmt: skip
Rows = Literal["tokens", "requests", "pairs"]
"""What a tensor has one row for: a token, a request, or a token with each key that it may see."""


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
class Experts:
    """A whole expert layer of one rank as fused kernels run it, from sorting rows to their sum.

    What tables of fused kernels time as one; its ops name it by ``Op.part_of``. ``width``: of one
    expert on this rank.
    """

    hidden: int
    width: int
    experts: int
    top_k: int
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
class LatentAttention:
    """Causal multi-head latent attention (MLA) of one rank.

    The cache holds one row of ``kv_rank + rope_dim`` a token for all heads. ``absorbed``: queries
    were brought into the latent space, so that keys are that row and values its first
    ``kv_rank`` (decode, and sparse kernels); else keys of ``nope_dim + rope_dim`` and values of
    ``v_dim`` were expanded for each head (prefill). ``top_k``: the keys a row attends to at
    most, chosen by an indexer; None is all of them. Source: DeepSeek-V2 (arXiv 2405.04434).
    """

    heads: int
    kv_rank: int
    nope_dim: int
    rope_dim: int
    v_dim: int
    absorbed: bool = False
    top_k: int | None = None

    @property
    def key_dim(self) -> int:
        """Width of a query and of a key in the kernel."""
        return self.rope_dim + (self.kv_rank if self.absorbed else self.nope_dim)

    @property
    def value_dim(self) -> int:
        """Width of a value and of a head's result in the kernel."""
        return self.kv_rank if self.absorbed else self.v_dim


@dataclass(frozen=True, slots=True)
class BatchedGemm:
    """For each head its own product rows x k times k x n: absorbed projections of MLA."""

    heads: int
    k: int
    n: int
    weights: Dtype = "bf16"
    activations: Dtype = "bf16"


@dataclass(frozen=True, slots=True)
class IndexLogits:
    """Scores of every row against each key it may see, summed over the indexer's heads.

    fp8 queries and keys, fp32 scores; every rank computes all heads. Source: DeepSeek-V3.2-Exp,
    the lightning indexer of DeepSeek Sparse Attention.
    """

    heads: int
    head_dim: int


@dataclass(frozen=True, slots=True)
class SelectKeys:
    """The ``top_k`` best keys of each row by those scores, as int32 positions in the cache."""

    top_k: int


@dataclass(frozen=True, slots=True)
class CausalConv:
    """Depthwise convolution of each channel over the last ``width`` tokens, with its state."""

    channels: int
    width: int


@dataclass(frozen=True, slots=True)
class GatedDelta:
    """Gated delta rule of one rank: linear attention with a state of key_dim x value_dim a head.

    Prefill runs it in chunks of tokens, decode reads and writes the state of each request once.
    Source: Gated Delta Networks (arXiv 2412.06464).
    """

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int


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


Shape = (
    Gemm | GroupedGemm | BatchedGemm | Attention | LatentAttention | IndexLogits | SelectKeys
    | CausalConv | GatedDelta | Elementwise | AllReduce
)  # fmt: skip


def activation_dtype(weights: Dtype) -> Dtype:
    """The type of the inputs that products with such weights take; 4-bit integers are widened."""
    if weights in ("fp8", "fp8_block"):
        return "fp8"
    return "nvfp4" if weights == "nvfp4" else "bf16"


def flops_per_row(shape: Shape) -> int:
    """Multiply-adds of the matrices, counted twice, for one row (attention: see its pairs)."""
    match shape:
        case Gemm(k=k, n=n):
            return 2 * k * n
        case GroupedGemm(top_k=top_k, k=k, n=n):
            return 2 * top_k * k * n
        case BatchedGemm(heads=heads, k=k, n=n):
            return 2 * heads * k * n
        case _:
            return 0


def weight_bytes(shape: Shape) -> int:
    """Bytes of the matrices that the op streams when every expert is used, without biases."""
    match shape:
        case Gemm(k=k, n=n, weights=dtype):
            return stored_bytes(k * n, dtype)
        case GroupedGemm(experts=experts, k=k, n=n, weights=dtype):
            return stored_bytes(experts * k * n, dtype)
        case BatchedGemm(heads=heads, k=k, n=n, weights=dtype):
            return stored_bytes(heads * k * n, dtype)
        case _:
            return 0


def stored_bytes(elements: int, dtype: Dtype) -> int:
    """Bytes of that many weights, block scales included, rounded up."""
    return math.ceil(elements * Fraction(DTYPE_BITS[dtype]) / 8)


@dataclass(frozen=True, slots=True)
class Tensor:
    """An activation that an op allocates: ``row_bytes`` times its rows."""

    name: str
    row_bytes: int
    rows: Rows = "tokens"

    def nbytes(self, tokens: int, requests: int, keys: int | None = None) -> int:
        """Its size in a step of so many tokens and requests.

        ``keys``: what each token may see; None is one prompt of ``tokens`` without cached context.
        """
        pairs = tokens * (tokens if keys is None else keys)
        return self.row_bytes * {"tokens": tokens, "requests": requests, "pairs": pairs}[self.rows]


@dataclass(frozen=True, slots=True)
class Op:
    """One op as an engine issues it.

    ``kernels``: device kernels it launches: so many eager dispatches, so many graph nodes.
    ``rows``: whether its rows are the step's tokens or its requests (logits).
    ``is_break``: runs eagerly between graph segments where a backend breaks.
    ``reads``: names of the activations it uses, in place or not; ``writes``: the ones it
    allocates (a name written again is a new tensor; reads and holds mean the earlier one).
    ``holds``: names it does not use but that the engine's code still references while it
    runs (locals and arguments of the functions it is called from), so they stay allocated.
    ``part_of``: the fused expert layer that the op is a part of, None for all others.
    """

    name: str
    kind: OpKind
    shape: Shape
    kernels: int
    reads: tuple[str, ...]
    writes: tuple[Tensor, ...]
    rows: Rows = "tokens"
    is_break: bool = False
    holds: tuple[str, ...] = ()
    part_of: Experts | None = None

    def __post_init__(self) -> None:
        require(self.kernels >= 1, f"Op {self.name}", "kernels", self.kernels, "an integer >= 1")


@dataclass(frozen=True)
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

    @cached_property
    def numbered(self) -> tuple[tuple[Op, ...], tuple[int, ...]]:
        """The distinct ops, and the whole forward as indices into them.

        A forward of a thousand ops has about fifteen distinct ones; costs are computed once each.
        """
        numbers: dict[Op, int] = {}
        known: dict[int, list[int]] = {}  # layers of one kind are one object
        order: list[int] = []
        for part in (self.head, *self.layers, self.tail):
            if id(part) not in known:
                known[id(part)] = [numbers.setdefault(op, len(numbers)) for op in part]
            order += known[id(part)]
        return tuple(numbers), tuple(order)
