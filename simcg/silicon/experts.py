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


def experts(table: Table, out: Curves) -> None:
    """One curve for each layer, type of weights and split of an expert over ranks.

    Rows where experts are spread over ranks instead are left out.
    """
    table = table.where(distribution=ROUTING, moe_ep_size=1)
    rows = table.rows
    names = ("hidden_size", "inter_size", "moe_tp_size", "num_experts", "topk")
    kinds = np.stack([rows[name] for name in names], axis=1)
    for dtype, weights in WEIGHTS.items():
        of_type = rows["moe_dtype"] == dtype
        for hidden, inter, ranks, count, top_k in np.unique(kinds[of_type], axis=0).tolist():
            mine = of_type & (kinds == (hidden, inter, ranks, count, top_k)).all(axis=1)
            key = CurveKey(
                "experts", k=hidden, n=inter // ranks, experts=count, top_k=top_k, weights=weights
            )
            if inter % ranks == 0:
                out.line(key, table.kept(mine).rows, "num_tokens")
