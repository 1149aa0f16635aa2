"""The kernels as a CUDA device runs them; see ``Kernels`` for what each does."""

from real_gpu.models.kernels.triton_experts import combine, grouped_mm, route, sort_by_expert
from real_gpu.models.kernels.triton_rows import (
    add_norm,
    kv_write,
    qk_norm,
    rotary,
    silu_mul,
    swiglu,
)

__all__ = [
    "add_norm",
    "combine",
    "grouped_mm",
    "kv_write",
    "qk_norm",
    "rotary",
    "route",
    "silu_mul",
    "sort_by_expert",
    "swiglu",
]
