"""What only some families run: absorbed products, sparse attention, the gated delta rule."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from simcg.arrays import Floats
from simcg.hardware.profile import CurveKey
from simcg.silicon.planes import KEYS, TOKENS, Curves, fastest
from simcg.silicon.source import Table

BATCHED = {"mla_gen_pre": (128, 512), "mla_gen_post": (512, 128)}
"""Each head's product before and after attention on the latent cache: k and n."""
INDEX_HEADS, INDEX_DIM, CHOSEN = 32, 128, 2048
"""Of the model whose indexer was timed, GLM-5.2."""
SPARSE_KEY = 576


def batched_products(table: Table, out: Curves) -> None:
    """One curve for each number of heads, side of attention and type."""
    for name, (k, n) in BATCHED.items():
        for dtype, weights in (("bfloat16", "bf16"), ("fp8", "fp8")):
            mine = table.where(op_name=name, bmm_dtype=dtype)
            for heads in np.unique(mine.rows["num_heads"]).tolist():
                key = CurveKey("batched_gemm", heads=heads, k=k, n=n, weights=weights)
                out.line(key, mine.where(num_heads=heads).rows, "num_tokens")


def sparse_attention(table: Table, out: Curves) -> None:
    """One curve over query tokens: past the keys that it chooses, more of them cost nothing."""
    rows = table.kept(table.rows["step"] >= CHOSEN).rows
    tokens = rows["batch_size"] * rows["isl"]
    heads = int(rows["num_heads"][0])
    key = CurveKey("sparse_attention", heads=heads, head_dim=SPARSE_KEY, top_k=CHOSEN)
    at = np.unique(tokens)
    middle = np.array([np.median(rows["latency"][tokens == n]) for n in at])
    out.line(key, {"tokens": at, "latency": middle}, "tokens")


def index_logits(table: Table, out: Curves) -> None:
    """A plane over query tokens, and keys a query."""
    key = CurveKey("index_logits", heads=INDEX_HEADS, head_dim=INDEX_DIM)
    out.scattered(key, TOKENS, KEYS, _by_tokens(table))


def select_keys(table: Table, out: Curves) -> None:
    """A plane as that of the logits; where all keys are chosen nothing was timed."""
    timed = table.where(score_mode="flat")
    timed = timed.kept(timed.rows["latency"] > 0)
    key = CurveKey("select_keys", top_k=CHOSEN)
    keys = tuple(n for n in KEYS if n > CHOSEN)
    out.scattered(key, TOKENS, keys, _by_tokens(timed))


def delta_rule(table: Table, out: Curves) -> None:
    """Convolution and rule for each number of heads, of prompts and of decoding requests."""
    rows = table.rows
    kinds = np.stack([rows["num_k_heads"], rows["num_v_heads"]], axis=1)
    for key_heads, heads in np.unique(kinds, axis=0).tolist():
        mine = table.where(num_k_heads=key_heads, num_v_heads=heads)
        dim, width = int(mine.rows["head_k_dim"][0]), int(mine.rows["d_conv"][0])
        channels = (2 * key_heads + heads) * dim
        rule = {"heads": heads, "kv_heads": key_heads, "head_dim": dim}
        for phase, conv, op in (
            ("context", "causal_conv", "gated_delta"), ("generation", "conv_update", "delta_update")
        ):  # fmt: skip
            part = mine.where(phase=phase)
            is_conv = np.array(["conv" in name for name in part.rows["kernel_source"]], dtype=bool)
            key = CurveKey(conv, n=channels, k=width)  # type: ignore[arg-type]  # one of two literals
            out.line(key, part.kept(is_conv).rows, "num_tokens")
            key = CurveKey(op, **rule)  # type: ignore[arg-type]  # one of two literals
            measured = part.kept(~is_conv).rows
            if phase == "context":
                out.prompts(key, fastest(measured, "batch_size", "seq_len"))
            else:
                out.line(key, measured, "num_tokens")


def _by_tokens(table: Table) -> Mapping[int, tuple[Floats, Floats]]:
    """For each number of query tokens of one request: keys a query, ascending, and ns."""
    rows = table.where(batch_size=1).rows
    out = {}
    for tokens in np.unique(rows["isl"]).tolist():
        mine = rows["isl"] == tokens
        keys = rows["step"][mine] + (tokens + 1) / 2
        order = np.argsort(keys)
        out[int(tokens)] = keys[order], rows["latency"][mine][order] * 1e6
    return out
