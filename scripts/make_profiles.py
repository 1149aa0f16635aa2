"""Writes the profiles of GPUs whose kernels were measured by aiconfigurator-core (Apache-2.0).

    python -m scripts.make_profiles aiconfigurator_core-0.12.0-cp311-abi3-manylinux_2_28_x86_64.whl

What its tables lack is carried over from the measured h200 profile and marked assumed. Host costs
are not of the GPU but of the engine and its CPU: the h200's are those of a lean decoder, SGLang's
own Python takes some times as long. gb300 carries SGLang's, as ``simcg reproduce`` fits them; the
other GPUs with SGLang's kernels carry the same by the speed of their CPUs, so that they differ by
what they are and not by whose host was timed. h200-sglang and h200-vllm keep the measured host.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from simcg.hardware.catalog import load_profile
from simcg.hardware.profile import HardwareProfile
from simcg.reproduce.cases import QWEN3
from simcg.reproduce.outcome import solve
from simcg.reproduce.parameters import with_parameters
from simcg.reproduce.simulator import forward_of
from simcg.silicon.base import carried, carried_all, host_of
from simcg.silicon.build import import_profile
from simcg.silicon.source import open_source
from simcg.silicon.write import write_profile

DATA = Path(__file__).parent.parent / "simcg" / "hardware" / "data"
PROFILES = {
    "a100": ("sglang", "0.5.10"),
    "h100": ("sglang", "0.5.14"),
    "h200-sglang": ("sglang", "0.5.14"),
    "h200-vllm": ("vllm", "0.24.0"),
    "b200": ("sglang", "0.5.14"),
    "b300": ("sglang", "0.5.14"),
    "gb200": ("sglang", "0.5.14"),
    "gb300": ("sglang", "0.5.14"),
    "rtx-pro-6000": ("vllm", "0.24.0"),
}
"""Built-in profiles, each with the framework and version whose kernels it has."""
ON_X86 = ("a100", "h100", "b200", "b300")
"""SGLang's kernels, on GPUs whose host was not measured."""


def fitted_gb300(kernels: HardwareProfile) -> HardwareProfile:
    """gb300 with the costs that ``simcg reproduce`` solves for on these very kernels.

    C2, which compiling is solved for, is of Qwen3-235B-A22B: a layer compiles as one of its.
    """
    write_profile(kernels, DATA / "gb300.json")  # the fit reads it, and replaces its host
    forward = forward_of(QWEN3)
    ops = sum(op.kernels for op in forward.ops) / len(forward.layers)
    description = (
        f"{kernels.description}; host, compile and graph memory of SGLang on a Grace CPU, as simcg "
        "reproduce fits them to its published results"
    )
    made = with_parameters(kernels, solve().parameters, ops)
    return msgspec.structs.replace(made, description=description)


def with_engine_of(
    profile: HardwareProfile, engine: HardwareProfile, slower: float, why: str
) -> HardwareProfile:
    """SGLang's host costs as on ``engine``, so many times; launches by the driver as they were."""
    dispatch = {
        kind: carried(figure, engine.name, slower) for kind, figure in engine.host.dispatch.items()
    }
    own = profile.host
    host = msgspec.structs.replace(
        host_of(engine, dispatch, slower),
        launch_latency=own.launch_latency,
        replay_nodes=own.replay_nodes,
        replay=own.replay,
    )
    description = f"{profile.description}; SGLang's host costs as fitted on {engine.name}, {why}"
    return msgspec.structs.replace(profile, host=host, description=description)


def with_grace_of(profile: HardwareProfile, engine: HardwareProfile) -> HardwareProfile:
    """gb200: the same CPU, driver and engine as gb300's, and its collectives across hosts."""
    known = {curve.key for curve in profile.curves}
    spanning = tuple(
        msgspec.structs.replace(
            curve, provenance="assumed", source=f"as on {engine.name}: {curve.source}"
        )
        for curve in engine.curves
        if curve.key.op == "all_reduce" and curve.key not in known
    )
    made = with_engine_of(profile, engine, 1.0, "which has the same Grace CPU")
    return msgspec.structs.replace(
        made,
        memory=carried_all(engine.memory, engine.name),
        startup=carried_all(engine.startup, engine.name),
        curves=(*made.curves, *spanning),
    )


def on_its_cpu(profile: HardwareProfile, engine: HardwareProfile, there: float) -> HardwareProfile:
    """The engine's costs in proportion to what tables say an eager all-reduce takes the host."""
    here = profile.host.dispatch[""].value
    why = (
        f"times {here / there:.2f}: an eager all-reduce takes this host {here / 1e3:.1f} us more "
        f"than a graphed one, that one {there / 1e3:.1f}"
    )
    return with_engine_of(profile, engine, here / there, why)


def main() -> None:
    source, base = open_source(sys.argv[1]), load_profile("h200")
    made = {}
    for name, (framework, version) in PROFILES.items():
        system = name.removesuffix(f"-{framework}")
        made[name], notes = import_profile(source, system, framework, version, base)
        for note in notes:
            print(name, note.table, note.version, note.rows, note.kept, note.remark, sep="  ")
    there = made["gb300"].host.dispatch[""].value
    made["gb300"] = engine = fitted_gb300(made["gb300"])
    made["gb200"] = with_grace_of(made["gb200"], engine)
    for name in ON_X86:
        made[name] = on_its_cpu(made[name], engine, there)
    for name, profile in made.items():
        write_profile(profile, DATA / f"{name}.json")


if __name__ == "__main__":
    main()
