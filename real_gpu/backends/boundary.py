"""What a break returns: buffers at fixed addresses that every replay refreshes in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from real_gpu.backends.plain import refuse_unusual
from real_gpu.graphs.device import CaptureError, GraphDevice, ReplayError

PLAIN = (bool, int, float, str, type(None))
"""What a break may return beside tensors; a replay must return the same value."""


@dataclass(frozen=True, slots=True)
class Boundary:
    """The leaves of a break's result, checked, and how they nest."""

    leaves: list[Any]
    nesting: TreeSpec

    @staticmethod
    def of(result: Any, arguments: Sequence[Any], device: GraphDevice, mark: object) -> Boundary:
        """Check a result; ``CaptureError`` if a replay could not put its like in place."""
        leaves, nesting = tree_flatten(result)
        taken = {_address(leaf) for leaf in arguments if isinstance(leaf, torch.Tensor)} - {0}
        returned: set[int] = set()
        for leaf in leaves:
            if isinstance(leaf, torch.Tensor):
                _check_tensor(leaf, device, mark, taken)
                if leaf.data_ptr() in returned - {0}:
                    raise CaptureError("a break returns the same memory twice: return it once")
                returned.add(leaf.data_ptr())
            elif not isinstance(leaf, PLAIN):
                raise CaptureError(
                    f"a break returns a {type(leaf).__name__}: return tensors and plain numbers, "
                    "or write into out-parameters"
                )
        return Boundary(leaves, nesting)

    def placed(
        self, call: Callable[[], Any], device: GraphDevice
    ) -> tuple[Any, Callable[[], None]]:
        """Buffers for the recording to read, and the call that refreshes them at replay.

        To be called while recording: the buffers lie in the pool, so their memory is re-used
        when the forward drops them. The refreshing call holds them weakly, which is safe as they
        are written in each replay before they are read.
        """
        buffers = [
            torch.empty_like(leaf) if isinstance(leaf, torch.Tensor) else leaf
            for leaf in self.leaves
        ]
        weak = [device.alias(b) if isinstance(b, torch.Tensor) else b for b in buffers]
        if len(weak) == 1 and self.nesting.is_leaf():
            return buffers[0], _refresh_one(call, weak[0])
        return tree_unflatten(buffers, self.nesting), _refresh_all(call, weak, self.nesting)


def _check_tensor(tensor: torch.Tensor, device: GraphDevice, mark: object, taken: set[int]) -> None:
    refuse_unusual(tensor, "a break's result")
    if tensor.device != device.device:
        raise CaptureError(
            f"a break returns a tensor on {tensor.device}, which the next segment would bake in: "
            f"return it on {device.device}"
        )
    if _address(tensor) in taken:
        raise CaptureError(
            "a break returns one of its arguments or a view of it: return None, the caller has "
            "the argument"
        )
    if device.born_since(mark, tensor):
        raise CaptureError(
            "a break returns memory of the graph's pool that is none of its arguments: pass it "
            "as an argument and return None"
        )


def _address(tensor: torch.Tensor) -> int:
    """Where the tensor's storage begins; 0 for none."""
    return int(tensor.untyped_storage().data_ptr()) if tensor.layout is torch.strided else 0


def _put(buffer: Any, new: Any) -> None:
    """Copy a tensor in place; a plain value must be the captured one."""
    if not isinstance(buffer, torch.Tensor):
        if new != buffer:
            raise ReplayError(f"a break returned {new!r}, at capture {buffer!r}, which is baked in")
        return
    if not isinstance(new, torch.Tensor) or new.shape != buffer.shape or new.dtype != buffer.dtype:
        got = f"{new.dtype} {tuple(new.shape)}" if isinstance(new, torch.Tensor) else repr(new)
        raise ReplayError(
            f"a break returned {got}, at capture {buffer.dtype} {tuple(buffer.shape)}: the next "
            "segment reads that shape"
        )
    buffer.copy_(new)


def _refresh_one(call: Callable[[], Any], buffer: Any) -> Callable[[], None]:
    def refresh() -> None:
        _put(buffer, call())

    return refresh


def _refresh_all(
    call: Callable[[], Any], buffers: list[Any], nesting: TreeSpec
) -> Callable[[], None]:
    def refresh() -> None:
        leaves, found = tree_flatten(call())
        if found != nesting:
            raise ReplayError("a break returned results that nest otherwise than at capture")
        for buffer, new in zip(buffers, leaves, strict=True):
            _put(buffer, new)

    return refresh
