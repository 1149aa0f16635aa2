"""Serving: traffic, scheduler, KV cache and step times of one server, simulated."""

from simcg.des.serving.arrivals import Arrivals, AtOnce, Closed, Gamma, OnOff, Poisson, Traced
from simcg.des.serving.config import ServerConfig
from simcg.des.serving.policy import MIXED, PREFILL_FIRST, Policy, policy_named
from simcg.des.serving.result import ServingResult
from simcg.des.serving.simulate import simulate

__all__ = [
    "MIXED",
    "PREFILL_FIRST",
    "Arrivals",
    "AtOnce",
    "Closed",
    "Gamma",
    "OnOff",
    "Poisson",
    "Policy",
    "ServerConfig",
    "ServingResult",
    "Traced",
    "policy_named",
    "simulate",
]
