"""Wrong fits, errors and counts, each caught by a law that the right ones obey."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

import simcg.reproduce.fit
import simcg.reproduce.follows
import simcg.reproduce.published
import simcg.reproduce.sparse_host
import simcg.reproduce.tensorrt_llm
from simcg.errors import SimcgError
from simcg.hardware.catalog import load_profile
from simcg.model.activations import lifetimes
from simcg.reproduce.cases import GLM_SHORT, R1_DECODE, cases
from simcg.reproduce.parameters import BOUNDS, Parameters, start
from simcg.reproduce.simulator import Simulator, forward_of
from tests.mutants import mutated


def made_up(values: Parameters, row: str) -> float:
    """A cheap system of the fit's kind: each row has a parameter of its own and leans on others."""
    shares: list[float] = [(getattr(values, b.name) - b.low) / (b.high - b.low) for b in BOUNDS]
    own = next(i for i, bound in enumerate(BOUNDS) if bound.row == row)
    others = float(sum(share * (1 + i) for i, share in enumerate(shares) if i < own))
    return 1 + 5 * shares[own] ** 2 + shares[own] + others / 20


def planted(share: float) -> Parameters:
    values = start()
    for place, bound in enumerate(BOUNDS):
        at = share + place / 20
        values = values.with_value(bound.name, bound.low + at * (bound.high - bound.low))
    return values


def fit_obeys(module: Any) -> bool:
    """Also: whatever a wrong fit raises is no answer."""
    try:
        return finds_what_was_planted(module) and stops_at_bounds(module)
    except (SimcgError, ValueError, ArithmeticError):
        return False


def finds_what_was_planted(module: Any) -> bool:
    for share in (0.1, 0.55):
        true = planted(share)
        found = module.fit(made_up, lambda row, true=true: made_up(true, row), BOUNDS)
        for bound in BOUNDS:
            off = getattr(found.parameters, bound.name) - getattr(true, bound.name)
            if abs(off) > 1e-3 * (bound.high - bound.low) or found.at_bound:
                return False
    return True


def stops_at_bounds(module: Any) -> bool:
    """A row out of reach stops its parameter alone, and the other rows are met."""
    targets = {b.row: made_up(planted(0.3), b.row) for b in BOUNDS}
    first, others = BOUNDS[0], BOUNDS[1:]
    for wanted, edge in ((99.0, first.high), (0.5, first.low)):
        found = module.fit(made_up, {**targets, first.row: wanted}.__getitem__, BOUNDS)
        if found.at_bound != (first.name,) or getattr(found.parameters, first.name) != edge:
            return False
        if any(abs(made_up(found.parameters, b.row) / targets[b.row] - 1) > 1e-3 for b in others):
            return False
    return True


def errors_obey(module: Any) -> bool:
    """Plain values, ranges and values of one digit."""
    by_id = {row.id: row for row in module.published_rows()}
    ratio, share, coarse = by_id["R4"], by_id["C5-GLM"], by_id["M4-after"]
    return bool(
        abs(ratio.relative_error(2.0) - 0.25) < 1e-12
        and abs(ratio.relative_error(1.2) + 0.25) < 1e-12
        and share.relative_error(80) == share.relative_error(78) == share.relative_error(86) == 0
        and abs(share.relative_error(129) - 0.5) < 1e-12
        and abs(share.relative_error(39) + 0.5) < 1e-12
        and coarse.relative_error(0.0014) == 0
        and abs(coarse.relative_error(0.003) - 1) < 1e-9
    )


def modules_obey(module: Any) -> bool:
    """Dense modules take what was measured; of sparse ones all but attention, at the break."""
    for forward, plain_ns, kernels in (
        (forward_of(GLM_SHORT.outside_graphs), 1_023_750, 15),
        (forward_of(GLM_SHORT), 583_650 * 13 / 14, 13),
    ):
        dispatch = module.sparse_dispatch(forward)
        plain = next(one for one in forward.layers if all(op.name != "index_key" for op in one))
        named = [(dispatch[op.name].value, op.kernels) for op in plain if op.name in dispatch]
        keys = dispatch["index_key"].value + dispatch["index_write"].value
        right = sum(number for _, number in named) == kernels
        right &= abs(sum(ns * number for ns, number in named) - plain_ns) < 1
        if not right or abs(keys - (1_684_250 - 1_023_750)) > 1:
            return False
    profile = load_profile("gb300")
    changed = zip(profile.curves, module.with_sparse_kernel(profile).curves, strict=True)
    return {old.key.op for old, new in changed if old != new} == {"sparse_attention"}


def fusions_obey(module: Any) -> bool:
    """16 kernels of a dense layer, 25 of one with experts, 23 with fused sums; no tensor lost."""
    plain = forward_of(replace(R1_DECODE, fusions=""))
    for sums, kernels in ((False, 25), (True, 23)):
        forward = module.fused(plain, sums)
        counts = [sum(op.kernels for op in forward.layers[i]) for i in (0, -1)]
        norms = sum(op.name == "input_norm" for op in forward.ops)
        try:
            unread = [one for one in lifetimes(forward) if one.last_read == one.written]
        except SimcgError:
            return False
        if counts != [16, kernels] or norms != 1 or len(unread) != 1:
            return False
    return True


@cache
def simulated() -> dict[str, float]:
    """Of every row that a value may follow from, and of those that do."""
    simulator = Simulator(start())
    known = simcg.reproduce.follows.FOLLOWS
    rows = {*known, *(row for law in known.values() for row in law.rows)}
    return {row: cases()[row](simulator) for row in rows}


def follows_obey(module: Any) -> bool:
    """Each value is the arithmetic of its rows, and its mark names them or says that none is."""
    for row, law in module.FOLLOWS.items():
        made = law.of(*(simulated()[other] for other in law.rows))
        named = all(other in law.mark for other in law.rows)
        if abs(made / simulated()[row] - 1) > 1e-9 or not named:
            return False
        if (law.mark == "cannot miss") != (not law.rows):
            return False
    return True


Law = Callable[[Any], bool]
FIT, FOLLOWS, PUBLISHED = "fit", "follows", "published"
SPARSE, FUSED = "sparse_host", "tensorrt_llm"
MODULES = {
    FIT: simcg.reproduce.fit,
    FOLLOWS: simcg.reproduce.follows,
    PUBLISHED: simcg.reproduce.published,
    SPARSE: simcg.reproduce.sparse_host,
    FUSED: simcg.reproduce.tensorrt_llm,
}
LAWS: dict[str, Law] = {
    FIT: fit_obeys, FOLLOWS: follows_obey, PUBLISHED: errors_obey, SPARSE: modules_obey,
    FUSED: fusions_obey,
}  # fmt: skip

MUTANTS = {
    "bounds forgotten": (FIT, "np.clip(x + move / 2**halving, 0, 1)", "x + move / 2**halving"),
    "slopes of rows for those of parameters": (FIT, "np.array(columns).T", "np.array(columns)"),
    "uphill": (FIT, "[:, free], -miss", "[:, free], miss"),
    "slopes of another width": (FIT, "(aside[j] - x[j])", "WIDTH"),
    "any step is taken": (FIT, "if there @ there < miss @ miss:", "if True:"),
    "one step": (FIT, "for step in range(STEPS)", "for step in range(1)"),
    "never at a bound": (FIT, "if not 0 < share < 1", "if not 0 <= share <= 1"),
    "rows off by a tenth": (FIT, "PRECISION = 1e-5", "PRECISION = 1e-1"),
    "shares for values": (FIT, "bound.low + float(share) *", "float(share) *"),
    "a share of the other part": (FOLLOWS, "100 * compile_s /", "100 * capture_s /"),
    "faster by the inverse": (FOLLOWS, "breakable / piecewise - 1", "piecewise / breakable - 1"),
    "with graphs less without": (FOLLOWS, "return value - other", "return other - value"),
    "another model's row": (FOLLOWS, 'Follows(("M2-none",)', 'Follows(("M3-none",)'),
    "below the size is enough": (FOLLOWS, "if size >= 3208", "if size < 3208"),
    "all cannot miss": (FOLLOWS, "if self.rows else", "if not self.rows else"),
    "simulated over published": (
        PUBLISHED,
        "(simulated - nearest) / abs(nearest)",
        "(simulated - nearest) / simulated",
    ),
    "errors without a sign": (
        PUBLISHED,
        "return (simulated - nearest)",
        "return abs(simulated - nearest)",
    ),
    "ranges as their lower end": (PUBLISHED, "min(max(simulated, low), high)", "low"),
    "one digit is exact": (PUBLISHED, "if len(digits) == 1 else", "if len(digits) == 0 else"),
    "a whole digit off": (PUBLISHED, "low / int(self.one_digit) / 2", "low / int(self.one_digit)"),
    "attention at a break counted twice": (SPARSE, 'if dense or op.name != "attention"', "if True"),
    "keys as dear as their module": (SPARSE, "(DENSE_WITH_KEYS_NS - DENSE_NS)", "DENSE_NS"),
    "sparse as dear as dense": (SPARSE, "(DENSE_NS if dense else SPARSE_NS)", "DENSE_NS"),
    "all kernels scaled": (SPARSE, 'if c.key.op == "sparse_attention" else c', "if True else c"),
    "a module without its last product": (SPARSE, 'names.index("o") + 1', 'names.index("o")'),
    "a module with the norm before it": (SPARSE, "layer[1 :", "layer[0 :"),
    "sums always fused": (FUSED, "SUMS if sums else ()", "SUMS"),
    "what a fused product writes is lost": (FUSED, "(*op.writes, *written)", "op.writes"),
    "the first norm is lost": (FUSED, "head=(*forward.head, first)", "head=forward.head"),
    "dense layers lose their activation": (
        FUSED,
        "(op in inner and op.name in AFTER_PRODUCT)",
        "op.name in AFTER_PRODUCT",
    ),
    "what is taken over is not read": (FUSED, "(*op.reads, *read)", "op.reads"),
    "the cache is filled apart": (FUSED, '("rotary", "kv_write")', '("rotary",)'),
}  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS)
def test_each_mutant_breaks_its_law(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, old, new = MUTANTS[mutant]
    assert not LAWS[name](mutated(monkeypatch, MODULES[name], old, new))


@pytest.mark.parametrize("name", MODULES)
def test_the_right_one_obeys(name: str) -> None:
    assert LAWS[name](MODULES[name])
