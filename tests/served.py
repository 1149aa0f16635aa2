"""Real servers for tests: priced devices, recorded times, the simulator on the same requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from real_gpu.graphs.device import GraphDevice
from real_gpu.measure.bench import Bench, Room
from real_gpu.measure.setting import TINY
from real_gpu.serving.model import Part, Ran, ServedModel
from real_gpu.serving.policy import Limits
from real_gpu.serving.request import Asked
from real_gpu.serving.server import Served, Server
from simcg.des.serving.clock import ServingClock
from simcg.des.serving.lines import TICK_BITS
from simcg.des.serving.policy import MIXED, PREFILL_FIRST, Policy
from simcg.des.serving.server import Limits as SimulatedLimits
from simcg.des.serving.server import LoggedStep
from simcg.des.serving.server import Server as SimulatedServer
from simcg.des.serving.simulate import serve
from simcg.ladder import AdmissionRule
from tests.serving import columns_of

EDGES = (4, 9, 16, 30)
POLICIES = (PREFILL_FIRST, MIXED, PREFILL_FIRST.ending_at(EDGES), MIXED.ending_at(EDGES))
LONGEST, RUNNING, CHUNK = 32, 4, 16
PREFILL_SIZES, DECODE_SIZES = (4, 8, 12), (1, 2, 4)


class PricedDevice:
    """A model that takes what a simulator's clock says, and the clock that it moves.

    It hands out token 0, which no prompt contains, so that it knows decodes by their ids.
    """

    def __init__(self, prices: ServingClock) -> None:
        self._prices, self._ticks = prices, 0

    def now(self) -> int:
        """Whole ns."""
        return self._ticks >> TICK_BITS

    def wait_until(self, due_ns: int) -> None:
        """At once."""
        self._ticks = due_ns << TICK_BITS

    def step(self, parts: Sequence[Part], decodes_alone: bool) -> Ran:
        """Moves the clock by the step's price."""
        decodes = [part for part in parts if part.ids[0] == 0]
        keys = sum(part.cached + 1 for part in decodes)
        if decodes_alone:
            assert len(decodes) == len(parts)
            self._ticks += self._prices.decode_run(len(decodes), keys, 1, None)[1]
        else:
            prompts = [(len(part.ids), part.cached) for part in parts[len(decodes) :]]
            pairs = sum(n * cached + n * (n + 1) // 2 for n, cached in prompts)
            self._ticks += self._prices.chunked_step(
                sum(n for n, _ in prompts), pairs, len(prompts), len(decodes), keys
            )
        return Ran([0] * len(parts), 0, 1, 1, 1)


class RecordedTimes(ServingClock):
    """A simulator's clock that gives the times of steps that ran, one after the other."""

    def __init__(self, served: Served) -> None:
        super().__init__((), ((),), (), (), (), "measured")
        times = iter([(step.end_ns - step.start_ns) << TICK_BITS for step in served.steps])
        object.__setattr__(self, "_left", times)

    _left: Iterator[int]

    def chunked_step(self, *_: int) -> int:
        """The next step's time, whatever it is."""
        return next(self._left)

    def decode_run(self, *_: int | None) -> tuple[int, int, int, int]:
        """One step."""
        ticks = next(self._left)
        return 1, ticks, ticks, 0


def simulated(
    prices: ServingClock, policy: Policy, chunk: int, running: int, asked: Sequence[Asked]
) -> tuple[SimulatedServer, list[tuple[int, int, int]]]:
    """The simulator's server on the same requests, and its steps: start, prompt tokens, decodes.

    Of a run of equal steps only the first start is known.
    """
    arrival, output = ([getattr(a, n) for a in asked] for n in ("arrival_ns", "output_tokens"))
    parts = (arrival, [len(a.prompt) for a in asked], [0] * len(asked), output)
    columns = columns_of(*(np.array(part, dtype=np.int64) for part in parts))
    log: list[LoggedStep] = []
    limits = SimulatedLimits(chunk, running, chunk, 1 << 30, 1)
    server = serve(prices, policy, limits, columns, len(asked), log=log)
    return server, [
        (one.start_ticks >> TICK_BITS if at == 0 else -1, one.tokens, one.decodes)
        for one in log
        for at in range(one.steps)
    ]


def same_run(served: Served, server: SimulatedServer, steps: list[tuple[int, int, int]]) -> None:
    """The same steps at the same times, and every request's tokens when the simulator says."""
    ran = [(s.start_ns, sum(s.new[s.decodes :]), s.decodes) for s in served.steps]
    assert [step[1:] for step in ran] == [step[1:] for step in steps]
    pairs = zip(ran, steps, strict=True)
    assert all(there in (-1, here) for (here, *_), (there, *_) in pairs)
    assert [s.first_token_ns for s in served.sessions] == server.first.tolist()
    assert [s.finish_ns for s in served.sessions] == server.finish.tolist()


def made_requests(random: np.random.Generator, count: int, gap_ns: int) -> list[Asked]:
    """Short requests, some of one token."""
    arrival = np.cumsum(random.integers(0, gap_ns, count))
    lengths = random.integers(1, LONGEST * 2 // 3, count)
    output = random.integers(1, LONGEST // 3, count)
    return [
        Asked(at, random.integers(1, TINY.vocab, length), wanted)
        for at, length, wanted in zip(
            arrival.tolist(), lengths.tolist(), output.tolist(), strict=True
        )
    ]


def tiny_model(device: GraphDevice, dtype: torch.dtype) -> ServedModel:
    """A tiny decoder behind real runners; its largest steps have no bucket."""
    room = Room(CHUNK + RUNNING, RUNNING, 1 + RUNNING * LONGEST)
    bench = Bench(TINY, device, dtype, room)
    prefill, decode = bench.served(PREFILL_SIZES, AdmissionRule(), DECODE_SIZES)
    prefill.runner.capture()
    decode.runner.capture()
    return ServedModel(bench.decoder, prefill, decode)


def run(model: ServedModel, policy: Policy, running: int = RUNNING) -> tuple[list[Asked], Served]:
    """Some requests served by the wall's clock."""
    asked = made_requests(np.random.default_rng(1), 24, 12_000_000)
    limits = Limits(CHUNK, running)
    return asked, Server(model, policy, limits, LONGEST).serve(asked)


def conserved(asked: Sequence[Asked], served: Served) -> None:
    """Every token is computed once, behind all before it, and each request gets what it wants."""
    computed = [0] * len(asked)
    for step in served.steps:
        for request, new, cached in zip(step.requests, step.new, step.cached, strict=True):
            assert cached == computed[request]
            computed[request] += new
    assert computed == [len(a.prompt) + a.output_tokens - 1 for a in asked]
    assert [len(s.produced) for s in served.sessions] == [a.output_tokens for a in asked]
