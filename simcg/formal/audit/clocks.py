"""Which operators of one item are done before others begin, with several streams."""

from __future__ import annotations

from dataclasses import dataclass

MAIN = 0
"""The stream that the item is recorded on."""


@dataclass(frozen=True, slots=True)
class Moment:
    """An operator in the order of its stream."""

    item: int
    stream: int
    tick: int


class Clocks:
    """Vector clocks of one item's streams; items follow each other on the main stream."""

    def __init__(self, item: int) -> None:
        self._item = item
        self._now: dict[int, dict[int, int]] = {MAIN: {MAIN: 1}}
        self._events: dict[int, dict[int, int]] = {}

    def tick(self, stream: int) -> Moment:
        """The stream is given an operator."""
        clock = self._now.setdefault(stream, {})
        clock[stream] = clock.get(stream, 0) + 1
        return Moment(self._item, stream, clock[stream])

    def signal(self, stream: int, event: int) -> None:
        """The event happens after all that the stream was given."""
        self._events[event] = dict(self._now.get(stream, {}))

    def wait(self, stream: int, event: int) -> None:
        """The stream goes on after the event; one of another item has happened."""
        clock = self._now.setdefault(stream, {})
        for other, tick in self._events.get(event, {}).items():
            clock[other] = max(clock.get(other, 0), tick)

    def forked(self, stream: int) -> bool:
        """Whether what the stream is given is part of the item."""
        return MAIN in self._now.get(stream, {})

    def ordered(self, moment: Moment, stream: int) -> bool:
        """Whether the item's operator is done before what the stream is given next."""
        return self._now.get(stream, {}).get(moment.stream, 0) >= moment.tick

    def unjoined(self) -> list[int]:
        """Streams with operators that the main stream does not wait for."""
        main = self._now[MAIN]
        return [
            stream
            for stream, clock in self._now.items()
            if clock.get(stream, 0) > main.get(stream, 0)
        ]
