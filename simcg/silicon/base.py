"""What tables of kernels lack, carried over from a measured profile of another GPU."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from simcg.hardware.datasheet import link_figures
from simcg.hardware.profile import Curve, Figure, Gpu, HardwareProfile, Host

S = TypeVar("S", bound=msgspec.Struct)


def carried(figure: Figure, name: str, factor: float = 1.0) -> Figure:
    """The figure of profile ``name``, assumed to hold here too."""
    return Figure(figure.value * factor, "assumed", f"as on {name}: {figure.source}")


def carried_all(struct: S, name: str) -> S:
    """All figures of a struct, carried over; what a profile may lack stays as it is."""
    changed: dict[str, object] = {}
    for field in struct.__struct_fields__:
        value = getattr(struct, field)
        if isinstance(value, Figure):
            changed[field] = carried(value, name)
        elif isinstance(value, tuple) and value and isinstance(value[0], Figure):
            changed[field] = tuple(carried(one, name) for one in value)
    return msgspec.structs.replace(struct, **changed)


def host_of(base: HardwareProfile, dispatch: dict[str, Figure], slower: float) -> Host:
    """Host costs in proportion to how much ``slower`` dispatch is; launches by the driver are not.

    TransformerEngine issue 2053: one Linear takes a Grace host 2.5-2.75 times as long as a Xeon,
    while the launch itself does not.
    """
    host, name = base.host, base.name
    return Host(
        dispatch=dispatch,
        compiled_dispatch=carried(host.compiled_dispatch, name, slower),
        break_body=carried(host.break_body, name, slower),
        piece=carried(host.piece, name, slower),
        launch_latency=carried(host.launch_latency, name),
        replay_nodes=host.replay_nodes,
        replay=tuple(carried(figure, name) for figure in host.replay),
    )


def elementwise(base: HardwareProfile, gpu: Gpu) -> tuple[Curve, ...]:
    """The base's curves of element-wise kernels: as many bytes more as this GPU moves a second."""
    ratio = gpu.memory_bandwidth.value / base.gpu.memory_bandwidth.value
    return tuple(
        msgspec.structs.replace(
            curve,
            x=tuple(float(round(x * ratio)) for x in curve.x),
            provenance="assumed",
            source=f"as on {base.name}, by memory bandwidth: {curve.source}",
        )
        for curve in base.curves
        if curve.key.op == "elementwise"
    )


def on_another_gpu(
    base: HardwareProfile, name: str, gpu: Gpu, dispatch: dict[str, Figure], slower: float
) -> HardwareProfile:
    """A profile of ``gpu`` with everything but its kernels as on ``base``, each figure marked."""
    compiling = base.startup.compile_per_layer
    startup = msgspec.structs.replace(
        carried_all(base.startup, base.name),
        capture_per_node=carried(base.startup.capture_per_node, base.name, slower),
        compile_per_layer=compiling
        if compiling.provenance == "published"
        else carried(compiling, base.name),
        compilers={},
    )
    return HardwareProfile(
        name=name,
        description=f"{name}: as on {base.name}",
        environment={},
        gpu=gpu,
        host=host_of(base, dispatch, slower),
        gaps=carried_all(base.gaps, base.name),
        roofline=msgspec.structs.replace(carried_all(base.roofline, base.name), **link_figures()),
        memory=carried_all(base.memory, base.name),
        startup=startup,
        curves=elementwise(base, gpu),
    )


def on_the_same_gpu(base: HardwareProfile, name: str, gpu: Gpu) -> HardwareProfile:
    """The base with other kernels: its measurements of everything else stay what they are."""
    return HardwareProfile(
        name=name,
        description=base.description,
        environment=base.environment,
        gpu=gpu,
        host=base.host,
        gaps=base.gaps,
        roofline=base.roofline,
        memory=base.memory,
        startup=base.startup,
        curves=tuple(curve for curve in base.curves if curve.key.op == "elementwise"),
    )
