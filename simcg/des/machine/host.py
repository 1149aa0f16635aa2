"""The host thread of one rank: it issues its calls one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from simpy import Environment, Event, Timeout

from simcg.des.machine.program import Call, HostSync, Program, Record, Wait
from simcg.des.machine.setup import Machine
from simcg.des.machine.stream import Process, Stream
from simcg.des.machine.work import Follow, Prepared

Issued: TypeAlias = tuple[int, int, int]
"""When a call began, when its cost was spent, when it returned."""


class Host:
    """The state of a host: its streams by name and what it has spent waiting."""

    def __init__(
        self, env: Environment, streams: dict[str, Stream], log: list[Issued] | None
    ) -> None:
        self.end_ns = self.held_ns = self.synced_ns = 0
        self.running = True
        self._env, self._streams, self._log = env, streams, log
        self._events: dict[str, Event] = {}

    def run(
        self,
        program: Program,
        costs: Sequence[int],
        prepared: Sequence[Prepared],
        machine: Machine,
    ) -> Process:
        """Issue the calls at their ``costs``; ``prepared`` says what each puts on its stream."""
        env, log, streams = self._env, self._log, self._streams
        latency, depth = machine.latency_ns, machine.queue or len(program)
        now = 0
        for place, (call, cost, (name, gap, work)) in enumerate(
            zip(program, costs, prepared, strict=True)
        ):
            began = now
            if cost:
                yield Timeout(env, cost)
                now += cost
            spent = now
            put = self._event(call) if work is None else work
            if put is not None:
                stream = streams[name]
                if len(stream.queue) >= depth:
                    stream.held = Event(env)
                    now = yield stream.held
                    self.held_ns += now - spent
                stream.queue.append((now + latency, gap, put, place))
                stream.given += 1
                if stream.idle is not None:
                    stream.idle.succeed(now)
                    stream.idle = None
            elif isinstance(call, HostSync) and streams[name].done < streams[name].given:
                stream = streams[name]
                stream.drained = Event(env)
                now = yield stream.drained
                self.synced_ns += now - spent
            if log is not None:
                log.append((began, spent, now))
        self.end_ns, self.running = now, False

    def _event(self, call: Call) -> Event | Follow | None:
        """What a record or a wait puts on its stream; None for other calls."""
        if isinstance(call, Record):
            self._events[call.event] = Event(self._env)
            return self._events[call.event]
        if isinstance(call, Wait) and call.event in self._events:
            return Follow(self._events[call.event])
        return None
