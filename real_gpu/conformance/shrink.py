"""Makes a failing case smaller, as long as it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from real_gpu.conformance.case import Case
from simcg.errors import SimcgError
from simcg.formal.program import Op, Program
from simcg.formal.setting import Setting
from simcg.formal.step import Request, Step
from simcg.ladder import AdmissionRule, Ladder


def smallest(case: Case, fails: Callable[[Case], bool]) -> Case:
    """A case that fails and of which no part can be left out; ``fails(case)`` must hold."""
    going = True
    while going:
        going = False
        for smaller in _smaller(case):
            if fails(smaller):
                case, going = smaller, True
                break
    return case


def _smaller(case: Case) -> Iterator[Case]:
    """Every case with one thing less, the largest things first."""
    setting, steps = case.setting, case.steps
    yield from _plainer(case)
    for program in _programs(setting.program):
        yield replace(case, setting=replace(setting, program=program))
    for index, step in enumerate(steps):
        for fewer in _fewer(step):
            others = (*steps[:index], *fewer, *steps[index + 1 :])
            if others:
                yield replace(case, steps=_going_on(others))
    if len(setting.ladder) > 1 and case.fails is None:
        for index in range(len(setting.ladder)):
            yield replace(case, setting=_without_bucket(setting, index))


def _plainer(case: Case) -> Iterator[Case]:
    """The case without one of its peculiarities."""
    if case.fails is not None:
        yield replace(case, fails=None)
    if case.setting.rule != AdmissionRule():
        yield replace(case, setting=replace(case.setting, rule=AdmissionRule()))
    if case.returns:
        yield replace(case, returns=False)
    if case.in_pool:
        yield replace(case, in_pool=False)


def _going_on(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The steps with every sequence going on where it now is."""
    lengths: dict[tuple[int, int], int] = {}
    mended = []
    for step in steps:
        requests = []
        for r in step.requests:
            context = lengths.get((r.row, r.name), 0) if r.context else 0
            requests.append(replace(r, context=context))
            lengths[r.row, r.name] = requests[-1].length
        mended.append(replace(step, requests=tuple(requests)))
    return tuple(mended)


def without_op(program: Program, index: int) -> Program | None:
    """The program without an operator, whose tensor its first input stands in for."""
    gone, stand_in = index + 1, program.ops[index].inputs[0]

    def moved(tensor: int) -> int:
        tensor = stand_in if tensor == gone else tensor
        return tensor - 1 if tensor > gone else tensor

    ops = [
        replace(op, inputs=tuple(moved(i) for i in op.inputs))
        for k, op in enumerate(program.ops)
        if k != index
    ]
    return _program(ops)


def _program(ops: list[Op]) -> Program | None:
    try:
        return Program(tuple(ops))
    except SimcgError:
        return None


def _programs(program: Program) -> Iterator[Program]:
    """Without an operator, or without a mark of one."""
    for index in reversed(range(len(program.ops))):
        shorter = without_op(program, index)
        if shorter is not None:
            yield shorter
    for index, op in enumerate(program.ops):
        plain = replace(op, breaks=False), replace(op, side=False)
        for other in plain:
            if other != op:
                yield Program((*program.ops[:index], other, *program.ops[index + 1 :]))


def _without_bucket(setting: Setting, index: int) -> Setting:
    buckets = setting.ladder.buckets[:index] + setting.ladder.buckets[index + 1 :]
    order = tuple(i - (i > index) for i in setting.order if i != index)
    return replace(setting, ladder=Ladder(buckets), order=order)


def _fewer(step: Step) -> Iterator[tuple[Step, ...]]:
    """Without the step, or the step with a request or a token less."""
    yield ()
    for index, r in enumerate(step.requests):
        before, after = step.requests[:index], step.requests[index + 1 :]
        if before or after:
            yield (replace(step, requests=(*before, *after)),)
        if r.query > 1:
            less = Request(r.row, r.name, r.context, r.query - 1)
            yield (replace(step, requests=(*before, less, *after)),)
