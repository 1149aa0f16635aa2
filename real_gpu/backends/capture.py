"""What the capturing backends share: one pool, warm-ups, figures, and failures that undo all."""

from __future__ import annotations

import gc
import re
import time
import traceback
from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from real_gpu.backends.backend import CaptureFigures, Forward
from real_gpu.backends.breaks import handling_breaks
from real_gpu.graphs.device import CaptureError, GraphDevice, Segment
from simcg.backend import CaptureBackend
from simcg.cost.memory import POOL_HEADROOM
from simcg.ladder import Bucket


@dataclass(frozen=True, slots=True)
class Captured:
    """One bucket: its graphs, the calls of a replay in order, and the tensor that it yields."""

    segments: tuple[Segment, ...]
    calls: tuple[Callable[[], object], ...]
    breaks: int
    output: torch.Tensor

    def release(self) -> None:
        """Release the graphs."""
        for segment in self.segments:
            segment.release()


OWN_SEGMENT_BYTES = 10 << 20
"""A tensor of that size gets a segment of its own; smaller ones share them anyway (PyTorch)."""

Record = Callable[[GraphDevice, Hashable, Forward], Captured]
"""Records a warmed-up forward; when it raises, the device records no more."""


class GraphBackend:
    """A ``Backend`` whose way to record is given; all buckets share a pool and a stream."""

    def __init__(self, kind: CaptureBackend, device: GraphDevice, record: Record) -> None:
        self._kind, self._device, self._record = kind, device, record
        self._pool: Hashable = None
        self._captured: dict[Bucket, Captured] = {}
        # A graph holds nothing: what a forward refers to must live as long as its graph.
        self._forwards: dict[Bucket, Forward] = {}

    @property
    def kind(self) -> CaptureBackend:
        """Which of simcg's backends this is."""
        return self._kind

    @property
    def pool(self) -> Hashable:
        """The pool of all buckets; None before the first."""
        return self._pool

    def capture_one(self, key: Bucket, forward: Forward) -> CaptureFigures:
        """See ``Backend.capture_one``."""
        if key in self._captured:
            raise CaptureError(f"{name_of(key)} is captured already: clean up first")
        with ExitStack() as undo:
            undo.enter_context(torch.inference_mode())
            undo.enter_context(gc_paused())
            undo.enter_context(random_state_kept(self._device.device))
            undo.enter_context(handling_breaks(None))
            try:
                start = time.perf_counter_ns()
                self._warm_up(forward)
                warm = time.perf_counter_ns()
                captured = self._record(self._device, self._pool, forward)
                end = time.perf_counter_ns()
            except Exception as error:
                raise explained(key, error) from error
        self._captured[key], self._forwards[key] = captured, forward
        return CaptureFigures(
            warm_up_ns=warm - start,
            capture_ns=end - warm,
            compile_ns=0,
            nodes=sum(segment.nodes for segment in captured.segments),
            segments=len(captured.segments),
            breaks=captured.breaks,
            pool_bytes=self._device.pool_bytes(self._pool),
        )

    def can_run(self, key: Bucket) -> bool:
        """Whether the bucket is captured."""
        return key in self._captured

    def replay(self, key: Bucket) -> torch.Tensor:
        """See ``Backend.replay``; the tensor is valid until the backend's next replay or cleanup.

        Raises ``CaptureError`` for a bucket that is not captured.
        """
        captured = self._captured.get(key)
        if captured is None:
            there = ", ".join(map(name_of, sorted(self._captured))) or "none"
            raise CaptureError(f"{name_of(key)} is not captured; captured: {there}")
        with torch.inference_mode():
            for call in captured.calls:
                call()
        return captured.output

    def cleanup(self) -> None:
        """Release every graph and the pool; the backend can then capture afresh."""
        self._device.synchronize()
        for captured in self._captured.values():
            captured.release()
        self._captured.clear()
        self._forwards.clear()
        self._pool = None

    def _warm_up(self, forward: Forward) -> None:
        """Run twice: compilation, autotuning and lazy buffers belong to no graph.

        The first bucket's runs are on the capture stream, whose library workspaces would
        otherwise be allocated in the pool. The second tells how much room the pool needs: from
        one block the allocator cuts all activations and joins them again, which it cannot do
        across the segments that it would reserve for one large tensor after the other.
        """
        if self._pool is not None:
            for _ in range(2):
                forward()
                self._device.synchronize()
            return
        with self._device.on_capture_stream():
            forward()
            self._device.synchronize()
            room = int(POOL_HEADROOM * self._device.peak_bytes(forward))
        self._device.synchronize()
        self._pool = self._device.new_pool(room if room >= OWN_SEGMENT_BYTES else 0)


def name_of(key: Bucket) -> str:
    """The bucket in words."""
    slots = "" if key.slots is None else f", {key.slots} request slots"
    return f"bucket of {key.num_tokens} tokens{slots}"


@contextmanager
def gc_paused() -> Iterator[None]:
    """No garbage collection within: it takes time, and may free GPU memory in a capture."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextmanager
def random_state_kept(device: torch.device) -> Iterator[None]:
    """Warm-ups and breaks at capture draw numbers that no caller sees drawn."""
    gpus = [device.index] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=gpus):
        yield


def explained(key: Bucket, error: Exception) -> CaptureError:
    """The error with the bucket, the place in the forward and what to do about it.

    Locals of the failed frames are dropped: they would keep pool memory for as long as the error.
    """
    place = _place(error)
    traceback.clear_frames(error.__traceback__)
    return CaptureError(f"capture of {name_of(key)} failed: {_reason(error)}{place}")


def _reason(error: Exception) -> str:
    text = str(error).split("\n", 1)[0]
    if isinstance(error, torch.OutOfMemoryError):
        asked = re.search(r"[Tt]ried to allocate ([\d.]+ ?\w+)", text)
        return (
            f"out of memory{f' asking for {asked[1]}' if asked else ''}; buckets captured before "
            "stay usable; lower the ceiling of the ladder or the memory that the KV cache takes"
        )
    if isinstance(error, CaptureError):
        return text
    advice = ""
    if "captur" in text:  # as CUDA words it for whatever a stream in capture does not allow
        advice = "; move it out of the forward, or mark its function with @eager_on_graph"
    return f"{type(error).__name__}: {text}{advice}"


def _place(error: Exception) -> str:
    """The innermost line outside torch and this package's capture code."""
    mine = (str(Path(torch.__file__).parent), *_OWN_FOLDERS)
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith(mine):
            return f" (at {frame.filename}:{frame.lineno}: {frame.line})"
    return ""


_OWN_FOLDERS = tuple(
    str(Path(__file__).parent.parent / folder) for folder in ("backends", "graphs", "observe")
)
