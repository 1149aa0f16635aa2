"""Two real vLLM 0.19 runs of Llama-3.1-8B under one trace, request by request, and simulated.

Recorded by LLMServingSim (casys-kaist/LLMServingSim, MIT, Copyright (c) 2024 CASYS, KAIST): 300
ShareGPT requests at 10 a second, 2,048 tokens a step, async scheduling.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import msgspec
import numpy as np

from simcg.arrays import Floats, Ints
from simcg.engines.sizes import vllm_sizes
from simcg.errors import InputError
from simcg.hardware.catalog import load_profile
from simcg.hardware.profile import Figure, Gpu, HardwareProfile
from simcg.model.catalog import architecture_named
from simcg.model.forward import forward_pass
from simcg.reproduce.closed_loop import ClosedLoop, Latencies
from simcg.reproduce.prices import Graphs, ServerPrices, Slowdown
from simcg.reproduce.recipe import Recipe
from simcg.reproduce.tables import StepTables
from simcg.silicon.base import on_another_gpu

MODEL = "llama-3.1-8b"
STEP_TOKENS = 2048
GRAPH_TOP = 512
FITTED = 50
"""Requests, the first ones, whose times the host parameters are fitted to."""
MOST_STEP_NS = 10_000_000
"""Bound of the host time of a step that nothing hides."""
ROUNDS = 12


@dataclass(frozen=True)
class Recorded:
    """One run: tokens, and microseconds since the first request was queued."""

    gpu: str
    prompt: Ints
    output: Ints
    queued_us: Ints
    first_us: Ints
    last_us: Ints

    @property
    def latencies(self) -> Latencies:
        """As a simulated run states them."""
        spans = (self.last_us - self.first_us) * 1000
        return Latencies((self.first_us - self.queued_us) * 1000, spans / (self.output - 1))


@dataclass(frozen=True, slots=True)
class Server:
    """What the run's own record says of its server. ``kv_tokens``: None where it never filled."""

    gpu: str
    running: int
    kv_tokens: int | None
    target: bool


SERVERS = (
    Server("rtx-pro-6000", 128, None, target=True),
    Server("rtx-4090", 256, 41_408, target=False),
)


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """Means over all requests in ms: recorded, and simulated.

    ``step_ns``, ``request_ns``: the host parameters that were fitted to the first requests;
    ``rest_*_error``: of the means over the requests after those; ``bare_*_error``: of the means
    over all, with both parameters 0. ``kernels``: where times of kernels are from.
    """

    server: Server
    recorded_ttft_ms: float
    recorded_tpot_ms: float
    ttft_ms: float
    tpot_ms: float
    rest_ttft_error: float
    rest_tpot_error: float
    bare_ttft_error: float
    bare_tpot_error: float
    step_ns: float
    request_ns: float
    kernels: str

    @property
    def ttft_error(self) -> float:
        """As a share of the recorded mean."""
        return self.ttft_ms / self.recorded_ttft_ms - 1

    @property
    def tpot_error(self) -> float:
        """As a share of the recorded mean."""
        return self.tpot_ms / self.recorded_tpot_ms - 1


@cache
def recorded(gpu: str) -> Recorded:
    """The run on that GPU; ``InputError`` names those there are."""
    text = (files("simcg.reproduce") / "data" / "vllm_runs.csv").read_text()
    rows = [row for row in csv.DictReader(io.StringIO(text)) if row["gpu"] == gpu]
    if not rows:
        raise InputError("run", "", gpu, "one of " + ", ".join(s.gpu for s in SERVERS))
    names = ("prompt", "output", "queued_us", "first_us", "last_us")
    return Recorded(gpu, *(np.array([int(r[n]) for r in rows], dtype=np.int64) for n in names))


def datasheet_4090() -> HardwareProfile:
    """GeForce RTX 4090 without kernel tables: rooflines of its data sheet, the rest as on h200."""
    source = "NVIDIA Ada GPU architecture whitepaper, GeForce RTX 4090"
    figures = {"sms": 128.0, "memory_bytes": 24e9, "memory_bandwidth": 1.008e12}
    known = {name: Figure(value, "datasheet", source) for name, value in figures.items()}
    gpu = Gpu(
        link_bandwidth=Figure(32e9, "datasheet", f"{source}, PCIe 4.0 x16"),
        peak_flops={"bf16": Figure(165.2e12, "datasheet", source)},
        **known,
    )
    base = load_profile("h200")
    made = on_another_gpu(base, "rtx-4090", gpu, dict(base.host.dispatch), 1.0)
    description = (
        "rtx-4090 by rooflines of its data sheet, no kernel was timed; the rest as on h200"
    )
    return msgspec.structs.replace(made, description=description)


@cache
def _tables(gpu: str) -> StepTables:
    profile = datasheet_4090() if gpu == "rtx-4090" else load_profile(gpu)
    arch = architecture_named(MODEL)
    return StepTables(forward_pass(arch), forward_pass(arch, phase="decode"), profile)


def simulated(server: Server, step_ns: float) -> Latencies:
    """The run's requests on its server, with that host time a step."""
    run = recorded(server.gpu)
    graphs = Graphs(vllm_sizes(STEP_TOKENS, server.running), GRAPH_TOP, "compiled")
    prices = ServerPrices(_tables(server.gpu), graphs, Slowdown(step_ns=step_ns))
    recipe = Recipe(mixes=True, step_tokens=STEP_TOKENS, running=server.running)
    capacity = server.kv_tokens or int((run.prompt + run.output).sum())
    loop = ClosedLoop(prices, recipe, run.prompt, run.output, run.queued_us * 1000, capacity)
    return loop.run()


def outcome(server: Server) -> RunOutcome:
    """Fit two host parameters to the first requests, and hold all against the record.

    ``step_ns`` by bisection on their mean TPOT, then ``request_ns`` as what their mean TTFT lacks.
    """
    real = recorded(server.gpu).latencies
    low, high = 0.0, float(MOST_STEP_NS)
    wanted = float(real.tpot_ns[:FITTED].mean())
    for _ in range(ROUNDS):
        middle = (low + high) / 2
        if float(simulated(server, middle).tpot_ns[:FITTED].mean()) < wanted:
            low = middle
        else:
            high = middle
    step_ns = low
    made, bare = simulated(server, step_ns), simulated(server, 0.0)
    request_ns = max(0.0, float(real.ttft_ns[:FITTED].mean() - made.ttft_ns[:FITTED].mean()))
    ttft: Floats = made.ttft_ns.astype(np.float64) + request_ns
    rest = slice(FITTED, None)
    return RunOutcome(
        server=server,
        recorded_ttft_ms=float(real.ttft_ns.mean()) / 1e6,
        recorded_tpot_ms=float(real.tpot_ns.mean()) / 1e6,
        ttft_ms=float(ttft.mean()) / 1e6,
        tpot_ms=float(made.tpot_ns.mean()) / 1e6,
        rest_ttft_error=float(ttft[rest].mean() / real.ttft_ns[rest].mean()) - 1,
        rest_tpot_error=float(made.tpot_ns[rest].mean() / real.tpot_ns[rest].mean()) - 1,
        bare_ttft_error=float(bare.ttft_ns.mean() / real.ttft_ns.mean()) - 1,
        bare_tpot_error=float(bare.tpot_ns.mean() / real.tpot_ns.mean()) - 1,
        step_ns=step_ns,
        request_ns=request_ns,
        kernels=_tables(server.gpu).profile.description,
    )


def outcomes() -> tuple[RunOutcome, ...]:
    """Both runs."""
    return tuple(outcome(server) for server in SERVERS)
