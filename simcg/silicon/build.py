"""A profile from the tables of one system and framework, and an account of what was taken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
import numpy as np

from simcg.errors import InputError
from simcg.hardware.profile import Curve, Figure, Grid, HardwareProfile
from simcg.silicon.attention import decodes, latent_decodes, latent_prompts, prompts
from simcg.silicon.base import on_another_gpu, on_the_same_gpu
from simcg.silicon.collectives import Fabric, all_reduces, dispatch_ns
from simcg.silicon.experts import experts
from simcg.silicon.gemm import grids
from simcg.silicon.gpu import gpu_of, short_name
from simcg.silicon.mixers import (
    batched_products,
    delta_rule,
    index_logits,
    select_keys,
    sparse_attention,
)
from simcg.silicon.planes import Curves
from simcg.silicon.source import Source, Table

FRAMEWORKS = ("sglang", "vllm", "trtllm")


@dataclass(frozen=True)
class Note:
    """What became of one table, or of one type of weights in it.

    ``rows`` of it; ``host_bound`` and ``disordered`` were not taken; ``kept``: figures of the
    profile; ``remark``: what a reader should know.
    """

    table: str
    version: str
    rows: int
    kept: int
    host_bound: int = 0
    disordered: int = 0
    remark: str = ""


@dataclass
class Imported:
    """What has been taken so far."""

    source: Source
    system: str
    framework: str
    version: str
    curves: list[Curve] = field(default_factory=list)
    grids: list[Grid] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    def cite(self, table: Table) -> str:
        """Where a table's figures come from."""
        framework = f"{table.framework} {table.version}"
        return f"aiconfigurator-core {self.source.release}: {self.system}, {framework}"

    def read(self, family: str, file: str, framework: str) -> Table | None:
        """The table of that family and framework; None if there is none."""
        limit = self.version if framework == self.framework else None
        return self.source.table(self.system, (family, framework, file), limit)


@dataclass(frozen=True)
class Family:
    """One table and what makes curves of it. ``shared``: kernels that frameworks have in common."""

    folder: str
    file: str
    convert: Callable[[Table, Curves], None]
    shared: bool = False


FAMILIES = (
    Family("attention", "context_attention_perf", prompts),
    Family("attention", "generation_attention_perf", decodes),
    Family("moe", "moe_perf", experts),
    Family("mla", "context_mla_perf", latent_prompts, shared=True),
    Family("mla", "generation_mla_perf", latent_decodes, shared=True),
    Family("mla_bmm", "mla_bmm_perf", batched_products, shared=True),
    Family("sparse_attention", "glm5_dsa_attn_module_perf", sparse_attention, shared=True),
    Family("sparse_attention", "glm5_mqa_logits_module_perf", index_logits, shared=True),
    Family("sparse_attention", "glm5_topk_module_perf", select_keys, shared=True),
    Family("linear_attention", "gdn_perf", delta_rule, shared=True),
)


def import_profile(
    source: Source, system: str, framework: str, version: str | None, base: HardwareProfile
) -> tuple[HardwareProfile, list[Note]]:
    """The profile of ``system`` under ``framework``; what tables lack is as on ``base``.

    ``version``: tables no newer than this; None is the newest that has dense products. Raises
    ``InputError`` if there is no such system, framework or version.
    """
    system = source.system(system)
    known = source.versions(system, "gemm", framework)
    if not known:
        having = [f for f in FRAMEWORKS if source.versions(system, "gemm", f)]
        raise InputError(source.path, "--framework", framework, f"one of {', '.join(having)}")
    if version is not None and version not in known:
        raise InputError(source.path, "--version", version, f"one of {', '.join(known)}")
    taken = Imported(source, system, framework, version or known[-1])
    _take_products(taken)
    for family in FAMILIES:
        _take_family(taken, family)
    _take_collectives(taken)
    return _profile(taken, base), taken.notes


def _take_products(taken: Imported) -> None:
    """A grid a type; where the host was timed, the same type's of another framework."""
    own = [taken.framework, *(f for f in FRAMEWORKS if f != taken.framework)]
    for framework in own:
        have = {grid.weights for grid in taken.grids}
        wanted = {note.table for note in taken.notes if note.remark.startswith("host-bound")}
        if framework != taken.framework and not wanted - {f"gemm {w}" for w in have}:
            break
        if (table := taken.read("gemm", "gemm_perf", framework)) is None:
            continue
        for found in grids(table, taken.cite(table)):
            name = f"gemm {found.weights}"
            if framework != taken.framework and (found.weights in have or name not in wanted):
                continue
            points = 0 if found.grid is None else len(found.grid.ns)
            if found.grid is None:
                remark = "host-bound, not taken"
            else:
                taken.grids.append(found.grid)
                remark = "held out " + ", ".join(f"{100 * off:.1f}" for off in found.errors) + " %"
            version = f"{framework} {table.version}"
            counts = found.rows, points, found.host_bound, found.disordered
            taken.notes.append(Note(name, version, *counts, remark=remark))


def _take_family(taken: Imported, family: Family) -> None:
    """The curves of one table; where the framework has none, another's if ``shared``."""
    others = [f for f in FRAMEWORKS if f != taken.framework] if family.shared else []
    for framework in (taken.framework, *others):
        table = taken.read(family.folder, family.file, framework)
        if table is not None:
            curves = Curves(taken.cite(table))
            family.convert(table, curves)
            _add(taken, table, curves.made, curves.disordered)
            return
    taken.notes.append(Note(_short(family.file), taken.framework, 0, 0, remark="missing"))


def _take_collectives(taken: Imported) -> None:
    table = taken.read("comm", "custom_allreduce_perf", taken.framework)
    if table is None:
        taken.notes.append(Note("custom_allreduce", taken.framework, 0, 0, remark="missing"))
        return
    nccl = taken.source.table(taken.system, ("comm", "nccl", "nccl_perf"), None)
    _add(taken, table, *all_reduces(table, nccl, taken.cite(table), _fabric(taken)))


def _fabric(taken: Imported) -> Fabric | None:
    """Where NVLink joins the hosts of a rack; None elsewhere, or if no kernel was timed there."""
    node = taken.source.specification(taken.system).get("node", {})
    if not ({"num_gpus_per_node", "num_gpus_per_rack"} <= node.keys()):
        return None
    table = taken.read("comm", "custom_allreduce_perf", "trtllm")
    if table is None:
        return None
    return Fabric(int(node["num_gpus_per_node"]), table, taken.cite(table))


def _add(taken: Imported, table: Table, curves: list[Curve], disordered: int) -> None:
    taken.curves += curves
    version = f"{table.framework} {table.version}"
    points = sum(len(curve.ns) for curve in curves)
    count = f"{len(curves)} curve" + "s" * (len(curves) != 1)
    taken.notes.append(Note(_short(table.name), version, len(table), points, 0, disordered, count))


def _short(file: str) -> str:
    return file.removesuffix("_perf").removesuffix("_module")


def _dispatch(taken: Imported, system: str) -> tuple[float | None, int]:
    """The median over frameworks and versions of what one eager all-reduce costs the host more."""
    found = []
    for framework in FRAMEWORKS:
        for version in taken.source.versions(system, "comm", framework):
            place = ("comm", framework, "custom_allreduce_perf")
            table = taken.source.table(system, place, version)
            if table is not None and table.version == version:
                found.append(dispatch_ns(table))
    known = [ns for ns in found if ns is not None and ns > 0]
    return (float(np.median(known)), len(known)) if known else (None, 0)


def _profile(taken: Imported, base: HardwareProfile) -> HardwareProfile:
    """Kernels by the tables; the rest as on ``base``, dispatch by both systems' tables."""
    name = short_name(taken.system)
    cited = f"aiconfigurator-core {taken.source.release}"
    gpu = gpu_of(taken.system, taken.source.specification(taken.system), f"{cited}: {taken.system}")
    if name == base.name:
        profile = on_the_same_gpu(base, f"{name}-{taken.framework}", gpu)
    else:
        here, tables = _dispatch(taken, taken.system)
        bases = [s for s in taken.source.systems() if short_name(s) == base.name]
        there = _dispatch(taken, bases[0])[0] if bases else None
        slower = here / there if here and there else 1.0
        text = f"{cited}: custom all-reduce, eager less graph, median of {tables} tables"
        one = Figure(round(here), "measured", text) if here else base.host.dispatch[""]
        profile = on_another_gpu(base, name, gpu, {"": one}, slower)
    framework = f"{taken.framework} {taken.version}"
    return msgspec.structs.replace(
        profile,
        description=f"{name} with the kernels of {framework}, from measured tables; "
        f"what they lack as on {base.name}",
        environment={
            **profile.environment,
            "tables": cited,
            "system": taken.system,
            "framework": framework,
            "license": "Apache-2.0, NVIDIA CORPORATION & AFFILIATES",
        },
        curves=(*profile.curves, *taken.curves),
        grids=tuple(taken.grids),
    )
