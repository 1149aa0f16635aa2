"""Numbers of the section about the model: host costs and what steps are made of."""

from __future__ import annotations

from papers.sources import COMPUTE_BOUND, LAUNCH_BOUND, prompts_of
from papers.text import count, ms, percent
from simcg.backend import BREAKABLE, EAGER, FULL, TC_PIECEWISE
from simcg.cost.step import StepCost
from simcg.hardware.catalog import load_profile
from simcg.model.catalog import load_architecture
from simcg.model.forward import forward_pass
from simcg.provenance import RELATIVE_ERROR
from simcg.server import Server

PAIRED = (EAGER, TC_PIECEWISE, BREAKABLE, FULL)
SMALL = 64


def model_numbers() -> dict[str, object]:
    """Figures of both settings and the provenance scale."""
    return {
        "small": str(SMALL),
        "compute": setting(COMPUTE_BOUND),
        "launch": setting(LAUNCH_BOUND),
        "items": items(COMPUTE_BOUND),
        "provenance": [[name, percent(share, 0)] for name, share in RELATIVE_ERROR.items()],
    }


def setting(server: Server) -> dict[str, str]:
    """Host figures of the profile."""
    host = load_profile(server.hardware).host
    return {
        "model": server.model,
        "hardware": server.hardware,
        "dispatch_us": f"{host.dispatch[''].value / 1e3:.1f}",
        "break_us": f"{host.break_body.value / 1e3:.0f}",
        "launch_us": f"{host.replay[0].value / 1e3:.1f}",
    }


def items(server: Server) -> list[list[str]]:
    """What the host issues for a step of the setting, backend by backend."""
    forward = forward_pass(load_architecture(server.model), tp=server.tp)
    rows = []
    for backend in PAIRED:
        cost = StepCost(forward, load_profile(server.hardware), backend)
        times = cost.times(prompts_of([SMALL]))
        rows.append(
            [backend.name, str(cost.segments), count(cost.nodes), ms(times.host_ns, 3),
             ms(int(times.device_ns[-1])), ms(int(times.ns[-1]))]
        )  # fmt: skip
    return rows
