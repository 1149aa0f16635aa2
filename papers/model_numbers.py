"""Numbers of the section about the model: host costs, step times, the machine's speed."""

from __future__ import annotations

from papers.sources import COMPUTE_BOUND, LAUNCH_BOUND, printed, prompts, step_times
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
LATER = 0.02
"""Above such a share eager is told apart from a replay."""


def model_numbers() -> dict[str, object]:
    """Figures of both settings, the provenance scale, and the machine's rates."""
    return {
        "small": str(SMALL),
        "compute": setting(COMPUTE_BOUND),
        "launch": setting(LAUNCH_BOUND),
        "items": items(COMPUTE_BOUND),
        "provenance": [[name, percent(share, 0)] for name, share in RELATIVE_ERROR.items()],
        "machine": machine_rows(),
    }


def setting(server: Server) -> dict[str, str]:
    """Host figures of the profile, and where launches stop mattering."""
    host = load_profile(server.hardware).host
    work = prompts()
    eager = step_times(server, EAGER, work)
    full = step_times(server, FULL, work)
    breakable = step_times(server, BREAKABLE, work)
    slower = eager.ns > (1 + LATER) * breakable.ns
    return {
        "model": server.model,
        "hardware": server.hardware,
        "dispatch_us": f"{host.dispatch[''].value / 1e3:.1f}",
        "break_us": f"{host.break_body.value / 1e3:.0f}",
        "launch_us": f"{host.replay[0].value / 1e3:.1f}",
        "eager_host": ms(eager.host_ns),
        "full_host": ms(full.host_ns),
        "breakable_host": ms(breakable.host_ns),
        "same_from": count(int(slower.nonzero()[0].max()) + 2) if not slower.all() else "-",
    }


def items(server: Server) -> list[list[str]]:
    """What the host issues for a step of the setting, backend by backend."""
    forward = forward_pass(load_architecture(server.model), tp=server.tp)
    rows = []
    for backend in PAIRED:
        cost = StepCost(forward, load_profile(server.hardware), backend)
        times = cost.times(prompts(SMALL))
        rows.append(
            [backend.name, str(cost.segments), count(cost.nodes), ms(times.host_ns, 3),
             ms(int(times.device_ns[-1])), ms(int(times.ns[-1]))]
        )  # fmt: skip
    return rows


def machine_rows() -> list[list[str]]:
    """The simulated machine beside bare SimPy, as printed: step, rates in thousands, ratio."""
    lines = printed("`python -m benchmarks.bench_des`")[2:]
    return [[" ".join(cells[:-4]), *cells[-4:]] for cells in map(str.split, lines)]
