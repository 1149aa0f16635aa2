"""Serving step by step: a plain server with an object a request, and made clocks and traffic.

The reference for ``simcg.des.serving``: it shares the clock's tables and the policy's numbers, and
nothing else. Every request is touched in every step, and blocks are counted request by request.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from simcg.arrays import Floats, Ints
from simcg.backend import BREAKABLE, EAGER
from simcg.cost.burst import Pace
from simcg.cost.table import ReplayModel
from simcg.des.serving import ServerConfig
from simcg.des.serving.clock import ServingClock
from simcg.des.serving.lines import TICK_BITS, TICKS_PER_NS, Lines, lines_through, value_at
from simcg.des.serving.policy import Policy, policy_named
from simcg.des.serving.server import NEVER, Columns, Limits
from simcg.hardware.catalog import load_profile
from simcg.ladder import AdmissionRule, Ladder
from simcg.model.catalog import load_architecture
from simcg.model.forward import forward_pass

NO_LINE = Lines((0,), (0,), (0,))


@dataclass
class Plain:
    """One request of the reference."""

    index: int
    prompt: int
    cached: int
    output: int
    arrival: int
    computed: int = 0
    generated: int = 0
    blocks: int = 0
    start: int = -1
    first: int = -1
    finish: int = -1
    token_at: int = -1
    decodes: bool = False

    @property
    def target(self) -> int:
        """Tokens in the cache when its prefill is complete."""
        return self.prompt + self.generated


@dataclass
class PlainRun:
    """What the reference did: one entry a step and a gap."""

    requests: list[Plain]
    steps: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    gaps: list[int] = field(default_factory=list)
    used: list[int] = field(default_factory=list)
    preemptions: int = 0
    end: int = 0


class PlainServer:
    """First come, first served, one step at a time."""

    def __init__(
        self, clock: ServingClock, policy: Policy, limits: Limits, columns: Columns, sent: int
    ) -> None:
        self.clock, self.policy, self.limits, self.sent = clock, policy, limits, sent
        rows = zip(*columns, strict=True)
        self.run_ = PlainRun([Plain(i, p, c, o, a) for i, (a, p, c, o) in enumerate(rows)])
        for one in self.run_.requests:
            one.computed = one.cached
        self.future = list(self.run_.requests)
        self.waiting: list[Plain] = []
        self.running: list[Plain] = []  # in order of admission; the last may be half prefilled
        self.now = 0
        self.rest, self.rest_at = 1.0, 0

    def run(self) -> PlainRun:
        """Until all are done."""
        while self.future or self.waiting or self.running:
            while self.future and self.future[0].arrival << TICK_BITS <= self.now:
                self.waiting.append(self.future.pop(0))
            if not self._step():
                self.now = self.future[0].arrival << TICK_BITS
        self.run_.end = self.now
        return self.run_

    @property
    def free(self) -> int:
        return self.limits.kv_blocks - sum(one.blocks for one in self.run_.requests)

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self.limits.block_tokens)

    def _decoding(self) -> list[Plain]:
        return [one for one in self.running if one.decodes]

    def _step(self) -> bool:
        if self.policy.mixes:
            return self._mixed_step()
        chosen = self._choose()
        if chosen:
            self._compute(chosen, [])
            return True
        if not self._decoding():
            return False
        self._decode_room()
        self._compute([], self._decoding())
        return True

    def _mixed_step(self) -> bool:
        if not (self.waiting or self.running):
            return False
        short = self._decode_room()
        decoding = self._decoding()
        chosen = [] if short else self._choose()
        if not (chosen or decoding):
            return False
        self._compute(chosen, decoding)
        return True

    def _decode_room(self) -> bool:
        """One block after another, oldest request first; the newest goes when there is none."""
        short = False
        at = 0
        while at < len(self.running):
            one = self.running[at]
            at += 1
            if one not in self._decoding():
                continue
            while one in self.running and self._blocks(one.computed + 1) > one.blocks:
                if self.free:
                    one.blocks += 1
                    continue
                short = True
                self._preempt(self.running.pop())
        return short

    def _preempt(self, victim: Plain) -> None:
        self.run_.preemptions += 1
        victim.blocks = 0
        victim.decodes = False
        victim.computed = victim.cached
        self.waiting.insert(0, victim)

    def _choose(self) -> list[tuple[Plain, int]]:
        """Who is prefilled and by how much; blocks are taken here."""
        decodes = len(self._decoding())
        room = self.policy.room(self.limits.chunk, decodes)
        half = [one for one in self.running if one not in self._decoding()]
        candidates = half + self.waiting
        chosen: list[tuple[Plain, int]] = []
        free = self.free
        for one in candidates:
            if room <= 0 or len(chosen) == self.limits.max_requests:
                break
            if decodes + len(chosen) == self.limits.max_running:
                break
            take = min(one.target - one.computed, room)
            free -= self._blocks(one.computed + take) - one.blocks
            if free < 0:
                break
            chosen.append((one, take))
            room -= take
        done = all(one.computed + take == one.target for one, take in chosen)
        if self.policy.edges and chosen:
            more = not (done and len(chosen) == len(candidates))
            total = self.policy.cut(sum(take for _, take in chosen), decodes, more=more)
            kept = []
            for one, take in chosen:
                if total > 0:
                    kept.append((one, min(take, total)))
                total -= take
            chosen = kept
        for one, take in chosen:
            one.blocks = self._blocks(one.computed + take)
        return chosen

    def _compute(self, chosen: list[tuple[Plain, int]], decoding: list[Plain]) -> None:
        tokens = sum(take for _, take in chosen)
        pairs = sum(t * one.computed + t * (t + 1) // 2 for one, t in chosen)
        keys = sum(one.computed + 1 for one in decoding)
        if tokens:
            ticks = self.clock.chunked_step(tokens, pairs, len(chosen), len(decoding), keys)
            ticks -= self._sooner(ticks, (tokens, pairs, len(chosen), len(decoding)))
        else:
            ticks = value_at(self.clock.decode[len(decoding)], self._read(decoding))
        self.run_.steps.append((self.now, ticks, tokens, len(decoding), keys))
        self.run_.used.append(self.limits.kv_blocks - self.free)
        for one, _ in chosen:
            if one.start < 0:
                one.start = self.now >> TICK_BITS
            if one in self.waiting:
                self.waiting.remove(one)
                self.running.append(one)
        self.now += ticks
        for one in decoding:
            one.computed += 1
        ended = list(decoding)
        for one, take in chosen:
            one.computed += take
            if one.computed == one.target:
                ended.append(one)
        # in the order of what finishes together: those that decoded by index, then the prefilled
        for one in sorted(decoding, key=lambda r: r.index) + ended[len(decoding) :]:
            self._token(one)

    def _read(self, decoding: list[Plain]) -> int:
        """Keys that the decode kernel takes the time of, position by position."""
        lengths = [one.computed + 1 for one in decoding]
        if not self.clock.widths:
            return sum(lengths)
        return parts_read(lengths, self.clock.widths[len(lengths)])

    def _sooner(self, ticks: int, step: tuple[int, int, int, int]) -> int:
        """By how much a step with prompts is shorter as the GPU has rested."""
        pace = self.clock.pace
        if pace is None:
            return 0
        rest = pace.rested(self.rest, (self.now - self.rest_at) / TICKS_PER_NS)
        bound = self.clock.compute_ticks(*step) / TICKS_PER_NS
        shorter, self.rest = pace.step(rest, ticks / TICKS_PER_NS, bound)
        sooner = round(shorter * TICKS_PER_NS)
        self.rest_at = self.now + ticks - sooner
        return sooner

    def _token(self, one: Plain) -> None:
        one.generated += 1
        one.decodes = True
        if one.token_at >= 0:
            self.run_.gaps.append(self.now - one.token_at)
        one.token_at = self.now
        if one.first < 0:
            one.first = self.now >> TICK_BITS
        if one.generated == one.output:
            one.finish = self.now >> TICK_BITS
            one.blocks = 0
            self.running.remove(one)
            if self.sent < len(self.run_.requests):
                self.run_.requests[self.sent].arrival = one.finish + 1
                self.sent += 1


def parts_read(lengths: Sequence[int], width: int) -> int:
    """Position by position: as many requests as are that long, but never fewer than ``width``.

    In 256ths of a key, as ``width`` is.
    """
    longest = max(lengths)
    return sum(max(width, 256 * sum(n > at for n in lengths)) for at in range(longest))


def made_clock(
    random: np.random.Generator, rows: int, running: int, *, uneven: bool = False
) -> ServingClock:
    """Durations that depend on everything a step's may, with kinks, in no particular unit.

    ``uneven``: the decode kernel reads requests in one piece, and prompts come in bursts.
    """

    def lines(points: int, width: int, height: int) -> Lines:
        xs = [0, *np.cumsum(random.integers(1, width, points - 1)).tolist()]
        return lines_through(xs, np.cumsum(random.integers(1, height, points)).tolist())

    chunked = tuple(lines(3, 200, 400) for _ in range(rows + running))
    keys = 120 * 256 if uneven else 120
    clock = ServingClock(
        slot_counts=(),
        chunked=((NO_LINE, *chunked),),
        prefill=(NO_LINE, *(lines(3, 300, 50) for _ in range(rows))),
        decode=(NO_LINE, *(lines(4, keys, 60) for _ in range(running))),
        decode_attention=(NO_LINE, *(lines(2, 100, 20) for _ in range(running))),
        provenance="assumed",
    )
    if not uneven:
        return clock
    widths = [random.integers(256, 256 * m + 400) for m in range(1, running + 1)]
    bound = random.integers(0, 200, rows + running)
    fresh, fall, rise = random.uniform(1, 1.3), *random.uniform(50, 5_000, 2)
    return replace(
        clock,
        widths=(0, *map(int, widths)),
        pace=Pace(fresh, random.uniform(0.9, fresh), fall, rise),
        compute=((0, *bound.tolist()),),
    )


def made_columns(random: np.random.Generator, count: int, *, closed: int = 0) -> Columns:
    """Short requests, some of one token; times in ns, or a closed loop of that many clients."""
    prompt = random.integers(1, 40, count)
    cached = np.minimum(random.integers(0, 12, count) * random.integers(0, 2, count), prompt - 1)
    output = random.integers(1, int(random.integers(2, 40)), count)
    if closed:
        arrival = np.full(count, NEVER)
        arrival[:closed] = 0
    else:
        arrival = np.cumsum(random.integers(0, int(random.integers(2, 2500)), count))
    return columns_of(arrival, prompt, cached, output)


def columns_of(*parts: Ints | Floats) -> Columns:
    """Arrival, prompt, cached and output as the server reads them."""
    return Columns(*(array("q", part.astype(np.int64).tobytes()) for part in parts))


def small_server(*sizes: int, policy: str = "prefill-first") -> ServerConfig:
    """Qwen3-8B on an H200, 32 requests and chunks of 512 tokens."""
    model = ReplayModel(
        forward_pass(load_architecture("qwen3-8b")), load_profile("h200"), BREAKABLE, EAGER
    )
    return ServerConfig(
        model, Ladder.of(sizes), AdmissionRule(), Ladder.of((1, 4, 16, 32)), 512, 32, 200_000,
        policy=policy_named(policy, sizes),
    )  # fmt: skip
