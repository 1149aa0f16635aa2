"""Choose, price and prove CUDA-graph capture ladders for LLM serving."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simcg.api import choose_ladder, compare, run_step, simulate, step_times
    from simcg.des.serving.arrivals import AtOnce, Closed, Gamma, OnOff, Poisson, Traced
    from simcg.errors import InputError, SimcgError
    from simcg.ladder import Ladder
    from simcg.optimize.scenario import Limits
    from simcg.server import Server
    from simcg.workload.builtin import builtin_workload
    from simcg.workload.read import read_traffic

__version__ = "0.1.0"

__all__ = [
    "AtOnce",
    "Closed",
    "Gamma",
    "InputError",
    "Ladder",
    "Limits",
    "OnOff",
    "Poisson",
    "Server",
    "SimcgError",
    "Traced",
    "builtin_workload",
    "choose_ladder",
    "compare",
    "read_traffic",
    "run_step",
    "simulate",
    "step_times",
]

_HOMES = {
    "simcg.api": ("choose_ladder", "compare", "run_step", "simulate", "step_times"),
    "simcg.des.serving.arrivals": ("AtOnce", "Closed", "Gamma", "OnOff", "Poisson", "Traced"),
    "simcg.errors": ("InputError", "SimcgError"),
    "simcg.ladder": ("Ladder",),
    "simcg.optimize.scenario": ("Limits",),
    "simcg.server": ("Server",),
    "simcg.workload.builtin": ("builtin_workload",),
    "simcg.workload.read": ("read_traffic",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """What is public comes from its module when it is first used: ``import simcg`` is cheap."""
    if name not in _HOME:
        raise AttributeError(f"module 'simcg' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted((*globals(), *__all__))
