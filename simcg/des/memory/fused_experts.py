"""What a fused expert layer allocates on Blackwell, where engines run TensorRT-LLM's kernels.

Shapes are those of the launcher in FlashInfer 0.6 (csrc/trtllm_fused_moe_kernel_launcher.cu, its
FP4 and FP8 block-scale launchers) and of SGLang's callers: rows are sorted by expert, each
expert's padded to whole tiles, and both products keep a buffer of the most rows that may give.
"""

from __future__ import annotations

from dataclasses import dataclass

from simcg.errors import require
from simcg.model.ops import Experts

BF16, FP32, INT32 = 2, 4, 4
TILES = (8, 16, 32, 64, 128, 256)
"""Rows a tile may have; the FP8 block-scale kernels end at 128."""
MXFP4_ALIGNMENT = 256
"""Sizes of mxfp4 experts are padded to multiples of it."""
MX_GROUP, NVFP4_GROUP, FP8_GROUP = 32, 16, 128
"""Values that share a scale: a byte each for the first two, fp32 for the third."""


@dataclass(frozen=True, slots=True)
class ExpertBuffers:
    """Bytes alive together in an expert layer, beside its input and the router's logits.

    ``quantized``: the input in the kernels' type.  ``first``, ``second``: outputs of the two
    products, scales included.  ``output``: the layer's result.  ``routing``: indices and weights.
    """

    quantized: int
    first: int
    second: int
    output: int
    routing: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.quantized + self.first + self.second + self.output + self.routing


def expert_buffers(experts: Experts, tokens: int) -> ExpertBuffers | None:
    """The buffers for a step of ``tokens``; None for weights that other kernels take."""
    require(tokens >= 1, "expert_buffers", "tokens", tokens, "an integer >= 1")
    hidden, width = experts.hidden, experts.width
    rows = padded_rows(tokens, experts)
    match experts.weights:
        case "mxfp4":  # activations as mxfp8
            hidden, width = _aligned(hidden), _aligned(width)
            quantized = tokens * (hidden + hidden // MX_GROUP)
            first = rows * (width + width // MX_GROUP)
        case "nvfp4":
            quantized = tokens * (hidden // 2 + hidden // NVFP4_GROUP)
            first = rows * (width // 2 + width // NVFP4_GROUP)
        case "fp8" | "fp8_block":  # gate and up, then their product, each with fp32 scales
            quantized = tokens * (hidden + hidden // FP8_GROUP * FP32)
            first = rows * 3 * (width + width // FP8_GROUP * FP32)
        case _:
            return None
    chosen = tokens * experts.top_k
    return ExpertBuffers(
        quantized=quantized,
        first=first,
        second=rows * hidden * BF16,
        output=tokens * experts.hidden * BF16,
        routing=chosen * (INT32 + INT32 + BF16) + rows * INT32,
    )


def padded_rows(tokens: int, experts: Experts) -> int:
    """The most rows that sorting by expert and padding to whole tiles may give.

    One row an expert opens a tile each; the rest fills tiles.
    """
    chosen, tile = tokens * experts.top_k, tile_rows(tokens, experts)
    opened = min(experts.experts, chosen)
    return (opened + (chosen - opened) // tile) * tile


def tile_rows(tokens: int, experts: Experts) -> int:
    """Rows of a tile.

    The launcher takes the next power of two above an expert's mean rows and offers its tuner that
    tile, the one below and two above. What the tuner takes depends on the machine; assumed is the
    smallest, with which both published charts agree (see tests).
    """
    tiles = TILES[:-1] if "fp8" in experts.weights else TILES
    mean = tokens * experts.top_k / experts.experts
    fitting = next((i for i, tile in enumerate(tiles) if tile >= mean), len(tiles) - 1)
    return tiles[max(0, fitting - 1)]


def _aligned(size: int) -> int:
    return -(-size // MXFP4_ALIGNMENT) * MXFP4_ALIGNMENT
