"""Writes the profiles of GPUs whose kernels were measured by aiconfigurator-core (Apache-2.0).

    python -m scripts.make_profiles aiconfigurator_core-0.12.0-cp311-abi3-manylinux_2_28_x86_64.whl

What its tables lack is carried over from the measured h200 profile and marked assumed. For gb300
three host figures are fitted, so that gpt-oss-120b on four of them meets differences of published
TTFTs: dispatch, break body and piece. They hold an engine's own Python and dispatches that our
count of kernels has not; gb200 has the same Grace host.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import numpy as np

from simcg.backend import BREAKABLE, EAGER, FULL, TC_PIECEWISE, CaptureBackend
from simcg.cost.kernels import Work
from simcg.cost.step import StepCost
from simcg.hardware.catalog import load_profile
from simcg.hardware.profile import Figure, HardwareProfile, Host
from simcg.model.catalog import architecture_named
from simcg.model.forward import forward_pass
from simcg.silicon.base import carried
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

# median TTFT in ms, digitised from a draft chart of the SGLang blog of 2026-08-17
TTFT_MS = {
    64: (140.4, 74.9, 82.6, 98.6), 128: (145.0, 73.5, 87.2, 106.5),
    256: (126.3, 73.6, 86.1, 101.9), 512: (120.2, 70.0, 82.6, 88.7),
    1024: (146.3, 79.9, 85.8, 96.0), 2048: (149.9, 76.4, 85.7, 104.4),
}  # fmt: skip  # prompt tokens: eager, full, breakable, tc_piecewise
DRAFT = "differences of TTFTs, gpt-oss-120b TP4 on GB300, digitised from a draft chart (64..2048)"


def as_on_gb300(figure: Figure) -> Figure:
    """A host cost of the same Grace host."""
    return Figure(figure.value, "assumed", f"as on gb300: {figure.source}")


def work(sizes: list[int]) -> Work:
    n = np.array(sizes, dtype=np.int64)
    return Work(rows=n, tokens=n, requests=np.ones_like(n), pairs=n * (n + 1) // 2)


def fit_host(profile: HardwareProfile, field: str, backend: CaptureBackend) -> HardwareProfile:
    """The figure that makes ``backend`` less ``full`` meet the mean published difference."""
    forward = forward_pass(architecture_named("gpt-oss-120b"), tp=4)
    column = {EAGER.name: 0, BREAKABLE.name: 2, TC_PIECEWISE.name: 3}[backend.name]
    sizes = list(TTFT_MS)
    wanted = float(np.mean([t[column] - t[1] for t in TTFT_MS.values()])) * 1e6

    def with_value(ns: float) -> HardwareProfile:
        figure = Figure(round(ns), "fitted", DRAFT)
        value = {**profile.host.dispatch, "": figure} if field == "dispatch" else figure
        return msgspec.structs.replace(
            profile, host=msgspec.structs.replace(profile.host, **{field: value})
        )

    low, high = 0.0, 2e6
    for _ in range(40):
        middle = (low + high) / 2
        tried = with_value(middle)
        more = StepCost(forward, tried, backend).times(work(sizes)).ns
        less = StepCost(forward, tried, FULL).times(work(sizes)).ns
        if float(np.mean(more - less)) < wanted:
            low = middle
        else:
            high = middle
    print(f"gb300 {field}: {low / 1e3:.1f} us, for {wanted / 1e6:.1f} ms over full")
    return with_value(low)


def on_one_scale(host: Host, base: Host) -> Host:
    """Compiled code dispatched as much faster than eager ops as on the measured host.

    The fitted costs hold an engine's own Python; a compiled dispatch on another scale would make
    code without graphs look faster than its replay.
    """
    slower = host.dispatch[""].value / base.dispatch[""].value
    compiled = carried(base.compiled_dispatch, "h200", slower)
    return msgspec.structs.replace(host, compiled_dispatch=compiled)


def fitted_gb300(profile: HardwareProfile, base: HardwareProfile) -> HardwareProfile:
    """gb300 with its host costs fitted to published differences; a collective's stays measured."""
    host = profile.host
    dispatch = {**host.dispatch, "collective": host.dispatch[""]}
    profile = msgspec.structs.replace(
        profile, host=msgspec.structs.replace(host, dispatch=dispatch)
    )
    for field, backend in (
        ("dispatch", EAGER), ("break_body", BREAKABLE), ("piece", TC_PIECEWISE)
    ):  # fmt: skip
        profile = fit_host(profile, field, backend)
    profile = msgspec.structs.replace(profile, host=on_one_scale(profile.host, base.host))
    description = f"{profile.description}; host costs fitted to published TTFTs of gpt-oss-120b TP4"
    return msgspec.structs.replace(profile, description=description)


def with_grace_of(profile: HardwareProfile, fitted: Host) -> HardwareProfile:
    """gb200 with the host figures that were fitted for gb300."""
    host = msgspec.structs.replace(
        profile.host,
        dispatch={
            "": as_on_gb300(fitted.dispatch[""]),
            "collective": profile.host.dispatch[""],
        },
        compiled_dispatch=as_on_gb300(fitted.compiled_dispatch),
        break_body=as_on_gb300(fitted.break_body),
        piece=as_on_gb300(fitted.piece),
    )
    description = f"{profile.description}; the Grace host as fitted for gb300"
    return msgspec.structs.replace(profile, host=host, description=description)


def main() -> None:
    source, base = open_source(sys.argv[1]), load_profile("h200")
    made = {}
    for name, (framework, version) in PROFILES.items():
        system = name.removesuffix(f"-{framework}")
        made[name], notes = import_profile(source, system, framework, version, base)
        for note in notes:
            print(name, note.table, note.version, note.rows, note.kept, note.remark, sep="  ")
    made["gb300"] = fitted_gb300(made["gb300"], base)
    made["gb200"] = with_grace_of(made["gb200"], made["gb300"].host)
    for name, profile in made.items():
        write_profile(profile, DATA / f"{name}.json")


if __name__ == "__main__":
    main()
