"""Decode attention of requests of different lengths, by kernels that read each in one piece.

Such a kernel reads all its requests at once and is done with the longest. Up to ``width`` of them
cost no more than one, so it takes as long as if its ``width`` longest requests were all as long
as the longest; the shorter ones cost what their keys do. An equal batch takes the measured
curve's time, whatever the width: it is what a ragged one is compared with. Kernels that split
long requests over the GPU have no width, and only the sum of their keys counts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simcg.cost.keys import attention_key
from simcg.hardware.profile import Curve, HardwareProfile
from simcg.model.ops import Attention, ForwardPass

PARTS = 256
"""Effective keys are counted in so many parts: widths are not whole."""


def widths(profile: HardwareProfile, forward: ForwardPass, most: int) -> tuple[int, ...]:
    """Width in ``PARTS`` by the requests that a kernel is launched for; () where it splits.

    Of the forward's attention without a window; index 0 is never used.
    """
    curve = _curve_of(profile, forward)
    if curve is None or not curve.width:
        return ()
    launched = np.arange(1, most + 1)
    wide = np.interp(launched, curve.x, curve.width)
    return (PARTS, *np.rint(np.minimum(wide, launched) * PARTS).astype(int).tolist())


def _curve_of(profile: HardwareProfile, forward: ForwardPass) -> Curve | None:
    known = {curve.key: curve for curve in profile.curves}
    for op in forward.numbered[0]:
        if isinstance(op.shape, Attention) and op.shape.window is None:
            return known.get(attention_key(op.shape, "decode_attention"))
    return None


def effective_parts(ascending: Sequence[int], width: int) -> int:
    """Keys of an equal batch that takes as long as these requests, in ``PARTS``.

    ``ascending``: keys of each request; ``width`` in ``PARTS``, at least one request's. Linear in
    lengths, so that a token more for all of them adds ``growth``.
    """
    whole, part = divmod(width, PARTS)
    count, longest = len(ascending), ascending[-1]
    if whole >= count:
        return width * longest
    shorter = PARTS * sum(ascending[: count - whole]) - part * ascending[count - whole - 1]
    return width * longest + shorter


def growth(requests: int, width: int) -> int:
    """What a token more for each of ``requests`` adds to ``effective_parts``."""
    return max(width, PARTS * requests)
