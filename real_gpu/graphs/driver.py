"""The two questions that only the CUDA driver answers, asked through ctypes."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence

_ACTIVE = 1  # CU_STREAM_CAPTURE_STATUS_ACTIVE


@functools.cache
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def node_count(raw_graph: int) -> int:
    """Nodes of a ``cudaGraph_t``: kernels, copies and memsets."""
    count = ctypes.c_size_t()
    _check(_driver().cuGraphGetNodes(ctypes.c_void_p(raw_graph), None, ctypes.byref(count)))
    return count.value


def capturing(streams: Sequence[ctypes.c_void_p]) -> list[int]:
    """Which of the ``cudaStream_t``s are part of a capture, by index."""
    # every break of a capture asks this about all streams that PyTorch has
    ask, status = _driver().cuStreamIsCapturing, ctypes.c_int()
    where, found = ctypes.byref(status), []
    for index, stream in enumerate(streams):
        result = ask(stream, where)
        if result:
            _check(result)
        if status.value == _ACTIVE:
            found.append(index)
    return found


def _check(result: int) -> None:
    if result:
        raise RuntimeError(f"the CUDA driver answered error {result}")
