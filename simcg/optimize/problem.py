"""The ladder problem in one dimension, as data: traffic, costs, the engine's rule, the limits."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from simcg.arrays import Bools, Ints
from simcg.errors import require


@dataclass(frozen=True, slots=True)
class LadderProblem:
    """Choose bucket sizes that minimise the total time of the steps.

    All arrays are indexed by n = 0..N (entry 0 unused, 0 or False); times are int64 ns.
    ``weights[n]``: steps of size n.  ``replay_ns[T]``: one step replayed in bucket T.
    ``eager_ns[n]``: all steps of size n together when they run eager (already times weights).
    ``charge_ns[T]``: fixed charge of having bucket T.
    ``max_ratio``: hard guard, eager when T > max_ratio * n.  ``eager_if_cheaper``: each size
    runs eager where that is cheaper than its bucket (the research rule).
    ``allowed[T]``: sizes that may be captured.  ``tops[T]``: sizes that may be the ceiling.
    ``required``: sizes that must be captured, ascending.  Steps above the ceiling run eager.
    """

    weights: Ints
    replay_ns: Ints
    eager_ns: Ints
    charge_ns: Ints
    allowed: Bools
    tops: Bools
    required: tuple[int, ...] = ()
    max_ratio: Fraction | None = None
    eager_if_cheaper: bool = False

    def __post_init__(self) -> None:
        size = len(self.weights)
        require(size >= 2, "LadderProblem", "weights", size - 1, "N >= 1")
        for name in ("replay_ns", "eager_ns", "charge_ns", "allowed", "tops"):
            column = getattr(self, name)
            require(len(column) == size, "LadderProblem", name, len(column), f"{size} entries")
        for name in ("weights", "replay_ns", "charge_ns"):
            least = int(getattr(self, name).min())
            require(least >= 0, "LadderProblem", name, least, "integers >= 0")
        for bucket in self.required:
            ok = 1 <= bucket < size and bool(self.allowed[bucket])
            require(ok, "LadderProblem", "required", bucket, f"an allowed size in 1..{size - 1}")

    @property
    def max_tokens(self) -> int:
        """N, the largest step size."""
        return len(self.weights) - 1
