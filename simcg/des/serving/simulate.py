"""The doors: run a configuration on traffic."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from simcg.des.serving.arrivals import Arrivals
from simcg.des.serving.clock import ServingClock
from simcg.des.serving.config import ServerConfig
from simcg.des.serving.policy import Policy
from simcg.des.serving.result import ServingResult, result_of
from simcg.des.serving.server import Columns, Limits, LoggedStep, Server
from simcg.errors import Finding, InputError

WARM_UP = 0.1
"""Share of the requests, the first ones, that latencies leave out: they met an empty server."""


def simulate(  # noqa: PLR0913 - keyword-only beyond three
    config: ServerConfig,
    arrivals: Arrivals,
    seed: int,
    *,
    clock: ServingClock | None = None,
    warm_up: float = WARM_UP,
    log: list[LoggedStep] | None = None,
    progress: Callable[[int], None] | None = None,
) -> ServingResult:
    """Serve the requests that ``seed`` draws until all are done.

    ``clock``: that of ``config``, where it is known already. ``warm_up``: share of the requests
    that latencies leave out; none where all come at once, as the first are then no less loaded.
    ``log`` is filled with every run of equal steps; ``progress`` hears how many requests are done.
    Raises ``InputError`` for a request that the KV cache can never hold.
    """
    columns, sent = arrivals.columns(seed)
    clock = config.clock() if clock is None else clock
    limits = config.limits
    at_once = columns.arrival[0] == columns.arrival[-1]
    server = serve(clock, config.policy, limits, columns, sent, log=log, progress=progress)
    offered = arrivals.offered_per_s(np.frombuffer(columns.arrival, dtype=np.int64))
    left_out = 0 if at_once else int(warm_up * server.count)
    return result_of(server, offered, warm_up=left_out)


def serve(  # noqa: PLR0913 - what a server is made of
    clock: ServingClock,
    policy: Policy,
    limits: Limits,
    columns: Columns,
    sent: int,
    *,
    log: list[LoggedStep] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Server:
    """The server when all is done; for clocks that no configuration gives."""
    import simpy  # noqa: PLC0415  # a real server that asks for a policy does without

    _check_lengths(columns, limits)
    env = simpy.Environment()
    server = Server(env, clock, policy, limits, columns, sent, log, progress)
    env.process(server.run())
    env.run()
    return server


def _check_lengths(columns: Columns, limits: Limits) -> None:
    capacity = limits.kv_blocks * limits.block_tokens
    tokens = [p + o - 1 for p, o in zip(columns.prompt, columns.output, strict=True)]
    longest = max(tokens)
    if longest > capacity:
        expected = (
            f"at most the KV cache of {capacity} tokens: {longest - capacity} more are needed"
        )
        raise InputError(
            f"request {tokens.index(longest)}", "", Finding(f"{longest} tokens"), expected
        )
