"""Random cases by seed: programs of all operators, ladders, rules, orders of capture and traces."""

from __future__ import annotations

import random
from fractions import Fraction

from real_gpu.conformance.case import Case
from simcg.backend import backend_named
from simcg.formal.program import (
    IN_PLACE,
    KINDS,
    ONLY_AS_BREAK,
    TWO_INPUTS,
    Kind,
    Op,
    Program,
    makes_tensor,
)
from simcg.formal.setting import Room, Setting
from simcg.formal.step import Request, Step
from simcg.ladder import AdmissionRule, Bucket, Ladder

MOST_OPS = 10
ROOM = Room(tokens=8, slots=3, rows=3, length=9)
OFTEN: tuple[Kind, ...] = (*KINDS, "scatter", "attend", "attend")
"""What programs are made of: attention needs a cache that was written before it."""
UNMARKED = 0.03
"""Share of the operators that only breaks can run, without a mark: captures must refuse them."""
RARE = 0.15
"""How often a program without breaks keeps one of these: then it is refused as a whole."""


def case_of(seed: int, backend: str) -> Case:
    """The case of that number."""
    rng = random.Random(f"{backend} {seed}")
    program, kind = program_of(rng, backend), backend_named(backend)
    ladder = ladder_of(rng, slots=kind.uses_slots)
    order = list(range(len(ladder)))
    rng.shuffle(order)
    modes = (0, 1) if any(op.kind == "launch" for op in program.ops) else (0,)
    breaks_off = kind.captures and not kind.compiles and rng.random() < 0.1
    fails = (rng.randrange(len(order)), rng.randrange(len(program.ops))) if breaks_off else None
    setting = Setting(program, kind, ladder, tuple(order), ROOM, rule_of(rng), modes)
    return Case(
        setting,
        steps_of(rng, modes, ladder),
        returns=rng.random() < 0.5,
        in_pool=rng.random() < 0.3,
        seed=seed,
        fails=fails,
    )


def program_of(rng: random.Random, backend: str) -> Program:
    """One to ten operators; what only breaks can run is rare where there are none."""
    while True:
        ops = _ops(rng, rng.randint(1, MOST_OPS), backend)
        if any(makes_tensor(op) for op in ops):
            return Program(ops)


def _ops(rng: random.Random, count: int, backend: str) -> tuple[Op, ...]:
    ops: list[Op] = []
    made, cached = [0], False
    while len(ops) < count:
        kind = rng.choice(OFTEN)
        if (kind == "attend" and not cached) or (kind in IN_PLACE and len(made) == 1):
            continue
        only = kind in ONLY_AS_BREAK
        if only and backend == "full" and rng.random() >= RARE:
            continue
        # the eager backend refuses nothing, and would run unmarked ones at the bucket's size
        unmarked = rng.random() < UNMARKED and backend != "eager"
        breaks = not unmarked if only else rng.random() < 0.25
        ops.append(Op(kind, _inputs(rng, kind, made), breaks,
                      side=kind == "gemm" and not breaks and rng.random() < 0.4))  # fmt: skip
        cached |= kind == "scatter"
        if makes_tensor(ops[-1]):
            made.append(len(ops))
    return tuple(ops)


def _inputs(rng: random.Random, kind: Kind, made: list[int]) -> tuple[int, ...]:
    """Of the tensors made so far, late ones more often."""
    count = 2 if kind in TWO_INPUTS else 1
    recent = [made[-1 - min(int(rng.expovariate(0.7)), len(made) - 1)] for _ in range(count)]
    if kind in IN_PLACE and recent[0] == 0:
        recent[0] = made[-1]
    return tuple(recent)


def ladder_of(rng: random.Random, *, slots: bool) -> Ladder:
    """One to three buckets, at most as large as the largest step."""
    most = ROOM.tokens - rng.randint(0, 2)
    sizes = sorted(rng.sample(range(1, most + 1), rng.randint(1, 3)))
    if not slots:
        return Ladder.of(sizes)
    pairs = {(size, rng.randint(1, ROOM.slots)) for size in sizes}
    pairs |= {(sizes[-1], ROOM.slots)}
    return Ladder(tuple(Bucket(*pair) for pair in sorted(pairs)))


def rule_of(rng: random.Random) -> AdmissionRule:
    """Mostly none; else a guard, or a range that runs eager."""
    if rng.random() < 0.6:
        return AdmissionRule()
    ratio = rng.choice([None, Fraction(2), Fraction(3, 2)])
    low = rng.randint(1, ROOM.tokens)
    ranges = ((low, min(low + 1, ROOM.tokens)),) if rng.random() < 0.4 else ()
    return AdmissionRule(ratio, ranges)


def steps_of(rng: random.Random, modes: tuple[int, ...], ladder: Ladder) -> tuple[Step, ...]:
    """Up to twelve steps; sequences go on, or give their row to another.

    A third of the steps aim at filling a bucket.
    """
    lengths, names, fresh_name = [0] * ROOM.rows, list(range(ROOM.rows)), ROOM.rows
    steps: list[Step] = []
    for _ in range(rng.randint(4, 12)):
        fills = rng.random() < 1 / 3
        bucket = rng.choice(ladder.buckets)
        room = bucket.num_tokens if fills else rng.randint(1, ROOM.tokens)
        most = min(bucket.slots if fills and bucket.slots else rng.randint(1, ROOM.slots), room)
        requests: list[Request] = []
        for place, row in enumerate(rng.sample(range(ROOM.rows), most)):
            if lengths[row] and (rng.random() < 0.15 or lengths[row] == ROOM.length):
                lengths[row], names[row], fresh_name = 0, fresh_name, fresh_name + 1
            others = most - place - 1  # a token is left for each
            limit = min(room - others, ROOM.length - lengths[row])
            query = limit if fills and not others else rng.randint(1, limit)
            requests.append(Request(row, names[row], lengths[row], query))
            lengths[row] += query
            room -= query
        steps.append(Step(tuple(requests), rng.choice(modes)))
    return tuple(steps)
