"""Beside each "always" a "sometimes": how often what an invariant speaks of was there to see."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

from simcg.formal.launch import Break, Capture, Launch, Segment
from simcg.formal.program import Kind, Program
from simcg.formal.recorded import calls
from simcg.formal.tally import Counts

BY_OFFSETS = frozenset[Kind]({"causal", "attend", "state"})


@dataclass(frozen=True, slots=True)
class Premises:
    """The invariants whose premise a replay of one capture meets.

    ``padded``: only with padding rows; ``sentinel``: only with empty request slots.
    """

    always: tuple[str, ...]
    padded: tuple[str, ...]
    sentinel: tuple[str, ...]

    def count(self, witnesses: Counts, replays: int, padded: int, sentinel: int) -> None:
        """Add so many replays, of which so many had padding, and so many empty slots."""
        for keys, times in (
            (self.always, replays), (self.padded, padded), (self.sentinel, sentinel)
        ):  # fmt: skip
            for key in keys:
                witnesses[key] += times


def premises(program: Program, capture: Capture) -> Premises:
    """What replays of a capture have in them."""
    launched = list(calls(capture))
    kinds = {op.kind for op in program.ops}
    in_graphs = [launch for launch, breaking in launched if not breaking]
    breaks = [item for item in capture.items if isinstance(item, Break)]
    always = {
        "I1": any(launch.kind == "borrow" for launch in in_graphs),
        "I2": "constant" in kinds,
        "I3": any(item.result >= 0 for item in breaks),
        "I4": _reuses(in_graphs),
        "I5": any("weak" in item.held for item in breaks),
        "I11": bool(kinds & (BY_OFFSETS | {"scatter", "random", "mix"})),
        "I12": len(capture.items) > 1 or any(op.side for op in program.ops),
        "I13": any(item.inner for item in breaks),
        "I15": bool(kinds & {"draw", "random", "state"}),
        "I17": any(launch.kind in {"launch", "attend"} for launch in in_graphs),
        "I21": any(isinstance(i, Segment) and i.early != i.late for i in capture.items),
    }
    padded = {"I7": True, "I8": "scatter" in kinds}
    sentinel = {"I9": bool(kinds & BY_OFFSETS)}
    return Premises(*(tuple(k for k, met in keys.items() if met)
                      for keys in (always, padded, sentinel)))  # fmt: skip


def _reuses(launches: list[Launch]) -> bool:
    """Whether two results have shared memory."""
    writers = Counter((launch.out, launch.out + launch.rows) for launch in launches
                      if launch.out >= 0 and launch.kind != "accumulate")  # fmt: skip
    spans = sorted(writers)
    overlap = any(b[0] < a[1] for a, b in pairwise(spans))
    return overlap or any(count > 1 for count in writers.values())
