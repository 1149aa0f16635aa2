"""A case: one program, how it is captured, and a trace of steps; it reads and writes JSON."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

from simcg.backend import backend_named
from simcg.formal.program import Kind, Op, Program
from simcg.formal.setting import Room, Setting
from simcg.formal.step import Request, Step
from simcg.ladder import AdmissionRule, Bucket, Ladder


@dataclass(frozen=True, slots=True)
class Case:
    """What the model and a real backend both run.

    ``returns``: breaks return their result, instead of writing into an argument. ``in_pool``: the
    forward returns its last tensor, instead of a copy in the runner's buffer. ``seed``: of the
    generator and of the poison. ``fails``: the capture of that place in the order breaks off at
    that operator, once.
    """

    setting: Setting
    steps: tuple[Step, ...]
    returns: bool = False
    in_pool: bool = False
    seed: int = 0
    fails: tuple[int, int] | None = None


def to_json(case: Case) -> dict[str, Any]:
    """Plain data, as JSON has it."""
    setting, rule = case.setting, case.setting.rule
    room = setting.room
    return {
        "backend": setting.backend.name,
        "program": [[op.kind, list(op.inputs), op.breaks, op.side] for op in setting.program.ops],
        "ladder": [[b.num_tokens, b.slots] for b in setting.ladder.buckets],
        "order": list(setting.order),
        "max_ratio": None if rule.max_ratio is None else str(rule.max_ratio),
        "eager_ranges": [list(pair) for pair in rule.eager_ranges],
        "modes": list(setting.modes),
        "room": [room.tokens, room.slots, room.rows, room.length],
        "steps": [
            [step.mode, [[r.row, r.name, r.context, r.query] for r in step.requests]]
            for step in case.steps
        ],
        "returns": case.returns,
        "in_pool": case.in_pool,
        "seed": case.seed,
        "fails": None if case.fails is None else list(case.fails),
    }


def from_json(data: dict[str, Any]) -> Case:
    """The case that ``to_json`` wrote."""
    ratio = data["max_ratio"]
    return Case(
        setting=Setting(
            program=Program(
                tuple(
                    Op(cast(Kind, kind), tuple(inputs), breaks, side)
                    for kind, inputs, breaks, side in data["program"]
                )
            ),
            backend=backend_named(data["backend"]),
            ladder=Ladder(tuple(Bucket(tokens, slots) for tokens, slots in data["ladder"])),
            order=tuple(data["order"]),
            room=Room(*data["room"]),
            rule=AdmissionRule(
                None if ratio is None else Fraction(ratio),
                tuple((low, high) for low, high in data["eager_ranges"]),
            ),
            modes=tuple(data["modes"]),
        ),
        steps=tuple(
            Step(tuple(Request(*request) for request in requests), mode)
            for mode, requests in data["steps"]
        ),
        returns=data["returns"],
        in_pool=data["in_pool"],
        seed=data["seed"],
        fails=None if data["fails"] is None else (data["fails"][0], data["fails"][1]),
    )
