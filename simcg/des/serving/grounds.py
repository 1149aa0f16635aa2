"""What the steps of a server rest on, part by part."""

from __future__ import annotations

import numpy as np

from simcg.arrays import Ints
from simcg.backend import FULL
from simcg.cost.grounds import Ground, step_grounds, weakest_first
from simcg.cost.kernels import Work
from simcg.cost.step import StepCost
from simcg.des.serving.clock import MOST_CONTEXT
from simcg.des.serving.config import ServerConfig
from simcg.ladder import EAGER_INDEX, AdmissionRule, dispatch


def server_grounds(config: ServerConfig) -> list[Ground]:
    """Of all steps that its clock prices, the weakest parts first."""
    return weakest_first((*_chunked(config), *_decoding(config)))


def _chunked(config: ServerConfig) -> list[Ground]:
    """Steps of every number of tokens, without context and with the longest; mixed ones decode."""
    mixes = config.policy.mixes
    n: Ints = np.arange(1, config.chunk + config.max_running * mixes + 1, dtype=np.int64)
    replays = dispatch(config.ladder, config.rule, n, np.ones_like(n)) != EAGER_INDEX
    out: list[Ground] = []
    for which, cost in ((replays, config.model.replay), (~replays, config.model.eager)):
        if not which.any():
            continue
        ends = n[which][[0, -1]]
        tokens, context = (a.ravel() for a in np.meshgrid(ends, (0, _longest(config))))
        one, none = np.ones_like(tokens), np.zeros_like(tokens)
        pairs = tokens * context + tokens * (tokens + 1) // 2
        out += step_grounds(cost, Work(tokens, tokens, one, pairs))
        if mixes:
            out += step_grounds(cost, Work(tokens, none, one, none, one, context + 1))
    return out


def _decoding(config: ServerConfig) -> list[Ground]:
    """Steps of every number of requests, each over one key and over the longest context."""
    forward = config.decode_forward or config.model.forward
    m: Ints = np.arange(1, config.max_running + 1, dtype=np.int64)
    index = dispatch(config.decode_ladder, AdmissionRule(), m, m)
    replays = index != EAGER_INDEX
    graph = StepCost(forward, config.model.profile, FULL)
    eager = StepCost(forward, config.model.profile, config.model.fallback)
    out: list[Ground] = []
    for which, cost in ((replays, graph), (~replays, eager)):
        if which.any():
            requests, keys = (
                a.ravel() for a in np.meshgrid(m[which][[0, -1]], (1, _longest(config)))
            )
            none = np.zeros_like(requests)
            work = Work(requests, none, requests, none, requests, requests * keys)
            out += step_grounds(cost, work)
    return out


def _longest(config: ServerConfig) -> int:
    return min(config.kv_tokens, MOST_CONTEXT)
