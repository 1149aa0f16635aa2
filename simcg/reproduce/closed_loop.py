"""A server under a benchmark: when does each request get its tokens?

All running requests decode together, so a count of decode steps says how far each is, and a run
of steps in which nothing can happen is one addition.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Protocol

import numpy as np

from simcg.arrays import Floats, Ints
from simcg.errors import Finding, InputError
from simcg.reproduce.recipe import Recipe


class StepPrices(Protocol):
    """Durations of steps in ns."""

    def mixed_ns(self, tokens: int, pairs: int, decodes: int, keys: int) -> int:
        """A step of prefill tokens that attend to ``pairs`` keys, with decodes or without."""

    def decode_ns(self, decodes: int, keys: int) -> int:
        """A step in which each request adds one token, attending to ``keys`` in all."""


@dataclass(frozen=True, slots=True)
class Latencies:
    """Of each request: from arrival to the first token, and per output token after it, in ns."""

    ttft_ns: Ints
    tpot_ns: Floats


class ClosedLoop:
    """One run; ``run`` returns its latencies.

    ``prompt``, ``output``: tokens of each request, in the order they are sent. ``arrival_ns``: of
    the first ones, ascending; every other is sent when one ends. ``think_ns``: from a request's
    last token to the arrival of the client's next one.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what a run is made of
        self, prices: StepPrices, recipe: Recipe, prompt: Ints, output: Ints, arrival_ns: Ints,
        kv_tokens: int, think_ns: int = 0,
    ) -> None:  # fmt: skip
        longest = int((prompt + output).max())
        if longest > kv_tokens:
            expected = f"at most the {kv_tokens} tokens that the KV cache holds"
            raise InputError("request", "", Finding(f"{longest} tokens"), expected)
        self.prices, self.recipe, self.kv_tokens = prices, recipe, kv_tokens
        self.prompt, self.output, self.think_ns = prompt.tolist(), output.tolist(), think_ns
        self.count = len(self.prompt)
        self.sent = min(len(arrival_ns), self.count)
        self.coming = [(at, index) for index, at in enumerate(arrival_ns[: self.sent].tolist())]
        self.waiting: deque[int] = deque()
        self.prefilling: list[int] = []
        self.running: dict[int, int] = {}  # request to the round it ends at, oldest first
        self.ends: list[tuple[int, int]] = []
        self.arrival, self.first, self.end, self.done, self.made = (
            [0] * self.count for _ in range(5)
        )
        self.arrival[: self.sent] = arrival_ns[: self.sent].tolist()
        self.now = self.decided = self.round = self.keys = self.held = self.finished = 0
        self.waits = self.since_look = 0
        self.full = False  # what waits first does not fit until a request ends

    def run(self) -> Latencies:
        """Until every request has its last token."""
        while self.finished < self.count:
            self._look()
            chosen = self._choose()
            if chosen:
                self._prefill(chosen)
            elif self.running:
                self._decode()
            else:
                self.now = self.decided = max(self.now, self.coming[0][0])
        ttft = np.array(self.first) - np.array(self.arrival)
        spans = np.array(self.end) - np.array(self.first)
        return Latencies(ttft, spans / np.maximum(np.array(self.output) - 1, 1))

    def _look(self) -> None:
        """Take in what had arrived when this step was decided."""
        busy = bool(self.running or self.prefilling)
        if self.running and self.since_look < self.recipe.poll_steps:
            return
        self.since_look = 0
        until = self.decided if busy and self.recipe.lag_steps else self.now
        while self.coming and self.coming[0][0] <= until:
            self.waiting.append(heappop(self.coming)[1])

    def _choose(self) -> list[tuple[int, int]]:
        """Who is prefilled in this step and how many tokens of each, first come first served."""
        recipe = self.recipe
        decodes = len(self.running)
        room = recipe.step_tokens - (decodes if recipe.mixes else 0)
        chosen: list[tuple[int, int]] = []
        for index in self.prefilling:
            if room > 0:
                take = min(room, self._target(index) - self.done[index])
                chosen.append((index, take))
                room -= take
        self.full = False
        held, live = self.held, decodes + len(self.prefilling)
        for index in self.waiting:
            target = self._target(index)
            fits_step = target <= room or (room > 0 if recipe.splits else not chosen)
            if not fits_step:
                break
            if live >= recipe.running or not self._fits(index, held, live):
                self.full = True
                break
            take = min(room, target) if recipe.splits else target
            chosen.append((index, take))
            room, held, live = room - take, held + self._need(index), live + 1
        return [] if self._holds_back(chosen, decodes) else chosen

    def _holds_back(self, chosen: list[tuple[int, int]], decodes: int) -> bool:
        """Whether a small step leaves its prefills for later, in the hope of more."""
        recipe = self.recipe
        if not (recipe.wait_steps and chosen and decodes) or self.prefilling:
            return False
        tokens = decodes + sum(take for _, take in chosen)
        if self.waits < recipe.wait_steps and tokens < recipe.wait_share * recipe.step_tokens:
            self.waits += 1
            return True
        self.waits = 0
        return False

    def _target(self, index: int) -> int:
        """Tokens to compute before the request decodes: more if it had lost its cache."""
        return int(self.prompt[index] + self.made[index])

    def _need(self, index: int) -> int:
        if self.recipe.reserves:
            return int(self.prompt[index] + self.output[index])
        return self._target(index)

    def _fits(self, index: int, held: int, live: int) -> bool:
        growth = 0 if self.recipe.reserves else live
        return held + self._need(index) + growth <= self.kv_tokens

    def _prefill(self, chosen: list[tuple[int, int]]) -> None:
        """A step with prefill tokens, and with decodes where the server mixes them."""
        tokens = pairs = 0
        for index, take in chosen:
            tokens += take
            pairs += take * self.done[index] + take * (take + 1) // 2
        decodes = len(self.running) if self.recipe.mixes else 0
        if decodes:
            decodes = self._make_room()
        keys = self.keys + decodes if decodes else 0
        ns = self.prices.mixed_ns(tokens, pairs, decodes, keys)
        self.decided, self.now = self.now, self.now + ns
        if decodes:
            self._advance(1, decodes)
        complete = [index for index, take in chosen if self._take(index, take)]
        for index in complete:
            self._join(index)
        self.since_look = self.recipe.poll_steps  # a prefill is followed by a look

    def _take(self, index: int, tokens: int) -> bool:
        """Tokens are in the cache; True if the prompt is complete."""
        if not self.done[index]:
            self.waiting.remove(index)
            self.held += self._need(index)
            self.prefilling.append(index)
        self.done[index] += tokens
        return self.done[index] == self._target(index)

    def _join(self, index: int) -> None:
        """The request has one token more and decodes from now on, or ends."""
        self.prefilling.remove(index)
        if not self.made[index]:
            self.first[index] = self.now
        self.keys += self._target(index)
        self.made[index] += 1
        left = self.output[index] - self.made[index]
        if not left:
            self._end(index)
            return
        self.running[index] = self.round + left
        heappush(self.ends, (self.round + left, index))

    def _decode(self) -> None:
        """Steps of decodes alone, as many as nothing can happen in between."""
        decodes = self._make_room()
        steps = self._until_end()
        if not self.recipe.reserves:
            steps = min(steps, (self.kv_tokens - self.held) // decodes)
        if self.waiting and not self.full:
            steps = 1
        first = self.prices.decode_ns(decodes, self.keys + decodes)
        if self.coming:
            until = max(1, -((self.now - self.coming[0][0]) // first))
            steps = min(steps, max(until, self.recipe.poll_steps - self.since_look))
        last = self.prices.decode_ns(decodes, self.keys + decodes * steps)
        self.now += (first + last) * steps // 2
        self.decided = self.now - last
        self.since_look += steps
        self._advance(steps, decodes)

    def _until_end(self) -> int:
        """Rounds until the next running request has its last token."""
        while self.running.get(self.ends[0][1]) != self.ends[0][0]:
            heappop(self.ends)  # it lost its cache
        return self.ends[0][0] - self.round

    def _make_room(self) -> int:
        """The newest lose their cache until all others can add a token; how many run."""
        if not self.recipe.reserves:
            while self.held + len(self.running) > self.kv_tokens:
                index, last = self.running.popitem()
                self.made[index] = self.output[index] - (last - self.round)
                cached = self._target(index) - 1
                self.held -= cached
                self.keys -= cached
                self.done[index] = 0
                self.waiting.appendleft(index)
        return len(self.running)

    def _advance(self, steps: int, decodes: int) -> None:
        """All running requests add ``steps`` tokens; those end whose last one that was."""
        self.round += steps
        self.keys += steps * decodes
        if not self.recipe.reserves:
            self.held += steps * decodes
        while self.ends and self.ends[0][0] <= self.round:
            last, index = heappop(self.ends)
            if self.running.get(index) == last:
                del self.running[index]
                self.made[index] = self.output[index]
                self._end(index)

    def _end(self, index: int) -> None:
        """The request is done, and its client sends the next one."""
        self.end[index] = self.now
        cached = self.prompt[index] + self.output[index] - 1
        self.keys -= cached
        self.held -= cached + 1 if self.recipe.reserves else cached
        self.finished += 1
        if self.sent < self.count:
            self.arrival[self.sent] = self.now + self.think_ns
            heappush(self.coming, (self.now + self.think_ns, self.sent))
            self.sent += 1
