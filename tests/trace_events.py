"""Is a file a trace of the Trace Event Format, as Perfetto and chrome://tracing read it?

Written from "Trace Event Format" (Google, 2016), for the phases X, C, i, M, s and f.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

Event = dict[str, Any]
REQUIRED = {
    "X": {"ts", "dur"}, "C": {"ts", "args"}, "i": {"ts", "s"}, "M": {"args"},
    "s": {"ts", "id", "cat"}, "f": {"ts", "id", "cat", "bp"},
}  # fmt: skip
ABOUT = {"process_name": "name", "thread_name": "name", "process_sort_index": "sort_index",
         "thread_sort_index": "sort_index"}  # fmt: skip


def read_trace(path: Path) -> list[Event]:
    """The events of the file."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    trace = json.loads(data)
    if set(trace) != {"displayTimeUnit", "traceEvents"} or trace["displayTimeUnit"] != "ns":
        raise ValueError("the head")
    events: list[Event] = trace["traceEvents"]
    return events


def faults(events: list[Event]) -> list[str]:
    """What is wrong with the trace; nothing if nothing is."""
    found: list[str] = []
    for event in events:
        missing = (
            {"ph", "pid", "tid", "name"} | REQUIRED.get(event.get("ph", ""), {"phase"})
        ) - set(event)
        if missing:
            found.append(f"{event} lacks {missing}")
        if event.get("ts", 0) < 0 or event.get("dur", 0) < 0:
            found.append(f"{event} is before 0")
    if not found:
        found += _names(events) + _nesting(events) + _counters(events) + _arrows(events)
    return found


def ns(event: Event, key: str = "ts") -> int:
    """The time of an event in nanoseconds."""
    microseconds: float = event[key]
    return round(microseconds * 1000)


def _names(events: list[Event]) -> list[str]:
    """Every track is named once, and metadata has its argument."""
    named: list[tuple[str, int, int]] = []
    found = []
    for event in events:
        if event["ph"] == "M":
            named.append((event["name"], event["pid"], event["tid"]))
            if set(event["args"]) != {ABOUT[event["name"]]}:
                found.append(f"{event} says nothing")
    if len(set(named)) != len(named):
        found.append("a track has two names")
    processes = {pid for name, pid, _ in named if name == "process_name"}
    threads = {(pid, tid) for name, pid, tid in named if name == "thread_name"}
    for event in events:
        if event["pid"] not in processes:
            found.append(f"{event} is of no process")
        if event["ph"] in "Xisf" and (event["pid"], event["tid"]) not in threads:
            found.append(f"{event} is of no thread")
    return found


def _tracks(events: list[Event], phase: str) -> dict[tuple[int, int, str], list[Event]]:
    """The events of a phase by track; counters of one process by name."""
    tracks: dict[tuple[int, int, str], list[Event]] = {}
    for event in events:
        if event["ph"] == phase:
            key = (
                (event["pid"], 0, event["name"])
                if phase == "C"
                else (event["pid"], event["tid"], "")
            )
            tracks.setdefault(key, []).append(event)
    return tracks


def _nesting(events: list[Event]) -> list[str]:
    """Spans of a thread come in the order of their starts and lie within what is still open."""
    found = []
    for track in _tracks(events, "X").values():
        open_until: list[int] = []
        before = 0
        for event in track:
            start, end = ns(event), ns(event) + ns(event, "dur")
            if start < before:
                found.append(f"{event} comes after a later one")
            before = start
            while open_until and open_until[-1] <= start:
                open_until.pop()
            if open_until and end > open_until[-1]:
                found.append(f"{event} outlives what holds it")
            open_until.append(end)
    return found


def _counters(events: list[Event]) -> list[str]:
    """The times of a counter do not fall, and its values are numbers."""
    found = []
    for track in _tracks(events, "C").values():
        times = [ns(event) for event in track]
        if times != sorted(times):
            found.append(f"{track[0]['name']} goes back")
        for event in track:
            if not all(isinstance(value, int | float) for value in event["args"].values()):
                found.append(f"{event} counts no number")
    return found


def _arrows(events: list[Event]) -> list[str]:
    """Each arrow has one start and one later end, both inside a span of their thread."""
    spans = _tracks(events, "X")
    starts = {e["id"]: e for e in events if e["ph"] == "s"}
    ends = {e["id"]: e for e in events if e["ph"] == "f"}
    found = []
    both = [e for e in events if e["ph"] in "sf"]
    if set(starts) != set(ends) or len(both) != 2 * len(starts):
        found.append("arrows without both ends")
    for number in set(starts) & set(ends):
        if ns(starts[number]) > ns(ends[number]):
            found.append(f"arrow {number} points back")
    for tip in both:
        around = spans.get((tip["pid"], tip["tid"], ""), [])
        if not any(ns(s) <= ns(tip) <= ns(s) + ns(s, "dur") for s in around):
            found.append(f"{tip} is outside every span")
    return found
