"""Profiles, forwards and items for tests; timelines and steps as their definitions say them.

The references price one batch at a time, op by op, with Python's whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

import msgspec
import numpy as np
from hypothesis import strategies as st

from simcg.backend import CaptureBackend
from simcg.cost.kernels import Work
from simcg.hardware.catalog import load_profile
from simcg.hardware.profile import Figure, HardwareProfile
from simcg.model.ops import (
    AllReduce,
    Attention,
    Elementwise,
    ForwardPass,
    Gemm,
    GroupedGemm,
    Op,
    OpKind,
    Shape,
)

S = TypeVar("S", bound=msgspec.Struct)


def unmeasured(name: str) -> HardwareProfile:
    """A built-in profile without its kernels, which the roofline then prices."""
    return msgspec.structs.replace(load_profile(name), curves=(), grids=())


@dataclass(frozen=True)
class Costs:
    """One item of the recurrence, in ns."""

    host: int
    gap: int
    duration: int


@dataclass(frozen=True)
class Played:
    """The recurrence played through: every start, the last end, the host's last moment."""

    starts: tuple[int, ...]
    issued: tuple[int, ...]
    end: int


def play(items: Sequence[Costs], latency: int, queue: int | None = None) -> Played:
    """h_i = h_{i-1} + a_i; start_i = max(end_{i-1} + g_i, h_i + l); end_i = start_i + d_i.

    With a launch queue of depth Q the host's call i returns no sooner than start_{i-Q}.
    """
    clock, end = 0, 0
    starts: list[int] = []
    issued: list[int] = []
    for index, one in enumerate(items):
        clock += one.host
        if queue is not None and index >= queue:
            clock = max(clock, starts[index - queue])
        starts.append(max(end + one.gap, clock + latency))
        issued.append(clock)
        end = starts[-1] + one.duration
    return Played(tuple(starts), tuple(issued), end)


@dataclass(frozen=True)
class Priced:
    """A step by the reference: as StepTimes, for one batch, and its graphs."""

    ns: int
    host_ns: int
    device_ns: int
    nodes: int
    segments: int


def plain_step(
    forward: ForwardPass,
    profile: HardwareProfile,
    backend: CaptureBackend,
    op_ns: Callable[[Op], int],
) -> Priced:
    """The step item by item; ``op_ns`` gives the time of all kernels of an op."""
    items, nodes, segments = plain_items(forward, profile, backend, op_ns)
    played = play(items, round(profile.host.launch_latency.value))
    return Priced(
        ns=played.end,
        host_ns=sum(one.host for one in items),
        device_ns=sum(one.gap + one.duration for one in items),
        nodes=nodes,
        segments=segments,
    )


def plain_items(
    forward: ForwardPass,
    profile: HardwareProfile,
    backend: CaptureBackend,
    op_ns: Callable[[Op], int],
) -> tuple[list[Costs], int, int]:
    """What the host issues, op by op; nodes and number of the graphs."""
    host, gaps = profile.host, profile.gaps
    stream, node = round(gaps.stream.value), round(gaps.node.value)
    items: list[Costs] = []
    if not backend.captures:
        for op in forward.ops:
            cost = host.dispatch.get(op.kind, host.dispatch[""])
            if backend.compiles and not op.is_break:
                cost = host.compiled_dispatch
            one = Costs(round(cost.value), stream, op_ns(op) // op.kernels)
            items += [one] * op.kernels
        return items, 0, 0
    nodes, segments = 0, 0
    runs: list[list[Op]] = []
    for op in forward.ops:
        if runs and (not backend.breaks or runs[-1][0].is_break == op.is_break):
            runs[-1].append(op)
        else:
            runs.append([op])
    pieces = sum(not (backend.breaks and run[0].is_break) for run in runs)
    entry = host.piece.value * pieces if backend.guards else 0
    for place, run in enumerate(runs):
        kernels = sum(op.kernels for op in run)
        duration = sum(op_ns(op) for op in run)
        if backend.breaks and run[0].is_break:
            each = [host.dispatch.get(op.kind, host.dispatch[""]).value for op in run]
            beside = sum(ns * op.kernels for ns, op in zip(each, run, strict=True)) - max(each)
            body = round(host.break_body.value + beside + (0 if place else entry))
            items.append(Costs(body, stream, duration + (kernels - 1) * stream))
            continue
        launch = float(np.interp(kernels, host.replay_nodes, [f.value for f in host.replay]))
        gap = round(gaps.after_break.value) if place else round(gaps.graph_start.value) + node
        host_ns = round(launch + (0 if place else entry))
        items.append(Costs(host_ns, gap, duration + (kernels - 1) * node))
        nodes, segments = nodes + kernels, segments + 1
    return items, nodes, segments


def one_request(sizes: Iterable[int]) -> Work:
    """One request without context for each size, at its own size."""
    n = np.array(list(sizes), dtype=np.int64)
    return Work(rows=n, tokens=n, requests=np.ones_like(n), pairs=n * (n + 1) // 2)


def with_figures(struct: S, change: Callable[[str, Figure], Figure], path: str = "") -> S:
    """Every figure inside a struct replaced by ``change(path, figure)``; curves stay."""
    new: dict[str, object] = {}
    for name in struct.__struct_fields__:
        old, where = getattr(struct, name), f"{path}{name}"
        if isinstance(old, Figure):
            new[name] = change(where, old)
        elif isinstance(old, msgspec.Struct):
            new[name] = with_figures(old, change, f"{where}.")
        elif isinstance(old, dict):
            new[name] = {
                key: change(f"{where}.{key}", v) if isinstance(v, Figure) else v
                for key, v in old.items()
            }
        elif isinstance(old, tuple) and old and isinstance(old[0], Figure):
            new[name] = tuple(change(f"{where}.{i}", f) for i, f in enumerate(old))
    return msgspec.structs.replace(struct, **new)


def figures(profile: HardwareProfile) -> dict[str, Figure]:
    """Every figure by its path; those of curves are not Figures."""
    found: dict[str, Figure] = {}

    def note(path: str, figure: Figure) -> Figure:
        found[path] = figure
        return figure

    with_figures(profile, note)
    return found


def host_scaled(profile: HardwareProfile, factor: float) -> HardwareProfile:
    """Every host cost and the launch latency so many times larger."""

    def scaled(path: str, figure: Figure) -> Figure:
        if not path.startswith("host."):
            return figure
        return msgspec.structs.replace(figure, value=figure.value * factor)

    return with_figures(profile, scaled)


def with_even_gaps(profile: HardwareProfile) -> HardwareProfile:
    """The profile with one gap between nodes for all rows."""
    gaps = msgspec.structs.replace(profile.gaps, node_rows=(), node_at=())
    return msgspec.structs.replace(profile, gaps=gaps)


@cache
def uneven_profile() -> HardwareProfile:
    """h200 with curves, and host costs and gaps that all differ, so that none hides another.

    One gap between nodes for all rows.
    """
    base = with_even_gaps(load_profile("h200"))
    values = iter(range(1_000, 100_000, 1_237))

    def spread(path: str, figure: Figure) -> Figure:
        if path.startswith(("host.", "gaps.")):
            return msgspec.structs.replace(figure, value=float(next(values)))
        return figure

    return with_figures(base, spread)


KINDS: tuple[OpKind, ...] = ("norm", "gemm", "attention", "activation", "moe_sort", "collective")
SHAPES: tuple[Shape, ...] = (
    Elementwise(8192, 4096),
    Gemm(4096, 6144),
    Gemm(1000, 300),
    Attention(32, 8, 128),
    GroupedGemm(128, 8, 2048, 1536),
    AllReduce(8192, 4),
)


def random_op(random: np.random.Generator, name: str) -> Op:
    """An op of any shape; a quarter are breaks."""
    shape = SHAPES[random.integers(len(SHAPES))]
    kernels = int(random.integers(1, 4)) if isinstance(shape, Elementwise) else 1
    return Op(
        name,
        KINDS[random.integers(len(KINDS))],
        shape,
        kernels,
        (),
        (),
        rows="tokens" if random.random() < 0.8 else "requests",
        is_break=bool(random.random() < 0.25),
    )


def random_forward(seed: int) -> ForwardPass:
    """A few kinds of layer in any order, with breaks anywhere, also first, last and in a row."""
    random = np.random.default_rng(seed)

    def ops(least: int, most: int, prefix: str) -> tuple[Op, ...]:
        return tuple(
            random_op(random, f"{prefix}{i}") for i in range(random.integers(least, most + 1))
        )

    kinds = [ops(1, 5, f"layer{k}_") for k in range(random.integers(1, 3))]
    layers = tuple(
        kinds[k] for k in random.integers(len(kinds), size=random.integers(1, 7)).tolist()
    )
    return ForwardPass(f"random {seed}", ops(0, 2, "head"), layers, ops(0, 3, "tail"))


def item_lists(max_size: int = 12) -> st.SearchStrategy[list[Costs]]:
    """Items whose host and GPU times are often 0 and often equal."""
    ns = st.integers(0, 6) | st.integers(0, 10_000)
    return st.lists(st.builds(Costs, ns, ns, ns), min_size=1, max_size=max_size)
