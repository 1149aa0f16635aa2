"""The two questions that only the CUDA driver answers, asked through ctypes."""

from __future__ import annotations

import ctypes
import functools

_ACTIVE = 1  # CU_STREAM_CAPTURE_STATUS_ACTIVE


@functools.cache
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def node_count(raw_graph: int) -> int:
    """Nodes of a ``cudaGraph_t``: kernels, copies and memsets."""
    count = ctypes.c_size_t()
    _check(_driver().cuGraphGetNodes(ctypes.c_void_p(raw_graph), None, ctypes.byref(count)))
    return count.value


def is_capturing(raw_stream: int) -> bool:
    """Whether a ``cudaStream_t`` is part of a capture."""
    status = ctypes.c_int()
    _check(_driver().cuStreamIsCapturing(ctypes.c_void_p(raw_stream), ctypes.byref(status)))
    return status.value == _ACTIVE


def _check(result: int) -> None:
    if result:
        raise RuntimeError(f"the CUDA driver answered error {result}")
