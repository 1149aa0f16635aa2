"""The generator's numbers in order, and its state after each, from a generator of the same seed."""

from __future__ import annotations

import torch

from real_gpu.conformance.kernels import next_number


class Draws:
    """``number(i)``: what the i-th draw gives. ``state(i)``: the generator's after i draws."""

    def __init__(self, device: torch.device, seed: int) -> None:
        self._device = device
        self._source = torch.Generator(device)
        self._source.manual_seed(seed)
        self._numbers: list[int] = []
        self._states = [self._source.get_state()]

    def number(self, index: int) -> int:
        """Below P."""
        self._reach(index + 1)
        return self._numbers[index]

    def state(self, count: int) -> torch.Tensor:
        """As bytes."""
        self._reach(count)
        return self._states[count]

    def _reach(self, count: int) -> None:
        while len(self._numbers) < count:
            self._numbers.append(int(next_number(self._device, self._source)))
            self._states.append(self._source.get_state())


def generator_of(device: torch.device) -> torch.Generator:
    """The generator that draws without one of their own advance."""
    if device.type == "cuda":
        return torch.cuda.default_generators[device.index or 0]
    return torch.default_generator
