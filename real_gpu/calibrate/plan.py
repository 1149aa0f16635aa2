"""What to measure for given models: the distinct sizes of their kernels, and on which grids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from simcg.model.architecture import Architecture
from simcg.model.catalog import architecture_named
from simcg.model.forward import forward_pass
from simcg.model.lean import lean_pass
from simcg.model.ops import Attention, Elementwise, Gemm, GroupedGemm, Op

DEFAULT_MODELS = ("qwen3-8b", "llama-3.1-8b", "qwen3-30b-a3b", "gpt-oss-20b")
SPREAD_GEMMS = tuple(
    Gemm(k, n)
    for k, n in (
        (1024, 4096), (2048, 2048), (2048, 8192), (4096, 1536), (4096, 9216), (4096, 14336),
        (5120, 7168), (5120, 34816), (8192, 4096), (8192, 10240), (8192, 57344), (17408, 5120),
        (28672, 8192),
    )
)  # fmt: skip
"""Products of larger models and of single ranks: sizes in between are read off them."""
SPREAD_GROUPED = (
    GroupedGemm(128, 8, 4096, 3072),
    GroupedGemm(128, 8, 1536, 4096),
    GroupedGemm(64, 6, 2048, 2816),
    GroupedGemm(64, 6, 1408, 2048),
)
"""Experts of other models, for the same reason."""
SPREAD_ATTENTIONS = (Attention(64, 8, 128), Attention(16, 8, 128), Attention(8, 1, 128))
"""Heads of larger models and of single ranks, for the same reason."""


@dataclass(frozen=True, slots=True)
class Shapes:
    """The kernels to time. ``logits`` run at a row per request; ``spread``: see SPREAD_GEMMS.

    ``elementwise``: one op of each name, with the architecture that it comes from; ops of dense
    and of expert layers, whichever the models have.
    """

    gemms: tuple[Gemm, ...]
    logits: tuple[Gemm, ...]
    grouped: tuple[GroupedGemm, ...]
    attentions: tuple[Attention, ...]
    spread_gemms: tuple[Gemm, ...]
    spread_grouped: tuple[GroupedGemm, ...]
    spread_attentions: tuple[Attention, ...]
    elementwise: tuple[tuple[Architecture, Op], ...]


def shapes_of(models: Sequence[Architecture]) -> Shapes:
    """Every size that the models' forwards use, on one rank, 16 bit."""
    gemms: dict[Gemm, None] = {}
    logits: dict[Gemm, None] = {}
    grouped: dict[GroupedGemm, None] = {}
    attentions: dict[Attention, None] = {}
    for arch in models:
        for op in (*lean_pass(arch).numbered[0], *forward_pass(arch, dtype="bf16").tail):
            match op.shape:
                case Gemm():
                    (gemms if op.rows == "tokens" else logits)[op.shape] = None
                case GroupedGemm():
                    grouped[op.shape] = None
                case Attention():
                    attentions[op.shape] = None
    return Shapes(
        gemms=tuple(gemms),
        logits=tuple(logits),
        grouped=tuple(grouped),
        attentions=tuple(attentions),
        spread_gemms=tuple(g for g in SPREAD_GEMMS if g not in gemms),
        spread_grouped=tuple(g for g in SPREAD_GROUPED if g not in grouped),
        spread_attentions=tuple(a for a in SPREAD_ATTENTIONS if a not in attentions),
        elementwise=tuple(_small_ops(both_kinds(models))),
    )


def both_kinds(models: Sequence[Architecture]) -> list[Architecture]:
    """The first model of dense layers and the first of experts, of DEFAULT_MODELS if need be."""
    every = [*models, *map(architecture_named, DEFAULT_MODELS)]
    return [next(a for a in every if a.layer_kinds[0].moe is moe) for moe in (False, True)]


def _small_ops(models: Sequence[Architecture]) -> Iterable[tuple[Architecture, Op]]:
    small: dict[str, tuple[Architecture, Op]] = {}
    for arch in models:
        for op in lean_pass(arch).numbered[0]:
            if isinstance(op.shape, Elementwise):
                small.setdefault(curve_name(op), (arch, op))
    return small.values()


def curve_name(op: Op) -> str:
    """What an element-wise op's curve is called: its kind, or its name where kinds differ."""
    return op.name if op.name in NAMED else op.kind


NAMED = ("qk_norm", "copy", "fill", "moe_gather")
"""Ops whose kernels differ from others of their kind."""


def fine_rows() -> list[int]:
    """Row counts fine enough for the staircase: every tile edge, and just beyond it."""
    grid = {1, 2, 4, 8, 24, 40, 56}
    grid |= _steps((1024, 16), (2048, 32), (4096, 64), (8192, 128))
    grid |= {edge + 1 for edge in (*range(64, 1025, 64), *range(1152, 4097, 128))}
    return sorted(grid)


def middle_rows() -> list[int]:
    """Row counts for products whose steps are blurred, or that are there to be read between."""
    grid = {1, 2, 4, 8, 24, 40, 56}
    return sorted(grid | _steps((128, 16), (512, 32), (1024, 64), (4096, 128), (8192, 512)))


def few(rows: Iterable[int]) -> list[int]:
    """Three of them, for a smoke test."""
    every = list(rows)
    return sorted({every[0], every[len(every) // 2], every[-1]})


def _steps(*parts: tuple[int, int]) -> set[int]:
    """Multiples of each step up to its last value, from where the part before ended."""
    out: set[int] = set()
    begin = 0
    for last, step in parts:
        out |= set(range(begin + step, last + 1, step))
        begin = last
    return out
