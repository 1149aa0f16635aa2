"""A stream of one rank: it runs what it was given, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from typing import Any, TypeAlias

from simpy import Environment, Event, Timeout

from simcg.des.machine.work import Chain, Follow, Meeting, Put

Process: TypeAlias = Generator[Event, int, None]
"""An event that others trigger has the moment as its value."""
Ran: TypeAlias = tuple[int, int, tuple[int, ...]]
"""A call's place, when its first kernel started, when its collectives did."""


class Stream:
    """The state of a stream. ``queue`` holds what has not started: (ready_ns, put, call).

    Whoever waits for it leaves an event: the stream itself for work (``idle``), the host for a
    place in the queue (``held``) or for the end of everything (``drained``).
    """

    def __init__(self, env: Environment, meetings: list[Meeting], log: list[Ran] | None) -> None:
        self.queue: deque[tuple[int, Put, int]] = deque()
        self.idle: Event | None = None
        self.held: Event | None = None
        self.drained: Event | None = None
        self.end_ns = self.peers_ns = self.events_ns = 0
        self._env, self._log = env, log
        self._meetings = iter(meetings)

    def run(self) -> Process:
        """Run what is given, for as long as anything is."""
        env, queue, log = self._env, self.queue, self._log
        now = last = 0  # the moment; the end of the last kernel
        end = waited = 0  # what the next kernel follows, a kernel or an event; waits for events
        while True:
            if not queue:
                self.end_ns, self.events_ns = last, waited - (end - last)
                if self.drained is not None:
                    self.drained.succeed(now)
                    self.drained = None
                self.idle = Event(env)
                now = yield self.idle
            ready, (_, gap, work), call = queue[0]
            free = end + gap
            start = ready if ready > free else free  # max() takes longer
            if start > now:
                yield Timeout(env, start - now)
            queue.popleft()
            if self.held is not None:
                self.held.succeed(start)
                self.held = None
            if isinstance(work, int):
                yield Timeout(env, work)
                now = end = last = start + work
                if log is not None:
                    log.append((call, start, ()))
            elif isinstance(work, Chain):
                now = end = last = yield from self._meet(work, start, call)
            else:
                now, reached = yield from self._event(work, max(now, start))
                waited += max(0, reached - end)
                end = max(end, reached)

    def _event(self, work: Event | Follow, now: int) -> Generator[Event, int, tuple[int, int]]:
        """Reach an event, or wait for one: the moment after it, and when that one was reached."""
        if isinstance(work, Event):
            work.succeed(now)
            return now, 0
        if not work.event.triggered:
            now = yield work.event
        reached: Any = work.event.value
        return now, reached

    def _meet(self, chain: Chain, start: int, call: int) -> Generator[Event, int, int]:
        """Kernels with collectives among them, from ``start`` on, to their end."""
        env, meetings, now = self._env, self._meetings, start
        met: list[int] = []
        peers = 0
        if chain.before_ns:
            yield Timeout(env, chain.before_ns)
            now += chain.before_ns
        for lasts in chain.stages:
            meeting = next(meetings)
            meeting.missing -= 1
            if meeting.missing:
                arrived = now
                now = yield meeting.start
                peers += now - arrived
            else:
                meeting.start.succeed(now)
            met.append(now)
            yield Timeout(env, lasts)
            now += lasts
        self.peers_ns += peers
        if self._log is not None:
            self._log.append((call, start, tuple(met)))
        return now
