"""The machine beside its definition, the max-plus timeline and itself."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simpy import Environment

import simcg.des.machine.machine
from simcg.backend import BACKENDS, CaptureBackend
from simcg.cost.step import OpTimes, StepCost
from simcg.cost.timeline import compose, item
from simcg.des.machine.jitter import Jitter
from simcg.des.machine.lower import lower
from simcg.des.machine.machine import run_programs
from simcg.des.machine.program import COPY, HostSync, Kernel, Launch, Program, Record, Wait
from simcg.des.machine.setup import Machine
from simcg.des.machine.step import simulate_step
from simcg.errors import InputError, SimcgError
from simcg.hardware.catalog import load_profile, profile_names
from simcg.model.catalog import architecture_named, model_names
from simcg.model.forward import forward_pass
from tests.cost_laws import LATENCY, ints
from tests.costs import Costs, item_lists, one_request, play
from tests.fast.test_cost_timeline import catches_up
from tests.machines import as_played, costs_of, play_ranks, programs, rank_programs

queues = st.one_of(st.none(), st.integers(1, 6))
latencies = st.integers(0, 30)


def launches(items: list[Costs]) -> Program:
    return tuple(Launch("k", i.host, (Kernel("k", i.duration, i.gap),)) for i in items)


@given(rank_programs(), latencies, queues)
def test_the_machine_is_its_definition(
    ranks: list[Program], latency: int, queue: int | None
) -> None:
    """Every start, return and wait of several streams and ranks is what the definition says."""
    run = run_programs(ranks, Machine(latency, queue), trace=True)
    assert as_played(run, play_ranks(ranks, [costs_of(p) for p in ranks], latency, queue))


@given(programs(), latencies, st.integers(1, 4), st.integers(0, 2**40))
def test_jitter_changes_the_costs_and_nothing_else(
    program: Program, latency: int, size: int, seed: int
) -> None:
    """With jitter the machine is its definition at the costs that the jitter gives."""
    jitter = Jitter(0.5, seed)
    costs = [jitter.costs(ints(costs_of(program)), rank).tolist() for rank in range(size)]
    run = run_programs([program] * size, Machine(latency, 3), jitter, trace=True)
    assert as_played(run, play_ranks([program] * size, costs, latency, 3))


@given(item_lists(30))
def test_one_stream_is_the_max_plus_timeline(items: list[Costs]) -> None:
    """Without a queue's end the last kernel ends when the composed maps say, to the nanosecond."""
    maps = {i: item(o.host, o.gap, LATENCY, ints([o.duration])) for i, o in enumerate(items)}
    total = compose([(tuple(maps), 1)], maps)
    run = run_programs([launches(items)], Machine(LATENCY, None))
    assert (run.end_ns, run.host_ns) == (int(total.end()[0]), total.host)


@given(item_lists(30), st.integers(1, 8))
def test_a_queue_is_a_ring_of_starts(items: list[Costs], queue: int) -> None:
    """A queue gives h_i >= start_{i-Q}; it is max-plus where timeline.py says, and only there."""
    run = run_programs([launches(items)], Machine(LATENCY, queue), trace=True)
    held, free = play(items, LATENCY, queue), play(items, LATENCY)
    starts = tuple(s.start_ns for s in run.spans if s.kind == "kernel")
    assert (starts, run.end_ns, run.host_ns) == (held.starts, held.end, held.issued[-1])
    assert (starts == free.starts) == catches_up(items, free, queue)


@pytest.mark.parametrize("backend", BACKENDS.values(), ids=lambda b: b.name)
@pytest.mark.parametrize("name", ["h200", "gb300"])
def test_real_steps_end_when_the_timeline_says(name: str, backend: CaptureBackend) -> None:
    """Models of one and several ranks, in sizes from launch-bound to compute-bound."""
    profile = load_profile(name)
    for model, tp in (("qwen3-8b", 1), ("gpt-oss-20b", 2)):
        cost = StepCost(forward_pass(architecture_named(model), tp=tp), profile, backend)
        for size in (1, 64, 700, 8192):
            work = one_request([size])
            times, run = cost.times(work), simulate_step(cost, work, queue=None)
            assert (run.end_ns, run.host_ns) == (int(times.ns[0]), times.host_ns)
            assert run.peers_share == 0


def test_every_profile_and_model_lowers() -> None:
    """No built-in profile has gaps that a step of any model cannot be lowered with."""
    for name in profile_names():
        for model in model_names():
            forward = forward_pass(architecture_named(model))
            cost = StepCost(forward, load_profile(name), BACKENDS["breakable"])
            op_times = OpTimes(cost.profile, one_request([1, 100, 4000]))
            for place in range(3):
                program = lower(cost, op_times, place)
                kernels = [k for c in program if isinstance(c, Launch) for k in c.kernels]
                assert len(kernels) == sum(op.kernels for op in forward.ops)
                expected = sum(int(op_times.of(op).ns[place]) for op in forward.ops)
                assert sum(kernel.duration_ns for kernel in kernels) == expected


@given(programs(), latencies, queues, st.integers(2, 5))
def test_equal_ranks_are_one(program: Program, latency: int, queue: int | None, size: int) -> None:
    """Without jitter nobody waits for others, whatever the number of ranks."""
    machine = Machine(latency, queue)
    one, several = run_programs([program], machine), run_programs([program] * size, machine)
    assert several.ranks == one.ranks * size


@given(st.lists(st.integers(0, 100), min_size=1, max_size=6), st.integers(0, 50))
def test_a_collective_starts_at_the_last_rank(arrivals: list[int], duration: int) -> None:
    """A step of one collective ends its duration after the latest rank's arrival."""
    ranks = [(Launch("c", ns, (Kernel("c", duration, 0, collective=True),)),) for ns in arrivals]
    run = run_programs(ranks, Machine(5))
    assert run.end_ns == max(arrivals) + 5 + duration
    waits = [rank.streams[0].peers_ns for rank in run.ranks]
    assert waits == [max(arrivals) - ns for ns in arrivals]


@given(rank_programs(), latencies, queues, st.data())
def test_more_cost_never_makes_a_step_faster(
    ranks: list[Program], latency: int, queue: int | None, data: st.DataObject
) -> None:
    """Raise the host's cost of any call: no kernel of any rank starts earlier."""
    rank = data.draw(st.integers(0, len(ranks) - 1))
    place = data.draw(st.integers(0, len(ranks[rank]) - 1))
    call, machine = ranks[rank][place], Machine(latency, queue)
    dearer = replace(call, host_ns=call.host_ns + data.draw(st.integers(1, 100)))
    changed = list(ranks)
    changed[rank] = (*ranks[rank][:place], dearer, *ranks[rank][place + 1 :])
    before = run_programs(ranks, machine, trace=True).spans
    after = run_programs(changed, machine, trace=True).spans
    key = [(s.rank, s.stream, s.start_ns) for s in before if s.kind in ("kernel", "collective")]
    late = [(s.rank, s.stream, s.start_ns) for s in after if s.kind in ("kernel", "collective")]
    assert all(a <= b for a, b in zip(key, late, strict=True))


@given(rank_programs(), latencies, st.integers(0, 2**30))
def test_one_more_rank_never_makes_a_step_faster(
    ranks: list[Program], latency: int, seed: int
) -> None:
    """Under common random numbers: a collective waits for the maximum over more ranks."""
    jitter, machine = Jitter(0.8, seed), Machine(latency)
    fewer = run_programs(ranks, machine, jitter).end_ns
    assert run_programs([*ranks, ranks[0]], machine, jitter).end_ns >= fewer


@given(rank_programs(), latencies, queues)
def test_a_stream_rests_only_when_nothing_can_run(
    ranks: list[Program], latency: int, queue: int | None
) -> None:
    """Work conservation: without events a launch starts when it may, or after what is before it."""
    plain = [
        tuple(call for call in program if not isinstance(call, Record | Wait)) for program in ranks
    ]
    run = run_programs(plain, Machine(latency, queue), trace=True)
    for number, program in enumerate(plain):
        host = [s for s in run.spans if s.rank == number and not s.stream]
        returned = {s.call: s.start_ns + s.duration_ns for s in host}
        ends: dict[str, int] = {}
        begun: set[int] = set()
        for span in run.spans:
            if span.rank != number or span.kind not in ("kernel", "collective", "peers"):
                continue
            if span.call not in begun:
                call = program[span.call]
                assert isinstance(call, Launch)
                free = ends.get(span.stream, 0) + call.kernels[0].gap_ns
                assert span.start_ns == max(free, returned[span.call] + latency)
                begun.add(span.call)
            ends[span.stream] = span.start_ns + span.duration_ns


@given(rank_programs(), latencies, queues)
def test_the_time_of_a_stream_is_accounted_for(
    ranks: list[Program], latency: int, queue: int | None
) -> None:
    """Kernels, gaps, waits for ranks and events, and want of work add up; none is negative."""
    run = run_programs(ranks, Machine(latency, queue))
    for one in (stream for rank in run.ranks for stream in rank.streams):
        parts = (one.busy_ns, one.gap_ns, one.peers_ns, one.events_ns, one.starved_ns)
        assert min(parts) >= 0
        assert sum(parts) == one.end_ns


@given(programs(), st.integers(0, 2**30))
def test_a_seed_is_a_run(program: Program, seed: int) -> None:
    """The same seed gives the same spans, in the same order."""
    runs = [
        run_programs([program] * 3, Machine(9, 2), Jitter(0.3, seed), trace=True) for _ in range(2)
    ]
    assert repr(runs[0]) == repr(runs[1])


def test_events_are_in_the_order_of_time_priority_and_sequence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What SimPy's heap gives ascends strictly in (time, priority, sequence), all integers."""
    taken: list[tuple[object, int, int]] = []

    class Watched(Environment):
        def step(self) -> None:
            if self._queue:
                taken.append(self._queue[0][:3])
            super().step()

    monkeypatch.setattr(simcg.des.machine.machine, "Environment", Watched)
    cost = StepCost(
        forward_pass(architecture_named("gpt-oss-20b"), tp=2), load_profile("h200"),
        BACKENDS["eager"],
    )  # fmt: skip
    simulate_step(cost, one_request([64]), queue=4, jitter=Jitter(0.2, 1))
    assert len(taken) > 1000
    assert all(type(number) is int for key in taken for number in key)
    assert all(a < b for a, b in pairwise(taken))


def test_an_event_orders_two_streams() -> None:
    """A kernel waits for the copy that it needs, and for no other."""
    copy = Launch("copy", 1, (Kernel("copy", 100),), "copy", COPY)
    kernel = Launch("k", 1, (Kernel("k", 10, 2),))
    machine = Machine(5)
    fork = (copy, Record("copied", 1, COPY), Wait("copied", 1), kernel)
    joined = run_programs([fork], machine)
    assert joined.end_ns == 1 + 5 + 100 + 2 + 10
    assert joined.ranks[0].streams[1].events_ns == 106
    late = (copy, Wait("copied", 1), Record("copied", 1, COPY), kernel)  # not recorded so far
    assert run_programs([late], machine).ranks[0].streams[1].end_ns == 4 + 5 + 10


def test_a_sync_hides_nothing() -> None:
    """What the host issues after a sync starts a latency and its cost after the stream's end."""
    kernel = Launch("k", 1, (Kernel("k", 50),))
    run = run_programs([(kernel, HostSync(2), kernel)], Machine(5))
    assert run.end_ns == (1 + 5 + 50) + 1 + 5 + 50
    assert run.ranks[0].synced_ns == 1 + 5 + 50 - 3


def test_streams_that_wait_for_each_other_are_refused() -> None:
    """Two ranks whose streams come to two collectives in crossing order never meet."""

    def meet(stream: str) -> Launch:
        return Launch("meet", 1, (Kernel("meet", 1, 0, collective=True),), "kernel", stream)

    def after(first: str, second: str) -> Program:
        return meet(first), Record("met", 0, first), Wait("met", 0, second), meet(second)

    ranks = [after("compute", "copy"), after("copy", "compute")]
    with pytest.raises(SimcgError, match="rank 0, stream compute: what it waits for never happens"):
        run_programs(ranks, Machine(5))


def test_ranks_that_do_not_meet_are_refused() -> None:
    """A rank with another number of collectives is named."""
    meet = Launch("meet", 1, (Kernel("meet", 1, 0, collective=True),))
    with pytest.raises(InputError, match="rank 1, program: got 1, expected 2 collectives"):
        run_programs([(meet, meet), (meet,)], Machine(5))


@given(st.integers(0, 2**40), st.integers(0, 7), st.lists(st.integers(0, 10**6), min_size=1))
def test_luck_belongs_to_seed_rank_and_place(seed: int, rank: int, costs: list[int]) -> None:
    """A call's multiple does not depend on the calls after it or their costs; it is monotone."""
    jitter, base = Jitter(0.4, seed), ints(costs)
    drawn = jitter.costs(base, rank)
    assert np.array_equal(jitter.costs(ints([*costs, 7]), rank)[:-1], drawn)
    assert np.all(jitter.costs(base + 1000, rank) >= drawn)
    assert np.array_equal(Jitter(0.0, seed).costs(base, rank), base)


def test_jitter_costs_nothing_on_average() -> None:
    """The mean multiple is 1, its logarithm's standard deviation sigma."""
    drawn = Jitter(0.5, 3).costs(np.full(200_000, 10**6), 0) / 1e6
    assert abs(drawn.mean() - 1) < 0.005
    assert abs(np.log(drawn).std() - 0.5) < 0.005
    others = Jitter(0.5, 3).costs(np.full(200_000, 10**6), 1) / 1e6
    assert abs(np.corrcoef(drawn, others)[0, 1]) < 0.01


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Machine(-1), "latency_ns: got -1"),
        (lambda: Machine(1, 0), "queue: got 0"),
        (lambda: Jitter(-0.1, 0), "sigma: got -0.1"),
        (lambda: Jitter(float("nan"), 0), "sigma: got nan"),
        (lambda: Kernel("k", -1), "Kernel k has a time of -1 ns"),
        (lambda: Launch("l", 1, ()), "Launch l has no kernels"),
        (lambda: run_programs([], Machine(1)), "programs: got 0"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(wrong: object, message: str) -> None:
    """Each value that makes no machine is named."""
    assert callable(wrong)
    with pytest.raises(ValueError, match=message):
        wrong()
