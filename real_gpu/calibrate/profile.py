"""Turns raw measurements into a hardware profile; nothing here is fitted to a whole forward.

    python -m real_gpu.calibrate.profile RAW.json --name h200 --out PROFILE.json

Runs without a GPU.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from real_gpu.calibrate.burst_fit import burst_of
from real_gpu.calibrate.roofline import gpu_of, roofline
from real_gpu.calibrate.wide import with_widths
from simcg.cost.kernels import Kernels
from simcg.cost.transfer import SIZES, leave_one_out
from simcg.errors import InputError, require
from simcg.hardware.datasheet import DATASHEETS
from simcg.hardware.profile import (
    CompileCost,
    Curve,
    CurveKey,
    Figure,
    Gaps,
    GraphMemory,
    HardwareProfile,
    Host,
    Startup,
)

VERSION = 3
NEEDED = ("chains", "dispatch", "dispatch again", "launch_latency", "replay", "backends", "gaps",
          "breaks", "elementwise")  # fmt: skip
SMALL_KINDS = ("norm", "rotary", "kv_write", "activation")
KEY_POINTS = 13
Raw = dict[str, Any]


def measured(sample: Sequence[float], source: str) -> Figure:
    """A figure of this run, from (median, spread); never below 0, which only noise is."""
    median, spread = sample
    return Figure(round(max(0.0, median), 1), "measured", source, round(abs(spread), 1))


def profile_name(gpu: str) -> str:
    """The data sheet's name where there is one, such as h200 for NVIDIA H200."""
    words = gpu.lower().replace("-", " ").split()
    known = [word for word in words if word in DATASHEETS]
    return known[0] if known else "-".join(word for word in words if word != "nvidia")


def build_profile(raw: Raw, name: str) -> HardwareProfile:
    """The profile of one run of ``python -m real_gpu.calibrate``.

    Raises ``InputError`` where a section is missing or failed that no profile can do without;
    curves that failed are left out.
    """
    version = raw.get("version")
    require(version == VERSION, "raw measurements", "version", version, str(VERSION))
    sections = _sections(raw)
    environment = {key: str(value) for key, value in raw["environment"].items()}
    environment["models"] = ", ".join(raw["models"])
    timed = [one for one in sections.values() if isinstance(one, dict) and "key" in one]
    usual, common = usual_beside(timed), at_common_clocks(timed)
    curves = with_widths(
        [_curve(one) for one in common if "short_keys" not in one],
        [
            {**one, "drawn": at_usual_clocks(one["drawn"], usual)}
            for one in common
            if "short_keys" in one
        ],
    )
    gpu = gpu_of(name, raw["environment"], curves)
    quick = " at three points a curve: not for predictions" if raw["quick"] else ""
    profile = HardwareProfile(
        name=name,
        description=f"{environment['gpu']}, measured with torch {environment['torch']}{quick}; "
        "attention is torch's varlen kernel, which does not split keys as engines do",
        environment=environment,
        gpu=gpu,
        host=_host(sections),
        gaps=_gaps(sections["gaps"], sections["breaks"]),
        roofline=roofline(curves, gpu),
        memory=_memory(sections),
        startup=_startup(sections),
        curves=curves,
        burst=burst_of(sections["burst"], usual, curves) if "burst" in sections else None,
    )
    return msgspec.structs.replace(profile, transfer=transfer_errors(profile))


def at_common_clocks(timed: Sequence[Raw]) -> list[Raw]:
    """Every point at the clocks of the run's median.

    What ran beside a point was the same at all points of about the same rows, so how much longer
    it took than in the median says how much slower the GPU was at that point.
    """
    usual = usual_beside(timed)
    return [at_usual_clocks(one, usual) for one in timed]


def at_usual_clocks(one: Raw, usual: dict[int, float]) -> Raw:
    """A section's points where the layers beside them take as long as ``usual`` says, by rows."""
    beside = zip(one["beside_rows"], one["beside_ns"], strict=True)
    faster = [usual.get(rows, ns) / ns for rows, ns in beside]
    ns = [max(1, round(v * f)) for v, f in zip(one["ns"], faster, strict=True)]
    return {**one, "ns": ns}


def usual_beside(timed: Sequence[Raw]) -> dict[int, float]:
    """By rows the median time of the layers that ran beside the curves' points."""
    took: dict[int, list[float]] = {}
    for one in timed:
        for rows, ns in zip(one["beside_rows"], one["beside_ns"], strict=True):
            took.setdefault(rows, []).append(ns)
    return {rows: statistics.median(values) for rows, values in took.items()}


def _sections(raw: Raw) -> Raw:
    """What was measured; ``InputError`` names a needed section that is not there and why."""
    good = {}
    for name, value in raw["sections"].items():
        if not (isinstance(value, dict) and "error" in value):
            good[name] = value
    for name in NEEDED:
        if name not in good:
            failed = raw["sections"].get(name, {"error": "not measured"})["error"]
            raise InputError("calibrate", f"section {name}", failed, "its measurements")
    return good


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


def _over(values: Iterable[float], source: str) -> Figure:
    """The median of several measurements, half their range as the spread."""
    every = list(values)
    half = (max(every) - min(every)) / 2
    return measured((statistics.median(every), half), source)


class Layers:
    """What one more layer costs, from runs of thin decoders of two depths.

    Of runs of one depth the shortest counts: whatever else a host does only lengthens its times.
    """

    def __init__(self, rows: Sequence[Raw], backend: str) -> None:
        self._rows = [row for row in rows if row["backend"] == backend]
        self._depths = sorted({int(row["layers"]) for row in self._rows})

    def each(self, name: str) -> float:
        """The difference of a figure per layer; of (median, spread) the median's."""
        shallow, deep = (self._least(name, depth) for depth in self._depths)
        more = self._depths[1] - self._depths[0]
        return (deep - shallow) / more

    def _least(self, name: str, depth: int) -> float:
        return min(self._number(row[name]) for row in self._rows if row["layers"] == depth)

    @staticmethod
    def _number(value: Any) -> float:
        return float(value[0] if isinstance(value, list | tuple) else value)


def _dispatch(sections: Raw) -> dict[str, Figure]:
    """By kind: all models and both times that it was measured, minutes apart."""
    found: dict[str, list[float]] = {}
    for name in ("dispatch", "dispatch again"):
        for kinds in sections[name].values():
            for kind, (ns, _) in kinds.items():
                found.setdefault(kind, []).append(ns)
    source = "host time where it stands in an eager forward of thin layers"
    dispatch = {kind: _over(values, source) for kind, values in found.items()}
    small = [dispatch[kind].value for kind in SMALL_KINDS]
    return {
        "": _over(small, "median of the small fused kernels"),
        **dispatch,
        "collective": Figure(15_600, "published", "aiconfigurator-core 0.12.0: custom all-reduce "
                             "eager less graph, H200, SGLang 0.5.10, 4 GPUs"),
    }  # fmt: skip


def _host(sections: Raw) -> Host:
    dispatch = _dispatch(sections)
    nodes = [count for count, _ in sections["replay"]]
    replay = [measured(host, "replay of tiny nodes") for _, host in sections["replay"]]
    broken = Layers(sections["backends"], "breakable")
    pieces = Layers(sections["backends"], "tc_piecewise")
    launch = float(np.interp(broken.each("nodes"), nodes, [f.value for f in replay]))
    per_layer = broken.each("host_ns")
    return Host(
        dispatch=dispatch,
        # what is measured of compiled code enters Triton's kernels through torch's Python wrapper,
        # at 65 us a kernel; an engine's compiled code launches kernels of its own
        compiled_dispatch=_cheapest(dispatch),
        break_body=measured((per_layer - launch, 0.0), "breakable replays of thin decoders, a "
                            "layer more, less the launch of its segment"),
        piece=measured((pieces.each("host_ns") - per_layer, 0.0), "guards: tc_piecewise (eager) "
                       "replays of thin decoders, a layer more, less breakable ones"),
        launch_latency=measured(
            sections["launch_latency"],
            "launch to end of a tiny kernel; the wait's wake-up included",
        ),
        replay_nodes=tuple(nodes),
        replay=tuple(replay),
    )  # fmt: skip


def _cheapest(dispatch: dict[str, Figure]) -> Figure:
    source = "the cheapest torch call measured: an engine's compiled code was not measured"
    return Figure(dispatch["elementwise"].value, "assumed", source)


def _compiled_dispatch(sections: Raw, dispatch: dict[str, Figure], compiler: str) -> Figure:
    """Of a compiler's code: a layer more without graphs, less its break, over its kernels."""
    rows = sections.get(f"compiled {compiler}")
    if rows is None:
        return _cheapest(dispatch)
    layers = Layers(rows, "tc_piecewise")
    of_break = dispatch["attention"].value + dispatch["elementwise"].value
    each = (layers.each("compiled_ns") - of_break) / layers.each("nodes")
    return measured((each, 0.0), f"pieces of thin decoders compiled by {compiler}, without "
                    "graphs, a layer more, less its break, per kernel")  # fmt: skip


def _gaps(rows: Sequence[Raw], breaks: Sequence[Raw]) -> Gaps:
    """Medians over the numbers of rows that were tried."""
    what = {
        "node": "a chain of one layer's different kernels in a graph, less each alone",
        "stream": "the same chain issued eagerly behind a sleep, less each alone",
        "graph_start": "graphs of a layer's kernels in a row, less one graph of them all",
    }
    known = {name: _over([row[name] for row in rows], text) for name, text in what.items()}
    after = _after_breaks(breaks, known["node"].value, known["stream"].value)
    source = "breakable less full replays of wide decoders, a layer more, less the break's gaps"
    at = [measured((row["node"], 0), what["node"]) for row in rows]
    return Gaps(
        **known,
        after_break=_over(after, source),
        node_rows=tuple(row["rows"] for row in rows),
        node_at=tuple(at),
    )


def _after_breaks(breaks: Sequence[Raw], node: float, stream: float) -> list[float]:
    """For each number of rows the gap before the graph behind a break.

    Breakable has, for a layer, the break's kernels at gaps of the stream and this gap where full
    has one of a node each.
    """
    out = []
    for rows in dict.fromkeys(row["rows"] for row in breaks):
        shallow, deep = (row for row in breaks if row["rows"] == rows)
        more = deep["layers"] - shallow["layers"]
        longer = [row["breakable_ns"] - row["full_ns"] for row in (shallow, deep)]
        inside = deep["break_kernels"]
        each = (longer[1] - longer[0]) / more
        out.append(each + (inside + 1) * node - inside * stream)
    return out


def _memory(sections: Raw) -> GraphMemory:
    chains = sections["chains"]
    longest, small = chains["chains"][-1], chains["small"]
    per_node = longest["bytes"] / longest["nodes"]
    per_graph = max(0.0, small["bytes"] / small["graphs"] - small["nodes"] * per_node)
    allocator = sections.get("allocator", {})
    segments = {
        name: measured((value, 0), "reserved bytes of one tensor in a fresh pool")
        for name, value in allocator.items()
    }
    return GraphMemory(
        first_graph_bytes=measured((chains["first_graph_bytes"], 0), "free memory"),
        exec_bytes_per_node=measured((per_node, 0), f"one graph of {longest['nodes']} nodes"),
        exec_bytes_per_graph=measured(
            (per_graph, 0), f"{small['graphs']} graphs of {small['nodes']} nodes, less their nodes"
        ),
        **segments,
    )


def _startup(sections: Raw) -> Startup:
    rows = sections["backends"]
    eager, full, broken = (Layers(rows, name) for name in ("eager", "full", "breakable"))
    per_node = [c["instantiate_ns"] / c["nodes"] for c in sections["chains"]["chains"]]
    instantiate = _over(per_node, "chains of tiny nodes")
    issued = full.each("capture_ns") - eager.each("host_ns")
    beside = issued / full.each("nodes") - instantiate.value
    segment = broken.each("capture_ns") - full.each("capture_ns")
    compilers = _compilers(sections)
    published = Figure(0.96e9, "published", "SGLang blog 2026-08-17, C2: 90.4 s for 94 layers "
                       "of Qwen3-235B-A22B on GB300")  # fmt: skip
    return Startup(
        capture_per_node=measured((beside, 0.0), "full capture of thin decoders, a layer more, "
                                  "less its eager issue and the instantiation"),
        instantiate_per_node=instantiate,
        compile_per_layer=compilers["inductor"].per_layer if "inductor" in compilers else published,
        capture_per_segment=measured((segment, 0.0), "breakable captures of thin decoders, a "
                                     "layer more, less full ones"),
        compilers=compilers,  # type: ignore[arg-type]  # the names of the sections
    )  # fmt: skip


def _compilers(sections: Raw) -> dict[str, CompileCost]:
    """The first compilation of all, in section "backends", pays for the front end's imports."""
    dispatch, out = _dispatch(sections), {}
    first = next(r for r in sections["backends"] if r["backend"] == "tc_piecewise")
    plain = sections.get("compiled eager")
    imports = 0.0
    if plain is not None and plain[0]["layers"] == first["layers"]:
        imports = max(0.0, first["compile_ns"] - plain[0]["compile_ns"])
    for name in ("eager", "inductor"):
        rows = sections.get(f"compiled {name}")
        if rows is not None:
            per_layer = max(0.0, Layers(rows, "tc_piecewise").each("compile_ns"))
            once = imports + rows[0]["compile_ns"] - rows[0]["layers"] * per_layer
            out[name] = CompileCost(
                once=measured((once, 0), "the first compilation of a process, less its layers"),
                per_layer=measured((per_layer, 0), "thin decoders of two depths, empty caches"),
                dispatch=_compiled_dispatch(sections, dispatch, name),
            )
    return out


def _curve(section: Raw) -> Curve:
    key = CurveKey(**section["key"])
    if key.op == "attention":
        return _attention(key, section)
    if key.op == "decode_attention":
        return _decode_attention(key, section)
    spread = section["spread_ns"]
    source = "torch, in a graph in turns with a layer of a forward, weights rotated"
    return Curve(key, tuple(section["x"]), tuple(section["ns"]), tuple(spread), "measured", source)


def _attention(key: CurveKey, section: Raw) -> Curve:
    """The measured points on a regular grid: along keys by log interpolation."""
    points: dict[int, list[tuple[float, float, float]]] = {}
    columns = zip(section["x"], section["ns"], section["spread_ns"], strict=True)
    for (tokens, pairs), ns, spread in columns:
        points.setdefault(tokens, []).append((pairs / tokens, ns, spread))
    most = max(keys for row in points.values() for keys, _, _ in row)
    keys = np.geomspace(16, round(most), KEY_POINTS)
    ns_rows, spread_rows = [], []
    for row in points.values():
        at, ns, spread = (np.array(column) for column in zip(*sorted(row), strict=True))
        ns_rows += list(np.exp(np.interp(np.log(keys), np.log(at), np.log(ns))))
        spread_rows += list(np.interp(np.log(keys), np.log(at), spread / ns))
    return Curve(
        key=key,
        x=tuple(points),
        y=tuple(round(float(k), 3) for k in keys),
        ns=tuple(round(v) for v in ns_rows),
        spread_ns=tuple(max(1.0, round(v * s)) for v, s in zip(ns_rows, spread_rows, strict=True)),
        provenance="measured",
        source="torch's varlen attention over a flat cache, in a graph",
    )


def _decode_attention(key: CurveKey, section: Raw) -> Curve:
    """The measured grid, row by row."""
    requests, keys = (tuple(dict.fromkeys(axis)) for axis in zip(*section["x"], strict=True))
    return Curve(
        key=key, x=requests, y=keys, ns=tuple(section["ns"]),
        spread_ns=tuple(section["spread_ns"]), provenance="measured",
        source="torch's varlen attention of one token a request, which splits no keys, in a graph",
    )  # fmt: skip


def main() -> None:
    """Read the raw measurements, write the profile."""
    parser = argparse.ArgumentParser(prog="python -m real_gpu.calibrate.profile")
    parser.add_argument("raw", type=Path)
    parser.add_argument("--name", required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    profile = build_profile(json.loads(args.raw.read_text()), args.name)
    args.out.write_bytes(msgspec.json.format(msgspec.json.encode(profile), indent=1) + b"\n")


if __name__ == "__main__":
    main()
