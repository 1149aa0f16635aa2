"""Timelines as Chrome trace-event JSON, which Perfetto and chrome://tracing open.

The format: "Trace Event Format", Google, 2016. Times are microseconds there; the three digits
after the point keep our nanoseconds.
"""

from __future__ import annotations

import gzip
import json
import math
from array import array
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import IO

import numpy as np

from simcg.errors import InputError, require

Value = int | float
Args = Mapping[str, str | int | float | bool]
ENDINGS = (".json", ".json.gz")
BATCH = 4096
"""Events that are written at once."""


class Timeline:
    """Spans, counters, marks and arrows on named tracks, kept as columns.

    A track is a process and a thread by name, shown in the order of first use. All times are
    integer nanoseconds >= 0. Spans of one thread must nest or follow each other.
    """

    def __init__(self) -> None:
        self._ids: dict[tuple[str, str | None], int] = {}
        self._names: dict[str, int] = {}
        self._args: list[str] = []
        self._spans = _Columns()
        self._marks = _Columns()
        self._counters = _Columns()
        self._values = array("d")
        self._arrows = _Columns()

    def __len__(self) -> int:
        """Events so far, names of tracks not counted; an arrow is two."""
        return sum(len(c.at) for c in (self._spans, self._marks, self._counters, self._arrows))

    def span(  # noqa: PLR0913, PLR0917  a span is that many things
        self,
        process: str,
        thread: str,
        name: str,
        start_ns: int,
        duration_ns: int,
        args: Args | None = None,
    ) -> None:
        """Something that lasts, on the thread's track."""
        if duration_ns < 0:
            raise ValueError(f"span {name!r} lasts {duration_ns} ns")
        self._spans.add(self._track(process, thread), self._name(name), start_ns, duration_ns)
        self._spans.more.append(self._detail(args))

    def mark(
        self, process: str, thread: str, name: str, at_ns: int, args: Args | None = None
    ) -> None:
        """Something that happens at one moment, on the thread's track."""
        self._marks.add(self._track(process, thread), self._name(name), at_ns, 0)
        self._marks.more.append(self._detail(args))

    def counter(self, process: str, name: str, at_ns: int, value: Value) -> None:
        """The value of a counter from ``at_ns`` on, drawn as a track of the process."""
        if not math.isfinite(value):
            raise ValueError(f"counter {name!r} is {value}")
        self._counters.add(self._track(process, None), self._name(name), at_ns, 0)
        self._counters.more.append(len(self._values))
        self._values.append(value)

    def arrow(self, name: str, start: tuple[str, str, int], end: tuple[str, str, int]) -> None:
        """An arrow between the spans that hold two (process, thread, moment in ns)."""
        number = len(self._arrows.at) // 2
        for process, thread, at_ns in (start, end):
            self._arrows.add(self._track(process, thread), self._name(name), at_ns, 0)
            self._arrows.more.append(number)

    def events(self) -> Iterator[str]:
        """Every event as one JSON object: names of tracks, then spans, marks, counters, arrows.

        Each kind is in the order of its tracks and times, an outer span before what it holds.
        """
        names = [json.dumps(name) for name in self._names]
        processes = {process: number for (process, _), number in reversed(self._ids.items())}
        place = {number: f'"pid":{processes[p]},"tid":{number}' for (p, _), number in
                 self._ids.items()}  # fmt: skip
        yield from self._tracks(processes)
        for i in self._spans.in_order():
            track, name, at, lasts, more = self._spans.row(i)
            yield (f'{{"ph":"X","name":{names[name]},{place[track]},"ts":{_us(at)}'
                   f',"dur":{_us(lasts)}{self._args[more] if more >= 0 else ""}}}')  # fmt: skip
        for i in self._marks.in_order():
            track, name, at, _, more = self._marks.row(i)
            yield (f'{{"ph":"i","s":"t","name":{names[name]},{place[track]},"ts":{_us(at)}'
                   f'{self._args[more] if more >= 0 else ""}}}')  # fmt: skip
        for i in self._counters.in_order():
            track, name, at, _, more = self._counters.row(i)
            yield (f'{{"ph":"C","name":{names[name]},{place[track]},"ts":{_us(at)}'
                   f',"args":{{"value":{_number(self._values[more])}}}}}')  # fmt: skip
        for i in range(len(self._arrows.at)):
            track, name, at, _, more = self._arrows.row(i)
            phase = '"ph":"f","bp":"e"' if i % 2 else '"ph":"s"'
            yield (f'{{{phase},"cat":"arrow","id":{more},"name":{names[name]},{place[track]}'
                   f',"ts":{_us(at)}}}')  # fmt: skip

    def _tracks(self, processes: dict[str, int]) -> Iterator[str]:
        for process, number in sorted(processes.items(), key=lambda pair: pair[1]):
            yield _about("process_name", number, number, f'"name":{json.dumps(process)}')
            yield _about("process_sort_index", number, number, f'"sort_index":{number}')
        for (process, thread), number in self._ids.items():
            if thread is not None:
                pid = processes[process]
                yield _about("thread_name", pid, number, f'"name":{json.dumps(thread)}')
                yield _about("thread_sort_index", pid, number, f'"sort_index":{number}')

    def _track(self, process: str, thread: str | None) -> int:
        """A number for the track; a process has the lowest of its tracks' as its own."""
        return self._ids.setdefault((process, thread), len(self._ids) + 1)

    def _name(self, name: str) -> int:
        return self._names.setdefault(name, len(self._names))

    def _detail(self, args: Args | None) -> int:
        if not args:
            return -1
        self._args.append(f',"args":{json.dumps(dict(args), allow_nan=False)}')
        return len(self._args) - 1


class _Columns:
    """Events of one kind, 32 bytes each; ``more`` points at what only some of them have."""

    def __init__(self) -> None:
        self.track, self.name, self.more = array("i"), array("i"), array("q")
        self.at, self.lasts = array("q"), array("q")

    def add(self, track: int, name: int, at_ns: int, lasts_ns: int) -> None:
        if at_ns < 0:
            raise ValueError(f"an event at {at_ns} ns")
        self.track.append(track)
        self.name.append(name)
        self.at.append(at_ns)
        self.lasts.append(lasts_ns)

    def in_order(self) -> list[int]:
        """By track and time; at one time the longest first, then in the order of adding."""
        columns = (np.asarray(self.lasts), np.asarray(self.at), np.asarray(self.track))
        order: list[int] = np.lexsort((-columns[0], columns[1], columns[2])).tolist()
        return order

    def row(self, i: int) -> tuple[int, int, int, int, int]:
        return self.track[i], self.name[i], self.at[i], self.lasts[i], self.more[i]


def check_timeline(path: Path) -> None:
    """``InputError`` unless a timeline could be written there: the file's ending and folder."""
    right = path.name.endswith(ENDINGS)
    require(right, "--timeline", "", str(path), "a file ending in " + " or ".join(ENDINGS))
    require(path.parent.is_dir(), "--timeline", "", str(path), "a file in a folder that exists")


def write_timeline(path: Path, timeline: Timeline) -> None:
    """Write the timeline, whole or not at all; gzipped where the name ends in .gz.

    The same timeline gives the same bytes. Raises ``InputError`` if it cannot be written.
    """
    check_timeline(path)
    part = path.with_name(path.name + ".part")
    try:
        with part.open("wb") as file:
            if path.suffix == ".gz":
                with gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0) as packed:
                    _write(packed, timeline)
            else:
                _write(file, timeline)
        part.replace(path)
    except OSError as error:
        expected = f"a writable file ({error.strerror})"
        raise InputError("--timeline", "", str(path), expected) from None
    finally:
        with suppress(OSError):  # the first error is the one to tell
            part.unlink(missing_ok=True)


def _write(file: IO[bytes] | gzip.GzipFile, timeline: Timeline) -> None:
    file.write(b'{"displayTimeUnit":"ns","traceEvents":[\n')
    events = timeline.events()
    before = ""
    while batch := list(islice(events, BATCH)):
        file.write((before + ",\n".join(batch)).encode())
        before = ",\n"
    file.write(b"\n]}\n")


def _us(ns: int) -> str:
    return f"{ns // 1000}.{ns % 1000:03d}"


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(value)


def _about(kind: str, pid: int, tid: int, args: str) -> str:
    return f'{{"ph":"M","name":"{kind}","pid":{pid},"tid":{tid},"ts":0,"args":{{{args}}}}}'
