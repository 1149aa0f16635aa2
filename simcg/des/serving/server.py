"""The server as one SimPy process: takes what has arrived, runs steps, sleeps through runs.

Requests live in columns and in a heap of the decode counts at which they finish; all running
requests decode together, so one counter says how far each is. A run of decode steps in which
nothing can happen is one event, equal to its steps one by one.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Generator
from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from simcg.des.serving.clock import ServingClock
from simcg.des.serving.lines import TICK_BITS, TICKS_PER_NS
from simcg.des.serving.policy import Policy, shortened
from simcg.des.serving.tally import Tally

if TYPE_CHECKING:
    import simpy

    from simcg.cost.burst import Pace

NEVER = 1 << 62
RETURN_NS = 1
"""From a client's last token to its next request, in a closed loop: no time, yet too late for the
step that begins when the last one ends, as the scheduler of an engine does not wait for clients."""
_INDEX_BITS = 32
_INDEX = (1 << _INDEX_BITS) - 1


class Limits(NamedTuple):
    """What a server never exceeds.

    ``chunk``: tokens of a step with prefills; ``max_running``: requests with tokens in the KV
    cache; ``max_requests``: prefills of a step; ``kv_blocks`` of ``block_tokens`` tokens each.
    """

    chunk: int
    max_running: int
    max_requests: int
    kv_blocks: int
    block_tokens: int


class Columns(NamedTuple):
    """Requests by index, in ns and tokens; ``arrival`` ``NEVER``: sent when another is done."""

    arrival: array[int]
    prompt: array[int]
    cached: array[int]
    output: array[int]


class LoggedStep(NamedTuple):
    """A run of equal steps: when, what, and the queue and KV blocks that it left behind.

    ``keys``: of its decodes, once it is over; ``pairs``: of its prefill. ``read``: keys that the
    first step of decodes alone takes as long as, by ``ServingClock.keys_of``.
    """

    start_ticks: int
    ticks: int
    steps: int
    tokens: int
    requests: int
    decodes: int
    keys: int
    waiting: int
    kv_blocks: int
    pairs: int
    read: int = 0


class _Waiting(NamedTuple):
    """A request whose prompt, and what it had generated, is to be computed up to ``target``."""

    request: int
    done: int
    target: int
    generated: int
    token_at: int


class Server:
    """One server and its requests; ``run`` is its SimPy process."""

    __slots__ = (
        "arrived", "block", "blocked", "clock", "columns", "count", "decodes", "env", "finish",
        "finished", "finishes", "first", "free", "head", "joined", "keys", "last_end",
        "least_free", "lengths", "limits", "log", "mark", "next_arrival", "now", "partial", "phase",
        "policy", "preempted", "progress", "rest", "rest_at", "round", "running", "sent", "start",
        "tally",
    )  # fmt: skip

    def __init__(  # noqa: PLR0913, PLR0917 - what a server is made of
        self, env: simpy.Environment, clock: ServingClock, policy: Policy, limits: Limits,
        columns: Columns, sent: int, log: list[LoggedStep] | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> None:  # fmt: skip
        self.env, self.clock, self.policy, self.limits = env, clock, policy, limits
        self.columns, self.sent, self.log = columns, sent, log
        count = len(columns.arrival)
        self.count = count
        empty = bytes(8 * count)
        self.start, self.first, self.finish = (array("q", empty) for _ in range(3))
        rows = limits.chunk + (limits.max_running if policy.mixes else 0)
        self.tally = Tally(
            [[0] * (rows + 1) for _ in clock.chunked], [0] * (limits.max_running + 1)
        )
        self.progress, self.mark = progress, 0
        self.now = 0
        self.head = self.arrived = self.finished = 0
        self.next_arrival = columns.arrival[0] << TICK_BITS
        self.preempted: deque[_Waiting] = deque()
        self.partial: _Waiting | None = None
        self.blocked = False  # nothing that waits fits until a request leaves
        self.block = limits.block_tokens
        self.free = self.least_free = limits.kv_blocks
        self.decodes = self.keys = self.round = 0
        self.running: dict[int, int] = {}  # request to the round it finishes at, oldest first
        self.finishes: list[int] = []
        self.phase = [0] * limits.block_tokens  # running requests by (keys - round) mod block
        self.lengths: list[int] = []  # keys less round of those that run, ascending, if that counts
        self.rest, self.rest_at = 1.0, 0  # how rested the GPU is, and since when it rests
        self.last_end = 0
        self.joined: list[list[int]] = []  # [moment, requests] that have yet to decode

    @property
    def kv_peak(self) -> int:
        """Most blocks in use at once."""
        return self.limits.kv_blocks - self.least_free

    def run(self) -> Generator[simpy.Event, None, None]:
        """Until every request is finished."""
        timeout = self.env.timeout
        while self.finished < self.count:
            if self.next_arrival <= self.now:
                self._arrive()
            ticks = self._step()
            if not ticks:  # idle
                ticks = self.next_arrival - self.now
            self.now += ticks
            yield timeout(ticks)

    def _arrive(self) -> None:
        arrival, at, now = self.columns.arrival, self.arrived, self.now >> TICK_BITS
        while at < self.count and arrival[at] <= now:
            at += 1
        self.arrived = at
        self.next_arrival = (arrival[at] if at < self.count else NEVER) << TICK_BITS

    def _step(self) -> int:
        """Decide on the next step or run of steps, do all it does, and say how long it takes."""
        waits = self.head < self.arrived or self.preempted or self.partial is not None
        if waits and not self.blocked and not (self.policy.mixes and self._make_room()):
            ticks = self._prefill()
            if ticks:
                return ticks
            self.blocked = True
        return self._decode() if self.decodes else 0

    def _make_room(self) -> bool:
        """Preempt until every running request can add a token; True if one had to go."""
        block, short = self.block, False
        while self.phase[(1 - self.round) % block] > self.free:
            self._preempt()
            short = True
        return short

    def _preempt(self) -> None:
        """The newest request leaves the cache and waits in front; all it had is computed again."""
        block = self.block
        self.blocked = False
        self.tally.preemptions += 1
        if self.partial is not None:
            index, done, target, generated, token_at = self.partial
            self.partial = None
            self.free += -(-done // block)
            lost = done - self.columns.cached[index]
        else:
            index, last = self.running.popitem()
            left = last - self.round
            generated = self.columns.output[index] - left
            target = self.columns.prompt[index] + generated
            self.decodes -= 1
            self.keys -= target
            self.phase[(target - self.round) % block] -= 1
            self._forget(target - self.round)
            self.free += -(-(target - 1) // block)
            token_at = self.last_end
            if self.joined:
                token_at = self.joined[-1][0]
                self.joined[-1][1] -= 1
                if not self.joined[-1][1]:
                    self.joined.pop()
            lost = target - 1 - self.columns.cached[index]
        self.tally.recomputed_tokens += lost
        done = self.columns.cached[index]
        self.preempted.appendleft(_Waiting(index, done, target, generated, token_at))

    def _gather(self) -> tuple[list[_Waiting], list[int]]:
        """Who is prefilled in this step and how many tokens of each, first come first served."""
        limits, policy = self.limits, self.policy
        room = policy.room(limits.chunk, self.decodes)
        slots = min(limits.max_requests, limits.max_running - self.decodes)
        block, free = self.block, self.free
        if policy.mixes:
            free -= self.phase[(1 - self.round) % block]
        chosen: list[_Waiting] = []
        chunks: list[int] = []
        queue = iter(self.preempted)
        head, more = self.head, self.partial
        while room > 0 and len(chosen) < slots:
            if more is None:
                more = next(queue, None)
            if more is None:
                if head >= self.arrived:
                    break
                more = _Waiting(head, self.columns.cached[head], self.columns.prompt[head], 0, -1)
                head += 1
            chunk = more.target - more.done
            chunk = min(chunk, room)
            free -= -(-(more.done + chunk) // block)
            if more is self.partial:
                free += -(-more.done // block)
            if free < 0:
                break
            chosen.append(more)
            chunks.append(chunk)
            room -= chunk
            more = None
        if free < 0:
            self.tally.held_by_cache += 1
        elif room > 0 and len(chosen) == limits.max_running - self.decodes:
            self.tally.held_by_cap += self._queued > len(chosen)
        return self._cut(chosen, chunks)

    @property
    def _queued(self) -> int:
        """Requests with tokens to prefill that have arrived."""
        return self.arrived - self.head + len(self.preempted) + (self.partial is not None)

    def _cut(self, chosen: list[_Waiting], chunks: list[int]) -> tuple[list[_Waiting], list[int]]:
        """The step as the policy ends it."""
        if not chosen or not self.policy.edges:
            return chosen, chunks
        last = chosen[-1]
        more = self._queued > len(chosen) or last.done + chunks[-1] < last.target
        chunks = shortened(chunks, self.policy.cut(sum(chunks), self.decodes, more=more))
        return chosen[: len(chunks)], chunks

    def _prefill(self) -> int:
        """A step with prefill tokens, and with decodes where the policy mixes; 0 if none fits."""
        chosen, chunks = self._gather()
        if not chosen:
            return 0
        decodes = self.decodes if self.policy.mixes else 0
        tokens = sum(chunks)
        pairs = 0
        for one, chunk in zip(chosen, chunks, strict=True):
            pairs += chunk * one.done + chunk * (chunk + 1) // 2
        ticks = self.clock.chunked_step(tokens, pairs, len(chosen), decodes, self.keys)
        if self.clock.pace is not None:
            compute = self.clock.compute_ticks(tokens, pairs, len(chosen), decodes)
            ticks = self._in_burst(self.clock.pace, ticks, compute)
        tally = self.tally
        tally.chunked[self.clock.fits(len(chosen) + decodes)][tokens + decodes] += 1
        tally.chunked_ticks += ticks
        tally.prefill_tokens += tokens
        tally.mixed_decodes += decodes
        end = self.now + ticks
        if decodes:
            self._advance(1, decodes, end)
        ended = self._take(chosen, chunks)
        if self.log is not None:
            self._note(ticks, 1, tokens, len(chosen), decodes, pairs)
        if decodes:
            self._leave(end)
        for one in ended:
            self._join(one, end)
        return ticks

    def _in_burst(self, pace: Pace, ticks: int, compute: int) -> int:
        """What a step takes at the clock that it meets; steps of decodes alone are rests."""
        rest = pace.rested(self.rest, (self.now - self.rest_at) / TICKS_PER_NS)
        total, bound = ticks / TICKS_PER_NS, compute / TICKS_PER_NS
        shorter, self.rest = pace.step(rest, total, bound)
        ticks -= round(shorter * TICKS_PER_NS)
        self.rest_at = self.now + ticks
        return ticks

    def _take(self, chosen: list[_Waiting], chunks: list[int]) -> list[_Waiting]:
        """Move the chunks into the KV cache; those whose prompt is now complete."""
        block, now = self.block, self.now >> TICK_BITS
        ended = []
        for one, chunk in zip(chosen, chunks, strict=True):
            after = one.done + chunk
            self.free -= -(-after // block)
            if one is self.partial:
                self.free += -(-one.done // block)
                self.partial = None
            elif self.preempted:
                self.preempted.popleft()
            else:
                self.start[one.request] = now
                self.head += 1
            if after == one.target:
                ended.append(one)
            else:
                self.partial = one._replace(done=after)
        self.least_free = min(self.least_free, self.free)
        return ended

    def _join(self, one: _Waiting, end: int) -> None:
        """A prompt is complete: its request has a token more and decodes from now on, or ends."""
        index, _, target, generated, token_at = one
        if token_at >= 0:
            self.tally.gaps.add(end - token_at, 1)
        if not generated:
            self.first[index] = end >> TICK_BITS
        left = self.columns.output[index] - generated - 1
        block = self.block
        if not left:
            self._end(index, end)
            return
        last = self.round + left
        self.running[index] = last
        heappush(self.finishes, (last << _INDEX_BITS) | index)
        self.decodes += 1
        self.keys += target + 1
        self.phase[(target + 1 - self.round) % block] += 1
        if self.clock.widths:
            insort(self.lengths, target + 1 - self.round)
        if self.joined and self.joined[-1][0] == end:
            self.joined[-1][1] += 1
        else:
            self.joined.append([end, 1])

    def _decode(self) -> int:
        """Steps of decodes alone, as many as nothing can happen in between."""
        self._make_room()
        most = self._until_finish()
        if self.preempted and not self.blocked:
            most = 1  # what made room may leave enough for what waits
        elif (most // self.block + 1) * self.decodes > self.free:
            most = self._until_full(most)
        horizon = None if self.blocked else self.next_arrival - self.now
        keys = self.clock.keys_of(self.lengths, self.round, self.keys)
        steps, ticks, first, growth = self.clock.decode_run(self.decodes, keys, most, horizon)
        self.tally.decode[self.decodes] += steps
        self.tally.decode_ticks += ticks
        decodes, end = self.decodes, self.now + ticks
        self._advance(steps, decodes, self.now + first)
        if steps > 1:
            self.tally.gaps.add_run(first + growth, growth, steps - 1, decodes)
            self.last_end = end
        if self.log is not None:
            self._note(ticks, steps, 0, 0, decodes, 0, keys)
        self._leave(end)
        return ticks

    def _until_finish(self) -> int:
        """Rounds until the next running request is done."""
        running, finishes = self.running, self.finishes
        while running.get(finishes[0] & _INDEX) != finishes[0] >> _INDEX_BITS:
            heappop(finishes)  # it was preempted
        return (finishes[0] >> _INDEX_BITS) - self.round

    def _until_full(self, most: int) -> int:
        """Rounds, up to ``most``, for which the free blocks suffice; at least one does."""
        block = self.block
        cycles = min(self.free // self.decodes, most // block)
        steps, free = cycles * block, self.free - cycles * self.decodes
        while steps < most:
            free -= self.phase[(1 - self.round - steps) % block]
            if free < 0:
                break
            steps += 1
        return steps

    def _advance(self, steps: int, decodes: int, first_end: int) -> None:
        """All running requests add ``steps`` tokens, the first at ``first_end``."""
        phase, block = self.phase, self.block
        if steps == 1:
            taken = phase[(1 - self.round) % block]
        else:
            cycles, rest = divmod(steps, block)
            last = (1 - self.round) % block + 1  # the phases of this round and later ones: below
            taken = cycles * decodes + sum(phase[max(last - rest, 0) : last])
            if rest > last:
                taken += sum(phase[block + last - rest :])
        if taken:
            self.free = free = self.free - taken
            self.least_free = min(self.least_free, free)
        self.round += steps
        self.keys += steps * decodes
        old = decodes
        if self.joined:
            for moment, count in self.joined:
                self.tally.gaps.add(first_end - moment, count)
                old -= count
            self.joined.clear()
        if old:
            self.tally.gaps.add(first_end - self.last_end, old)
        self.last_end = first_end

    def _leave(self, end: int) -> None:
        """Requests whose last token this round was."""
        finishes, running, columns = self.finishes, self.running, self.columns
        block, now = self.block, self.round
        while finishes and finishes[0] >> _INDEX_BITS <= now:
            key = heappop(finishes)
            index = key & _INDEX
            if running.get(index) != key >> _INDEX_BITS:
                continue
            del running[index]
            keys = columns.prompt[index] + columns.output[index]
            self.decodes -= 1
            self.keys -= keys
            self.phase[(keys - now) % block] -= 1
            self._forget(keys - now)
            self._end(index, end)

    def _forget(self, length: int) -> None:
        """A request of that length, less the round, no longer runs."""
        if self.clock.widths:
            del self.lengths[bisect_left(self.lengths, length)]

    def _end(self, index: int, end: int) -> None:
        """A request is done: its blocks are free, and a closed loop sends its next request."""
        columns, moment = self.columns, end >> TICK_BITS
        self.finish[index] = moment
        held = columns.prompt[index] + columns.output[index] - 1
        self.free += -(-held // self.block)
        self.blocked = False
        self.finished += 1
        if self.sent < self.count:
            again = moment + RETURN_NS
            columns.arrival[self.sent] = again
            if self.sent == self.arrived:
                self.next_arrival = again << TICK_BITS
            self.sent += 1
        if self.progress is not None and self.finished >= self.mark:
            self.progress(self.finished)
            self.mark = self.finished + max(1, self.count // 100)

    def _note(  # noqa: PLR0913, PLR0917 - what a step is
        self, ticks: int, steps: int, tokens: int, requests: int, decodes: int, pairs: int,
        read: int = 0,
    ) -> None:  # fmt: skip
        if self.log is not None:
            waiting = self.arrived - self.head + len(self.preempted)
            used = self.limits.kv_blocks - self.free
            row = (self.now, ticks, steps, tokens, requests, decodes, self.keys, waiting, used)
            self.log.append(LoggedStep(*row, pairs, read))
