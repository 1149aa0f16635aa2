"""Attention of prompts and of decoding requests: planes over tokens or requests, and keys.

Prompts were measured without cached context: requests of equal length, so that a query sees half
of its prompt in the mean. A plane wants any number of keys for any number of tokens; where keys
are more than the tokens of one prompt allow, the entry is carried on: the work of a whole prompt
with as many keys a query, in proportion to the tokens, but no less than these tokens' own prompt.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simcg.arrays import Floats
from simcg.hardware.profile import Curve, CurveKey
from simcg.silicon.noise import roughness
from simcg.silicon.source import Rows, Table

TOKENS = tuple(2**i for i in range(4, 16))
LENGTHS = (16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
"""Prompt lengths of the plane; each has (length + 1) / 2 keys a query."""
REQUESTS = tuple(2**i for i in range(12))
KEYS = (16, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072)
FEWEST = 20
"""Measured entries that a plane needs."""


def prompts(table: Table, source: str) -> list[Curve]:
    """One curve for each kind of attention over 16-bit caches."""
    out = []
    for key, rows in _kinds(table, "attention"):
        measured = _measured(rows, "batch_size", "isl")
        if len(measured) < FEWEST:
            continue
        plane = [[_prompt_ns(measured, tokens, length) for length in LENGTHS] for tokens in TOKENS]
        keys = tuple((length + 1) / 2 for length in LENGTHS)
        out.append(_curve(key, TOKENS, keys, np.array(plane), source))
    return out


def decodes(table: Table, source: str) -> list[Curve]:
    """One curve for each kind: requests that add one token, and the keys of each with its own."""
    out = []
    for key, rows in _kinds(table, "decode_attention"):
        measured = _measured({**rows, "keys": rows["step"] + rows["isl"]}, "batch_size", "keys")
        if len(measured) < FEWEST:
            continue
        plane = [[_decode_ns(measured, m, keys) for keys in KEYS] for m in REQUESTS]
        out.append(_curve(key, REQUESTS, KEYS, np.array(plane), source))
    return out


Measured = dict[tuple[int, int], float]
"""ns by (requests, tokens or keys of each)."""


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


def _measured(rows: Rows, many: str, each: str) -> Measured:
    """The fastest kernel of each size."""
    out: Measured = {}
    for m, size, ms in zip(rows[many], rows[each], rows["latency"], strict=True):
        at = int(m), int(size)
        out[at] = min(out.get(at, np.inf), float(ms) * 1e6)
    return out


def _prompt_ns(measured: Measured, tokens: int, length: int) -> float:
    """``tokens`` of prompts of that length, or a part of one."""
    if tokens >= length:
        return _requests_ns(measured, tokens // length, length)
    own = _requests_ns(measured, 1, tokens)
    return max(own, _requests_ns(measured, 1, length) * tokens / length)


def _requests_ns(measured: Measured, requests: int, length: int) -> float:
    """Measured, else from the nearest size with the same product or less, in proportion."""
    if (requests, length) in measured:
        return measured[requests, length]
    known = [(m, n) for m, n in measured if m <= requests and n <= length]
    if not known:
        return min(measured.values())
    m, n = max(known, key=lambda size: (size[0] * size[1], size[1]))
    return measured[m, n] * (requests / m) * (length / n) ** 2


def _decode_ns(measured: Measured, requests: int, keys: int) -> float:
    """Measured, else in proportion to the keys from the largest size that is in neither larger."""
    if (requests, keys) in measured:
        return measured[requests, keys]
    known = [(m, n) for m, n in measured if m <= requests and n <= keys]
    if not known:
        return min(measured.values())
    m, n = max(known, key=lambda size: (size[0] * size[1], size[1]))
    return measured[m, n] * (requests * keys) / (m * n)


def _curve(
    key: CurveKey, x: tuple[int, ...], y: tuple[float, ...], plane: Floats, source: str
) -> Curve:
    return Curve(
        key=key,
        x=tuple(map(float, x)),
        y=tuple(map(float, y)),
        ns=tuple(np.rint(plane).ravel().tolist()),
        spread_ns=(),
        provenance="measured",
        source=source,
        sigma=roughness(plane),
        causal=key.op == "attention",
    )
