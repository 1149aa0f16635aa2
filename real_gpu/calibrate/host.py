"""Host costs: dispatch of each kind of op in its place, launches, replays."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch

import real_gpu.models.decoder
from real_gpu.attention.attention import attend, using
from real_gpu.attention.device import attention_kernel
from real_gpu.calibrate.issue import Call
from real_gpu.calibrate.small import SmallDecoder, thin
from real_gpu.calibrate.timing import capture, host_ns, robust, warm
from simcg.model.architecture import Architecture
from simcg.model.lean import lean_pass

Figure = tuple[float, float]
IN_TORCH = ("mm", "addmm", "index_select", "zeros_like")
"""What the decoder issues through torch; everything else are its kernels and its attention."""
LAYERS = 3


def dispatch(arch: Architecture, device: torch.device, samples: int) -> dict[str, Figure]:
    """Host time in ns per kernel of each kind of op, where it stands in an eager forward.

    A thin decoder of a few layers runs with a clock behind every op: an op takes from the end of
    the one before to its own end, what the decoder's code does in between included, the clock not.
    """
    watch = Stopwatch()
    own = watch.own_ns()
    with watched(watch):
        kernel = watch.behind(attention_kernel(device))
        small = SmallDecoder.of(thin(arch, LAYERS), device, tokens=4, kernel=kernel)
    ops = lean_pass(small.decoder.arch).ops
    times: dict[str, list[float]] = {}
    step = small.forward()
    with watched(watch), using(small.attention), torch.inference_mode():
        for sample in range(samples + 2):
            begin = watch.restart()
            step()
            if len(watch.marks) != len(ops):
                raise RuntimeError(f"{len(watch.marks)} ops were issued, not {len(ops)}")
            for op, before, end in zip(ops, [begin, *watch.marks], watch.marks, strict=False):
                if sample >= 2:
                    times.setdefault(op.kind, []).append(max(0.0, end - before - own) / op.kernels)
            if device.type == "cuda":
                torch.cuda.synchronize()
    return {kind: robust(values) for kind, values in times.items()}


class Stopwatch:
    """Notes when each watched call ends."""

    def __init__(self) -> None:
        self.marks: list[int] = []

    def restart(self) -> int:
        """Forget the marks; now."""
        self.marks.clear()
        return time.perf_counter_ns()

    def own_ns(self) -> float:
        """What a mark adds to a call."""
        call, times = self.behind(_nothing), []
        for _ in range(2001):
            begin = time.perf_counter_ns()
            call()
            times.append(time.perf_counter_ns() - begin)
        self.marks.clear()
        return float(statistics.median(times))

    def behind(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function with a mark behind it."""

        def watched_call(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            self.marks.append(time.perf_counter_ns())
            return result

        return watched_call


def _nothing() -> None:
    """A call that takes no time."""


@contextmanager
def watched(watch: Stopwatch) -> Iterator[None]:
    """Within it the decoder's module sees torch, its kernels and its attention with marks."""
    module: Any = real_gpu.models.decoder
    kept = module.torch, module.kernels_for, module.attend

    def kernels_for(device: torch.device) -> SimpleNamespace:
        kernels = kept[1](device)
        names = [name for name in vars(kernels) if callable(getattr(kernels, name))]
        return SimpleNamespace(**{name: watch.behind(getattr(kernels, name)) for name in names})

    module.torch = _Watched(torch, {name: watch.behind(getattr(torch, name)) for name in IN_TORCH})
    module.kernels_for, module.attend = kernels_for, watch.behind(attend)
    try:
        yield
    finally:
        module.torch, module.kernels_for, module.attend = kept


class _Watched:
    """A module with some of its functions replaced."""

    def __init__(self, module: Any, replaced: dict[str, Any]) -> None:
        self._module = module
        self.__dict__.update(replaced)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def _tiny() -> Call:
    x = torch.zeros(64, device="cuda")
    return lambda: x.add_(1)


def replay(nodes: list[int]) -> list[tuple[int, Figure]]:
    """Host time of one replay of a chain of so many tiny nodes."""
    call = _tiny()
    warm([call])
    out = []
    for count in nodes:
        graph = capture([call] * count)
        out.append((count, host_ns(graph.replay, samples=31 if count > 1000 else 101)))
        graph.reset()
    return out


def launch_latency(samples: int) -> Figure:
    """From the end of an eager launch call to the end of its tiny kernel, seen by a sync, ns."""
    call = _tiny()
    times = []
    for _ in range(samples):
        torch.cuda.synchronize()
        call()
        issued = time.perf_counter_ns()
        torch.cuda.synchronize()
        times.append(float(time.perf_counter_ns() - issued))
    return robust(times)
