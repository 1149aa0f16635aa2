"""What one step costs under one backend: its items, its timeline, and what that rests on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import numpy as np

from simcg.arrays import Ints
from simcg.backend import CaptureBackend
from simcg.cost.kernels import Kernels, KernelTime, Work
from simcg.cost.timeline import MaxPlus, compose, fold_repeats, item
from simcg.hardware.profile import Figure, HardwareProfile
from simcg.model.ops import ForwardPass, Op
from simcg.provenance import Provenance, weakest


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Step times in ns, one per entry of the work.

    ``ns``: from an idle start to the end of the last kernel; ``host_ns``: issuing it all;
    ``device_ns``: kernels and gaps alone.
    """

    ns: Ints
    host_ns: int
    device_ns: Ints
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class Item:
    """Ops that the host issues as one: an eager kernel, a graph segment, or a break."""

    ops: tuple[Op, ...]
    host_ns: int
    gap_ns: int
    node_gap_ns: int
    parts: int = 1  # an eager op of several kernels is so many equal items


class OpTimes:
    """Kernel times of each distinct op over one work, computed once and shared by backends."""

    def __init__(self, profile: HardwareProfile, work: Work) -> None:
        self.work = work
        self._kernels = Kernels(profile)
        self._known: dict[tuple[object, ...], KernelTime] = {}

    def of(self, op: Op) -> KernelTime:
        """The time of all kernels of ``op``."""
        key = (op.shape, op.kind, op.kernels, op.rows)
        if key not in self._known:
            self._known[key] = self._kernels.time(op, self.work)
        return self._known[key]


@dataclass(frozen=True)
class StepCost:
    """One forward on one profile under one backend."""

    forward: ForwardPass
    profile: HardwareProfile
    backend: CaptureBackend

    def times(self, work: Work) -> StepTimes:
        """Step times for every entry of ``work``."""
        return self.times_from(OpTimes(self.profile, work))

    def times_from(self, op_times: OpTimes) -> StepTimes:
        """As ``times``, with kernel times that other backends may have computed already."""
        items, runs, _ = self._plan
        latency = round(self.profile.host.launch_latency.value)
        maps = {key: self._map(one, op_times, latency) for key, one in items.items()}
        total = compose(runs, maps)
        return StepTimes(total.end(), total.host, total.device, self._provenance(op_times))

    @cached_property
    def nodes(self) -> int:
        """Kernels inside graphs, over all segments; 0 where nothing is captured."""
        return self._plan[2] if self.backend.captures else 0

    @cached_property
    def segments(self) -> int:
        """Graphs that one bucket needs."""
        items, runs, _ = self._plan
        if not self.backend.captures:
            return 0
        graphs = {key for key, one in items.items() if not one.ops[0].is_break}
        if not self.backend.breaks:
            return 1
        return sum(times * sum(key in graphs for key in unit) for unit, times in runs)

    def _map(self, one: Item, op_times: OpTimes, latency_ns: int) -> MaxPlus:
        """The item's map: its kernels in order, with the gaps between them."""
        kernels = sum(op.kernels for op in one.ops)
        duration = np.zeros(len(op_times.work), dtype=np.int64)
        for op in one.ops:
            duration = duration + op_times.of(op).ns
        inner = (kernels - 1) * one.node_gap_ns if one.parts == 1 else 0
        part = item(one.host_ns, one.gap_ns, latency_ns, (duration + inner) // one.parts)
        return part.power(one.parts)

    @cached_property
    def _plan(self) -> tuple[dict[int, Item], list[tuple[tuple[int, ...], int]], int]:
        """Distinct items by number, the runs of their numbers, and the nodes inside graphs."""
        numbers: dict[Item, int] = {}
        keys, nodes = [], 0
        for one in self._items():
            keys.append(numbers.setdefault(one, len(numbers)))
            if not one.ops[0].is_break or not self.backend.breaks:
                nodes += sum(op.kernels for op in one.ops)
        return {n: one for one, n in numbers.items()}, fold_repeats(keys), nodes

    def _items(self) -> list[Item]:
        host, gaps = self.profile.host, self.profile.gaps
        stream, node = round(gaps.stream.value), round(gaps.node.value)
        if not self.backend.captures:
            return [
                Item((op,), self._dispatch_ns(op), stream, stream, op.kernels)
                for op in self.forward.ops
            ]
        if not self.backend.breaks:
            ops = self.forward.ops
            start = round(gaps.graph_start.value) + node
            return [Item(ops, self._replay_ns(ops), start, node)]
        items = []
        after = 0
        for is_break, group in groupby(self.forward.ops, key=lambda op: op.is_break):
            ops = tuple(group)
            if is_break:
                items.append(Item(ops, round(host.break_body.value), stream, stream))
                after = round(gaps.after_break.value)
            else:
                start = round(gaps.graph_start.value) + after + node
                items.append(Item(ops, self._replay_ns(ops), start, node))
        return items

    def _dispatch_ns(self, op: Op) -> int:
        return round(self._dispatch(op).value)

    def _dispatch(self, op: Op) -> Figure:
        host = self.profile.host
        if self.backend.compiles and not op.is_break:
            return host.compiled_dispatch
        return host.dispatch.get(op.kind, host.dispatch[""])

    def _replay_ns(self, ops: tuple[Op, ...]) -> int:
        """Host time of launching one segment: by its nodes, plus guards where it has them."""
        host = self.profile.host
        nodes = sum(op.kernels for op in ops)
        launch = np.interp(nodes, host.replay_nodes, [f.value for f in host.replay])
        return round(float(launch) + (host.piece.value if self.backend.guards else 0.0))

    def _provenance(self, op_times: OpTimes) -> Provenance:
        """The weakest figure that these times rest on."""
        host, gaps = self.profile.host, self.profile.gaps
        ops = {(op.shape, op.kind, op.kernels, op.rows): op for op in self.forward.ops}.values()
        used = [op_times.of(op).provenance for op in ops]
        used.append(host.launch_latency.provenance)
        if not self.backend.captures:
            used += [self._dispatch(op).provenance for op in ops] + [gaps.stream.provenance]
        else:
            used += [f.provenance for f in host.replay] + [gaps.node.provenance]
        if self.backend.breaks:
            used.append(host.break_body.provenance)
        if self.backend.guards:
            used.append(host.piece.provenance)
        return weakest(used)
