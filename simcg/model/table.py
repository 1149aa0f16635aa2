"""The forward as rows of a table: what `simcg model` prints."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from simcg.model.activations import boundary_row_bytes, break_runs, peak_activation_row_bytes
from simcg.model.architecture import Architecture
from simcg.model.forward import forward_pass
from simcg.model.ops import (
    AllReduce,
    Attention,
    BatchedGemm,
    CausalConv,
    Dtype,
    Elementwise,
    ForwardPass,
    GatedDelta,
    Gemm,
    GroupedGemm,
    IndexLogits,
    LatentAttention,
    Op,
    OpKind,
    Rows,
    SelectKeys,
    Shape,
    flops_per_row,
    weight_bytes,
)


@dataclass(frozen=True, slots=True)
class ModelRow:
    """One op of one section; ``layers`` says how many layers have that section (1 outside).

    ``flops`` and ``allocated_bytes`` are per row, and ``rows`` says rows of what;
    ``weight_bytes`` are the matrices of one layer on one rank. What has a row for each token and
    key is in the shape's words.
    """

    section: str
    layers: int
    name: str
    kind: OpKind
    shape: str
    kernels: int
    weight_bytes: int
    flops: int
    allocated_bytes: int
    rows: Rows
    is_break: bool


@dataclass(frozen=True, slots=True)
class ModelTotals:
    """Sums over one forward on one rank."""

    total_params: int
    active_params: int
    weight_bytes: int
    kv_bytes_per_token: int
    state_bytes_per_request: int
    """Of linear attention; 0 without it."""
    kernels: int
    breaks: int
    collectives: int
    peak_activation_row_bytes: int
    boundary_row_bytes: int
    """The widest layer's."""


def model_rows(fp: ForwardPass) -> list[ModelRow]:
    """The ops of the head, of each kind of layer once, and of the tail."""
    rows = [_row("head", 1, op) for op in fp.head]
    for layer, count in Counter(fp.layers).items():
        rows += [_row(f"layer ({_layer_label(layer)})", count, op) for op in layer]
    return rows + [_row("tail", 1, op) for op in fp.tail]


def model_totals(arch: Architecture, *, tp: int = 1, dtype: Dtype | None = None) -> ModelTotals:
    """The totals of that forward; ``tp`` and ``dtype`` as for ``forward_pass``."""
    fp = forward_pass(arch, tp=tp, dtype=dtype)
    stored = arch if dtype is None else arch.with_weights(dtype)
    return ModelTotals(
        total_params=arch.total_params,
        active_params=arch.active_params,
        weight_bytes=stored.weight_bytes(tp),
        kv_bytes_per_token=arch.kv_bytes_per_token(tp),
        state_bytes_per_request=arch.state_bytes_per_request(tp),
        kernels=sum(op.kernels for op in fp.ops),
        breaks=len(break_runs(fp)),
        collectives=sum(op.kind == "collective" for op in fp.ops),
        peak_activation_row_bytes=peak_activation_row_bytes(fp),
        boundary_row_bytes=max(boundary_row_bytes(fp)),
    )


def _row(section: str, layers: int, op: Op) -> ModelRow:
    return ModelRow(
        section=section,
        layers=layers,
        name=op.name,
        kind=op.kind,
        shape=_shape_text(op.shape),
        kernels=op.kernels,
        weight_bytes=weight_bytes(op.shape),
        flops=flops_per_row(op.shape),
        allocated_bytes=sum(tensor.row_bytes for tensor in op.writes if tensor.rows == op.rows),
        rows=op.rows,
        is_break=op.is_break,
    )


def _layer_label(layer: tuple[Op, ...]) -> str:
    attention = next(_mixer_text(op.shape) for op in layer if _mixer_text(op.shape))
    if any(isinstance(op.shape, IndexLogits) for op in layer):
        attention += " by its own indexer"
    experts = any(isinstance(op.shape, GroupedGemm) for op in layer)
    return f"{attention}, {'experts' if experts else 'dense'}"


def _mixer_text(shape: Shape) -> str:
    """How the layer of such a shape mixes tokens; "" for shapes that do not."""
    match shape:
        case Attention(window=window):
            return "full" if window is None else f"window {window}"
        case LatentAttention(top_k=top_k):
            return "latent" if top_k is None else f"latent, top {top_k}"
        case GatedDelta():
            return "linear"
        case _:
            return ""


def _shape_text(shape: Shape) -> str:
    match shape:
        case Gemm(k=k, n=n, weights=stored, activations=used):
            return f"{k} x {n} {_dtypes(stored, used)}"
        case GroupedGemm(experts=e, top_k=t, k=k, n=n, weights=stored, activations=used):
            return f"{t} of {e} x {k} x {n} {_dtypes(stored, used)}"
        case Attention(heads=heads, kv_heads=kv, head_dim=dim, window=window):
            tail = "" if window is None else f", window {window}"
            return f"{heads} heads, {kv} kv, dim {dim}{tail}"
        case BatchedGemm(heads=heads, k=k, n=n, weights=stored, activations=used):
            return f"{heads} of {k} x {n} {_dtypes(stored, used)}"
        case Elementwise(read_bytes=read, write_bytes=write):
            return f"reads {read} B, writes {write} B"
        case _:
            return _sequence_text(shape)


def _sequence_text(shape: Shape) -> str:
    """Of the kernels that look at other tokens, and the collective."""
    match shape:
        case LatentAttention(heads=heads, key_dim=keys, value_dim=values, top_k=top_k):
            tail = "" if top_k is None else f", top {top_k}"
            text = f"{heads} heads, keys {keys}, values {values}{tail}"
        case IndexLogits(heads=heads, head_dim=dim):
            text = f"{heads} heads, dim {dim}, fp32 for each token and key"
        case SelectKeys(top_k=top_k):
            text = f"top {top_k}"
        case CausalConv(channels=channels, width=width):
            text = f"{channels} channels, width {width}"
        case GatedDelta(key_heads=keys, value_heads=values, key_dim=key, value_dim=value):
            text = f"{keys} key and {values} value heads, {key} x {value}"
        case AllReduce(row_bytes=row, ranks=ranks):
            text = f"{row} B over {ranks} ranks"
        case _:
            raise TypeError(f"a shape without words: {shape}")
    return text


def _dtypes(stored: Dtype, used: Dtype) -> str:
    return stored if stored == used else f"{stored}, {used} inputs"
