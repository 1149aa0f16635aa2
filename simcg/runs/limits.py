"""The limits that were stated before anything was measured, and whether the runs meet them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simcg.runs.compare import Errors, Group
from simcg.runs.decide import Decision
from simcg.runs.schema import EqualityCell, InvarianceCell, MemoryCell, PeerCell, StepCell
from simcg.runs.serving import ServingComparison


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Most error of predictions, as median and 95th percentile over cells; None: not stated."""

    kinds: tuple[str, ...]
    backends: tuple[str, ...]
    group: Group | None
    median: float | None
    p95: float


REPLAYS = ("full", "breakable")
ACCURACY = (
    Accuracy(("step",), REPLAYS, "timed rows", 0.02, 0.05),
    Accuracy(("step",), REPLAYS, "other rows", 0.03, 0.08),
    Accuracy(("step",), REPLAYS, "unseen model", 0.05, 0.12),
    Accuracy(("step",), ("tc_piecewise",), None, 0.04, 0.10),
    Accuracy(("step",), ("eager",), None, 0.08, 0.15),
    Accuracy(("graph pool", "eager peak", "graph memory"), (), None, None, 0.05),
    Accuracy(("capture",), (), None, None, 0.15),
)
"""The first entry that applies counts; () stands for every backend, None for every group."""

POOL_OVER_PEAK = 1.15
"""Most reserved pool bytes of a ladder over the eager activation peak of its largest bucket; with
out-parameters the boundary buffers are activations, and part of that peak."""
PEERS = {"bare loop": 1.05, "breakable-cuda-graphs": 1.02}
"""Most median replay time of the breakable backend over that of each other way."""
OUT_PARAMETERS = "out-parameters"
"""The program that ``PEERS`` is about."""
FEWEST_REPLAYS = 200
FEWEST_STEPS = 500
NOTABLE_GAIN = 0.02
"""Where the predicted gain is larger, ours must be significantly better."""
GAIN_ERROR = 0.02
"""Most difference of the predicted and the measured gain."""
ERROR_RATIO = 1.5
"""Most error of a replay against fp32 over eager's own, where they are not bit-equal."""

SERVED = {"ttft p50": 0.05, "ttft p99": 0.10}
"""Most error of a served trace's figures by simulation, up to ``MOST_UTILISATION``."""
MOST_UTILISATION = 0.7


@dataclass(frozen=True, slots=True)
class Check:
    """One stated limit: what was found, what was allowed, and whether that holds."""

    what: str
    found: str
    limit: str
    holds: bool


def accuracy_checks(errors: Sequence[Errors]) -> list[Check]:
    """The errors of predictions."""
    out = []
    for one in errors:
        limit = next((limit for limit in ACCURACY if _applies(limit, one)), None)
        if limit is None:
            continue
        good = one.p95 <= limit.p95 and (limit.median is None or one.median <= limit.median)
        found, allowed = f"p95 {100 * one.p95:.1f}%", f"p95 {100 * limit.p95:.0f}%"
        if limit.median is not None:
            found = f"median {100 * one.median:.1f}%, {found}"
            allowed = f"median {100 * limit.median:.0f}%, {allowed}"
        group = "" if one.group == "all" else f", {one.group}"
        out.append(Check(f"{one.kind}, {one.backend}{group}", found, allowed, good))
    return out


def _applies(limit: Accuracy, one: Errors) -> bool:
    return (
        one.kind in limit.kinds
        and (not limit.backends or one.backend.split(" ")[0] in limit.backends)
        and limit.group in (None, one.group)
    )


def bit_checks(
    steps: Sequence[StepCell], equalities: Sequence[EqualityCell], peers: Sequence[PeerCell]
) -> list[Check]:
    """A: a replay is eager at its bucket, bit for bit."""
    claims = [c.bit_equal for c in steps if c.bit_equal is not None and c.backend in REPLAYS]
    claims += [c.at_bucket for c in equalities if c.backend in REPLAYS]
    claims += [c.equal for c in peers if c.contender == "breakable"]
    if not claims:
        return []
    bad = claims.count(False)
    found = f"{bad} of {len(claims)} differ"
    return [Check("A: replay equals eager at its bucket", found, "0 differ", bad == 0)]


def error_checks(
    equalities: Sequence[EqualityCell], invariances: Sequence[InvarianceCell]
) -> list[Check]:
    """B: a replay is eager at the batch's own size, or errs no more than 1.5 times as much."""
    out = []
    if equalities:
        differ = [c for c in equalities if not c.at_tokens]
        worst = max((_ratio(c.error, c.eager_error) for c in differ), default=1.0)
        found = f"{len(differ)} of {len(equalities)} differ, error ratio at most {worst:.2f}"
        limit = f"equal, or ratio {ERROR_RATIO}"
        out.append(Check("B: replay against eager at n", found, limit, worst <= ERROR_RATIO))
    if invariances:
        equal = sum(c.equal for c in invariances)
        found = f"{equal} of {len(invariances)} row-invariant"
        out.append(Check("products at n and at their bucket", found, "none stated", holds=True))
    return out


def _ratio(error: float | None, eager_error: float | None) -> float:
    """Infinite where either is no number: what differs from such an eager is equal to nothing."""
    if error is None or eager_error is None:
        return math.inf
    return error / eager_error if eager_error else math.inf


def pool_checks(memories: Sequence[MemoryCell]) -> list[Check]:
    """Weakly held outputs let all buckets live in one pool of one forward's size."""
    return [
        Check(
            f"pool over eager peak, {c.model} {c.backend}",
            f"{c.pool / c.eager_peak:.2f}", f"{POOL_OVER_PEAK}",
            c.pool <= POOL_OVER_PEAK * c.eager_peak,
        )
        for c in memories
        if c.backend in REPLAYS
    ]  # fmt: skip


def peer_checks(peers: Sequence[PeerCell]) -> list[Check]:
    """The breakable backend against a bare loop and the public package."""
    out = []
    by_name = {(c.program, c.contender): c for c in peers}
    ours = by_name.get((OUT_PARAMETERS, "breakable"))
    for name, most in PEERS.items():
        peer = by_name.get((OUT_PARAMETERS, name))
        if ours is None or peer is None:
            continue
        ratio = float(np.median(ours.replay_ns) / np.median(peer.replay_ns))
        replays = min(len(ours.replay_ns), len(peer.replay_ns))
        enough = replays >= FEWEST_REPLAYS
        limit = f"{most} over {FEWEST_REPLAYS} replays"
        found = f"{ratio:.3f} over {replays} replays"
        out.append(Check(f"breakable over {name}", found, limit, ratio <= most and enough))
    return out


def decision_checks(found: Sequence[Decision]) -> list[Check]:
    """No ladder beats ours, predicted gains are there, and are as large as predicted."""
    out = []
    for one in found:
        measured = f"{100 * one.measured:+.2f}% ({100 * one.low:+.2f} to {100 * one.high:+.2f})"
        what = f"{one.ours} against {one.theirs}"
        beaten = one.high < 0
        missing = one.predicted > NOTABLE_GAIN and one.low <= 0
        off = abs(one.predicted - one.measured) > GAIN_ERROR
        limit = "not worse"
        if one.predicted > NOTABLE_GAIN:
            limit = "better"
        limit += f", within 2 points of {100 * one.predicted:+.2f}%"
        enough = one.steps >= FEWEST_STEPS
        if not enough:
            measured += f", {one.steps} steps"
            limit += f", {FEWEST_STEPS} steps"
        out.append(Check(what, measured, limit, enough and not (beaten or missing or off)))
    return out


def serving_checks(found: Sequence[ServingComparison]) -> list[Check]:
    """The first token of a served trace, simulated."""
    return [
        Check(
            f"served {one.run.line.model}, utilisation {one.run.line.utilisation:g}, {name}",
            f"{100 * one.error(name):+.1f}%", f"within {100 * most:.0f}%",
            abs(one.error(name)) <= most,
        )
        for one in found
        for name, most in SERVED.items()
        if (one.run.line.utilisation or 0.0) <= MOST_UTILISATION
    ]  # fmt: skip
