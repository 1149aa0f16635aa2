"""One rank: its host, its streams, and what became of them."""

from __future__ import annotations

from simpy import Environment

from simcg.arrays import Ints
from simcg.des.machine.host import Host, Issued
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
        machine: Machine,
        prepared: Prepared,
        meetings: dict[str, list[Meeting]],
        trace: bool,
    ) -> None:
        self._env, self._prepared = env, prepared
        self._issued: list[Issued] | None = [] if trace else None
        self._ran: dict[str, list[Ran]] = {name: [] for name in prepared.totals if trace}
        self._streams = {
            name: Stream(env, meetings.get(name, []), self._ran.get(name))
            for name in prepared.totals
        }
        self._host = Host(env, machine, self._streams, self._issued)

    def start(self, costs: Ints) -> None:
        """Let the host issue its calls at these costs from now on."""
        for stream in self._streams.values():  # before the host, which may find them idle
            self._env.process(stream.run())
        issue = self._host.run(self._prepared.program, costs.tolist(), self._prepared.puts)
        self._env.process(issue)

    def result(self, number: int) -> RankRun:
        """Where the time of rank ``number`` went; ``SimcgError`` if it still waits."""
        for name, stream in self._streams.items():
            if stream.idle is None:
                raise SimcgError(f"rank {number}, stream {name}: what it waits for never happens")
        host = self._host
        if host.running:
            raise SimcgError(f"rank {number}, host: what it waits for never happens")
        streams = tuple(self._stream(name) for name in self._streams)
        return RankRun(host.end_ns, host.held_ns, host.synced_ns, streams)

    def spans(self, number: int) -> list[Span]:
        """Everything that lasted on rank ``number``; none without a trace."""
        if self._issued is None:
            return []
        program = self._prepared.program
        out = list(host_spans(number, program, self._issued))
        for name, ran in self._ran.items():
            out += stream_spans(number, name, program, ran)
        return out

    def _stream(self, name: str) -> StreamRun:
        stream, (busy, gaps) = self._streams[name], self._prepared.totals[name]
        starved = stream.end_ns - busy - gaps - stream.peers_ns - stream.events_ns
        return StreamRun(
            name, stream.end_ns, busy, gaps, stream.peers_ns, stream.events_ns, starved
        )
