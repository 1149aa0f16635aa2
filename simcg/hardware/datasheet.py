"""GPU sizes and rates as their makers state them (dense, without sparsity)."""

from __future__ import annotations

from simcg.hardware.profile import Figure, Gpu

TERA = 1e12
GIGA = 1e9


def _sheet(source: str, flops: dict[str, float], sizes: tuple[float, float, float, float]) -> Gpu:
    """``flops`` in tera; ``sizes``: SMs, memory GB, memory TB/s, link GB/s in one direction."""
    sms, memory, bandwidth, link = sizes

    def figure(value: float) -> Figure:
        return Figure(value, "datasheet", source)

    return Gpu(
        sms=figure(sms),
        memory_bytes=figure(memory * GIGA),
        memory_bandwidth=figure(bandwidth * TERA),
        link_bandwidth=figure(link * GIGA),
        peak_flops={name: figure(value * TERA) for name, value in flops.items()},  # type: ignore[misc]  # names are the Literal's
    )


DATASHEETS: dict[str, Gpu] = {
    "a100": _sheet("NVIDIA A100 80GB SXM data sheet", {"bf16": 312}, (108, 80, 2.039, 300)),
    "h100": _sheet(
        "NVIDIA H100 SXM data sheet", {"bf16": 989.4, "fp8": 1978.9}, (132, 80, 3.35, 450)
    ),
    "h200": _sheet(
        "NVIDIA H200 SXM data sheet", {"bf16": 989.4, "fp8": 1978.9}, (132, 141, 4.8, 450)
    ),
    "b200": _sheet(
        "NVIDIA HGX B200 data sheet",
        {"bf16": 2250, "fp8": 4500, "fp4": 9000},
        (148, 180, 7.7, 900),
    ),
    "gb200": _sheet(
        "NVIDIA GB200 NVL72 data sheet, per GPU",
        {"bf16": 2500, "fp8": 5000, "fp4": 10000},
        (148, 186, 8.0, 900),
    ),
    "gb300": _sheet(
        "NVIDIA GB300 NVL72 data sheet, per GPU",
        {"bf16": 2500, "fp8": 5000, "fp4": 15000},
        (160, 279, 8.0, 900),
    ),
}


def link_figures() -> dict[str, Figure]:
    """What an all-reduce costs where none was measured."""
    return {
        "collective_ns": Figure(
            6_000, "published",
            "aiconfigurator-core 0.12.0: custom all-reduce in a graph, 4 GPUs, 4.5 to 7.4 us",
        ),
        "link": Figure(0.8, "assumed", "share of the link's rate that a large all-reduce reaches"),
    }  # fmt: skip
