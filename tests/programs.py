"""Small programs for the graph devices and backends, with breaks of every kind.

Values are small integers in float32, so that every sum and product is exact on every device.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import strategies as st

from real_gpu.backends.breaks import eager_on_graph
from simcg.ladder import Bucket

WIDTH = 8
MODULUS = 13

Step = tuple[str, int, int]
"""What to do, and which two of the live tensors to do it with (modulo their number)."""


@eager_on_graph
def shift_into(source: torch.Tensor, shift: torch.Tensor, out: torch.Tensor) -> None:
    """A break that reads a live host value and writes an out-parameter."""
    torch.remainder(source + int(shift[0]), MODULUS, out=out)


@eager_on_graph
def shifted(source: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    """A break that returns a tensor and has a break inside."""
    out = torch.empty_like(source)
    shift_into(source, shift, out)
    return out


@eager_on_graph
def halves(source: torch.Tensor, shift: torch.Tensor) -> dict[str, Any]:
    """A break that returns nested tensors and a plain number."""
    moved = (source + shift[0]) % MODULUS
    return {"both": (moved[:, : WIDTH // 2], moved[:, WIDTH // 2 :]), "width": WIDTH // 2}


@dataclass
class Buffers:
    """Static inputs and the shared output buffer of all buckets."""

    source: torch.Tensor
    shift: torch.Tensor
    weight: torch.Tensor
    out: torch.Tensor

    @staticmethod
    def on(device: torch.device, rows: int) -> Buffers:
        """Buffers for up to ``rows`` rows."""
        grid = torch.arange(WIDTH * WIDTH, device=device).reshape(WIDTH, WIDTH)
        return Buffers(
            source=torch.zeros(rows, WIDTH, device=device),
            shift=torch.zeros(1, device=device),
            weight=(grid * 5 % 7 - 3).float(),
            out=torch.zeros(rows, WIDTH, device=device),
        )

    def rewrite(self, seed: int) -> None:
        """Other static inputs at the same addresses."""
        numbers = torch.arange(self.source.numel()).reshape(self.source.shape)
        self.source.copy_((numbers * (seed + 3) + seed) % MODULUS)
        self.shift.fill_(seed % MODULUS)


def forward_of(program: list[Step], buffers: Buffers, rows: int) -> Callable[[], torch.Tensor]:
    """The forward of ``rows`` rows: the steps in order, then the sum of what is alive."""

    def forward() -> torch.Tensor:
        live = [buffers.source[:rows] + 1]
        for name, i, j in program:
            STEPS[name](live, i % len(live), j % len(live), buffers)
            live[:] = live[-6:]
        total = live[0]
        for tensor in live[1:]:
            total = total + tensor
        out = buffers.out[:rows]
        out.copy_(total)
        return out

    return forward


Live = list[torch.Tensor]


def _add(live: Live, i: int, j: int, _: Buffers) -> None:
    live.append((live[i] + live[j]) % MODULUS)


def _in_place(live: Live, i: int, j: int, _: Buffers) -> None:
    live[i].add_(live[j] * 2).remainder_(MODULUS)


def _matmul(live: Live, i: int, _j: int, buffers: Buffers) -> None:
    live.append((live[i] @ buffers.weight) % MODULUS)


def _rows(live: Live, i: int, _j: int, _: Buffers) -> None:
    live.append(torch.cumsum(live[i], 0) % MODULUS)


def _drop(live: Live, i: int, _j: int, _: Buffers) -> None:
    if len(live) > 1:
        del live[i]


def _break_into(live: Live, i: int, _j: int, buffers: Buffers) -> None:
    out = torch.empty_like(live[i])
    shift_into(live[i], buffers.shift, out)
    live.append(out)


def _break_in_place(live: Live, i: int, j: int, buffers: Buffers) -> None:
    shift_into(live[i], buffers.shift, live[j])


def _break_returns(live: Live, i: int, _j: int, buffers: Buffers) -> None:
    live.append(shifted(live[i], buffers.shift))


def _break_returns_two(live: Live, i: int, _j: int, buffers: Buffers) -> None:
    result = halves(live[i], buffers.shift)
    first, second = result["both"]
    live.append(torch.cat([second, first], dim=1) + result["width"])


STEPS: dict[str, Callable[[Live, int, int, Buffers], None]] = {
    "add": _add,
    "in place": _in_place,
    "matmul": _matmul,
    "rows": _rows,
    "drop": _drop,
    "break into": _break_into,
    "break in place": _break_in_place,
    "break returns": _break_returns,
    "break returns two": _break_returns_two,
}

EVERY_STEP: list[Step] = [
    (name, i, j) for i, j in ((0, 1), (2, 1)) for name in [*STEPS, "drop", "add"]
]
"""One program that takes every kind of step twice."""

programs = st.lists(
    st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 5), st.integers(0, 5)), max_size=14
)
ladders = st.lists(st.integers(1, 12), min_size=1, max_size=4, unique=True).map(
    lambda sizes: [Bucket(size) for size in sorted(sizes, reverse=True)]
)
