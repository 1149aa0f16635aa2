"""What to tell a user about a ladder that an engine accepts and that still disappoints."""

from __future__ import annotations

import numpy as np

from simcg.arrays import Ints
from simcg.engines.engine import Engine
from simcg.errors import require
from simcg.ladder import EAGER_INDEX, Ladder, dispatch

_TYPO_DISTANCE = 4  # 8196 for 8192 is the public example
_TYPO_LEAST = 1024  # below, sizes a few tokens apart are a fine grid and no typo
_RANGES_SHOWN = 4


def warnings(
    ladder: Ladder, engine: Engine, max_chunk: int, *, typed: bool = True
) -> tuple[str, ...]:
    """One line for each trap this ladder holds under this engine, for steps of 1..max_chunk.

    ``typed``: a person wrote the sizes, so look for typing errors too. Errors: ``InputError``
    unless max_chunk >= 1.
    """
    require(max_chunk >= 1, "max_chunk", "", max_chunk, "an integer >= 1")
    if not ladder.buckets:
        return ()
    tokens = np.arange(1, max_chunk + 1, dtype=np.int64)
    by_tokens = Ladder.of(ladder.sizes)  # slots are another axis: these traps are about tokens
    chosen = dispatch(by_tokens, engine.admission, tokens, np.ones_like(tokens))
    return (
        *_top(by_tokens, engine, max_chunk),
        *(_typos(by_tokens, max_chunk) if typed else ()),
        *_guarded(by_tokens, engine, chosen),
        *_unused(by_tokens, max_chunk, chosen),
        *engine.assumptions,
    )


def _top(ladder: Ladder, engine: Engine, max_chunk: int) -> tuple[str, ...]:
    """The ceiling is below the chunk, or the chunk is padded to something larger."""
    fallback = engine.fallback_backend.name
    if ladder.ceiling < max_chunk:
        return (
            f"the top size {ladder.ceiling} is below the chunk {max_chunk}: steps of "
            f"{_span(ladder.ceiling + 1, max_chunk)} tokens, every full chunk among them, run "
            f"{fallback}, and memory is paid twice, for graphs and for {fallback} activations",
        )
    if max_chunk not in ladder.sizes:
        padded = min(size for size in ladder.sizes if size > max_chunk)
        return (f"the chunk {max_chunk} is no captured size: full chunks need the {padded} bucket",)
    return ()


def _typos(ladder: Ladder, max_chunk: int) -> tuple[str, ...]:
    """Sizes a few tokens above a round one that is not there."""
    return tuple(
        f"size {size} is {size - meant} above {meant}, which is missing: was {meant} meant?"
        for size in ladder.sizes
        for meant in sorted({1 << (size.bit_length() - 1), max_chunk})
        if size >= _TYPO_LEAST and 0 < size - meant <= _TYPO_DISTANCE and meant not in ladder.sizes
    )


def _guarded(ladder: Ladder, engine: Engine, chosen: Ints) -> tuple[str, ...]:
    """Step sizes under the ceiling that the guard sends to the fallback."""
    below = min(ladder.ceiling, len(chosen))
    eager = np.flatnonzero(chosen[:below] == EAGER_INDEX) + 1
    if not len(eager):
        return ()
    runs = np.split(eager, np.flatnonzero(np.diff(eager) > 1) + 1)
    shown = ", ".join(_span(int(run[0]), int(run[-1])) for run in runs[:_RANGES_SHOWN])
    more = f" and {len(runs) - _RANGES_SHOWN} more ranges" if len(runs) > _RANGES_SHOWN else ""
    ratio = engine.admission.max_ratio
    return (
        f"steps of n = {shown}{more} run {engine.fallback_backend.name}: their bucket has more "
        f"than {ratio} n tokens, which {engine.name} {engine.version} refuses to replay",
    )


def _unused(ladder: Ladder, max_chunk: int, chosen: Ints) -> tuple[str, ...]:
    """Buckets that no step of 1..max_chunk reaches."""
    used = set(chosen.tolist())
    unused = [size for index, size in enumerate(ladder.sizes) if index not in used]
    if not unused:
        return ()
    shown = ", ".join(map(str, unused[:_RANGES_SHOWN]))
    more = f" and {len(unused) - _RANGES_SHOWN} more" if len(unused) > _RANGES_SHOWN else ""
    return (f"no step of at most {max_chunk} tokens ever replays in {shown}{more}",)


def _span(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}..{high}"
