"""Edits of the clean recording: wrong ones, which a checker must tell, and right ones."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from simcg.formal.recording import (
    Argument,
    Break,
    Op,
    Part,
    Recording,
    Recordings,
    Region,
    Segment,
    Storage,
)
from tests.recordings import (
    BUF,
    COLUMNS,
    IDS,
    KV,
    LARGE,
    MIXED,
    OUT,
    POOL,
    ROW,
    SIDE,
    SMALL,
    TMP,
    TMP2,
    WIDE,
    Edit,
    H,
    Q,
    W,
    both,
    columns,
    dropped,
    events,
    inserted,
    item,
    nodes,
    on_capture,
    op,
    storage,
    whole,
)


@dataclass(frozen=True)
class Wrong:
    """An edit, the findings that it must lead to as ``I5 violated``, and words of the first."""

    edit: Edit
    found: frozenset[str]
    words: tuple[str, ...] = ()


def wrong(edit: Edit, found: str, *words: str) -> Wrong:
    """``found``: findings parted by commas."""
    return Wrong(edit, frozenset(part.strip() for part in found.split(",")), words)


def big(index: int) -> Region:
    """What the larger bucket uses of a storage."""
    return whole(index, 8)


def stored(index: int) -> Op:
    """An operator that writes it."""
    return Op("aten.fill_.Scalar", (), (big(index),))


OTHERS = Storage(16 * ROW, POOL + 0xC00, "outside")
"""The larger bucket's ``SIDE``, as the smaller one meets it, whose own lies elsewhere."""


def meets_other_bucket(gone: bool) -> Edit:
    """The smaller bucket reads memory that the larger one's capture allocated in the pool."""

    def change(recording: Recording) -> Recording:
        *others, side = recording.storages
        moved, met = replace(side, address=POOL + 0x2000), replace(OTHERS, gone=gone)
        with_it = replace(recording, storages=(*others, moved, met))
        read = Op("aten.add.Tensor", (Region(12, 0, 64),), (whole(OUT, 4),))
        last = with_it.items[4]
        assert isinstance(last, Segment)
        longer = replace(last, nodes=4, events=(*last.events[:-2], read, *last.events[-2:]))
        return replace(with_it, items=(*with_it.items[:4], longer))

    return on_capture(SMALL, change)


def twice(change: Edit) -> Edit:
    """A bucket captured a second time, changed."""

    def edit(recordings: Recordings) -> Recordings:
        changed = change(recordings)
        return replace(recordings, captures=(recordings.captures[LARGE], changed.captures[LARGE]))

    return edit


def met_inside(recording: Recording) -> Recording:
    """Without a segment between the two breaks: the first did what it held."""
    attend, between = recording.items[1:3]
    longer = replace(attend, events=(*attend.events, *between.events))
    return replace(recording, items=(recording.items[0], longer, *recording.items[3:]))


def ends_in_a_break(recording: Recording) -> Recording:
    """The last segment and its storages are missing; what the first break gave is returned."""
    *rest, last = recording.items[:4]
    assert isinstance(last, Break)
    items = (*rest, replace(last, returns=()))
    storages = recording.storages[:BUF]
    return Recording("breakable", 8, 0, storages, items, big(MIXED))


def no_output(recording: Recording) -> Recording:
    return replace(recording, output=None)


def elsewhere(recordings: Recordings) -> Recordings:
    """The first capture is of another backend."""
    return on_capture(LARGE, lambda c: replace(c, group=1))(recordings)


def with_kept(recording: Recording) -> Recording:
    """Undeclared memory beside the rest: storage 12."""
    kept = Storage(16 * ROW, 0x6000, "outside")
    return replace(recording, storages=(*recording.storages, kept))


def carved(recordings: Recordings) -> Recordings:
    """Static input and output are the halves of one storage."""
    for number in (LARGE, SMALL):
        recordings = on_capture(number, _carved)(recordings)
    return recordings


def _carved(recording: Recording) -> Recording:
    halves = Part("static", "ids", 0, 8 * ROW), Part("output", "out", 8 * ROW, 8 * ROW)
    storages = list(recording.storages)
    storages[IDS] = Storage(16 * ROW, 0x1000, "outside", parts=halves)
    rows = recording.num_tokens * ROW
    out = Region(IDS, 8 * ROW, rows)
    last = recording.items[4]
    end = last.events[8]
    assert isinstance(end, Op)
    changed = (*last.events[:8], replace(end, writes=(out,)), *last.events[9:])
    items = (*recording.items[:4], replace(last, events=changed))
    return replace(recording, storages=tuple(storages), items=items, output=out)


ANYTHING = tuple(map(big, (IDS, W, H, Q, OUT)))
"""What an operator without a schema may read and write."""

WRONG: dict[str, Wrong] = {
    # I1
    "an undeclared tensor": wrong(
        storage(W, role="unknown", name=""), "I1 holds only while",
        "aten.mm.default", "storage 1", "0x2000",
    ),
    "an undeclared tensor that was freed": wrong(
        storage(W, role="unknown", name="", gone=True), "I1 violated", "freed", "item 0, event 1"
    ),
    "a declared tensor that was freed": wrong(
        storage(IDS, gone=True), "I1 violated", "static 'ids'", "aten.mm.default"
    ),
    "an undeclared tensor that a break is given": wrong(
        storage(KV, role="unknown", name=""), "I1 holds only while", "argument 2 of attend",
        "storage 2",
    ),
    "a tensor that was freed as its graphs were": wrong(
        both(storage(W, gone=True), on_capture(LARGE, lambda c: replace(c, released=True))),
        "I1 not decided", "constant 'w'", "so were the graphs",
    ),
    # I2
    "memory of the pool used while it is free": wrong(
        events(0, lambda e: [*e[:2], e[5], *e[2:5], e[6]]), "I2 violated", "aten.mm.default",
        "storage 4", "item 0, event 4",
    ),
    "memory of another bucket's capture": wrong(
        meets_other_bucket(gone=False), "I2 holds only while, I2 violated",
        "4 tokens", "storage 12", "8 tokens",
    ),
    "memory of another bucket's capture that was freed": wrong(
        meets_other_bucket(gone=True), "I2 violated", "storage 12"
    ),
    # I3
    "a break's result used where it was at capture": wrong(
        op(4, 1, reads=(big(TMP2),)), "I3 violated", "aten.relu_.default", "storage 9"
    ),
    "a break's result overwritten before it is read": wrong(
        both(storage(SIDE, address=POOL + 0x400),
             events(4, lambda e: [e[0], e[4], stored(SIDE), *e[1:4], *e[5:]]), nodes(4, 4)),
        "I3 violated", "aten.relu_.default", "storage 10", "aten.fill_.Scalar",
    ),
    "a break's result that no replay copies": wrong(
        item(3, returns=()), "I4 violated", "aten.relu_.default", "storage 10"
    ),
    "a cache of which a graph changes the copy": wrong(
        item(3, results=(Region(KV, 0, 8 * 2 * ROW),)), "I3 violated", "cache 'kv'",
        "aten.relu_.default", "a copy of memory that a break keeps",
    ),
    "memory that a break keeps and of which a graph changes the copy": wrong(
        both(on_capture(LARGE, with_kept), item(3, results=(Region(12, 0, 8 * 2 * ROW),))),
        "I3 not decided", "storage 12", "aten.relu_.default",
    ),
    # I4
    "a break that uses memory of the pool that it is not given": wrong(
        events(3, lambda e: [*e, Op("aten.neg.default", (big(MIXED),), (big(TMP2),))]),
        "I4 not decided", "storage 6", "add_one uses memory", "an argument of the break",
    ),
    "scratch that is read first": wrong(
        both(storage(OUT, role="scratch"), storage(OUT, SMALL, role="scratch"), nodes(0, 4),
             inserted(0, 0, Op("aten.add.Tensor", (big(OUT),), (big(KV),)))),
        "I4 violated", "a scratch tensor", "scratch 'out'",
    ),
    "a definition left out": wrong(
        both(dropped(0, 1), nodes(0, 2)), "I4 violated", "aten.mm.default", "storage 4"
    ),
    "half of the columns not written": wrong(
        both(dropped(2, 3), nodes(2, 1)), "I5 violated", "aten.add.Tensor", "storage 8"
    ),
    "columns read that the other bytes' write does not cover": wrong(
        both(dropped(2, 3),
             inserted(2, 3, Op("aten.neg_.default", (columns(8, ROW),), (columns(8, ROW),)))),
        "I4 violated", "aten.neg_.default", "storage 8", hex(POOL + ROW),
    ),
    "the last rows of columns not written": wrong(
        both(op(2, 2, writes=(columns(4, 0),)), nodes(2, 3),
             inserted(2, 3, Op("aten.neg_.default", (columns(8, 0),), (columns(8, 0),)))),
        "I4 violated", "aten.neg_.default", "storage 8", hex(POOL + 4 * COLUMNS),
    ),
    "a reader before its writer": wrong(
        events(0, lambda e: [e[0], e[2], e[3], e[1], *e[4:]]), "I4 violated", "item 0, event 2"
    ),
    "an output that is read first": wrong(
        both(inserted(0, 0, Op("aten.add.Tensor", (big(OUT),), (big(KV),))), nodes(0, 4)),
        "I4 violated", "output 'out'",
    ),
    "an operator that nobody knows": wrong(
        op(0, 3, name="mine.product", decided=False, reads=ANYTHING, writes=ANYTHING),
        "I4 not decided", "mine.product", "what it reads and writes is not known",
    ),
    "a break that did not run": wrong(
        item(1, ran=False, events=()), "I4 not decided", "attend"
    ),
    "scattered rows read as a whole": wrong(
        both(dropped(2, 3),
             inserted(2, 3, Op("aten.index_copy_.default", (big(WIDE),), (big(WIDE),)))),
        "I4 not decided", "aten.add.Tensor", "storage 8",
    ),
    "rows chosen among those that were not written": wrong(
        both(dropped(2, 3),
             inserted(2, 3, Op("aten.index_select.default", (big(WIDE),), (big(WIDE),)))),
        "I4 not decided", "aten.index_select.default", "storage 8",
    ),
    # I5
    "an argument from outside held weakly": wrong(
        both(item(1, arguments=(Argument("0", "weak", big(Q)), Argument("1", "weak", big(MIXED)),
                                Argument("2", "weak", big(KV)))),
             storage(KV, role="unknown", name="")),
        "I1 holds only while, I5 holds only while", "argument 2 of attend", "storage 2",
    ),
    "an argument from outside that was freed": wrong(
        both(item(1, arguments=(Argument("0", "weak", big(Q)), Argument("1", "weak", big(MIXED)),
                                Argument("2", "weak", big(KV)))),
             storage(KV, role="unknown", name="", gone=True)),
        "I1 violated, I5 violated", "argument 2 of attend", "freed", "storage 2", "0x4000",
    ),
    "an argument whose memory was handed on": wrong(
        both(storage(MIXED, address=POOL + 0x400), inserted(0, 7, stored(MIXED)), nodes(0, 4)),
        "I5 violated", "attend", "storage 5", "aten.fill_.Scalar (item 0, event 7)",
    ),
    "an argument whose memory was handed on and then written in part": wrong(
        both(storage(MIXED, address=POOL + 0x400), nodes(0, 5),
             inserted(0, 7, stored(MIXED), Op("aten.zero_.default", (), (Region(Q, 0, ROW),)))),
        "I5 violated", "attend", "storage 5", "aten.fill_.Scalar (item 0, event 7)",
    ),
    "an argument that nothing defines": wrong(
        both(dropped(0, 3, 4), nodes(0, 1), item(1, events=())), "I4 violated, I5 violated"
    ),
    # I6
    "a constant written": wrong(
        both(inserted(2, 2, stored(W)), nodes(2, 3)), "I6 violated", "constant 'w'",
        "aten.fill_.Scalar",
    ),
    "a constant written twice": wrong(
        both(inserted(2, 2, stored(W), stored(W)), nodes(2, 4)), "I6 violated",
        "item 2, event 2", "item 2, event 3",
    ),
    "a bucket's memory over what is used of a constant later": wrong(
        both(storage(SIDE, SMALL, address=0x2000 + 512),
             *(op(0, place, number, reads=(whole(IDS if place == 1 else H, tokens),
                                           Region(W, 512 * (place == 3), 512)))
               for place in (1, 3) for number, tokens in ((LARGE, 8), (SMALL, 4)))),
        "I6 violated", "constant 'w'", "item 0, event 3", "0x2200",
    ),
    "the smaller bucket's memory over a constant": wrong(
        storage(SIDE, SMALL, address=0x2000), "I6 violated", "constant 'w'", "aten.neg.default"
    ),
    "a bucket's memory over a constant of the other": wrong(
        storage(H, SMALL, address=0x2000 + 1024 - 64), "I6 violated", "constant 'w'"
    ),
    "what another bucket declares a constant": wrong(
        storage(KV, SMALL, role="constant"), "I6 violated", "constant 'kv'"
    ),
    # I11
    "a static input written": wrong(
        both(inserted(0, 0, stored(IDS)), nodes(0, 4)), "I11 violated", "static 'ids'",
        "aten.fill_.Scalar", "item 0, event 0",
    ),
    "a part of a storage that is a static input written": wrong(
        both(carved, inserted(0, 0, Op("aten.zero_.default", (), (Region(IDS, 0, 8 * ROW),))),
             nodes(0, 4)),
        "I11 violated", "tensor: static 'ids'", "aten.zero_.default",
    ),
    # I12
    "a capture in which nothing happened": wrong(
        on_capture(LARGE, lambda c: replace(c, items=(Segment(0),), storages=c.storages[:4])),
        "I12 not decided, I14 violated", "what other threads launch is not seen",
    ),
    "memory that a kernel may have written that nobody saw": wrong(
        dropped(0, 1), "I4 not decided, I12 not decided", "aten.mm.default", "none accounts for"
    ),
    "an output that a kernel may have written that nobody saw": wrong(
        dropped(4, 8), "I12 not decided, I14 not decided", "output 'out'"
    ),
    "a kernel that nobody saw": wrong(nodes(0, 4), "I12 not decided", "segment", "item 0"),
    "a kernel that is not in the graph": wrong(nodes(0, 2), "I12 violated", "segment", "item 0"),
    "a stream that was not forked": wrong(
        both(dropped(4, 2, 3), op(4, 3, nodes=0), nodes(4, 2)), "I12 violated", "stream 1",
        "aten.neg.default",
    ),
    "a fork that was not seen": wrong(
        dropped(4, 2, 3), "I12 not decided", "stream 1", "aten.neg.default"
    ),
    "a stream that is not joined": wrong(
        dropped(4, 6, 7), "I12 violated, I21 violated", "stream 1"
    ),
    "an operator without a kernel": wrong(
        both(op(0, 1, nodes=0), nodes(0, 2)), "I12 not decided", "aten.mm.default"
    ),
    # I13
    "a break inside a break": wrong(
        on_capture(LARGE, met_inside), "I4 not decided, I13 violated", "add_one", "attend", "item 2"
    ),
    "nothing after a break": wrong(
        on_capture(LARGE, ends_in_a_break), "I13 violated", "add_one", "item 3"
    ),
    # I14
    "an output that no replay writes": wrong(
        both(dropped(4, 8), nodes(4, 2)), "I14 violated", "output 'out'"
    ),
    "an output that is overwritten": wrong(
        both(on_capture(LARGE, lambda c: replace(c, output=big(MIXED))),
             inserted(4, 9, Op("aten.neg.default", (big(BUF),), (big(SIDE),))), nodes(4, 4),
             storage(SIDE, address=POOL + 0x800)),
        "I14 violated", "storage 6", "aten.neg.default",
    ),
    "an output that is written in part": wrong(
        op(4, 8, writes=(whole(OUT, 4),)), "I14 not decided", "output 'out'"
    ),
    "an output that nobody declared": wrong(on_capture(LARGE, no_output), "I14 not decided"),
    # I16
    "a bucket captured twice with other operators": wrong(
        twice(both(inserted(0, 0, stored(KV)), nodes(0, 4))), "I16 violated",
        "aten.fill_.Scalar here, and aten.mm.default in another capture",
    ),
    "a bucket captured twice of which one has less": wrong(
        twice(both(dropped(4, 8), nodes(4, 2))), "I16 violated, I14 violated",
        "nothing more here, and aten.sum.out",
    ),
    "buckets with other operators": wrong(
        both(inserted(0, 0, stored(KV)), nodes(0, 4)), "I16 not decided",
        "aten.mm.default here, and aten.fill_.Scalar in the capture of 8 tokens",
    ),
    "a bucket with other operators in another backend": wrong(
        twice(both(inserted(0, 0, stored(KV)), nodes(0, 4), elsewhere)), "I16 not decided",
        "of another backend: one forward, or two?",
    ),
    "a bucket with other operators before its graphs were released": wrong(
        both(twice(both(inserted(0, 0, stored(KV)), nodes(0, 4))),
             on_capture(LARGE, lambda c: replace(c, released=True))),
        "I16 not decided", "before its graphs were released",
    ),
    # I17
    "equal buckets that use other rows": wrong(
        twice(op(0, 1, reads=(Region(IDS, ROW, 7 * ROW), big(W)))), "I17 violated",
        "where mm reads static 'ids'", "(0, 256)", "(32, 224)",
    ),
    "equal buckets that use other rows of the pool": wrong(
        twice(op(0, 3, reads=(Region(H, ROW, 7 * ROW), big(W)))), "I17 violated",
        "where mm reads storage 4",
    ),
    "other constants in another backend": wrong(
        twice(both(op(0, 3, baked={"scale": 0.3}), op(2, 3, baked={"end": 7}), elsewhere)),
        "I17 not decided", "scale", "and 1 more", "of another backend",
    ),
    "rows that no size explains": wrong(
        op(0, 1, SMALL, reads=(Region(IDS, 3 * ROW, 4 * ROW), whole(W, 4))), "I17 not decided",
        "where mm reads static 'ids'", "(0, 256) at 8 tokens, (96, 128) at 4 tokens",
    ),
    "a baked value that no size explains": wrong(
        op(0, 3, baked={"scale": 0.3}), "I17 not decided", "scale", "0.3 at 8 tokens",
        "0.5 at 4 tokens",
    ),
    "equal buckets with other constants": wrong(
        twice(op(0, 3, baked={"scale": 0.3})), "I17 violated", "scale"
    ),
    "a value of the host": wrong(
        storage(W, place="host", role="unknown", name=""), "I17 not decided", "aten.mm.default"
    ),
    # I21
    "a write after the event that a side stream waits for": wrong(
        events(4, lambda e: [e[0], e[2], e[1], *e[3:]]), "I21 violated", "stream 1",
        "aten.relu_.default",
    ),
    "a write that a side stream does not wait for": wrong(
        events(4, lambda e: [e[0], e[2], e[3], e[1], *e[4:]]), "I21 violated", "stream 1",
        "aten.relu_.default",
    ),
}  # fmt: skip
"""By what is wrong. Each is an edit of the clean recording."""

RIGHT: dict[str, Edit] = {
    "as it is": both(),
    "a tensor by two names": on_capture(
        SMALL,
        lambda c: replace(c, storages=(*c.storages, Storage(1024, 0x2000, "outside", "constant"))),
    ),
    "rows that a break leaves alone": events(
        1, lambda e: [e[0], Op("aten.copy_.default", (big(TMP),), (Region(MIXED, 0, ROW),))]
    ),
    "a smaller bucket elsewhere": both(
        *(
            storage(index, SMALL, address=POOL + 0x4000 + 0x400 * index)
            for index in (H, Q, MIXED, WIDE, BUF, SIDE)
        )
    ),
    "two tensors of one storage": carved,
    "a break that returns what it made": both(
        *(item(3, number, results=(whole(TMP2, tokens),)) for number, tokens in ((0, 8), (1, 4)))
    ),
    "scratch that is written first": both(
        storage(OUT, role="scratch"), storage(OUT, SMALL, role="scratch")
    ),
    "rows of the input returned": both(
        *(
            on_capture(number, lambda c: replace(c, output=whole(IDS, c.num_tokens)))
            for number in (LARGE, SMALL)
        )
    ),
    "a bucket captured twice": twice(both()),
    "an object that a break is given": item(
        1,
        arguments=(
            Argument("0", "weak", big(Q)),
            Argument("1", "weak", big(MIXED)),
            Argument("2", "strong", big(KV)),
            Argument("3", "object", None, "Plan"),
        ),
    ),
    "another model in another backend": twice(elsewhere),
    "values that are the same": op(0, 3, baked={"scale": 0.5}),
}
"""Edits of the clean recording after which it is as right as before."""
