"""Attention of prompts and of decoding requests over 16-bit caches: grouped and latent heads."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simcg.hardware.profile import CurveKey
from simcg.silicon.planes import Curves, fastest
from simcg.silicon.source import Rows, Table

EXPANDED, LATENT = 192, 576
"""Widths of a key in the tables of latent attention, which are of DeepSeek's sizes: expanded for
each head (128 and 64), and as the cache holds it (512 and 64)."""


def prompts(table: Table, out: Curves) -> None:
    """One plane for each kind of attention."""
    for key, rows in _kinds(table, "attention"):
        out.prompts(key, fastest(rows, "batch_size", "isl"))


def decodes(table: Table, out: Curves) -> None:
    """One plane for each kind; the keys of a request count the token that it adds."""
    for key, rows in _kinds(table, "decode_attention"):
        out.decodes(key, fastest(_with_keys(rows), "batch_size", "keys"))


def latent_prompts(table: Table, out: Curves) -> None:
    """One plane for each number of heads: keys and values expanded."""
    table = table.where(kv_cache_dtype="bfloat16")
    for heads in np.unique(table.rows["num_heads"]).tolist():
        key = CurveKey("latent_attention", heads=heads, head_dim=EXPANDED)
        out.prompts(key, fastest(table.where(num_heads=heads).rows, "batch_size", "isl"))


def latent_decodes(table: Table, out: Curves) -> None:
    """One plane for each number of heads: absorbed queries on the cache itself."""
    table = table.where(kv_cache_dtype="bfloat16")
    for heads in np.unique(table.rows["num_heads"]).tolist():
        key = CurveKey("latent_decode", heads=heads, head_dim=LATENT)
        rows = _with_keys(table.where(num_heads=heads).rows)
        out.decodes(key, fastest(rows, "batch_size", "keys"))


def _with_keys(rows: Rows) -> Rows:
    return {**rows, "keys": rows["step"] + rows["isl"]}


def _kinds(table: Table, op: str) -> Iterator[tuple[CurveKey, Rows]]:
    rows = dict(table.rows)
    rows.setdefault("window_size", np.zeros(len(table), dtype=np.int64))
    keep = rows["kv_cache_dtype"] == "bfloat16"
    keep &= rows.get("attn_dtype", rows["kv_cache_dtype"]) == "bfloat16"
    names = ("num_heads", "num_key_value_heads", "head_dim", "window_size")
    kinds = np.stack([rows[name][keep] for name in names], axis=1)
    distinct, of = np.unique(kinds, axis=0, return_inverse=True)
    for i, (heads, kv_heads, dim, window) in enumerate(distinct.tolist()):
        key = CurveKey(
            op,  # type: ignore[arg-type]  # one of two literals
            heads=heads, kv_heads=kv_heads or heads, head_dim=dim, window=window,
        )  # fmt: skip
        mine = np.flatnonzero(keep)[of == i]
        yield key, {name: column[mine] for name, column in rows.items()}
