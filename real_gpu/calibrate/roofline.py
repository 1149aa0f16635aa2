"""Peaks of a GPU and the shares of them that its kernels reach, from its measured curves."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from simcg.errors import require
from simcg.hardware.datasheet import DATASHEETS, link_figures
from simcg.hardware.profile import Curve, Figure, Gpu, Roofline

LINK_BYTES = 64e9
"""Bytes a second in one direction of PCIe 5.0 x16, where nothing is known of links."""


def gpu_of(name: str, environment: Mapping[str, object], curves: Sequence[Curve]) -> Gpu:
    """Device properties beside the data sheet's rates; without a sheet, the fastest measured."""
    sms = Figure(float(str(environment["sms"])), "measured", "device properties")
    memory = Figure(float(str(environment["memory_bytes"])), "measured", "device properties")
    sheet = DATASHEETS.get(name)
    if sheet is not None:
        return msgspec.structs.replace(sheet, sms=sms, memory_bytes=memory)
    source = "the fastest measured kernel: no data sheet of this GPU is known"
    flops = max((max(_flops(c)) for c in curves if c.key.op == "gemm"), default=0.0)
    moved = [np.array(c.x) / np.array(c.ns) * 1e9 for c in curves if c.key.op == "elementwise"]
    require(flops > 0 and bool(moved), "calibrate", "curves", len(curves), "products and bytes")
    large = max(float(rate[-1]) for rate in moved)
    return Gpu(
        sms=sms,
        memory_bytes=memory,
        memory_bandwidth=Figure(round(large), "measured", source),
        link_bandwidth=Figure(LINK_BYTES, "assumed", "PCIe 5.0 x16"),
        peak_flops={"bf16": Figure(round(flops), "measured", source)},
    )


def roofline(curves: Sequence[Curve], gpu: Gpu) -> Roofline:
    """Medians over the measured curves; 0.5 where there are none of a kind."""
    peak, bandwidth = gpu.peak_flops["bf16"].value, gpu.memory_bandwidth.value
    gemms = [c for c in curves if c.key.op == "gemm" and c.key.n >= 2048 and c.x[-1] >= 8192]
    grouped = [c for c in curves if c.key.op == "grouped_gemm"]
    attention = [c for c in curves if c.key.op == "attention" and not c.key.window]

    def stream(c: Curve, stored: float, at: float) -> float:
        return stored / (float(np.interp(at, c.x, c.ns)) * 1e-9) / bandwidth

    def share(values: list[float], what: str) -> Figure:
        if not values:
            return Figure(0.5, "assumed", "no such kernel was measured")
        text = f"median over the measured curves: {what}"
        return Figure(float(f"{statistics.median(values):.3g}"), "assumed", text)

    smallest = min(min(c.ns) for c in curves if c.key.op == "elementwise")
    return Roofline(
        compute=share([_flops(c)[-1] / peak for c in gemms], "products of the most rows"),
        bandwidth=share(
            [stream(c, 2 * c.key.k * c.key.n, 64) for c in gemms], "weights at 64 rows"
        ),
        grouped_compute=share([_flops(c)[-1] / peak for c in grouped], "the most rows"),
        grouped_bandwidth=share(
            [stream(c, 2 * c.key.k * c.key.n * c.key.experts, 256) for c in grouped],
            "expert weights at 256 rows",
        ),
        attention_compute=share(
            [_attention_flops(c) / peak for c in attention], "attention of most tokens and keys"
        ),
        floor_ns=Figure(smallest, "assumed", "the shortest measured kernel"),
        **link_figures(),
    )


def _flops(curve: Curve) -> list[float]:
    """Operations a second of a product at each of its rows."""
    one = 2.0 * max(curve.key.top_k, 1) * curve.key.k * curve.key.n
    return [x * one / (ns * 1e-9) for x, ns in zip(curve.x, curve.ns, strict=True)]


def _attention_flops(curve: Curve) -> float:
    work = 4.0 * curve.key.heads * curve.key.head_dim * curve.x[-1] * curve.y[-1]
    return work / (curve.ns[-1] * 1e-9)
