"""What CUDA alone tells: captures by whatever library, kernels of a capture, and events."""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable
from typing import Any

import torch

from real_gpu.graphs.pool import CudaMark, CudaPool
from real_gpu.observe.log import Log
from real_gpu.observe.patch import Patches
from real_gpu.observe.session import Capturing, Session

_ACTIVE = 1  # CU_STREAM_CAPTURE_STATUS_ACTIVE


def watch_captures(session: Session, patches: Patches) -> None:
    """Note what ``torch.cuda.CUDAGraph`` records, whoever asks it to."""
    graph = torch.cuda.CUDAGraph
    begin, end = graph.capture_begin, graph.capture_end
    state: dict[str, CudaMark] = {}

    def capture_begin(self: Any, *args: Any, **kwargs: Any) -> None:
        if session.deaf:
            begin(self, *args, **kwargs)
            return
        device = torch.device("cuda", torch.cuda.current_device())
        session.unwatch()
        # a graph names the pool that it was given by itself only at its end: give it one
        handle = (args[0] if args else kwargs.pop("pool", None)) or torch.cuda.graph_pool_handle()
        args = (handle, *args[1:])
        if session.log is None:
            state["mark"] = mark_of(handle, device)
        begin(self, *args, **kwargs)
        session.began(Capturing(device, born_since(state["mark"]), kernels_so_far, tuple(handle)))

    def capture_end(self: Any) -> None:
        if session.deaf or session.log is None:
            end(self)
            return
        session.unwatch()
        nodes = kernels_so_far()
        try:
            end(self)
        except BaseException as error:
            session.fail(str(error))
            raise
        session.ended(nodes)

    patches.replace(graph, "capture_begin", capture_begin)
    patches.replace(graph, "capture_end", capture_end)


def mark_of(handle: tuple[int, int], device: torch.device) -> CudaMark:
    """The blocks of a pool that are in use now."""
    pool = CudaPool((handle[0], handle[1]), device.index)
    in_use = sorted((start, start + size) for start, size, used in pool.blocks() if used)
    return CudaMark(pool, in_use)


def born_since(mark: CudaMark) -> Callable[[torch.Tensor], bool]:
    """Whether a tensor's memory is in the mark's pool and was not in use at the mark."""

    def born(tensor: torch.Tensor) -> bool:
        address = tensor.untyped_storage().data_ptr()
        mark.pool.grown = True  # a recording is under way
        return mark.pool.holds(address) and not mark.was_in_use(address)

    return born


@functools.cache
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def kernels_so_far() -> int:
    """Kernels, copies and memsets in the graph that the current stream is recorded in; 0 in none.

    Side streams of a capture are recorded in the same graph.
    """
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    status, number = ctypes.c_int(), ctypes.c_uint64()
    graph, count = ctypes.c_void_p(), ctypes.c_size_t()
    asked = _driver().cuStreamGetCaptureInfo_v2(
        stream, ctypes.byref(status), ctypes.byref(number), ctypes.byref(graph), None, None
    )
    if asked or status.value != _ACTIVE:
        return 0  # on the legacy stream, while another one is in capture, CUDA does not say
    if _driver().cuGraphGetNodes(graph, None, ctypes.byref(count)):
        return 0
    return count.value


def watch_events(session: Session, patches: Patches) -> None:
    """Note which streams wait for which, as far as ``torch.cuda.Event`` tells.

    torch's own trace of events cannot be turned off again, and while it is on an error of captured
    code is lost. Events of other libraries go unheard: a wait that is missed may be told as a race.
    """
    event_type = torch.cuda.Event
    record, wait = event_type.record, event_type.wait
    here = threading.get_ident()

    def heard(stream: Any) -> tuple[Log | None, int]:
        log = session.log if threading.get_ident() == here else None
        return log, (stream or torch.cuda.current_stream()).cuda_stream

    def record_and_note(self: torch.cuda.Event, stream: Any = None) -> None:
        record(self, stream)
        log, handle = heard(stream)
        if log is not None:
            log.signal(self.cuda_event, handle)

    def wait_and_note(self: torch.cuda.Event, stream: Any = None) -> None:
        wait(self, stream)
        log, handle = heard(stream)
        if log is not None:
            log.wait(self.cuda_event, handle)

    patches.replace(event_type, "record", record_and_note)
    patches.replace(event_type, "wait", wait_and_note)
