"""A start-up as tracks of a timeline."""

from __future__ import annotations

from simcg.des.capture.startup import StartupRun
from simcg.report.timeline import Timeline

PROCESS = "start-up"


def add_startup(timeline: Timeline, run: StartupRun, at_ns: int = 0, of: str = "") -> None:
    """Spans of buckets and their stages, and counters of bytes, from ``at_ns`` on.

    ``of``: what tells them from those of another start-up, such as `` of decodes``.
    """
    track = f"capture{of}"
    for shape in run.shapes:
        start, lasts = at_ns + shape.start_ns, shape.end_ns - shape.start_ns
        timeline.span(PROCESS, track, f"bucket {shape.tokens}", start, lasts)
        timeline.counter(PROCESS, f"pool{of} (bytes)", at_ns + shape.end_ns, shape.pool_bytes)
        timeline.counter(PROCESS, f"graphs{of} (bytes)", at_ns + shape.end_ns, shape.graph_bytes)
    for stage in run.stages:
        start, lasts = at_ns + stage.start_ns, stage.end_ns - stage.start_ns
        timeline.span(PROCESS, track, stage.activity, start, lasts)
