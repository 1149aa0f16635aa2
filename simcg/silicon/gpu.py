"""Sizes and rates of a GPU as the package states them."""

from __future__ import annotations

from typing import Any

from simcg.errors import InputError
from simcg.hardware.datasheet import DATASHEETS
from simcg.hardware.profile import Figure, Gpu

SMS = {"b300": 160, "l40s": 142, "rtx-pro-6000": 188}
"""Of GPUs without a data sheet of their own here, from their makers' pages."""
FLOPS = {"bf16": "bfloat16_tc_flops", "fp8": "fp8_tc_flops", "fp4": "fp4_tc_flops"}


def short_name(system: str) -> str:
    """A system's name without its form: h200 for h200_sxm, rtx-pro-6000 for the server's."""
    for form in ("_sxm", "_server", "_pcie"):
        system = system.removesuffix(form)
    return system.replace("_", "-")


def gpu_of(system: str, specification: dict[str, Any], source: str) -> Gpu:
    """The figures of ``systems/NAME.yaml``, SMs by data sheet; ``InputError`` where one lacks."""
    try:
        gpu, node = specification["gpu"], specification["node"]
        flops = {ours: gpu[theirs] for ours, theirs in FLOPS.items() if theirs in gpu}
        sizes = gpu["mem_capacity"], gpu["mem_bw"], node["intra_node_bw"]
    except (KeyError, TypeError) as error:
        raise InputError(source, f"{system}.yaml", f"no {error}", "its sizes and rates") from None
    memory, bandwidth, link = (Figure(float(v), "published", source) for v in sizes)
    name = short_name(system)
    sms = DATASHEETS[name].sms if name in DATASHEETS else None
    if sms is None:
        if name not in SMS:
            raise InputError(source, "", name, f"one of {', '.join([*DATASHEETS, *SMS])}")
        sms = Figure(SMS[name], "datasheet", f"NVIDIA's page of the {name}")
    return Gpu(
        sms=sms,
        memory_bytes=memory,
        memory_bandwidth=bandwidth,
        link_bandwidth=link,
        peak_flops={name: Figure(float(v), "published", source) for name, v in flops.items()},  # type: ignore[misc]  # names are the Literal's
    )
