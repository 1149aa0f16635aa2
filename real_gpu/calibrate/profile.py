"""Turns raw measurements into a hardware profile.

    python -m real_gpu.calibrate.profile RAW.json --name h200 --out PROFILE.json

Runs without a GPU. Two figures are fitted: the gap between the nodes of a graph, as op curves are
timed in graphs of one repeated kernel, and a forward of many different kernels waits longer
between them; and the gap after a break. They are solved for on full and breakable replays of at
most 128 tokens; the larger sizes check them.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from real_gpu.calibrate.check import LAYERS, check_steps, decoder_pass
from simcg.backend import BREAKABLE, FULL, CaptureBackend
from simcg.cost.kernels import Kernels
from simcg.cost.step import StepCost
from simcg.cost.transfer import SIZES, leave_one_out
from simcg.hardware.datasheet import DATASHEETS, link_figures
from simcg.hardware.profile import (
    Curve,
    CurveKey,
    Figure,
    Gaps,
    Gpu,
    GraphMemory,
    HardwareProfile,
    Host,
    Roofline,
    Startup,
)

FIT_TOKENS = 128  # the node gap is fitted on full replays up to this size
Raw = dict[str, Any]


def measured(sample: Sequence[float], source: str) -> Figure:
    """A figure of this run, from (median, spread)."""
    median, spread = sample
    return Figure(round(median, 1), "measured", source, round(spread, 1))


def build_profile(raw: Raw, name: str) -> HardwareProfile:
    """The profile of one run of ``python -m real_gpu.calibrate``."""
    environment = {key: str(value) for key, value in raw["environment"].items()}
    curves = _curves(raw)
    profile = HardwareProfile(
        name=name,
        description=f"{environment['gpu']}, measured with torch {environment['torch']}",
        environment=environment,
        gpu=_gpu(name, environment),
        host=_host(raw),
        gaps=_gaps(raw),
        roofline=_roofline(curves, name),
        memory=_memory(raw),
        startup=_startup(raw),
        curves=curves,
    )
    profile = msgspec.structs.replace(profile, transfer=transfer_errors(profile))
    for gap, fit in (("node", _fit_node_gap), ("after_break", _fit_break_gap)):
        gaps = msgspec.structs.replace(profile.gaps, **{gap: fit(profile, raw)})
        profile = msgspec.structs.replace(profile, gaps=gaps)
    return profile


def transfer_errors(profile: HardwareProfile) -> dict[str, Figure]:
    """By op, one sigma of a transferred time, as a share: curves held out one at a time."""
    source = "68th percentile of the errors of curves that were left out"
    base = Kernels(profile).roofline_ns
    held_out = {op: leave_one_out(profile, op, base) for op in SIZES}
    return {
        op: Figure(
            round(float(np.percentile(np.abs(np.concatenate([e for _, e in errors])), 68)), 4),
            "fitted",
            source,
        )
        for op, errors in held_out.items()
        if errors
    }


def _gpu(name: str, environment: dict[str, str]) -> Gpu:
    sheet = DATASHEETS[name]
    return msgspec.structs.replace(
        sheet,
        sms=measured((float(environment["sms"]), 0), "device properties"),
        memory_bytes=measured((float(environment["memory_bytes"]), 0), "device properties"),
    )


def _host(raw: Raw) -> Host:
    """Dispatch where it was seen in a forward, else alone (twice, minutes apart)."""
    in_place: dict[str, list[float]] = {}
    for kinds in raw["forwards"]["host_by_kind"].values():
        for kind, (ns, _) in kinds.items():
            in_place.setdefault(kind, []).append(ns)
    seen = {kind: _over(values, "host time in eager forwards") for kind, values in in_place.items()}
    alone = {
        kind: _over(
            [raw["dispatch"][kind][0], raw["dispatch again"][kind][0]],
            "host time of calls in a row",
        )
        for kind in raw["dispatch"]
    }
    pair, copy = seen.pop("break"), alone["elementwise"]
    attention = measured(
        (pair.value - copy.value, pair.spread + copy.spread), "attention and copy, less the copy"
    )
    small = [seen[kind].value for kind in ("norm", "rotary", "kv_write", "activation")]
    dispatch = {
        "": _over(small, "median of the small fused kernels"),
        "gemm": seen["gemm"], "norm": seen["norm"], "rotary": seen["rotary"],
        "kv_write": seen["kv_write"], "activation": seen["activation"], "attention": attention,
        "embedding": seen["embedding"], "elementwise": copy, "router": alone["router"],
        "grouped_gemm": alone["grouped_gemm"],
        "collective": Figure(15_600, "published", "aiconfigurator-core 0.12.0: custom all-reduce "
                             "eager less graph, H200, SGLang 0.5.10, 4 GPUs"),
    }  # fmt: skip
    replay = [measured(host, "replay of tiny nodes") for _, host, _ in raw["replay"]]
    cheapest = Figure(copy.value, "assumed", "the cheapest torch call measured: compiled code "
                      "without a graph was not measured")  # fmt: skip
    return Host(
        dispatch=dispatch,
        compiled_dispatch=cheapest,
        break_body=_break_body(raw),
        piece=measured(raw["piece"], "torch.compile(backend='eager') call, less the call"),
        launch_latency=measured(
            raw["launch_latency"], "launch to end of a tiny kernel; the wait's wake-up included"
        ),
        replay_nodes=tuple(nodes for nodes, _, _ in raw["replay"]),
        replay=tuple(replay),
    )


def _over(values: list[float], source: str) -> Figure:
    middle = statistics.median(values)
    return measured((middle, (max(values) - min(values)) / 2), source)


def _small(raw: Raw, backend: str) -> list[Raw]:
    steps = raw["forwards"]["steps"]
    return [r for r in steps if r["backend"] == backend and r["tokens"] <= FIT_TOKENS]


def _break_body(raw: Raw) -> Figure:
    """Host time of breakable forwards at small sizes, less its launches, per break."""
    launch = raw["break"]["segment"][0]
    per_break = [(r["host_ns"] - (LAYERS + 1) * launch) / LAYERS for r in _small(raw, "breakable")]
    return _over(per_break, f"breakable forwards of at most {FIT_TOKENS} tokens, per break")


def _gaps(raw: Raw) -> Gaps:
    gaps = raw["gaps"]
    return Gaps(
        stream=measured(gaps["stream_gap"], "200 equal kernels, eager less graph"),
        node=Figure(0, "assumed", "replaced by the fit"),
        graph_start=measured(gaps["graph_start"], "20 graphs of 10 nodes, less one of 200"),
        after_break=measured(gaps["break_gap"], "20 graphs of 10 nodes and an eager kernel each"),
    )


def _fit_node_gap(profile: HardwareProfile, raw: Raw) -> Figure:
    """What full replays of small batches take beyond the sum of their ops, per node."""
    return _missing(profile, raw, FULL, StepCost(decoder_pass(), profile, FULL).nodes)


def _fit_break_gap(profile: HardwareProfile, raw: Raw) -> Figure:
    """What breakable replays of small batches take beyond that, per break."""
    return _missing(profile, raw, BREAKABLE, LAYERS)


def _missing(profile: HardwareProfile, raw: Raw, backend: CaptureBackend, parts: int) -> Figure:
    """Measured less predicted time of the small forwards, per part, on top of the gap so far."""
    so_far = profile.gaps.node if backend is FULL else profile.gaps.after_break
    missing = [
        (check.measured_ns - check.predicted_ns) / parts
        for check in check_steps(profile, raw)
        if check.backend == backend.name and check.tokens <= FIT_TOKENS
    ]
    gap = max(0.0, so_far.value + statistics.median(missing))
    source = f"{backend.name} replays of at most {FIT_TOKENS} tokens, less the sum of their ops"
    return Figure(round(gap, 1), "fitted", source, round((max(missing) - min(missing)) / 2, 1))


def _memory(raw: Raw) -> GraphMemory:
    longest = raw["capture"]["chains"][-1]
    return GraphMemory(
        first_graph_bytes=measured((raw["capture"]["first_graph_bytes"], 0), "free memory"),
        exec_bytes_per_node=measured(
            (longest["exec_bytes"] / longest["nodes"], 0), f"one graph of {longest['nodes']} nodes"
        ),
    )


def _startup(raw: Raw) -> Startup:
    per_node = [c["instantiate_ns"] / c["nodes"] for c in raw["capture"]["chains"]]
    instantiate = _over(per_node, "graphs of 1,024 to 16,384 nodes")
    nodes = 2 + 12 * LAYERS + 2
    eager = {r["tokens"]: r["host_ns"] for r in _small(raw, "eager")}
    beside = [
        (r["capture_ns"] - eager[r["tokens"]]) / nodes - instantiate.value
        for r in _small(raw, "full")
    ]
    source = "capture of a full forward, less its eager issue and the instantiation"
    return Startup(
        capture_per_node=_over([max(0.0, b) for b in beside], source),
        instantiate_per_node=instantiate,
        compile_per_layer=Figure(0.96e9, "published", "SGLang blog 2026-08-17, C2: 90.4 s for 94 "
                                 "layers of Qwen3-235B-A22B on GB300"),
    )  # fmt: skip


def _curves(raw: Raw) -> tuple[Curve, ...]:
    out = []
    for name, section in raw.items():
        if name == "by_kind":
            named = {"copy": "elementwise"}
            for one in section:
                kind = one["shape"]["kind"]
                if kind != "head_norm":  # counted as a norm
                    key = CurveKey("elementwise", kind=named.get(kind, kind))
                    out.append(_curve(key, one, "fused ops of a Qwen3-8B layer, in a graph"))
        elif name == "elementwise":
            out.append(_curve(CurveKey("elementwise"), section, "multiply, in a graph"))
        elif name.startswith(("gemm ", "grouped ")):
            key = CurveKey(
                section["shape"]["type"],
                **{k: v for k, v in section["shape"].items() if k != "type"},
            )
            out.append(_curve(key, section, "torch, in a graph, weights rotated, busy clocks"))
        elif name.startswith("attention "):
            out.append(_attention(section))
    return tuple(out)


def _curve(key: CurveKey, section: Raw, source: str) -> Curve:
    return Curve(
        key=key, x=tuple(section["rows"]), ns=tuple(section["ns"]),
        spread_ns=tuple(section["spread_ns"]), provenance="measured", source=source,
    )  # fmt: skip


def _attention(section: Raw) -> Curve:
    """The measured points on a regular grid: along keys by log interpolation."""
    shape = section["shape"]
    points: dict[int, list[tuple[float, float, float]]] = {}
    for (tokens, pairs), ns, spread in zip(
        section["rows"], section["ns"], section["spread_ns"], strict=True
    ):
        points.setdefault(tokens, []).append((pairs / tokens, ns, spread))
    keys = np.geomspace(16, 65536, 13)
    ns_rows, spread_rows = [], []
    for row in points.values():
        at, ns, spread = (np.array(column) for column in zip(*sorted(row), strict=True))
        ns_rows += list(np.exp(np.interp(np.log(keys), np.log(at), np.log(ns))))
        spread_rows += list(np.interp(np.log(keys), np.log(at), spread / ns))
    return Curve(
        key=CurveKey(
            "attention", heads=shape["heads"], kv_heads=shape["kv_heads"],
            head_dim=shape["head_dim"], window=shape["window"] or 0,
        ),
        x=tuple(points), y=tuple(float(k) for k in keys),
        ns=tuple(round(v) for v in ns_rows),
        spread_ns=tuple(max(1.0, round(v * s)) for v, s in zip(ns_rows, spread_rows, strict=True)),
        provenance="measured", source="torch's varlen attention, in a graph",
    )  # fmt: skip


def _roofline(curves: tuple[Curve, ...], name: str) -> Roofline:
    """Shares of the peak reached by the measured curves, for the shapes that have none."""
    gpu = DATASHEETS[name]
    peak, bandwidth = gpu.peak_flops["bf16"].value, gpu.memory_bandwidth.value
    gemms = [c for c in curves if c.key.op == "gemm" and c.key.n >= 2048 and c.x[-1] >= 8192]
    grouped = [c for c in curves if c.key.op == "grouped_gemm"]

    def compute(c: Curve, copies: int = 1) -> float:
        return 2 * c.x[-1] * copies * c.key.k * c.key.n / (c.ns[-1] * 1e-9) / peak

    def stream(c: Curve, bytes_read: float, at: float) -> float:
        return bytes_read / (float(np.interp(at, c.x, c.ns)) * 1e-9) / bandwidth

    def share(values: list[float], what: str) -> Figure:
        text = f"median over the measured curves: {what}"
        return Figure(round(statistics.median(values), 3), "assumed", text, 0.0)

    attention = [c for c in curves if c.key.op == "attention" and not c.key.window]
    reached = [
        4 * c.key.heads * c.key.head_dim * c.x[-1] * c.y[-1] / (c.ns[-1] * 1e-9) / peak
        for c in attention
    ]
    smallest = min(min(c.ns) for c in curves if c.key.op == "elementwise")
    return Roofline(
        compute=share([compute(c) for c in gemms], "GEMMs of 8,192 rows"),
        bandwidth=share(
            [stream(c, 2 * c.key.k * c.key.n, 64) for c in gemms], "weights of GEMMs of 64 rows"
        ),
        grouped_compute=share(
            [compute(c, c.key.top_k) for c in grouped], "grouped GEMMs of 8,192 rows"
        ),
        grouped_bandwidth=share(
            [stream(c, 2 * c.key.k * c.key.n * c.key.experts, 256) for c in grouped],
            "expert weights at 256 rows",
        ),
        attention_compute=share(reached, "attention of 8,192 tokens over 65,536 keys"),
        floor_ns=Figure(smallest, "assumed", "the shortest measured kernel"),
        **link_figures(),
    )


def main() -> None:
    """Read the raw measurements, write the profile."""
    parser = argparse.ArgumentParser(prog="python -m real_gpu.calibrate.profile")
    parser.add_argument("raw", type=Path)
    parser.add_argument("--name", required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    raw = json.loads(args.raw.read_text())
    profile = build_profile(raw, args.name)
    args.out.write_bytes(msgspec.json.format(msgspec.json.encode(profile), indent=1) + b"\n")
    for check in check_steps(profile, raw):
        print(
            f"{check.backend:10} {check.tokens:6d}  measured {check.measured_ns / 1e6:9.3f} ms  "
            f"predicted {check.predicted_ns / 1e6:9.3f} ms  {100 * check.error:+6.1f} %"
        )


if __name__ == "__main__":
    main()
