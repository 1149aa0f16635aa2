"""One graph per bucket; marked functions are captured like everything else."""

from __future__ import annotations

from collections.abc import Hashable

from real_gpu.backends.backend import Forward
from real_gpu.backends.capture import Captured, GraphBackend
from real_gpu.backends.output import kept_output
from real_gpu.graphs.device import GraphDevice
from simcg.backend import FULL


def full(device: GraphDevice) -> GraphBackend:
    """The backend that captures a whole forward in one graph."""
    return GraphBackend(FULL, device, record_whole)


def record_whole(device: GraphDevice, pool: Hashable, forward: Forward) -> Captured:
    """Record the forward in one segment."""
    mark = device.mark(pool)
    device.begin(pool)
    try:
        output = forward()
        segment = device.end()
    except BaseException:
        device.abandon()
        raise
    return Captured((segment,), (segment.replay,), 0, kept_output(device, mark, output))
