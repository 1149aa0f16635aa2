"""A step of any backend, as the calls that its host issues."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from simcg.cost.step import Item, OpTimes, StepCost
from simcg.des.machine.program import Call, HostWork, Kernel, Launch, LaunchKind, Program
from simcg.des.machine.setup import CUDA_QUEUE, Machine
from simcg.errors import require
from simcg.model.ops import ForwardPass, Op


def lower(cost: StepCost, op_times: OpTimes, place: int = 0) -> Program:
    """The program of one rank for entry ``place`` of the work that ``op_times`` prices.

    Its items, costs and gaps are those of ``StepCost.plan``; kernels of one op share its time.
    """
    wider = int(cost.wider_ns(op_times.work)[place])
    distinct, order = cost.forward.numbered
    known: dict[tuple[int, tuple[int, ...]], Program] = {}
    calls: list[Call] = []
    ops = iter(order)
    guard_ns = _guards_ns(cost)
    for unit, times in cost.plan.runs:
        for key in unit * times:
            one = cost.plan.items[key]
            used = tuple(islice(ops, sum(often for _, often in one.ops)))
            if (key, used) not in known:
                kernels = _kernels(one, [distinct[i] for i in used], op_times, place, wider)
                known[key, used] = tuple(_calls(cost, one, kernels, 0 if calls else guard_ns))
            calls += known[key, used]
    return tuple(calls)


def machine_of(
    cost: StepCost, op_times: OpTimes, place: int = 0, queue: int | None = CUDA_QUEUE
) -> Machine:
    """The machine that ``lower``'s program runs on.

    Where gaps are wider at these rows a launch on an idle stream takes longer by as much.
    """
    latency = round(cost.profile.host.launch_latency.value)
    return Machine(latency + int(cost.wider_ns(op_times.work)[place]), queue)


def ranks_of(forward: ForwardPass) -> int:
    """How many ranks its collectives join; 1 without any."""
    return max((getattr(op.shape, "ranks", 1) for op in forward.numbered[0]), default=1)


def _guards_ns(cost: StepCost) -> int:
    """What entering the compiled code of a step costs, which its first item pays."""
    if not cost.backend.guards:
        return 0
    return round(cost.profile.host.piece.value * cost.plan.segments)


def _calls(cost: StepCost, one: Item, kernels: tuple[Kernel, ...], guard_ns: int) -> Iterator[Call]:
    """One launch for an item, or one a kernel where each is dispatched by itself."""
    if guard_ns:
        yield HostWork("guards", guard_ns)
    if not cost.backend.captures:
        for kernel in kernels:
            yield Launch(kernel.name, one.host_ns, (kernel,))
        return
    kind: LaunchKind = "graph" if one.is_graph else "break"
    name = f"graph of {len(kernels)}" if one.is_graph else f"break: {kernels[0].name}"
    yield Launch(name, one.host_ns - guard_ns, kernels, kind)


def _kernels(
    one: Item, ops: list[Op], op_times: OpTimes, place: int, wider: int
) -> tuple[Kernel, ...]:
    """The kernels of an item; the time of an op is shared evenly, its last kernel has the rest."""
    kernels: list[Kernel] = []
    for op in ops:
        total = int(op_times.of(op).ns[place])
        share = total // op.kernels
        for part in range(op.kernels):
            # dispatched one by one, kernels of an op are equal
            last = part == op.kernels - 1 and one.parts == 1
            ns = total - share * part if last else share
            collective = op.kind == "collective" and part == 0
            gap = wider + (one.inner_gap_ns if kernels and one.parts == 1 else one.gap_ns)
            require(
                gap >= 0, "profile", "gaps.node_at", wider, "gaps that are no shorter than none"
            )
            kernels.append(Kernel(op.name, ns, gap, collective))
    return tuple(kernels)
