"""What is true of a benchmark's closed loop, for any version of its module."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

import numpy as np

from simcg.arrays import Ints
from simcg.reproduce.recipe import Recipe

PLAIN = Recipe(mixes=True, step_tokens=64, running=8, lag_steps=0)
ROOMY = 10**9
MOST_CALLS = 100_000


@dataclass
class Priced:
    """Prices that grow with what a step does, and a record of what was asked."""

    token_ns: int = 10
    step_ns: int = 1000
    key_ns: int = 0
    mixed: list[tuple[int, int, int]] = field(default_factory=list)
    most_keys: int = 0
    calls: int = 0

    def mixed_ns(self, tokens: int, pairs: int, decodes: int, keys: int) -> int:
        """A step with prefills."""
        self._count()
        self.mixed.append((tokens, pairs, decodes))
        self.most_keys = max(self.most_keys, keys)
        return self.step_ns + self.token_ns * (tokens + decodes) + self.key_ns * keys

    def decode_ns(self, decodes: int, keys: int) -> int:
        """A step of decodes."""
        self._count()
        self.most_keys = max(self.most_keys, keys)
        return self.step_ns + self.token_ns * decodes + self.key_ns * keys

    def _count(self) -> None:
        self.calls += 1
        if self.calls > MOST_CALLS:
            raise ValueError("a server that never ends")


def drawn(seed: int, count: int = 40) -> tuple[Ints, Ints]:
    """Prompt and output lengths."""
    random = np.random.default_rng(seed)
    return random.integers(1, 60, count), random.integers(1, 30, count)


@dataclass(frozen=True)
class Case:
    """One run: what the server may do."""

    recipe: Recipe
    clients: int = 8
    kv_tokens: int = ROOMY
    think_ns: int = 0


CASES = (
    Case(PLAIN),
    Case(replace(PLAIN, running=5)),
    Case(replace(PLAIN, mixes=False, step_tokens=100)),
    Case(replace(PLAIN, lag_steps=1), think_ns=300),
    Case(replace(PLAIN, poll_steps=5)),
    Case(replace(PLAIN, wait_share=0.5, wait_steps=4)),
    Case(replace(PLAIN, splits=False, step_tokens=40)),
    Case(PLAIN, kv_tokens=150),
    Case(replace(PLAIN, reserves=True), kv_tokens=200),
)


def figures(module: ModuleType, case: Case, seed: int) -> list[float]:
    """First tokens, times per token, and the steps with prefills of one run."""
    prompt, output = drawn(seed)
    prices: Any = Priced(key_ns=1)
    arrival = np.zeros(case.clients, dtype=np.int64)
    loop = module.ClosedLoop(
        prices, case.recipe, prompt, output, arrival, case.kv_tokens, case.think_ns
    )
    out = loop.run()
    steps = [float(x) for step in prices.mixed for x in step]
    kept = [float(prices.most_keys <= case.kv_tokens), float(loop.keys), float(loop.held)]
    return [*out.ttft_ns.tolist(), *out.tpot_ns.tolist(), *steps, *kept]
