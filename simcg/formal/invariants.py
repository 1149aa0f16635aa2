"""The 22 invariants of capture and replay, as named objects that checks and reports refer to.

Symbols: n real rows and m real sequences of a batch; a bucket b = (T, S); e, an epoch: one
replay; ``a`` an address; ``last(a)`` the tag of the last write to it, (tensor, bucket, epoch).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Invariant:
    """One law. ``key``: I1 to I22; ``sentence``: what holds; ``formula``: the same in symbols."""

    key: str
    name: str
    sentence: str
    formula: str


_ALL = (
    Invariant(
        "I1",
        "address stability",
        "Every pointer of a graph to memory outside it has its capture-time address at replay; "
        "otherwise the batch runs eager.",
        "replay(b, e) => for all external p of b: address(p, e) = address(p, capture)",
    ),
    Invariant(
        "I2",
        "boundary persistence",
        "A cell that a replay uses without defining it, and that is no static input, cache or "
        "state, stays allocated with its tag from capture until the graph is destroyed.",
        "used(a, b) and not defined(a, b) => live(a) and last(a) = (x, b, capture)",
    ),
    Invariant(
        "I3",
        "eager output in place",
        "A break's result is copied into the address that the next segment reads, in this epoch.",
        "reads(next, a) of a break's x => last(a) = (x, b, e)",
    ),
    Invariant(
        "I4",
        "reaching definition",
        "Whoever reads a tensor reads the value that the program last gave it: of this replay, of "
        "the capture where it persists, and the reference's where it is cache or state.",
        "read(x, a) in e => last(a) = (x, b, e), or (x, b, capture) for persistent x, or (x, e) "
        "for a static input",
    ),
    Invariant(
        "I5",
        "weak-reference safety",
        "A break's argument that is held weakly is defined earlier in the same replay, with no "
        "overlapping write in between, on an ordered stream.",
        "weak(x, a) at break k => last(a) = (x, b, e) at k",
    ),
    Invariant(
        "I6",
        "frame",
        "A replay writes its own footprint, cache of real rows, state of real sequences and the "
        "sink, and nothing else; persistent cells of any bucket and foreign blocks are outside.",
        "written(b, e) within pool(b) + kv(real) + state(real) + sink; "
        "footprint(b) and persistent(b') disjoint",
    ),
    Invariant(
        "I7",
        "padding inert",
        "Outputs, cache and state of real rows do not depend on what padding holds.",
        "agree(s, s') on real rows => agree(replay(s), replay(s')) on real rows",
    ),
    Invariant(
        "I8",
        "padding writes no cache",
        "The cache slot of every padded row is the sink, and the writer takes the sink for one.",
        "n <= i < T => slot(i) = sink and write(slot(i)) touches no real slot",
    ),
    Invariant(
        "I9",
        "sentinel neutral and fresh",
        "Unused request slots begin where the real rows end, have no length and a neutral index, "
        "and are rewritten before every replay.",
        "m <= j < S => offset(j) = offset(j+1) = n, length(j) = 0, tag = (x, e)",
    ),
    Invariant(
        "I10",
        "dispatch total and minimal",
        "Every batch gets the smallest bucket that holds it, as its admission rule says, or runs "
        "eager; never a smaller one.",
        "choose(n, m) = min {(T, S) : T >= n, S >= m} or eager",
    ),
    Invariant(
        "I11",
        "metadata fresh",
        "Every metadata cell that a replay reads was written in its epoch, before its first "
        "reader.",
        "read(meta, a) in e => last(a) = (meta, e)",
    ),
    Invariant(
        "I12",
        "order and completeness",
        "The items of a recording, one after the other, are the captured program; every kernel "
        "is in exactly one, on the capture stream or one forked from it and joined to it.",
        "concat(items) = program",
    ),
    Invariant(
        "I13",
        "nested breaks",
        "A break inside a break is a plain call, and an exception in a break restores the state "
        "of the capture.",
        "break within break => no item ends",
    ),
    Invariant(
        "I14",
        "output window",
        "A returned view holds its step's rows until the next replay that shares its buffer; "
        "later reads are errors.",
        "read(view of e) at e' => e' = e and last(a) = (out, e), rows 0..n",
    ),
    Invariant(
        "I15",
        "random numbers and state",
        "Random draws are those of the eager run, and state advances once for each real sequence "
        "and never for an empty slot.",
        "draw = R(seed, position) or drawn at n; state'(j) = S(state(j)) iff j < m",
    ),
    Invariant(
        "I16",
        "host determinism",
        "What the host decides during capture depends on the key alone; no value of the device "
        "is read.",
        "key = key' => capture(key) = capture(key')",
    ),
    Invariant(
        "I17",
        "key completeness",
        "Equal keys imply equal launch constants, or a baked constant that is a sound bound.",
        "key(batch) = key(batch') => constant = constant', or constant >= need(batch')",
    ),
    Invariant(
        "I18",
        "any order on one pool",
        "The result of a replay depends neither on which buckets ran before nor on the order of "
        "the captures.",
        "replay(b) after w = replay(b) after w'",
    ),
    Invariant(
        "I19",
        "collective lockstep",
        "All ranks run the same items: mode and bucket are functions of all-reduced values.",
        "items(rank 0) = ... = items(rank R-1)",
    ),
    Invariant(
        "I20",
        "capture atomic",
        "A failed capture leaves everything as it was on every rank; capture and warm-up touch "
        "the sink alone and restore random numbers and state.",
        "state after capture = state before",
    ),
    Invariant(
        "I21",
        "stream order",
        "With several streams every read has one last write before it, and the host rewrites a "
        "static input after the last replay that reads it.",
        "read(a) => one write(a) is maximal under happens-before",
    ),
    Invariant(
        "I22",
        "no lasting side effect",
        "Capturing a bucket changes nothing that another capture, replay or eager step observes.",
        "observe(after capture(b)) = observe(before), for all other b' and eager",
    ),
)

INVARIANTS: dict[str, Invariant] = {invariant.key: invariant for invariant in _ALL}
"""By key."""
