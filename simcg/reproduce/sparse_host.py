"""A layer of sparse attention as measured by others on the published machine: its host and kernel.

Medians of aiconfigurator-core 0.12.0, GB300, SGLang 0.5.14: the attention module of GLM-5.2 from
its first product to its last, issued eagerly, with 16 heads (as on one of four ranks), one
request and an FP8 cache (SGLang's default on this GPU), over prompts of at most 2,048 tokens with
at most 8,192 keys. They rise neither with tokens nor with heads there: the host sets the pace.
Its matrices are 16 bit; with GLM-5's in FP8 blocks the module takes as long (1.59 ms against 1.68
where the layer has an indexer).
"""

from __future__ import annotations

import msgspec

from simcg.hardware.profile import Curve, Figure, HardwareProfile
from simcg.model.ops import ForwardPass, Op

SOURCE = "aiconfigurator-core 0.12.0, GB300, SGLang 0.5.14, dsa_context_module of GLM-5.2"
DENSE_NS = 1_023_750
"""Dense attention, without an indexer (108 rows)."""
DENSE_WITH_KEYS_NS = 1_684_250
"""Dense attention, and an indexer that only caches its keys (108 rows)."""
SPARSE_NS = 583_650
"""Sparse attention by keys that an earlier layer chose (52 rows)."""
KERNEL_SHARE = 0.315
"""Time of the sparse kernel of SGLang's default there (trtllm, for an FP8 cache) against the one
whose curve the profile has (flash_mla, in blocks of 64 heads), at 16 heads: the same modules of
4,096, 8,192 and 16,384 tokens (0.793, 1.620, 3.315 ms) less the profile's price of their other
kernels (0.305, 0.599, 1.151), over 1.591, 3.237 and 6.453 ms: 0.307, 0.315, 0.335."""
KEYS_ONLY = ("index_key", "index_norm", "index_rotary", "index_hadamard", "index_write")
"""What an indexer runs to cache its keys."""


def sparse_dispatch(forward: ForwardPass) -> dict[str, Figure]:
    """Dispatch of a kernel by the op's name, so that the measured modules come out as measured.

    Each kernel of a module takes the same share. Where attention is sparse it runs at a break, so
    that its own share is left to what a break takes. A choice of all keys was not measured.
    """
    plain = next(layer for layer in forward.layers if not _indexed(layer))
    indexed = next(layer for layer in forward.layers if _indexed(layer))
    module = _module(plain)
    dense = all(op.name != "q_absorb" for op in module)
    share = _figure((DENSE_NS if dense else SPARSE_NS) / sum(op.kernels for op in module))
    keys = [op for op in indexed if op.name in KEYS_ONLY]
    keys_share = _figure((DENSE_WITH_KEYS_NS - DENSE_NS) / sum(op.kernels for op in keys))
    names = {op.name: share for op in module if dense or op.name != "attention"}
    return names | {op.name: keys_share for op in keys}


def with_sparse_kernel(profile: HardwareProfile) -> HardwareProfile:
    """The profile whose sparse attention is that kernel's."""
    curves = tuple(_scaled(c) if c.key.op == "sparse_attention" else c for c in profile.curves)
    return msgspec.structs.replace(profile, curves=curves)


def _scaled(curve: Curve) -> Curve:
    ns, spread = (
        tuple(value * KERNEL_SHARE for value in values) for values in (curve.ns, curve.spread_ns)
    )
    return msgspec.structs.replace(
        curve, ns=ns, spread_ns=spread, provenance="fitted", source=SOURCE
    )


def _indexed(layer: tuple[Op, ...]) -> bool:
    return any(op.name in KEYS_ONLY for op in layer)


def _module(layer: tuple[Op, ...]) -> list[Op]:
    """From the first product to the last one: all between the norm and the all-reduce."""
    names = [op.name for op in layer]
    return list(layer[1 : names.index("o") + 1])


def _figure(ns: float) -> Figure:
    return Figure(ns, "published", SOURCE)
