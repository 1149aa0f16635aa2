"""One rank: its host, its streams, and what became of them."""

from __future__ import annotations

from collections.abc import Sequence

from simpy import Environment

from simcg.des.machine.host import Host, Issued
from simcg.des.machine.program import HostWork, Launch, Program
from simcg.des.machine.run import RankRun, Span, StreamRun
from simcg.des.machine.setup import Machine
from simcg.des.machine.spans import host_spans, stream_spans
from simcg.des.machine.stream import Ran, Stream
from simcg.des.machine.work import Meeting, Prepared
from simcg.errors import SimcgError


class Rank:
    """The processes of one rank, and what they write down when there is a trace."""

    def __init__(
        self,
        env: Environment,
        number: int,
        program: Program,
        meetings: dict[str, list[Meeting]],
        trace: bool,
    ) -> None:
        self._env, self._number, self._program = env, number, program
        names = dict.fromkeys(c.stream for c in program if not isinstance(c, HostWork))
        self._issued: list[Issued] | None = [] if trace else None
        self._ran: dict[str, list[Ran]] = {name: [] for name in names} if trace else {}
        self._streams = {
            name: Stream(env, meetings.get(name, []), self._ran.get(name)) for name in names
        }
        self._host = Host(env, self._streams, self._issued)

    def start(self, costs: Sequence[int], prepared: Sequence[Prepared], machine: Machine) -> None:
        """Let the host issue its calls at these costs from now on."""
        for stream in self._streams.values():
            self._env.process(stream.run())
        self._env.process(self._host.run(self._program, costs, prepared, machine))

    def result(self) -> RankRun:
        """Where the time went; ``SimcgError`` if the rank still waits."""
        for name, stream in self._streams.items():
            if self._host.running or stream.done < stream.given:
                waits = f"after {stream.done} of {stream.given} launches and events"
                raise SimcgError(f"rank {self._number}, stream {name}: waits for ever {waits}")
        host = self._host
        streams = tuple(self._stream(name) for name in self._streams)
        return RankRun(host.end_ns, host.held_ns, host.synced_ns, streams)

    def spans(self, size: int) -> tuple[Span, ...]:
        """Everything that lasted, of ``size`` ranks; none without a trace."""
        if self._issued is None:
            return ()
        out = list(host_spans(self._number, self._program, self._issued))
        for name, ran in self._ran.items():
            out += stream_spans(self._number, name, self._program, ran, size)
        return tuple(out)

    def _stream(self, name: str) -> StreamRun:
        stream = self._streams[name]
        given = [c for c in self._program if isinstance(c, Launch) and c.stream == name]
        kernels = [kernel for call in given for kernel in call.kernels]
        return StreamRun(
            name,
            stream.end_ns,
            busy_ns=sum(kernel.duration_ns for kernel in kernels),
            gap_ns=sum(kernel.gap_ns for kernel in kernels),
            peers_ns=stream.peers_ns,
            events_ns=stream.events_ns,
            starved_ns=stream.starved_ns,
        )
