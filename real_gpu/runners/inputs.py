"""Static inputs: buffers at fixed addresses, each with what its padding holds."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from simcg.errors import InputError, require


@dataclass(frozen=True, slots=True)
class StaticInput:
    """One buffer [rows, ...]; rows of padding hold ``pad`` at every step."""

    name: str
    buffer: torch.Tensor
    pad: int

    def first(self, rows: int) -> torch.Tensor:
        """A view of the first rows, at the same address."""
        return self.buffer.narrow(0, 0, rows)

    def write(self, values: torch.Tensor, rows: int) -> None:
        """The values, then padding up to ``rows``.

        Raises ``InputError`` for another dtype or shape, or more values than rows.
        """
        held, given = self.buffer, values
        if given.dtype != held.dtype:
            raise InputError(self.name, "dtype", str(given.dtype), str(held.dtype))
        if given.shape[1:] != held.shape[1:] or given.dim() != held.dim():
            expected = f"[rows, {', '.join(map(str, held.shape[1:]))}]".replace(", ]", "]")
            raise InputError(self.name, "shape", tuple(given.shape), expected)
        count = int(given.shape[0])
        require(count <= rows, self.name, "rows", count, f"at most the bucket's {rows}")
        held.narrow(0, 0, count).copy_(given)
        if count < rows:
            held.narrow(0, count, rows - count).fill_(self.pad)
