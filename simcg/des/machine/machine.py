"""The machine: host threads, launch queues, streams and ranks as SimPy processes.

A host issues its calls one after the other. A launch returns when its cost is spent and fewer than
``queue`` launches of its stream have not started yet: h_i >= start_{i-Q}. A stream runs what it
was given in order: start = max(end + gap, h + latency), where end is that of the kernel before, or
of what the stream waited for on another one. A collective starts on every rank when the last one
has come to it.

Times are integers, so SimPy's heap orders events by (time, priority, sequence) exactly and a run
is a function of its arguments. Nothing depends on the order of events of one moment.
"""

from __future__ import annotations

from collections.abc import Sequence

from simpy import Environment

from simcg.des.machine.jitter import Jitter
from simcg.des.machine.program import Program
from simcg.des.machine.rank import Rank
from simcg.des.machine.run import StepRun
from simcg.des.machine.setup import Machine
from simcg.des.machine.work import Meeting, Prepared, prepare
from simcg.errors import require


def run_programs(
    programs: Sequence[Program],
    machine: Machine,
    jitter: Jitter | None = None,
    *,
    trace: bool = False,
) -> StepRun:
    """Play one program a rank, all from an idle start at 0; with ``trace`` the run has its spans.

    Raises ``SimcgError`` if the ranks do not meet in the same number of collectives on each
    stream, or if streams wait for each other for ever.
    """
    size = len(programs)
    distinct = {id(program): prepare(program, size) for program in programs}
    return run_prepared(
        [distinct[id(program)] for program in programs], machine, jitter, trace=trace
    )


def run_prepared(
    prepared: Sequence[Prepared],
    machine: Machine,
    jitter: Jitter | None = None,
    *,
    trace: bool = False,
) -> StepRun:
    """As ``run_programs``, of what was prepared for as many ranks: for many runs of a program."""
    size = len(prepared)
    require(size >= 1, "run_programs", "programs", size, "a program for each rank")
    if any(one.ranks != size for one in prepared):
        raise ValueError(f"programs were not prepared for {size} ranks")
    env = Environment()
    meetings = _meetings(env, prepared) if size > 1 else {}
    ranks = [Rank(env, machine, one, meetings, trace) for one in prepared]
    for number, (rank, one) in enumerate(zip(ranks, prepared, strict=True)):
        rank.start(one.costs if jitter is None else jitter.costs(one.costs, number))
    env.run()
    runs = tuple(rank.result(number) for number, rank in enumerate(ranks))
    spans = (span for number, rank in enumerate(ranks) for span in rank.spans(number))
    return StepRun(runs, tuple(spans))


def _meetings(env: Environment, prepared: Sequence[Prepared]) -> dict[str, list[Meeting]]:
    """The collectives of each stream in order, which all ranks come to."""
    first = prepared[0].meetings
    for number, one in enumerate(prepared):
        for stream in {**first, **one.meetings}:
            own, expected = one.meetings.get(stream, 0), first.get(stream, 0)
            text = f"{expected} collectives on {stream}, as rank 0 has"
            require(own == expected, f"rank {number}", "program", own, text)
    size = len(prepared)
    return {name: [Meeting(env, size) for _ in range(count)] for name, count in first.items()}
