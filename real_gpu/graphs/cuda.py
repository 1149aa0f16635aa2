"""The graph device of NVIDIA GPUs, on torch.cuda.CUDAGraph."""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress

import torch

from real_gpu.graphs.device import CaptureError, MemoryFigures
from real_gpu.graphs.driver import capturing, node_count
from real_gpu.graphs.pool import CudaMark, CudaPool
from simcg.errors import SimcgError

STREAMS_PER_PRIORITY = 32
"""PyTorch hands out this many streams in turn, per priority."""


class CudaSegment:
    """An instantiated graph. ``replay`` launches it on the current stream."""

    def __init__(self, graph: torch.cuda.CUDAGraph, nodes: int, pool: CudaPool) -> None:
        self._graph = graph
        self._pool: CudaPool | None = pool
        self._handle = pool.handle
        pool.joined(self._handle)
        self._nodes = nodes
        # Bound once: a replay is one launch, and a wrapper round it would show.
        self.replay: Callable[[], None] = graph.replay if nodes else _nothing

    @property
    def nodes(self) -> int:
        """Kernels, copies and memsets."""
        return self._nodes

    def release(self) -> None:
        """Destroy the graph; replaying it is an error from now on."""
        self._graph.reset()
        self.replay = self._graph.replay
        if self._pool is not None:
            self._pool.left(self._handle)
            self._pool = None


def _nothing() -> None:
    """Replay of a graph without nodes."""


class CudaGraphDevice:
    """``GraphDevice`` on one GPU, with one capture stream.

    Errors of other threads do not invalidate a capture (mode ``thread_local``): what is recorded
    is issued by this thread, while an engine's other threads query events and allocate.
    """

    def __init__(self, index: int | None = None) -> None:
        if not torch.cuda.is_available():
            raise SimcgError(
                "no CUDA device here: the same backends and runners work on the CPU device, and "
                "simcg optimize, compare and validate need no GPU"
            )
        index = torch.cuda.current_device() if index is None else index
        self._device = torch.device("cuda", index)
        with torch.cuda.device(self._device):
            self._streams = [
                torch.cuda.Stream(priority=priority)
                for priority in (-1, 0)
                for _ in range(STREAMS_PER_PRIORITY)
            ]
        # The last of a full turn: torch.cuda.Stream() gives it out again later than the others.
        self._stream = self._streams.pop()
        self._handles = [ctypes.c_void_p(stream.cuda_stream) for stream in self._streams]
        self._joined = False
        self._graph: torch.cuda.CUDAGraph | None = None
        self._pool: CudaPool | None = None
        self._outer: torch.cuda.Stream | None = None
        self._forked: list[torch.cuda.Stream] = []
        # PyTorch's host allocator keeps a pointer to a graph whose capture broke.
        self._broken: list[torch.cuda.CUDAGraph] = []

    @property
    def device(self) -> torch.device:
        """The GPU."""
        return self._device

    @property
    def recording(self) -> bool:
        """Between ``begin`` and ``end``."""
        return self._graph is not None

    def new_pool(self, room: int = 0) -> Hashable:
        """A fresh pool; gives cached memory back first, as a recording cannot."""
        torch.cuda.empty_cache()
        pool = CudaPool(torch.cuda.graph_pool_handle(), self._device.index, room)
        self.begin(pool)
        try:
            self._reserve(pool)
        finally:
            pool.anchors[pool.handle] = self._stop()
        return pool

    def begin(self, pool: Hashable) -> None:
        """Record on the capture stream from now on."""
        if self._graph is not None:
            raise CaptureError("a recording is under way: end it before the next begins")
        pool = pool_of(pool)
        outer = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(outer)
        torch.cuda.set_stream(self._stream)
        graph = torch.cuda.CUDAGraph(keep_graph=True)
        try:
            graph.capture_begin(pool=pool.handle, capture_error_mode="thread_local")
        except RuntimeError as error:
            self._mend(graph, pool)
            torch.cuda.set_stream(outer)
            raise CaptureError(f"the capture cannot begin: {first_line(error)}") from error
        pool.grown = True
        self._graph, self._pool, self._outer, self._forked = graph, pool, outer, []

    def end(self) -> CudaSegment:
        """Stop and instantiate; see ``GraphDevice.end``."""
        for stream in self._forked:
            self._stream.wait_stream(stream)
        pool, graph = self._pool, self._stop()
        assert pool is not None
        nodes = node_count(graph.raw_cuda_graph())
        if nodes:
            try:
                graph.instantiate()
            except RuntimeError as error:
                graph.reset()
                text = f"a graph of {nodes} nodes cannot be instantiated: {first_line(error)}"
                raise CaptureError(text) from error
        return CudaSegment(graph, nodes, pool)

    def abandon(self) -> None:
        """Stop and drop what was recorded; nothing where nothing is recorded."""
        if self._graph is not None:
            with suppress(RuntimeError):
                self._stop().reset()

    def join(self) -> object:
        """Join the side streams of the recording into it, and note the stream in use."""
        current = torch.cuda.current_stream(self._device)
        sides = self._sides()
        for stream in sides:
            self._stream.wait_stream(stream)
        self._joined = True
        return current, sides

    def fork(self, joined: object) -> None:
        """Let these streams go on; ``end`` joins them again."""
        if not isinstance(joined, tuple):
            raise TypeError(f"not what join returned: {joined!r}")
        current, self._forked = joined
        for stream in self._forked:
            stream.wait_stream(self._stream)
        torch.cuda.set_stream(current)

    @contextmanager
    def on_capture_stream(self) -> Iterator[None]:
        """Run work on the capture stream, so that its cuBLAS workspace lies outside any pool."""
        outer = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(outer)
        with torch.cuda.stream(self._stream):
            yield
        outer.wait_stream(self._stream)

    def mark(self, pool: Hashable) -> object:
        """The pool's blocks in use, from the allocator's snapshot."""
        pool = pool_of(pool)
        in_use = sorted((start, start + size) for start, size, used in pool.blocks() if used)
        return CudaMark(pool, in_use)

    def born_since(self, mark: object, tensor: torch.Tensor) -> bool:
        """See ``GraphDevice.born_since``.

        A block that was in use at the mark and was freed and allocated again counts as old.
        """
        if not isinstance(mark, CudaMark):
            raise TypeError(f"not a mark of this device: {mark!r}")
        address = tensor.untyped_storage().data_ptr()
        return mark.pool.holds(address) and not mark.was_in_use(address)

    def alias(self, tensor: torch.Tensor) -> torch.Tensor:
        """See ``GraphDevice.alias``."""
        storage = tensor.untyped_storage()
        same = self._bytes(storage.data_ptr(), storage.nbytes())
        empty = torch.empty(0, dtype=tensor.dtype, device=self._device)
        return empty.set_(same, tensor.storage_offset(), tensor.shape, tensor.stride())

    def synchronize(self) -> None:
        """Wait for the GPU."""
        torch.cuda.synchronize(self._device)

    def peak_bytes(self, work: Callable[[], object]) -> int:
        """See ``GraphDevice.peak_bytes``; PyTorch's own peak starts anew."""
        self.synchronize()
        torch.cuda.reset_peak_memory_stats(self._device)
        before = torch.cuda.memory_allocated(self._device)
        work()
        self.synchronize()
        return int(torch.cuda.max_memory_allocated(self._device) - before)

    def memory(self) -> MemoryFigures:
        """Allocated and reserved bytes of the caching allocator; bytes in use on the GPU."""
        free, total = torch.cuda.mem_get_info(self._device)
        return MemoryFigures(
            live=torch.cuda.memory_allocated(self._device),
            reserved=torch.cuda.memory_reserved(self._device),
            device=total - free,
        )

    def pool_bytes(self, pool: Hashable) -> int:
        """Bytes of the pool's segments."""
        return pool_of(pool).reserved()

    def fill_free(self, pool: Hashable, byte: int) -> None:
        """Overwrite the pool's free blocks, in order with the current stream."""
        for address, size, used in pool_of(pool).blocks():
            if not used:
                view = torch.empty(0, dtype=torch.uint8, device=self._device)
                view.set_(self._bytes(address, size), 0, (size,), (1,)).fill_(byte)

    def _bytes(self, address: int, nbytes: int) -> torch.UntypedStorage:
        """A storage at an address that frees nothing."""
        return torch._C._construct_storage_from_data_pointer(address, self._device, nbytes)

    def _sides(self) -> list[torch.cuda.Stream]:
        """PyTorch's streams, other than the capture stream, that are part of the capture."""
        return [self._streams[index] for index in capturing(self._handles)]

    def _stop(self) -> torch.cuda.CUDAGraph:
        """End the capture and put the current stream back; the graph is not instantiated."""
        if self._graph is None or self._pool is None:
            raise CaptureError("nothing is being recorded")
        graph, pool, sides = self._graph, self._pool, []
        try:
            if not self._joined:
                sides = self._sides()
            torch.cuda.set_stream(self._stream)  # the forward may have left another one current
            _capture_end(graph)
        except RuntimeError as error:
            self._mend(graph, pool)
            raise CaptureError(_why_it_broke(error, sides)) from error
        finally:
            torch.cuda.set_stream(self._outer)
            self._graph = self._pool = self._outer = None
            self._forked, self._joined = [], False
        return graph

    def _mend(self, graph: torch.cuda.CUDAGraph, pool: CudaPool) -> None:
        """Undo what ``capture_end`` leaves undone when it raises.

        It then neither stops routing allocations to the pool, nor counts the graph off, nor takes
        the random generator out of capture; a capture that ends well does the last. PyTorch's
        host allocator, which nothing here reaches, takes the handle for recording ever after.
        """
        self._broken.append(graph)
        with suppress(RuntimeError):
            torch._C._cuda_endAllocateToPool(self._device.index, pool.handle)
        torch._C._cuda_releasePool(self._device.index, pool.handle)
        pool.renew()
        anchor = torch.cuda.CUDAGraph(keep_graph=True)
        anchor.capture_begin(pool=pool.handle, capture_error_mode="thread_local")
        with suppress(torch.OutOfMemoryError):  # then it grows segment by segment
            self._reserve(pool)
        _capture_end(anchor)
        pool.anchors[pool.handle] = anchor

    def _reserve(self, pool: CudaPool) -> None:
        """In a recording into the pool: reserve its room, and leave it free."""
        if pool.room:
            torch.empty(pool.room, dtype=torch.uint8, device=self._device)


def _capture_end(graph: torch.cuda.CUDAGraph) -> None:
    """End a capture; that a break follows another without work between them is no fault."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The CUDA Graph is empty")
        graph.capture_end()


def _why_it_broke(error: RuntimeError, sides: list[torch.cuda.Stream]) -> str:
    """What a failed end of capture means, as far as CUDA tells."""
    text = first_line(error)
    if "unjoined" in text.lower() and sides:
        names = ", ".join(hex(stream.cuda_stream) for stream in sides)
        return (
            f"a side stream was not joined before the capture ended (in capture: {names}): let "
            "the current stream wait for it"
        )
    return (
        f"the capture is invalid: {text}; an operation that waits for the GPU, or that CUDA "
        "cannot record, ran in it: mark the function that needs it with @eager_on_graph"
    )


def first_line(error: BaseException) -> str:
    """The first line of an error's text."""
    return str(error).split("\n", 1)[0]


def pool_of(pool: Hashable) -> CudaPool:
    """The pool behind a handle."""
    if not isinstance(pool, CudaPool):
        raise TypeError(f"not a pool of this device: {pool!r}")
    return pool
