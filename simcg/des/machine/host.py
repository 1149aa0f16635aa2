"""The host thread of one rank: it issues its calls one after the other."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TypeAlias

from simpy import Environment, Event, Timeout

from simcg.des.machine.program import Call, HostSync, Program, Record, Wait
from simcg.des.machine.setup import Machine
from simcg.des.machine.stream import Process, Stream
from simcg.des.machine.work import Follow, Put

Issued: TypeAlias = tuple[int, int, int]
"""When a call began, when its cost was spent, when it returned."""


class Host:
    """The state of a host: its streams by name and what it has spent waiting."""

    def __init__(
        self,
        env: Environment,
        machine: Machine,
        streams: dict[str, Stream],
        log: list[Issued] | None,
    ) -> None:
        self.end_ns = self.held_ns = self.synced_ns = 0
        self.running = True
        self._env, self._machine, self._streams, self._log = env, machine, streams, log
        self._events: dict[str, Event] = {}

    def run(self, program: Program, costs: Sequence[int], puts: Sequence[Put | None]) -> Process:
        """Issue the calls at their ``costs``; ``puts`` says what each launch puts on a stream."""
        env, log, streams = self._env, self._log, self._streams
        latency, depth = self._machine.latency_ns, self._machine.queue or len(program)
        now = 0
        for place, (cost, known) in enumerate(zip(costs, puts, strict=True)):
            began = now
            if cost:
                yield Timeout(env, cost)
                now += cost
            spent = now
            put = known or self._event(program[place])
            if put is not None:
                stream = streams[put[0]]
                if len(stream.queue) >= depth:
                    stream.held = Event(env)
                    now = yield stream.held
                    self.held_ns += now - spent
                stream.queue.append((now + latency, put, place))
                if stream.idle is not None:
                    stream.idle.succeed(now)
                    stream.idle = None
            elif isinstance(call := program[place], HostSync):
                now = yield from self._sync(streams[call.stream], now)
            if log is not None:
                log.append((began, spent, now))
        self.end_ns, self.running = now, False

    def _sync(self, stream: Stream, now: int) -> Generator[Event, int, int]:
        """Wait until the stream has nothing left: the moment after it."""
        if stream.idle is not None:
            return now
        stream.drained = Event(self._env)
        ended = yield stream.drained
        self.synced_ns += ended - now
        return ended

    def _event(self, call: Call) -> Put | None:
        """What a record or a wait puts on its stream; None for other calls."""
        if isinstance(call, Record):
            self._events[call.event] = Event(self._env)
            return call.stream, 0, self._events[call.event]
        if isinstance(call, Wait) and call.event in self._events:
            return call.stream, 0, Follow(self._events[call.event])
        return None
