"""What one step costs under one backend: its items, its timeline, and what that rests on."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

import numpy as np

from simcg.arrays import Ints
from simcg.backend import CaptureBackend
from simcg.cost.curves import KernelTime
from simcg.cost.kernels import Kernels, Work
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


class Issue(NamedTuple):
    """What the host issues as one: indices into the distinct ops, in order."""

    order: tuple[int, ...]
    is_graph: bool
    begins: bool  # the first of its step


@dataclass(frozen=True, slots=True)
class Item:
    """Ops that the host issues as one: an eager kernel, a graph segment, or a break.

    ``ops``: (index into the distinct ops, how often) pairs; an eager op of several kernels is
    ``parts`` equal items.
    """

    ops: tuple[tuple[int, int], ...]
    is_graph: bool
    host_ns: int
    gap_ns: int
    inner_gap_ns: int
    parts: int = 1


@dataclass(frozen=True, slots=True)
class Plan:
    """A backend's items by number, the runs of their numbers, nodes and segments of its graphs."""

    items: tuple[Item, ...]
    runs: list[tuple[tuple[int, ...], int]]
    nodes: int
    segments: int


class OpTimes:
    """Kernel times of each distinct op over one work, computed once and shared by backends.

    ``device_scale`` multiplies them all: what if every kernel took so much longer?
    """

    def __init__(self, profile: HardwareProfile, work: Work, device_scale: float = 1.0) -> None:
        self.work = work
        self._kernels = Kernels(profile)
        self._scale = device_scale
        self._known: dict[Op, KernelTime] = {}

    def of(self, op: Op) -> KernelTime:
        """The time of all kernels of ``op``."""
        if op not in self._known:
            time = self._kernels.time(op, self.work)
            if self._scale != 1.0:
                scaled = np.rint(time.ns * self._scale).astype(np.int64)
                time = replace(time, ns=scaled)
            self._known[op] = time
        return self._known[op]

    def relative_spread(self, forward: ForwardPass) -> float:
        """One sigma of the sum of all kernels of ``forward``, as a share of it.

        Each op's sigma is the share that its curve states; ops are independent of each other.
        """
        distinct, order = forward.numbered
        times = Counter(order)
        spent = [float(np.median(self.of(op).ns)) * times[i] for i, op in enumerate(distinct)]
        sigma = [ns * self.of(op).relative_spread for ns, op in zip(spent, distinct, strict=True)]
        return math.hypot(*sigma) / sum(spent)


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
        latency = round(self.profile.host.launch_latency.value)
        wider = self.wider_ns(op_times.work)
        maps = [self._map(one, op_times, latency, wider) for one in self.plan.items]
        total = compose(self.plan.runs, dict(enumerate(maps)))
        return StepTimes(total.end(), total.host, total.device, self._provenance(op_times))

    @property
    def nodes(self) -> int:
        """Kernels inside the graphs of one bucket; 0 where nothing is captured."""
        return self.plan.nodes

    @property
    def segments(self) -> int:
        """Graphs that one bucket needs."""
        return self.plan.segments

    def wider_ns(self, work: Work) -> Ints:
        """By how much gaps at these rows are wider than the profile's one figure, in ns."""
        gaps = self.profile.gaps
        if not gaps.node_rows:
            return np.zeros(len(work), dtype=np.int64)
        node = np.interp(work.rows, gaps.node_rows, [f.value for f in gaps.node_at])
        usual, stream = round(gaps.node.value), round(gaps.stream.value)
        # no gap is shorter than none
        wider: Ints = np.maximum(np.rint(node).astype(np.int64) - usual, -min(usual, stream))
        return wider

    @cached_property
    def plan(self) -> Plan:
        """What the host issues, in order, with equal items numbered alike."""
        numbers: dict[Issue, int] = {}
        issues = self._issues()
        keys = [numbers.setdefault(issue, len(numbers)) for issue in issues]
        pieces = sum(issue.is_graph for issue in issues)
        items = tuple(self._item(issue, pieces) for issue in numbers)
        graphs = {key: count for key, count in Counter(keys).items() if items[key].is_graph}
        nodes = sum(self._kernels_in(items[key]) * count for key, count in graphs.items())
        return Plan(items, fold_repeats(keys), nodes, sum(graphs.values()))

    def _map(self, one: Item, op_times: OpTimes, latency_ns: int, wider_ns: Ints) -> MaxPlus:
        """The item's map: its kernels in order, with the gaps between them."""
        distinct, _ = self.forward.numbered
        duration = self._kernels_in(one) * wider_ns
        for index, times in one.ops:
            duration += op_times.of(distinct[index]).ns * times
        if one.parts > 1:
            return item(one.host_ns, one.gap_ns, latency_ns, duration // one.parts).power(one.parts)
        duration += (self._kernels_in(one) - 1) * one.inner_gap_ns
        return item(one.host_ns, one.gap_ns, latency_ns, duration)

    def _kernels_in(self, one: Item) -> int:
        distinct, _ = self.forward.numbered
        return sum(distinct[index].kernels * times for index, times in one.ops)

    def _issues(self) -> list[Issue]:
        """The forward cut at its breaks, into single ops, or not at all."""
        distinct, order = self.forward.numbered
        if not self.backend.captures:
            single = [Issue((index,), False, False) for index in range(len(distinct))]
            return [single[index] for index in order]
        if not self.backend.breaks:
            return [Issue(order, True, True)]
        issues: list[Issue] = []
        is_break = [op.is_break for op in distinct]
        for eager, group in groupby(order, key=is_break.__getitem__):
            issues.append(Issue(tuple(group), not eager, not issues))
        return issues

    def _item(self, issue: Issue, pieces: int) -> Item:
        """What it costs the host to issue that, and the gaps on the GPU.

        Compiled code checks the inputs of all its pieces when a step enters it, before anything
        is launched.
        """
        host, gaps = self.profile.host, self.profile.gaps
        distinct, _ = self.forward.numbered
        ops = tuple(Counter(issue.order).items())
        stream, node = round(gaps.stream.value), round(gaps.node.value)
        if not self.backend.captures:
            op = distinct[issue.order[0]]
            return Item(ops, False, round(self._dispatch(op).value), stream, stream, op.kernels)
        guards = host.piece.value * pieces if self.backend.guards and issue.begins else 0.0
        if not issue.is_graph:
            body = host.break_body.value + self._beside_the_dearest(ops)
            return Item(ops, False, round(body + guards), stream, stream)
        kernels = sum(distinct[index].kernels for index in issue.order)
        launch = float(np.interp(kernels, host.replay_nodes, [f.value for f in host.replay]))
        # a graph in the middle of a step follows the eager kernels of a break
        first = round(gaps.graph_start.value) + node
        gap = first if issue.begins else round(gaps.after_break.value)
        return Item(ops, True, round(launch + guards), gap, node)

    def _beside_the_dearest(self, ops: tuple[tuple[int, int], ...]) -> float:
        """Dispatch of a break's kernels but one: the profile's break body runs one, attention."""
        distinct, _ = self.forward.numbered
        each = [(self._dispatch(distinct[i]).value, distinct[i].kernels * n) for i, n in ops]
        return sum(ns * kernels for ns, kernels in each) - max(ns for ns, _ in each)

    def _dispatch(self, op: Op) -> Figure:
        host = self.profile.host
        if self.backend.compiles and not op.is_break:
            return host.compiled_dispatch
        return host.dispatch.get(op.name) or host.dispatch.get(op.kind, host.dispatch[""])

    def figures(self) -> list[tuple[str, Figure]]:
        """The profile's figures of host and gaps that these steps rest on, each with its part."""
        host, gaps = self.profile.host, self.profile.gaps
        distinct, _ = self.forward.numbered
        used = [("launches", host.launch_latency)]
        if not self.backend.captures:
            used += [("dispatch", self._dispatch(op)) for op in distinct]
            used.append(("gaps", gaps.stream))
        else:
            used += [("launches", figure) for figure in host.replay]
            used += [("gaps", gaps.graph_start), ("gaps", gaps.node)]
        used += [("gaps", figure) for figure in gaps.node_at]
        if self.backend.breaks:
            used += [("breaks", host.break_body), ("gaps", gaps.stream), ("gaps", gaps.after_break)]
        if self.backend.guards:
            used.append(("guards", host.piece))
        return used

    def _provenance(self, op_times: OpTimes) -> Provenance:
        """The weakest figure that these times rest on."""
        distinct, _ = self.forward.numbered
        kernels = [op_times.of(op).provenance for op in distinct]
        return weakest((*kernels, *(figure.provenance for _, figure in self.figures())))
