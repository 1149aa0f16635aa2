"""Whole expert layers as fused kernels run them: curves over the tokens of the step."""

from __future__ import annotations

import numpy as np

from simcg.hardware.profile import CurveKey
from simcg.silicon.planes import Curves
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


MOST_RANKS = 16
"""Ranks that one layer is split over at most."""


def experts(table: Table, out: Curves) -> None:
    """One curve for each layer, type of weights and split over ranks.

    Where experts are spread over ranks, a rank has its share of them and of each row's choices, as
    ``simcg.model`` counts; splits that do not divide the choices are left out.
    """
    table = table.where(distribution=ROUTING)
    rows = table.rows
    names = ("hidden_size", "inter_size", "moe_tp_size", "num_experts", "topk", "moe_ep_size")
    kinds = np.stack([rows[name] for name in names], axis=1)
    for dtype, weights in WEIGHTS.items():
        of_type = rows["moe_dtype"] == dtype
        for kind in np.unique(kinds[of_type], axis=0).tolist():
            hidden, inter, tp, count, top_k, ep = kind
            if tp * ep > MOST_RANKS or inter % tp or count % ep or top_k % ep:
                continue
            key = CurveKey(
                "experts", k=hidden, n=inter // tp, experts=count // ep, top_k=top_k // ep,
                weights=weights,
            )  # fmt: skip
            mine = of_type & (kinds == kind).all(axis=1)
            out.line(key, table.kept(mine).rows, "num_tokens")
