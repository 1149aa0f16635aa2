"""Whole expert layers as fused kernels run them: curves over the tokens of the step."""

from __future__ import annotations

import numpy as np

from simcg.hardware.profile import Curve, CurveKey
from simcg.silicon.noise import roughness
from simcg.silicon.source import Table

WEIGHTS = {
    "bfloat16": "bf16",
    "fp8": "fp8",
    "fp8_block": "fp8_block",
    "nvfp4": "nvfp4",
    "int4_wo": "int4",
    "w4a16_mxfp4": "mxfp4",
}
"""The package's names of types and ours: of the weights, with the activations that ours take."""
ROUTING = "power_law_1.01"
"""Which experts rows go to: unevenly, as in served traffic; the package's own predictions take
this distribution for most models."""
FEWEST = 8
"""Measured entries that a curve needs."""


def experts(table: Table, source: str) -> list[Curve]:
    """One curve for each layer, type of weights and split of an expert over ranks.

    Rows where experts are spread over ranks instead are left out.
    """
    table = table.where(distribution=ROUTING, moe_ep_size=1)
    rows = table.rows
    names = ("hidden_size", "inter_size", "moe_tp_size", "num_experts", "topk")
    kinds = np.stack([rows[name] for name in names], axis=1)
    out = []
    for dtype, weights in WEIGHTS.items():
        of_type = rows["moe_dtype"] == dtype
        for kind in np.unique(kinds[of_type], axis=0):
            hidden, inter, ranks, count, top_k = kind.tolist()
            mine = of_type & (kinds == kind).all(axis=1)
            if inter % ranks or len(np.unique(rows["num_tokens"][mine])) < FEWEST:
                continue
            key = CurveKey(
                "experts", k=hidden, n=inter // ranks, experts=count, top_k=top_k, weights=weights
            )
            out.append(_curve(key, table.kept(mine), source))
    return list({curve.key: curve for curve in out}.values())


def _curve(key: CurveKey, table: Table, source: str) -> Curve:
    """The fastest kernel at each number of tokens."""
    tokens, of = np.unique(table.rows["num_tokens"], return_inverse=True)
    ns = np.full(len(tokens), np.inf)
    np.minimum.at(ns, of, table.rows["latency"] * 1e6)
    return Curve(
        key=key,
        x=tuple(tokens.astype(np.float64).tolist()),
        ns=tuple(np.rint(ns).tolist()),
        spread_ns=(),
        provenance="measured",
        source=source,
        sigma=roughness(ns),
    )
