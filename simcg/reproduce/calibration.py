"""What servers add to their kernels: a few figures by framework, from a tenth of the points."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files

import msgspec

from simcg.reproduce.deployment import BLACKWELL, DENSE, MODELS
from simcg.reproduce.point import Point
from simcg.reproduce.predict import Overheads
from simcg.reproduce.prices import Slowdown

SHARE = 26
"""Of 256: configurations whose hash falls below are for calibration, about a tenth."""
THINK_NS = 2e6
"""Assumed: from a last token to the client's next request."""


class ServerCosts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of one framework's servers.

    ``kernel_ns``: GPU time that each kernel takes more than table and gap say. ``request_ms``,
    ``token_us``: of a first token's way through client, network and tokeniser, and for each token
    of its prompt. ``prefill_*``: factor on kernels of steps with prefills, of models without and
    with experts; ``blackwell``: another on that generation. ``host_*``: factor on the host time
    of ops that no graph holds.
    """

    kernel_ns: float
    request_ms: float
    token_us: float
    prefill_dense: float
    prefill_experts: float
    blackwell: float
    host_dense: float
    host_experts: float


BOUNDS: dict[str, tuple[float, float]] = {
    "kernel_ns": (-2500.0, 3000.0),
    "request_ms": (0.0, 150.0),
    "token_us": (0.0, 30.0),
    "prefill_dense": (0.8, 2.5),
    "prefill_experts": (0.8, 2.5),
    "blackwell": (0.7, 2.0),
    "host_dense": (0.5, 8.0),
    "host_experts": (0.5, 8.0),
}
"""Where each figure stays physical: overlapping launches save at most the gap and a start; servers
of 2025 ran slower kernels on Blackwell than the tables of 2026 time."""


@cache
def server_costs() -> dict[str, ServerCosts]:
    """By framework. Fitted by ``scripts/fit_deployments.py``."""
    data = (files("simcg.reproduce") / "data" / "server_costs.json").read_bytes()
    return msgspec.json.decode(data, type=dict[str, ServerCosts])


def configuration(point: Point) -> str:
    """What was deployed and asked of it: equal for repeated measurements."""
    parts = (
        point.framework, point.model, point.system, point.precision, point.tp, point.isl,
        point.osl, point.concurrency,
    )  # fmt: skip
    return " ".join(map(str, parts))


def is_calibration(point: Point) -> bool:
    """Whether its figures may enter the fit: one answer for all of its configuration."""
    return hashlib.sha256(configuration(point).encode()).digest()[0] < SHARE


def overheads(point: Point, costs: ServerCosts) -> Overheads:
    """The framework's costs as they apply to the point."""
    dense = MODELS[point.model] in DENSE
    prefill = costs.prefill_dense if dense else costs.prefill_experts
    generation = costs.blackwell if point.system in BLACKWELL else 1.0
    slowdown = Slowdown(
        kernel_ns=costs.kernel_ns,
        prefill=prefill * generation,
        host=costs.host_dense if dense else costs.host_experts,
    )
    return Overheads(slowdown, costs.request_ms * 1e6, costs.token_us * 1e3, THINK_NS)
