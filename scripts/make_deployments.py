"""Makes the kernel times that predictions of the measured deployments rest on.

    pip install 'simcg[silicon]' && python scripts/make_deployments.py WHEEL_OR_FOLDER

Reads the tables of aiconfigurator-core 0.12.0 (Apache-2.0) through ``simcg profile import`` and
writes simcg/reproduce/data/SYSTEM-FRAMEWORK.json: a hardware profile with a curve for each
kernel of the claimed points and no other. ``weights`` of an attention curve is the type of its KV
cache. Experts that a framework's table lacks are another's on the same system.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

from simcg.cost.kernels import Kernels, Work
from simcg.errors import SimcgError
from simcg.hardware.catalog import load_profile
from simcg.hardware.profile import Curve, CurveKey, HardwareProfile
from simcg.model.forward import forward_pass
from simcg.model.ops import AllReduce, Attention, Gemm, Op
from simcg.reproduce.deployment import stored_architecture
from simcg.reproduce.silicon import claimed_points
from simcg.silicon.attention import decodes, prompts
from simcg.silicon.build import FRAMEWORKS, import_profile
from simcg.silicon.source import Source, Table, open_source

OUT = Path(__file__).parent.parent / "simcg" / "reproduce" / "data"


def ops_of(system: str, framework: str) -> set[Op]:
    """The distinct ops of the claimed points there, both phases."""
    kinds = {
        (stored_architecture(point.model, point.precision), point.tp)
        for point in claimed_points()
        if (point.system, point.framework) == (system, framework)
    }
    out: set[Op] = set()
    for arch, tp in kinds:
        try:
            for phase in ("prefill", "decode"):
                out.update(forward_pass(arch, tp=tp, phase=phase).numbered[0])  # type: ignore[arg-type]  # a literal
        except SimcgError:
            continue  # no such split: said where the point is predicted
    return out


def products(profile: HardwareProfile, ops: Iterable[Op]) -> dict[CurveKey, Curve]:
    """A curve for each dense product, at the rows of the profile's grid of its type."""
    kernels, out = Kernels(profile), {}
    rows = {grid.weights: np.array(grid.rows, dtype=np.int64) for grid in profile.grids}
    for op in ops:
        shape = op.shape
        if not isinstance(shape, Gemm) or op.part_of is not None or shape.weights not in rows:
            continue
        at = rows[shape.weights]
        time = kernels.time(replace(op, rows="tokens"), Work(at, at, at, at))
        key = CurveKey("gemm", k=shape.k, n=shape.n, weights=shape.weights)
        out[key] = Curve(
            key, tuple(at.astype(float).tolist()), tuple(time.ns.astype(float).tolist()), (),
            time.provenance, profile.grids[0].source, sigma=float(time.relative_spread),
        )  # fmt: skip
    return out


def wanted_keys(ops: Iterable[Op]) -> set[CurveKey]:
    """Keys of the other tabulated kernels."""
    out: set[CurveKey] = set()
    for op in ops:
        shape, layer = op.shape, op.part_of
        if isinstance(shape, AllReduce):
            out.add(CurveKey("all_reduce", ranks=shape.ranks))
        if isinstance(shape, Attention):
            size = {"heads": shape.heads, "kv_heads": shape.kv_heads, "head_dim": shape.head_dim}
            for name in ("attention", "decode_attention"):
                out.add(CurveKey(name, **size, window=shape.window or 0))  # type: ignore[arg-type]  # a literal
        if layer is not None:
            out.add(
                CurveKey(
                    "experts", k=layer.hidden, n=layer.width, experts=layer.experts,
                    top_k=layer.top_k, weights=layer.weights,
                )
            )  # fmt: skip
    return out


def small_caches(source: Source, system: str, framework: str, keys: set[CurveKey]) -> list[Curve]:
    """Attention over 8-bit caches, by 8-bit kernels where prompts were timed with them."""
    out = []
    for file, convert in (
        ("context_attention_perf", prompts), ("generation_attention_perf", decodes),
    ):  # fmt: skip
        table = source.table(system, ("attention", framework, file), None)
        if table is None:
            continue
        small = table.where(kv_cache_dtype="fp8")
        if "attn_dtype" in small.rows and (small.rows["attn_dtype"] == "fp8").any():
            small = small.where(attn_dtype="fp8")
        cite = f"aiconfigurator-core {source.release}: {system}, {framework} {table.version}"
        for curve in convert(as_wide(small), f"{cite}, 8-bit KV cache"):
            if curve.key in keys:
                key = msgspec.structs.replace(curve.key, weights="fp8")
                out.append(msgspec.structs.replace(curve, key=key))
    return out


def as_wide(table: Table) -> Table:
    """The table with its types called 16-bit, so that the same reader takes it."""
    wide = np.full(len(table), "bfloat16")
    named = {name: wide for name in ("kv_cache_dtype", "attn_dtype") if name in table.rows}
    return Table(table.name, table.framework, table.version, {**table.rows, **named})


def reduced(source: Source, system: str, framework: str) -> HardwareProfile:
    """The profile with the curves that are needed and no grids."""
    base = load_profile("h200")
    order = (framework, *(other for other in FRAMEWORKS if other != framework))
    profiles = [import_profile(source, system, name, None, base)[0] for name in order]
    ops = ops_of(system, framework)
    keys = wanted_keys(ops)
    curves = {c.key: c for c in profiles[0].curves if c.key.op == "elementwise"}
    curves |= products(profiles[0], ops)
    for profile in profiles:
        for curve in profile.curves:
            if curve.key in keys:
                curves.setdefault(curve.key, curve)
    for name in order:
        for curve in small_caches(source, system, name, keys):
            curves.setdefault(curve.key, curve)
    missing = sorted({(k.op, k.n) for k in keys - set(curves)})
    sys.stdout.write(f"{system} {framework}: {len(curves)} curves, no tables of {missing}\n")
    return msgspec.structs.replace(profiles[0], curves=tuple(curves.values()), grids=())


def main(path: str) -> None:
    """Write all profiles."""
    source = open_source(path)
    for system, framework in sorted({(p.system, p.framework) for p in claimed_points()}):
        data = msgspec.json.encode(reduced(source, system, framework))
        (OUT / f"{system}-{framework}.json").write_bytes(data + b"\n")


if __name__ == "__main__":
    main(sys.argv[1])
