"""Wrong machines, each told from the right one by its definition."""

from __future__ import annotations

import random
from dataclasses import replace
from types import ModuleType

import pytest

import simcg.des.machine.host
import simcg.des.machine.lower
import simcg.des.machine.machine
import simcg.des.machine.rank
import simcg.des.machine.stream
import simcg.des.machine.work
from simcg.backend import BACKENDS
from simcg.cost.step import OpTimes, StepCost
from simcg.des.machine.machine import run_programs
from simcg.des.machine.program import (
    COMPUTE,
    COPY,
    Call,
    HostSync,
    HostWork,
    Kernel,
    Launch,
    Program,
    Record,
    Wait,
)
from simcg.des.machine.setup import Machine
from simcg.hardware.catalog import load_profile
from simcg.model.catalog import architecture_named
from simcg.model.forward import forward_pass
from tests.costs import one_request
from tests.machines import as_played, costs_of, play_ranks
from tests.mutants import Law, mutated

STREAM = simcg.des.machine.stream
HOST = simcg.des.machine.host
WORK = simcg.des.machine.work
LOWER = simcg.des.machine.lower


def random_call(rng: random.Random) -> Call:
    """As tests.machines.calls, without Hypothesis: mutants are many and need not be shrunk."""
    stream, cost = rng.choice([COMPUTE, COMPUTE, COPY]), rng.randrange(40)
    kind = rng.choice(["launch"] * 6 + ["work", "sync", "record", "wait"])
    if kind == "work":
        return HostWork("work", cost)
    if kind == "sync":
        return HostSync(cost, stream)
    if kind == "record":
        return Record(rng.choice("ab"), cost, stream)
    if kind == "wait":
        return Wait(rng.choice("ab"), cost, stream)
    kernels = tuple(
        Kernel("k", rng.randrange(40), rng.randrange(40), rng.random() < 0.4)
        for _ in range(rng.randint(1, 4))
    )
    return Launch("launch", cost, kernels, "graph", stream)


def keeps_its_definition() -> bool:
    """200 random runs of one to three ranks, under every queue."""
    rng = random.Random(7)
    for number in range(200):
        program: Program = tuple(random_call(rng) for _ in range(rng.randint(1, 25)))
        ranks = rng.randint(1, 3)
        programs = [program] * ranks if number % 2 else [
            tuple(_at(call, rng.randrange(40)) for call in program) for _ in range(ranks)
        ]  # fmt: skip
        latency, queue = rng.randrange(30), rng.choice([None, 1, 2, 5])
        run = run_programs(programs, Machine(latency, queue), trace=True)
        costs = [costs_of(one) for one in programs]
        if not as_played(run, play_ranks(programs, costs, latency, queue)):
            return False
    return True


def _at(call: Call, host_ns: int) -> Call:
    return replace(call, host_ns=host_ns)


def is_the_timeline(lower: ModuleType) -> bool:
    """Steps of all backends, of one and two ranks, end when the max-plus timeline says."""
    # the last has ops of eight kernels
    for model, tp in (("qwen3-8b", 1), ("gpt-oss-20b", 2), ("qwen3.5-397b-a17b", 1)):
        forward = forward_pass(architecture_named(model), tp=tp)
        for backend in BACKENDS.values():
            for size in (1, 64, 4096):
                cost = StepCost(forward, load_profile("h200"), backend)
                op_times = OpTimes(cost.profile, one_request([size]))
                program = lower.lower(cost, op_times)
                machine = lower.machine_of(cost, op_times, queue=None)
                run = run_programs([program] * lower.ranks_of(forward), machine)
                times = cost.times_from(op_times)
                met = sum(k.collective for c in program if isinstance(c, Launch) for k in c.kernels)
                expected = sum(op.kind == "collective" for op in forward.ops)
                guards = sum(c.host_ns for c in program if isinstance(c, HostWork))
                pieces = cost.segments if backend.guards else 0
                if (run.end_ns, run.host_ns, len(run.ranks), met, guards) != (
                    int(times.ns[0]), times.host_ns, tp, expected,
                    round(cost.profile.host.piece.value * pieces),
                ):  # fmt: skip
                    return False
    return True


MUTANTS: dict[ModuleType, dict[str, tuple[str, str]]] = {
    STREAM: {
        "no gap": ("free = end + gap", "free = end"),
        "a kernel starts before it is launched": ("ready if ready > free else free", "free"),
        "a gap follows an idle stream too": (
            "ready if ready > free else free",
            "ready + gap if ready > free else free",
        ),
        "a place is free when the kernel ends": (
            "if isinstance(work, int):\n                yield Timeout(env, work)",
            "if isinstance(work, int):\n                yield Timeout(env, work)\n"
            "                start = start + 1",
        ),
        "a place is never free": ("self.held.succeed(start)", "pass"),
        "last in, first out": ("queue.popleft()", "queue.pop()"),
        "collectives wait for nobody": ("if meeting.missing:", "if False:"),
        "the first rank starts them": ("if meeting.missing:", "if meeting.missing < 0:"),
        "waits for ranks are forgotten": ("peers += now - arrived", "pass"),
        "events are not waited for": ("if not work.event.triggered:", "if False:"),
        "an event that was early hides a gap": ("end = max(end, reached)", "end = end"),
        "an event is reached when it is issued": ("work.succeed(now)", "work.succeed(0)"),
        "what follows a collective is free": ("yield Timeout(env, lasts)", "yield Timeout(env, 0)"),
        "what precedes a collective is free": ("if chain.before_ns:", "if False:"),
        "what follows the last kernel counts": ("waited - (end - last)", "waited"),
        "a sync ends with the queue": (
            "            queue.popleft()\n",
            "            queue.popleft()\n            if self.drained is not None and not queue:\n"
            "                self.drained.succeed(start)\n                self.drained = None\n",
        ),
    },
    HOST: {
        "no latency": ("now + latency, put", "now, put"),
        "a queue one deeper": ("len(stream.queue) >= depth", "len(stream.queue) > depth"),
        "no queue": ("len(stream.queue) >= depth", "False"),
        "time in the queue is free": ("self.held_ns += now - spent", "pass"),
        "the host never waits for a stream": (
            "if stream.idle is not None:\n            return now",
            "if True:\n            return now",
        ),
        "an event is recorded once": (
            "self._events[call.event] = Event(self._env)",
            "self._events.setdefault(call.event, Event(self._env))",
        ),
        "calls cost nothing": ("now += cost", "now += 0"),
    },
    WORK: {
        "the first gap counts twice": ("spent = -launch.kernels[0].gap_ns", "spent = 0"),
        "no gaps between nodes": ("spent += kernel.gap_ns", "spent += 0"),
        "a collective ends with its meeting": (
            "        spent += kernel.duration_ns",
            "        else:\n            spent += kernel.duration_ns",
        ),
        "what precedes a collective is counted again": (
            "            spent = 0\n",
            "            spent = spent\n",
        ),
    },
    LOWER: {
        "an op's time for each of its kernels": ("share = total // op.kernels", "share = total"),
        "what does not divide is lost": ("total - share * part if last else share", "share"),
        "guards counted twice": ("one.host_ns - guard_ns", "one.host_ns"),
        "guards of one piece": ("piece.value * cost.plan.segments", "piece.value"),
        "no item begins a step": ("0 if calls else guard_ns", "0 if True else guard_ns"),
        "gaps of one width": ("gap = wider + (", "gap = 0 + ("),
        "the latency of one width": (
            "Machine(latency + int(cost.wider_ns(op_times.work)[place]), queue)",
            "Machine(latency, queue)",
        ),
        "nodes at the gap of a graph": ("if kernels and one.parts == 1 else", "if False else"),
        "every kernel of a rank meets the others": (
            'op.kind == "collective" and part == 0',
            "True",
        ),
        "runs of layers are one layer": ("unit * times", "unit"),
    },
}


def holds(law: Law, version: ModuleType) -> bool:
    """Does the law hold? A machine that stumbles over itself breaks it too."""
    try:
        return law(version)
    except (RuntimeError, ValueError, AttributeError, LookupError):
        return False


def law_of(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> Law:
    """The law that a version of the module must keep, run with that version in its place."""
    if module is LOWER:
        return is_the_timeline

    def law(version: ModuleType) -> bool:
        if module is STREAM:
            monkeypatch.setattr(simcg.des.machine.rank, "Stream", version.Stream)
        elif module is HOST:
            monkeypatch.setattr(simcg.des.machine.rank, "Host", version.Host)
        else:
            monkeypatch.setattr(simcg.des.machine.machine, "prepare", version.prepare)
            monkeypatch.setattr(STREAM, "Chain", version.Chain)
        return keeps_its_definition()

    return law


@pytest.mark.parametrize("module", MUTANTS, ids=lambda m: m.__name__.rsplit(".")[-1])
def test_the_originals_keep_the_laws(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> None:
    """So a mutant that does not fails for its change."""
    assert law_of(monkeypatch, module)(module)


@pytest.mark.parametrize(
    ("module", "change"),
    [
        pytest.param(module, change, id=f"{module.__name__.rsplit('.')[-1]}: {name}")
        for module, mutants in MUTANTS.items()
        for name, change in mutants.items()
    ],
)
def test_each_mutant_breaks_its_law(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, change: tuple[str, str]
) -> None:
    """Each wrong machine is told from the right one, or stumbles over itself."""
    law = law_of(monkeypatch, module)
    assert not holds(law, mutated(monkeypatch, module, *change))
