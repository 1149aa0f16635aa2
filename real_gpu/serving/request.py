"""What a server is asked, and what it remembers of each request."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from real_gpu.serving.model import Part
from simcg.arrays import Ints
from simcg.errors import InputError, require
from simcg.workload.requests import Requests


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: when it arrives, its prompt [p] int64, and how many tokens it wants."""

    arrival_ns: int
    prompt: Ints
    output_tokens: int


@dataclass(slots=True)
class Session:
    """An admitted request: its stretch of the cache, tokens prefilled so far, tokens produced."""

    asked: Asked
    index: int
    start: int
    prefilled: int = 0
    produced: list[int] = field(default_factory=list)
    first_token_ns: int = 0
    finish_ns: int = 0

    @property
    def left(self) -> int:
        """Prompt tokens that are not computed yet."""
        return len(self.asked.prompt) - self.prefilled

    @property
    def done(self) -> bool:
        """It has all its tokens."""
        return len(self.produced) == self.asked.output_tokens

    def chunk(self, tokens: int) -> Part:
        """The next tokens of its prompt."""
        ids = self.asked.prompt[self.prefilled : self.prefilled + tokens]
        return Part(ids, self.prefilled, self.start)

    def next_token(self) -> Part:
        """Its latest token, whose keys are not cached yet."""
        cached = len(self.asked.prompt) + len(self.produced) - 1
        return Part(np.array(self.produced[-1:], dtype=np.int64), cached, self.start)


def asked_of(requests: Requests, vocab: int, longest: int, seed: int) -> list[Asked]:
    """The requests of a trace with random prompts, cut so that both lengths fit ``longest``.

    The whole prompt is computed: there is no prefix cache. A prompt keeps at most three quarters,
    so that long ones still decode. Raises ``InputError`` for a trace without arrival times or
    without output lengths.
    """
    expected = "a trace with arrival times and output lengths"
    if requests.arrival_ns is None:
        raise InputError("--trace", "arrival", requests.source, expected)
    shortest = int(requests.output_tokens.min())
    require(shortest >= 1, "--trace", "output tokens", shortest, expected)
    require(longest >= 4, "serving", "tokens of a request", longest, "at least 4")
    rng = np.random.default_rng(seed)
    most = longest * 3 // 4
    columns = (requests.arrival_ns, requests.prompt_tokens, requests.output_tokens)
    out = []
    for arrival, prompt, output in zip(*(c.tolist() for c in columns), strict=True):
        length = min(prompt, most)
        ids = rng.integers(1, vocab, length)
        out.append(Asked(arrival, ids, min(output, longest - length)))
    return out
