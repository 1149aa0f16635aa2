"""A run of the machine on the tracks of a timeline: a process a rank, a thread a host or stream."""

from __future__ import annotations

from collections import Counter

from simcg.des.machine.run import StepRun
from simcg.report.timeline import Timeline


def add_step(timeline: Timeline, run: StepRun, at_ns: int = 0, label: str = "") -> None:
    """Put the spans of ``run`` on the timeline, from ``at_ns`` on, with arrows to what launches.

    Each rank has a counter of the launches that its streams have not started. ``label`` precedes
    the names of the ranks, where a timeline holds several machines.
    """
    calls: dict[tuple[int, int], tuple[int, int]] = {}  # when a call began, when it returned
    changes: dict[int, Counter[int]] = {}  # by rank and moment: launches that came less started
    begun: set[tuple[int, int]] = set()
    for span in run.spans:
        process, key = f"{label}rank {span.rank}", (span.rank, span.call)
        start, end = at_ns + span.start_ns, at_ns + span.start_ns + span.duration_ns
        timeline.span(
            process, span.stream or "host", span.name, start, span.duration_ns, {"kind": span.kind}
        )
        if not span.stream:
            calls[key] = (calls[key][0] if key in calls else start), end
        elif key not in begun:  # the first of a launch
            begun.add(key)
            began, returned = calls[key]
            timeline.arrow("launch", (process, "host", began), (process, span.stream, start))
            counts = changes.setdefault(span.rank, Counter())
            counts[returned] += 1
            counts[start] -= 1
    for rank, counts in sorted(changes.items()):
        depth = 0
        for moment, change in sorted(counts.items()):
            depth += change
            timeline.counter(f"{label}rank {rank}", "launches queued", moment, depth)
