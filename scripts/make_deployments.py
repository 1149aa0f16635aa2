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
from simcg.cost.keys import attention_key, experts_key, gemm_key, special_keys
from simcg.errors import SimcgError
from simcg.hardware.catalog import load_profile
from simcg.hardware.profile import Curve, CurveKey, HardwareProfile
from simcg.model.forward import forward_pass
from simcg.model.ops import AllReduce, Attention, Elementwise, Gemm, GroupedGemm, Op
from simcg.reproduce.deployment import BLACKWELL, stored_architecture
from simcg.reproduce.silicon import claimed_points
from simcg.silicon.build import FAMILIES, FRAMEWORKS, import_profile
from simcg.silicon.experts import experts
from simcg.silicon.planes import Curves
from simcg.silicon.source import Source, Table, open_source

BLOCK = 128
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


def products(profiles: list[HardwareProfile], ops: Iterable[Op]) -> dict[CurveKey, Curve]:
    """A curve for each dense product, at the rows of the first profile's grid of its type.

    TensorRT-LLM's rows of narrow types time its torch op, in which inputs are quantised; served,
    that is part of the norm before. There the fastest framework's kernel stands for it.
    """
    own, out = profiles[0], {}
    rows = {grid.weights: (np.array(grid.rows, dtype=np.int64), grid.source) for grid in own.grids}
    others = profiles[1:] if own.environment["framework"].startswith("trtllm") else []
    for op in ops:
        shape = op.shape
        if not isinstance(shape, Gemm) or op.part_of is not None or shape.weights not in rows:
            continue
        at, source = rows[shape.weights]
        work, dense = Work(at, at, at, at), replace(op, rows="tokens")
        time = Kernels(own).time(dense, work)
        ns = time.ns
        for other in others if shape.weights != "bf16" else []:
            if any(grid.weights == shape.weights for grid in other.grids):
                ns = np.minimum(ns, Kernels(other).time(dense, work).ns)
        key = gemm_key(shape)
        out[key] = Curve(
            key, tuple(at.astype(float).tolist()), tuple(ns.astype(float).tolist()), (),
            time.provenance, source, sigma=float(time.relative_spread),
        )  # fmt: skip
    return out


def wanted_keys(ops: Iterable[Op]) -> set[CurveKey]:
    """Keys of the other tabulated kernels."""
    out: set[CurveKey] = set()
    for op in ops:
        shape, layer = op.shape, op.part_of
        if layer is not None:
            out.add(experts_key(layer))
        elif isinstance(shape, AllReduce):
            out.add(CurveKey("all_reduce", ranks=shape.ranks))
        elif isinstance(shape, Attention):
            out.update(attention_key(shape, op) for op in ("attention", "decode_attention"))
        elif not isinstance(shape, Gemm | GroupedGemm | Elementwise):
            out.update(key for key in special_keys(shape) if key is not None)
    return out


def small_caches(source: Source, system: str, framework: str, keys: set[CurveKey]) -> list[Curve]:
    """Attention over 8-bit caches, by 8-bit kernels where prompts were timed with them."""
    out = []
    for family in FAMILIES:
        table = source.table(system, (family.folder, framework, family.file), None)
        if table is None or family.folder not in ("attention", "mla"):
            continue
        small = table.where(kv_cache_dtype="fp8")
        if "attn_dtype" in small.rows and (small.rows["attn_dtype"] == "fp8").any():
            small = small.where(attn_dtype="fp8")
        cite = f"aiconfigurator-core {source.release}: {system}, {framework} {table.version}"
        curves = Curves(f"{cite}, 8-bit KV cache")
        family.convert(renamed(small, "bfloat16", "kv_cache_dtype", "attn_dtype"), curves)
        for curve in curves.made:
            if curve.key in keys:
                key = msgspec.structs.replace(curve.key, weights="fp8")
                out.append(msgspec.structs.replace(curve, key=key))
    return out


def narrow_experts(source: Source, system: str, framework: str) -> list[Curve]:
    """MXFP4 experts with 8-bit inputs: what recipes on Blackwell turn on."""
    table = source.table(system, ("moe", framework, "moe_perf"), None)
    if table is None:
        return []
    rows = table.where(moe_dtype="w4a8_mxfp4_mxfp8")
    cite = f"aiconfigurator-core {source.release}: {system}, {framework} {table.version}"
    curves = Curves(f"{cite}, 8-bit inputs")
    experts(renamed(rows, "w4a16_mxfp4", "moe_dtype"), curves)
    return curves.made


def spread_experts(curves: Iterable[Curve], keys: set[CurveKey]) -> list[Curve]:
    """Widths that 128 x 128 blocks do not divide run as whole experts spread over the ranks."""
    known = {curve.key: curve for curve in curves}
    out = []
    for key in keys:
        if key.op == "experts" and key.weights == "fp8_block" and key.n % BLOCK:
            ranks = key.top_k
            spread = msgspec.structs.replace(
                key, n=key.n * ranks, experts=key.experts // ranks, top_k=1
            )
            if spread in known:
                out.append(msgspec.structs.replace(known[spread], key=key))
    return out


def fastest_experts(curves: Iterable[Curve]) -> list[Curve]:
    """The faster curve of each layer: recipes take TensorRT-LLM's own kernels on Blackwell, which
    SGLang's table has through FlashInfer, where TensorRT-LLM's table timed others.
    """
    best: dict[CurveKey, Curve] = {}
    for curve in curves:
        if curve.key.op == "experts":
            known = best.setdefault(curve.key, curve)
            if curve.ns[0] < known.ns[0]:
                best[curve.key] = curve
    return list(best.values())


def renamed(table: Table, name: str, *columns: str) -> Table:
    """The table with its types called ``name``, so that the same reader takes it."""
    wide = np.full(len(table), name)
    named = {column: wide for column in columns if column in table.rows}
    return Table(table.name, table.framework, table.version, {**table.rows, **named})


def reduced(source: Source, system: str, framework: str) -> HardwareProfile:
    """The profile with the curves that are needed and no grids."""
    base = load_profile("h200")
    order = (framework, *(other for other in FRAMEWORKS if other != framework))
    profiles = [import_profile(source, system, name, None, base)[0] for name in order]
    ops = ops_of(system, framework)
    keys = wanted_keys(ops)
    curves = {c.key: c for c in profiles[0].curves if c.key.op == "elementwise"}
    curves |= products(profiles, ops)
    found: list[Curve] = []
    for name in order:
        if system in BLACKWELL:
            found += narrow_experts(source, system, name)
    for profile in profiles:
        found += profile.curves
    for name in order:
        found += small_caches(source, system, name, keys)
    found += spread_experts(found, keys)
    if framework == "trtllm" and system in BLACKWELL:
        found = [*fastest_experts(found), *found]
    for curve in found:
        if curve.key in keys or msgspec.structs.replace(curve.key, weights="bf16") in keys:
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
