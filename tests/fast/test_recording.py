"""A recording is data: what is written is read back, and what is wrong with a file is one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcg.errors import SimcgError
from simcg.formal.recording import (
    Allocate,
    Argument,
    Baked,
    Break,
    Event,
    Failure,
    Free,
    Item,
    Op,
    Part,
    Place,
    Recording,
    Region,
    Segment,
    Signal,
    Storage,
    Wait,
    decode_recordings,
    encode_recordings,
)

POOL, OUTSIDE = 0, 1

scalars = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=5)
numbers = scalars | st.floats(allow_nan=False, allow_infinity=False)
baked: st.SearchStrategy[Baked] = numbers | st.lists(numbers, max_size=3).map(tuple)


@st.composite
def regions(draw: st.DrawFn, storages: list[Storage]) -> Region:
    index = draw(st.integers(0, len(storages) - 1))
    offset = draw(st.integers(0, storages[index].bytes))
    return Region(index, offset, draw(st.integers(0, storages[index].bytes - offset)))


def parts_of_size(size: int) -> st.SearchStrategy[tuple[Part, ...]]:
    """Declared tensors at the beginning of a storage of that size."""
    some = st.builds(
        Part, st.sampled_from(("static", "scratch")), st.text(min_size=1, max_size=3), st.just(0),
        st.integers(0, size),
    )  # fmt: skip
    return st.lists(some, max_size=2).map(tuple)


@st.composite
def recordings(draw: st.DrawFn) -> Recording:
    """Storages inside and outside the pool, each of the pool's alive from some event on."""
    kinds: list[Place] = ["pool", "outside", "host"]
    places = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=5))
    sizes = [draw(st.integers(0, 2**40)) for _ in places]
    storages = [
        Storage(
            size,
            draw(st.integers(0, 2**48)),
            place,
            parts=draw(parts_of_size(size)) if place != "pool" else (),
            fresh=draw(st.booleans()),
            gone=draw(st.booleans()),
        )
        for size, place in zip(sizes, places, strict=True)
    ]
    ops = st.builds(
        Op,
        st.text(max_size=8),
        st.lists(regions(storages), max_size=2).map(tuple),
        st.lists(regions(storages), max_size=2).map(tuple),
        st.dictionaries(st.text(max_size=4), baked, max_size=2),
        st.integers(0, 3),
        st.booleans(),
        st.integers(0, 9),
    )
    waits = st.builds(Signal, st.integers(0, 3), st.integers(0, 9)) | st.builds(
        Wait, st.integers(0, 3), st.integers(0, 9)
    )
    events: list[Event] = list(draw(st.lists(ops | waits, max_size=4)))
    for index, storage in enumerate(storages):
        if storage.place == "pool":
            born = draw(st.integers(0, len(events)))
            events.insert(born, Allocate(index))
            if draw(st.booleans()):
                events.insert(draw(st.integers(born + 1, len(events))), Free(index))
    arguments = st.builds(
        Argument, st.text(max_size=3), st.sampled_from(("strong", "weak")), regions(storages)
    ) | st.builds(Argument, st.text(max_size=3), st.just("value"), st.none(), baked)
    objects = st.builds(Argument, st.just("2"), st.just("object"), st.none(), st.text(max_size=4))
    given_places = regions(storages)
    split = draw(st.integers(0, len(events)))
    items: tuple[Item, ...] = (
        Segment(draw(st.integers(0, 99)), tuple(events[:split])),
        Break(
            "f",
            tuple(draw(st.lists(arguments | objects, max_size=3))),
            results=tuple(draw(st.lists(given_places, max_size=2))),
            ran=draw(st.booleans()),
        ),
        Segment(1, tuple(events[split:])),
    )
    output = draw(st.none() | regions(storages))
    return Recording(
        "breakable", draw(st.integers(0, 9)), 0, tuple(storages), items, output,
        draw(st.integers(0, 3)), draw(st.booleans()),
    )  # fmt: skip


@given(st.lists(recordings(), max_size=3), st.sampled_from(("cpu", "cuda")))
def test_what_is_written_is_read_back(captures: list[Recording], device: str) -> None:
    failed = [Failure("full", 8, 0, "out of memory")]
    data = encode_recordings(captures, device, "2.11", failed)
    found = decode_recordings(data, "file")
    assert list(found.failed) == failed
    assert list(found.captures) == captures
    assert found.device == device
    assert encode_recordings(found.captures, found.device, found.torch, found.failed) == data


def example() -> dict[str, Any]:
    """A small file as a JSON document."""
    strided = Region(OUTSIDE, 0, 40, (3, 2), (16, 4))
    op = Op("aten.mm.default", (strided,), (Region(POOL, 0, 64),), {"alpha": 2.5})
    arguments = (Argument("0", "weak", Region(POOL, 0, 64)), Argument("1", "value", None, 7))
    items = (
        Segment(1, (Allocate(POOL), op)),
        Break("attend", arguments),
        Segment(0, (Free(POOL),)),
    )
    storages = (Storage(64, 4096, "pool"), Storage(48, 8192, "outside", "static", "ids"))
    data = encode_recordings([Recording("breakable", 4, 0, storages, items)], "cpu", "2.11")
    document: dict[str, Any] = json.loads(data)
    return document


PART = {"role": "static", "name": "x", "offset": 0, "bytes": 16}
Change = Callable[[dict[str, Any]], object]
WRONG: dict[str, tuple[Change, str]] = {
    "another version": (
        lambda d: d.update(version=1), "$.version is 1, expected recordings of simcg in version 2"
    ),
    "a missing field": (lambda d: d["captures"][0].pop("storages"), "storages"),
    "an unknown field": (lambda d: d["captures"][0].update(colour=1), "colour"),
    "a negative size": (
        lambda d: d["captures"][0]["storages"][0].update(bytes=-1),
        "$.captures[0].storages[0].bytes",
    ),
    "no such backend": (lambda d: d["captures"][0].update(backend="fast"), "'fast'"),
    "a region past its storage": (
        lambda d: d["captures"][0]["storages"][1].update(bytes=32), "ends at byte 40 of storage 1"
    ),
    "no such storage": (lambda d: d["captures"][0]["storages"].pop(), "storage 1 of a region"),
    "an event of no storage": (
        lambda d: d["captures"][0]["items"][2]["events"][0].update(storage=9),
        "storage 9 of an event",
    ),
    "a storage freed twice": (
        lambda d: d["captures"][0]["items"][2]["events"].append({"type": "free", "storage": 0}),
        "storage 0 is freed while it is not allocated",
    ),
    "a storage allocated twice": (
        lambda d: d["captures"][0]["items"][2]["events"].append({"type": "allocate", "storage": 0}),
        "storage 0 is allocated twice",
    ),
    "an allocation outside the pool": (
        lambda d: d["captures"][0]["items"][2]["events"].append({"type": "allocate", "storage": 1}),
        "storage 1 is in the outside",
    ),
    "pool memory with a role": (
        lambda d: d["captures"][0]["storages"][0].update(role="static"),
        "roles are for memory outside the pool",
    ),
    "a role of all of a storage that has parts": (
        lambda d: d["captures"][0]["storages"][1].update(parts=[PART]), "and it has parts"
    ),
    "a part that leaves its storage": (
        lambda d: d["captures"][0]["storages"].append(
            {"bytes": 8, "address": 0, "place": "outside", "parts": [PART]}
        ),
        "a region ends at byte 16 of storage 2",
    ),
    "an object with a region": (
        lambda d: d["captures"][0]["items"][1]["arguments"][0].update(held="object"),
        "0 is held object",
    ),
    "a region held as a value": (
        lambda d: d["captures"][0]["items"][1]["arguments"][0].update(held="value"),
        "0 is held value",
    ),
    "strides without a shape": (
        lambda d: d["captures"][0]["items"][0]["events"][1]["reads"][0].pop("shape"),
        "2 strides for 0 dimensions",
    ),
    "strides that leave the region": (
        lambda d: d["captures"][0]["items"][0]["events"][1]["reads"][0].update(bytes=36),
        "36 bytes end before the last element",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_file_is_one_line_with_the_file_and_the_field(case: str) -> None:
    change, expected = WRONG[case]
    document = example()
    decode_recordings(json.dumps(document).encode(), "r.json")
    change(document)
    with pytest.raises(SimcgError) as caught:
        decode_recordings(json.dumps(document).encode(), "r.json")
    text = str(caught.value)
    assert text.startswith("r.json: ")
    assert expected in text
    assert "\n" not in text


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b'{"a\\nb": 1}'])
def test_what_is_no_recording_is_one_line(data: bytes) -> None:
    with pytest.raises(SimcgError, match=r"^r\.json: .*expected recordings of simcg$"):
        decode_recordings(data, "r.json")


def test_a_region_with_gaps_knows_its_element() -> None:
    assert Region(0, 0, 40, (3, 2), (16, 4)).item_bytes == 4
    assert Region(0, 0, 48).item_bytes == 48
