"""Wrong versions of the import, each caught by a law that the original keeps.

No mutant in the lists is equivalent to the original.
"""

from __future__ import annotations

import warnings
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import simcg.silicon.collectives
import simcg.silicon.gemm
import simcg.silicon.order
import simcg.silicon.planes
from simcg.hardware.profile import CurveKey
from simcg.silicon.source import Table
from tests.mutants import Law, holds, mutated
from tests.silicon_tables import EAGER_US, K, M, N, all_reduce_us, gemm_rows, gemm_us, tables


def table(rows: list[dict[str, Any]]) -> Table:
    """Those rows as a table in memory."""
    return Table("t", "f", "1", {name: np.array([row[name] for row in rows]) for name in rows[0]})


def gemm_agrees(gemm: ModuleType) -> bool:
    """Exact by tiles; launches, late rows, noise and held-out errors as they were planted."""
    clean = gemm_rows(["bfloat16"])
    (found,) = gemm.grids(table(clean), "s")
    grid = found.grid
    ns = np.array(grid.ns).reshape(len(grid.k), len(grid.n), len(grid.rows))
    expected = [[[1e3 * gemm_us(m, n, k) for m in grid.rows] for n in N] for k in K]
    # more than a tile after 512 the first tile is that of row 513
    exact = np.allclose(ns, expected, atol=0.51) and {384, 640} <= set(grid.rows)
    if not exact or (grid.k, grid.n, grid.noise) != (K, N, 0.0) or found.errors[2] > 1e-6:
        return False
    launched = [{**r, "latency": max(r["latency"], 0.06)} for r in clean]
    (dropped,) = gemm.grids(table(launched), "s")
    if dropped.grid is not None or dropped.host_bound != sum(
        gemm_us(m, n, k) < 78 for m in M for n in N for k in K
    ):
        return False
    late = [{**r, "latency": r["latency"] * (3 if r["m"] == 7 else 1)} for r in clean]
    odd = [{**r, "latency": r["latency"] * (1.3 if r["m"] == 17 else 1)} for r in clean]
    last = [{**r, "latency": r["latency"] * (1.3 if r["m"] == 8 else 1)} for r in clean]
    small = [{**r, "k": 32} for r in clean if r["k"] == 64]
    holes = [r for r in [*clean, *small] if (r["k"], r["n"]) != (2048, 4096)]
    slow, path, end, part = (gemm.grids(table(rows), "s")[0] for rows in (late, odd, last, holes))
    uneven = [{**r, "latency": r["latency"] * (1.2 if r["k"] in K[1::2] else 1)} for r in clean]
    (rough,) = gemm.grids(table(uneven), "s")
    rng = np.random.default_rng(1)
    shaken = [{**r, "latency": r["latency"] * np.exp(0.05 * rng.standard_normal())} for r in clean]
    (noisy,) = gemm.grids(table(shaken), "s")
    return bool(
        slow.disordered == len(N) * len(K)
        and slow.grid.ns == grid.ns
        and path.grid.ns == end.grid.ns == grid.ns  # one row does not count against its tile
        and (len(part.grid.k), len(part.grid.n)) in ((len(K) - 1, len(N)), (len(K), len(N) - 1))
        and 0.15 < rough.grid.sigma < 0.25
        and 0.04 < noisy.grid.noise < 0.06
    )


GEMM_MUTANTS = {
    "small sizes too": ("SMALLEST = 64", "SMALLEST = 1"),
    "launches are kernels": ("HOST_NS = 20_000", "HOST_NS = 1e12"),
    "launches to the point": ("1.3 * np.percentile(tiny, 95)", "1.0 * np.percentile(tiny, 95)"),
    "launches kept in part": ("if 2 * bound.sum() > len(table):", "if False:"),
    "milliseconds": ('table.rows["latency"] * 1e6', 'table.rows["latency"] * 1e3'),
    "late rows kept": ("whole, late = ordered(kept.ns)", "whole, late = kept.ns, 0"),
    "odd rows count": ("np.minimum(ns[..., place.get(before + 1, place[end])], at_end)",
                       "ns[..., place.get(before + 1, place[end])]"),
    "tiles of long intervals dropped": ("elif before + 1 in place:", "elif False:"),
    "a tile starts where the last one ended": ("rows.append(before + TILE)", "rows.append(before)"),
    "tiles at the wrong row": ("rows.append(before + TILE)", "rows.append(before + TILE // 2)"),
    "ends of tiles alone in the flat": ("np.median(ns[..., inside], axis=-1)",
                                        "ns[..., inside].max(axis=-1)"),
    "noise of a difference": ("* 1.4826 / np.sqrt(2.0)", "* 1.4826"),
    "holes ignored": ("while (part := missing[np.ix_(k, n)]).any():",
                      "while (part := missing[np.ix_(k, n)]).all():"),
    "held out by k alone": ("((0, np.log(k)), (1, np.log(n)))", "((1, np.log(n)),)"),
    "the mean of the neighbours": (
        "share = (sizes[j] - sizes[j - 1]) / (sizes[j + 1] - sizes[j - 1])", "share = 0.9"
    ),
}  # fmt: skip


def order_agrees(order: ModuleType) -> bool:
    """Late entries found along every axis, missing ones filled, roughness that of the noise."""
    ns = np.array([[13.0, 12.0, 14.0], [11.0, 30.0, 15.0], [16.0, np.nan, 18.0]])
    found, late = order.ordered(ns)
    expected = [[13, 12, 14], [11, 15, 15], [16, 18, 18]]
    rng = np.random.default_rng(2)
    line = np.exp(np.linspace(0, 5, 4000) + 0.1 * rng.standard_normal(4000))
    return bool(
        np.array_equal(found, expected)
        and late == 1
        and 0.09 < order.roughness(line) < 0.11
        and order.roughness(np.array([1.0, 9.0])) == 0
        and order.roughness(np.exp(np.arange(9.0))) < 1e-9
    )


ORDER_MUTANTS = {
    "order along one axis": ("for axis in range(ns.ndim):", "for axis in (0,):"),
    "smaller entries": ("np.flip(np.minimum.accumulate(np.flip(out, axis), axis), axis)",
                        "np.minimum.accumulate(out, axis)"),
    "any slower entry is late": ("DISORDER = 1.5", "DISORDER = 1.0"),
    "no entry is late": ("DISORDER = 1.5", "DISORDER = 3.0"),
    "missing ones stay": ("np.where(late | np.isnan(ns), least, ns)", "np.where(late, least, ns)"),
    "noise of three": ("float(np.sqrt(1.5))", "1.5"),
    "slopes are noise": ("(log_ns[:-2] + log_ns[2:]) / 2", "log_ns[:-2]"),
}  # fmt: skip


def planes_agree(planes: ModuleType) -> bool:
    """A table that is a floor and a product is met on its plane, beyond it in proportion, below
    one prompt as a part of it; late entries count once."""
    sizes = [(2**i, 16 * 2**j) for i in range(9) for j in range(9)]
    known = {(m, n): 1e3 + 2.0 * m * n * n for m, n in sizes if m * n <= 65_536}
    curves = planes.Curves("s")
    curves.prompts(CurveKey("attention", heads=1, kv_heads=1, head_dim=64), known)
    plane = np.array(curves.made[0].ns).reshape(len(planes.TOKENS), len(planes.LENGTHS))
    at = {
        (t, n): plane[i, j]
        for i, t in enumerate(planes.TOKENS)
        for j, n in enumerate(planes.LENGTHS)
    }
    late = dict(known)
    late[4, 256] *= 9
    more = planes.Curves("s")
    more.prompts(CurveKey("attention", heads=1, kv_heads=1, head_dim=64), late)
    flat = {(m, n): 1e3 + 3.0 * m * n for m, n in sizes if n != 256}
    again = planes.Curves("s")
    again.decodes(CurveKey("decode_attention", heads=1, kv_heads=1, head_dim=64), flat)
    steps = np.array(again.made[0].ns).reshape(len(planes.REQUESTS), len(planes.KEYS))
    rows = {"n": np.array([1, 2, 2, 4, 8, 16]), "latency": np.array([1, 9, 2, 3, 4, 5]) / 1e3}
    curves.line(CurveKey("batched_gemm", heads=1), rows, "n")
    curves.line(CurveKey("batched_gemm", heads=1), rows, "n")
    lines = {16: (np.array([16.0, 1024.0]), np.array([1e3, 4e3]))}
    curves.scattered(CurveKey("index_logits", heads=1), (16, 32), (16, 128, 2048), lines)
    return bool(
        at[64, 16] == known[4, 16]
        and at[4096, 1024] == known[4, 1024]
        and at[16, 4096] == max(known[1, 16], round(known[1, 4096] * 16 / 4096))
        and at[256, 4096] == round(known[1, 4096] / 16)
        and at[8192, 8192] == known[1, 4096] * 4
        and more.disordered == 1
        and curves.disordered == 0
        and curves.made[0].causal
        and not again.made[0].causal
        and steps[2, 1] == flat[4, 128]
        and steps[2, 2] == round(flat[4, 128] * 2)
        and steps[10, 1] == round(flat[256, 128] * 4)
        and curves.made[1].ns == (1e3, 2e3, 3e3, 4e3, 5e3)
        and len(curves.made) == 3
        and curves.made[2].ns == (1e3, 2e3, 8e3, 2e3, 4e3, 16e3)
    )


PLANES_MUTANTS = {
    "prompts of one request": ("tokens // length, length, 2)", "1, length, 2)"),
    "a part of a prompt costs it all": ("2) * tokens / length)", "2) * 1.0)"),
    "a part of a prompt as its own": ("return max(own, _larger(measured, 1, length, 2)",
                                      "return max(own, 0 * _larger(measured, 1, length, 2)"),
    "decode grows with pairs": ("_larger(measured, requests, keys, 1)",
                                "_larger(measured, requests, keys, 2)"),
    "requests are free": ("* (requests / m) *", "*"),
    "the smallest known size": ("m, n = max(known,", "m, n = min(known,"),
    "late entries stay": ("least, late = ordered(ns)", "least, late = ns, 0"),
    "the slowest kernel": ("np.minimum.at(ns, of, rows", "np.maximum.at(ns, of, rows"),
    "twice the same curve": ("if any(curve.key == key for curve in self.made):", "if False:"),
    "flat beyond a line": ("np.maximum(np.array(y) / at, 1.0)", "1.0"),
    "more rows are free": ("max(one / near, 1)", "1"),
    "lines in keys": ("np.exp(np.interp(np.log(at), np.log(keys), np.log(ns)))",
                      "np.interp(at, keys, ns)"),
    "decode has no context": ('key.op in ("attention", "latent_attention", "gated_delta")', "True"),
}  # fmt: skip


def collectives_agree(collectives: ModuleType) -> bool:
    """Graph rows by bytes, NCCL where it is faster, another kernel across hosts alone, late rows in
    order, dispatch from small messages on one host."""
    rows = tables()["comm", "custom_allreduce_perf"]
    large = [
        {**r, "latency": 1.0, "message_size": r["message_size"] << shift}
        for r in rows if r["message_size"] > 65_536 for shift in range(9)
    ]  # fmt: skip
    small = [r for r in rows if r["message_size"] <= 65_536]
    far = [
        {**r, "num_gpus": ranks, "latency": r["latency"] * 40}
        for r in small if r["num_gpus"] == 2 for ranks in (8, 16, 32, 64)
    ]  # fmt: skip
    nccl = table(
        [{"op_name": "all_reduce", "nccl_dtype": dtype, "num_gpus": 2, "message_size": size,
          "latency": ms} for dtype, size, ms in (("half", 1_048_576, 0.5), ("half", 128, 9.0),
                                                 ("int8", 128, 1e-4))]
    )  # fmt: skip
    late = [{**r, "latency": r["latency"] * (3 if r["message_size"] == 1024 else 1)} for r in small]
    own = table([*small, *large, *far])
    slow, disordered = collectives.all_reduces(table(late), None, "s")
    if disordered != 2 or slow[0].ns[1] != slow[0].ns[2] or slow[0].ns[0] >= slow[0].ns[1]:
        return False
    wide = table(
        [{"num_gpus": ranks, "message_size": size, "latency": 0.002} for ranks in (2, 4, 8)
         for size in (128, 1024, 8192, 65_536)]
    )  # fmt: skip
    fabric = collectives.Fabric(4, wide, "w")
    spanning = {c.key.ranks: c for c in collectives.all_reduces(own, None, "s", fabric)[0]}
    sources = {ranks: curve.source for ranks, curve in spanning.items()}
    if sources != {2: "s", 4: "s", 8: "s, or w", 16: "s, or w", 32: "s, or w", 64: "s, or w"}:
        return False
    if set(spanning[8].ns) != {2000.0} or spanning[4].ns[0] != round(1e3 * all_reduce_us(4, 128)):
        return False
    curves = {c.key.ranks: c for c in collectives.all_reduces(own, nccl, "s")[0]}
    at = dict(zip(curves[2].x, curves[2].ns, strict=True))
    return bool(
        at[256.0] == round(1e3 * all_reduce_us(2, 128))
        and at[2.0 * 1_048_576] == 500_000
        and dict(zip(curves[4].x, curves[4].ns, strict=True))[2.0 * 1_048_576] == 1e6
        and abs(collectives.dispatch_ns(own) - 1e3 * EAGER_US) < 1
        and collectives.dispatch_ns(nccl) is None
    )


COLLECTIVES_MUTANTS = {
    "values are bytes": ("VALUE_BYTES = 2", "VALUE_BYTES = 1"),
    "the slower one": ("min(times.get(int(size), np.inf)", "max(times.get(int(size), 0.0)"),
    "bytes of NCCL": ('nccl_dtype="half"', 'nccl_dtype="int8"'),
    "every number of ranks": ("mine = table.where(num_gpus=ranks).rows", "mine = table.rows"),
    "large messages too": ("SMALL = 65_536", "SMALL = 1 << 40"),
    "ranks on other hosts": ("ONE_HOST = 4", "ONE_HOST = 64"),
    "eager ones in the curve": ('.endswith("graph")', '.endswith("eager")'),
    "late rows stay": (
        "ns, late = ordered(np.array([times[size] for size in sizes]))",
        "ns, late = np.array([times[size] for size in sizes]), 0",
    ),
    "another kernel on one host": ("ranks > fabric.host", "ranks >= fabric.host"),
    "nothing spans hosts": ("spanning = fabric if", "spanning = None if"),
    "graph less eager": ("both[True] - both[False]", "both[False] - both[True]"),
}

CASES: list[tuple[ModuleType, Law, dict[str, tuple[str, str]]]] = [
    (simcg.silicon.gemm, gemm_agrees, GEMM_MUTANTS),
    (simcg.silicon.order, order_agrees, ORDER_MUTANTS),
    (simcg.silicon.planes, planes_agree, PLANES_MUTANTS),
    (simcg.silicon.collectives, collectives_agree, COLLECTIVES_MUTANTS),
]


@pytest.mark.parametrize(("module", "law", "_"), CASES, ids=[m.__name__ for m, _, _ in CASES])
def test_the_originals_keep_the_laws(module: ModuleType, law: Law, _: object) -> None:
    """The unchanged modules pass, so a mutant that fails does so for its change."""
    assert law(module)


@pytest.mark.parametrize(
    ("module", "law", "change"),
    [
        pytest.param(module, law, change, id=f"{module.__name__.rsplit('.')[-1]}: {name}")
        for module, law, mutants in CASES
        for name, change in mutants.items()
    ],
)
def test_each_mutant_breaks_its_law(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, law: Law, change: tuple[str, str]
) -> None:
    """Each wrong version is told from the right one."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert not holds(law, mutated(monkeypatch, module, *change))
