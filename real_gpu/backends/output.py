"""How the tensor that a captured forward returns is kept."""

from __future__ import annotations

import torch

from real_gpu.backends.plain import refuse_unusual
from real_gpu.graphs.device import CaptureError, GraphDevice


def kept_output(device: GraphDevice, mark: object, output: object) -> torch.Tensor:
    """The tensor that every replay of the bucket yields.

    Held weakly when it lies in the pool: the next replay that shares the pool may overwrite it
    anyway, and until then nothing does.
    """
    if not isinstance(output, torch.Tensor) or output.device != device.device:
        raise CaptureError(f"the forward must return a tensor on {device.device}, got {output!r}")
    refuse_unusual(output, "the forward's output")
    return device.alias(output) if device.born_since(mark, output) else output
