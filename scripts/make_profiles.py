"""Writes the profiles of GPUs that were not measured here: data sheets and published figures.

    python -m scripts.make_profiles

What has no source of its own is carried over from the measured h200 profile and marked assumed.
For gb300 five figures are fitted, so that gpt-oss-120b on four of them meets published totals:
the expert products' shares of the peaks, to GPU times; dispatch, break body and piece, to
differences of TTFTs.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np
from scipy.optimize import least_squares

from simcg.arrays import Floats
from simcg.backend import BREAKABLE, EAGER, FULL, TC_PIECEWISE, CaptureBackend
from simcg.cost.kernels import Work
from simcg.cost.step import StepCost
from simcg.hardware.catalog import load_profile
from simcg.hardware.datasheet import DATASHEETS, link_figures
from simcg.hardware.profile import Figure, HardwareProfile, Host
from simcg.model.catalog import architecture_named
from simcg.model.forward import forward_pass

S = TypeVar("S", bound=msgspec.Struct)

DATA = Path(__file__).parent.parent / "simcg" / "hardware" / "data"
ALL_REDUCE = (
    "aiconfigurator-core 0.12.0: custom all-reduce, eager less graph, 4 GPUs, SGLang 0.5.10"
)
# eager less graph in ns: what one dispatch through torch costs on that host
DISPATCH = {"a100": 35_600, "h100": 14_300, "b200": 10_700, "gb200": 43_100, "gb300": 35_900}

# gpt-oss-120b, TP4, GB300: sum of measured kernels (aiconfigurator-core, SGLang 0.5.14), ms
GPU_MS = {64: 5.2, 128: 6.2, 256: 8.0, 512: 11.5, 1024: 12.7, 2048: 15.9, 4096: 27.7, 8192: 50.8}
# median TTFT in ms, digitised from a draft chart of the SGLang blog of 2026-08-17
TTFT_MS = {
    64: (140.4, 74.9, 82.6, 98.6), 128: (145.0, 73.5, 87.2, 106.5),
    256: (126.3, 73.6, 86.1, 101.9), 512: (120.2, 70.0, 82.6, 88.7),
    1024: (146.3, 79.9, 85.8, 96.0), 2048: (149.9, 76.4, 85.7, 104.4),
}  # fmt: skip  # prompt tokens: eager, full, breakable, tc_piecewise
DRAFT = "differences of TTFTs, gpt-oss-120b TP4 on GB300, digitised from a draft chart (64..2048)"


def carried(figure: Figure, factor: float = 1.0) -> Figure:
    """The H200's figure, assumed to hold here too."""
    return Figure(figure.value * factor, "assumed", f"as on the measured h200: {figure.source}")


def as_on_gb300(figure: Figure) -> Figure:
    """A host cost of the same Grace host."""
    return Figure(figure.value, "assumed", f"as on gb300: {figure.source}")


def carried_all(struct: S) -> S:
    """All figures of a struct, carried over; what a profile may lack stays as it is."""
    changed: dict[str, object] = {}
    for name in struct.__struct_fields__:
        field = getattr(struct, name)
        if isinstance(field, Figure):
            changed[name] = carried(field)
        elif isinstance(field, tuple) and field and isinstance(field[0], Figure):
            changed[name] = tuple(map(carried, field))
    return msgspec.structs.replace(struct, **changed)


def unmeasured(name: str, base: HardwareProfile) -> HardwareProfile:
    """Data sheet and published dispatch; host costs in proportion to it, the rest carried over."""
    here = Figure(DISPATCH[name], "published", ALL_REDUCE)
    slower = here.value / base.host.dispatch["collective"].value
    compiling = base.startup.compile_per_layer
    host = Host(
        dispatch={"": here},
        compiled_dispatch=carried(base.host.compiled_dispatch, slower),
        break_body=carried(base.host.break_body, slower),
        piece=carried(base.host.piece, slower),
        launch_latency=carried(base.host.launch_latency),
        replay_nodes=base.host.replay_nodes,
        replay=tuple(carried(f) for f in base.host.replay),
    )
    links = link_figures()
    roofline = msgspec.structs.replace(carried_all(base.roofline), **links)
    startup = msgspec.structs.replace(
        carried_all(base.startup),
        capture_per_node=carried(base.startup.capture_per_node, slower),
        compile_per_layer=compiling if compiling.provenance == "published" else carried(compiling),
        compilers={},
    )
    return HardwareProfile(
        name=name,
        description=f"{name.upper()}: data sheet, published host dispatch, the rest as on an H200",
        environment={},
        gpu=DATASHEETS[name],
        host=host,
        gaps=carried_all(base.gaps),
        roofline=roofline,
        memory=carried_all(base.memory),
        startup=startup,
    )


def work(sizes: list[int]) -> Work:
    n = np.array(sizes, dtype=np.int64)
    return Work(rows=n, tokens=n, requests=np.ones_like(n), pairs=n * (n + 1) // 2)


def fit_roofline(profile: HardwareProfile) -> HardwareProfile:
    """The expert products' shares of the peaks, of least log error (soft l1).

    They are what the published times are about; the dense shares cannot be told from these sums,
    and a fit of all of them ends at absurd ones, so they stay as on the h200. The search starts at
    the best point of a grid: where compute bounds all sizes, the error is flat in the bandwidth.
    """
    forward = forward_pass(architecture_named("gpt-oss-120b"), tp=4)
    sizes = list(GPU_MS)
    published = np.log([GPU_MS[n] * 1e6 for n in sizes])
    source = "GPU time of gpt-oss-120b TP4 on GB300 (aiconfigurator-core tables), 64..8192 tokens"
    names = ("grouped_compute", "grouped_bandwidth")

    def tried(log_shares: Floats) -> HardwareProfile:
        shares = dict(zip(names, np.exp(log_shares), strict=True))
        figures = {k: Figure(round(float(v), 3), "fitted", source) for k, v in shares.items()}
        roof = msgspec.structs.replace(profile.roofline, **figures)
        return msgspec.structs.replace(profile, roofline=roof)

    def errors(log_shares: Floats) -> Floats:
        device = StepCost(forward, tried(log_shares), FULL).times(work(sizes)).device_ns
        out: Floats = np.log(device) - published
        return out

    def loss(log_shares: Floats) -> float:
        return float(np.sum(np.sqrt(1 + errors(log_shares) ** 2)))

    grid = np.log(np.arange(2, 18) / 20)
    start = min((np.array(pair) for pair in itertools.product(grid, grid)), key=loss)
    bounds = (np.log(0.1), np.log(0.9))
    found = least_squares(errors, start, bounds=bounds, diff_step=[0.05] * 2, loss="soft_l1")
    best = tried(found.x)
    device = StepCost(forward, best, FULL).times(work(sizes)).device_ns
    for n, ns in zip(sizes, device, strict=True):
        print(f"gb300 gpt-oss-120b tp4 {n:5d} tokens: {ns / 1e6:6.2f} ms, published {GPU_MS[n]}")
    return best


def fit_host(profile: HardwareProfile, field: str, backend: CaptureBackend) -> HardwareProfile:
    """The figure that makes ``backend`` less ``full`` meet the mean published difference."""
    forward = forward_pass(architecture_named("gpt-oss-120b"), tp=4)
    column = {EAGER.name: 0, BREAKABLE.name: 2, TC_PIECEWISE.name: 3}[backend.name]
    sizes = list(TTFT_MS)
    wanted = float(np.mean([t[column] - t[1] for t in TTFT_MS.values()])) * 1e6

    def with_value(ns: float) -> HardwareProfile:
        figure = Figure(round(ns), "fitted", DRAFT)
        value = {"": figure} if field == "dispatch" else figure
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
    compiled = carried(base.compiled_dispatch, slower)
    return msgspec.structs.replace(host, compiled_dispatch=compiled)


def fitted_gb300(profile: HardwareProfile, base: HardwareProfile) -> HardwareProfile:
    """gb300 with its kernels and host costs fitted to published totals."""
    profile = fit_roofline(profile)
    for field, backend in (
        ("dispatch", EAGER), ("break_body", BREAKABLE), ("piece", TC_PIECEWISE)
    ):  # fmt: skip
        profile = fit_host(profile, field, backend)
    profile = msgspec.structs.replace(profile, host=on_one_scale(profile.host, base.host))
    return msgspec.structs.replace(
        profile,
        description="GB300 (NVL72): data sheet; kernels and host costs fitted to published totals "
        "of gpt-oss-120b TP4; memory and capture as on an H200",
    )


def main() -> None:
    base = load_profile("h200")
    profiles = {name: unmeasured(name, base) for name in DISPATCH}
    profiles["gb300"] = fitted_gb300(profiles["gb300"], base)
    # the same Grace host serves both
    fitted = profiles["gb300"].host
    grace = msgspec.structs.replace(
        fitted,
        dispatch={"": as_on_gb300(fitted.dispatch[""])},
        compiled_dispatch=as_on_gb300(fitted.compiled_dispatch),
        break_body=as_on_gb300(fitted.break_body),
        piece=as_on_gb300(fitted.piece),
    )
    profiles["gb200"] = msgspec.structs.replace(
        profiles["gb200"],
        host=grace,
        description="GB200 (NVL72): data sheet; the Grace host as fitted for GB300, the rest as on "
        "an H200",
    )
    for name, profile in profiles.items():
        text = msgspec.json.format(msgspec.json.encode(profile), indent=1)
        (DATA / f"{name}.json").write_bytes(text + b"\n")


if __name__ == "__main__":
    main()
