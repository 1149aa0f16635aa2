"""Published values that say nothing new: arithmetic of other rows, or right by definition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Follows:
    """``of`` makes the simulated value from the simulated values of ``rows``, in their order.

    Without rows the value is what a dispatch is by definition: no parameter and no price can move
    it, so it cannot miss.
    """

    rows: tuple[str, ...]
    of: Callable[..., float]

    @property
    def mark(self) -> str:
        """What tables say of it."""
        return f"follows from {', '.join(self.rows)}" if self.rows else "cannot miss"


def _share(compile_s: float, capture_s: float) -> float:
    return 100 * compile_s / (compile_s + capture_s)


def _same(value: float) -> float:
    return value


def _less(value: float, other: float) -> float:
    return value - other


FOLLOWS: dict[str, Follows] = {
    "R5": Follows(("R2", "R3"), lambda breakable, piecewise: 100 * (breakable / piecewise - 1)),
    "C5-Qwen3": Follows(("C2-compile", "C2-capture"), _share),
    "C5-GLM": Follows(("C4-compile", "C4-capture"), _share),
    "M4-before": Follows(("M2-none",), _same),
    "M5-before": Follows(("M3-none",), _same),
    "M6-gptoss": Follows(("M2-none", "M2-8192"), _less),
    "M6-glm": Follows(("M3-none", "M3-8192"), _less),
    "K5": Follows((), lambda: min(size for size in (2816, 3072, 8192) if size >= 3208)),
}
"""By id. The values stay in the tables, and errors are counted without them."""
