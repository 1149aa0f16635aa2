"""The formal model and the real backends agree on random programs, batches and traces."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install '.[gpu]'")

import torch

from real_gpu.conformance.__main__ import main
from real_gpu.conformance.arithmetic import WIDTH, Numbers, P
from real_gpu.conformance.case import Case, from_json, to_json
from real_gpu.conformance.check import check
from real_gpu.conformance.executor import Executor
from real_gpu.conformance.forward import KERNELS
from real_gpu.conformance.generate import ROOM, case_of
from real_gpu.conformance.poison import KINDS as POISONS
from real_gpu.conformance.poison import Poison
from real_gpu.conformance.report import BACKEND_NAMES, Report, replays
from real_gpu.conformance.run import disagreement, load, run_cases
from real_gpu.conformance.shrink import smallest
from real_gpu.graphs.cpu import RecordingCpuDevice
from real_gpu.graphs.device import CaptureError
from simcg.backend import BREAKABLE, FULL, TC_PIECEWISE, CaptureBackend
from simcg.formal.enumerate import Scope, programs
from simcg.formal.program import KINDS, Op, Program
from simcg.formal.reference import EMPTY, World, run
from simcg.formal.setting import Setting
from simcg.formal.step import Request, Step
from simcg.formal.terms import Terms
from simcg.ladder import Ladder

torch.set_num_threads(1)
CORPUS = sorted((Path(__file__).parent.parent / "corpus" / "conformance").glob("*.json"))
CASES = {"eager": 30, "full": 28, "breakable": 45, "tc_piecewise": 6}
"""About a thousand steps."""


def disagreements(backend: str, seeds: range) -> tuple[Report, list[str]]:
    """What differs in the cases of these seeds."""
    report, failures = run_cases(RecordingCpuDevice(), backend, seeds, lambda _: None)
    return report, [what for _, what in failures]


@pytest.mark.parametrize("backend", BACKEND_NAMES)
def test_model_and_backend_agree_on_random_cases(backend: str) -> None:
    """Outputs, caches, states, draws, metadata, dispatch, refusals and addresses are the same."""
    report, failures = disagreements(backend, range(CASES[backend]))
    assert not failures
    assert report.cases == CASES[backend]
    assert report.steps > 6 * report.cases
    assert set(report.poison) == set(POISONS)
    if report.cases >= 20:
        met = {kind for kind, _, where in report.covered if where != "fallback"}
        assert met == {kind for kind in KINDS if replays(kind, backend)}


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_a_case_that_once_told_something_agrees(path: Path) -> None:
    """Each killed a wrong version, or showed a fault that is mended."""
    assert check(load(path), RecordingCpuDevice()).steps


# numbers


def test_numbers_tell_the_terms_of_a_program_apart() -> None:
    """Equal numbers mean equal terms, but for chance."""
    scope = Scope(ops=2, breaks=1, tokens=2, sequences=2)
    steps = [Step((Request(0, 0, 0, 2), Request(1, 1, 0, 1))), Step((Request(0, 0, 2, 1),), 1)]
    terms, compared = Terms(), 0
    numbers = Numbers(terms, lambda index: (index * 37 + 11) % P)
    for program in programs(scope):
        values: set[int] = set()
        world: World = EMPTY
        for step in steps:
            rows, world = run(terms, program, step, world)
            values |= {*rows, *world.caches.values(), *world.states.values()}
        vectors = [numbers.of(value) for value in values]
        assert len(set(vectors)) == len(values), program
        assert all(len(v) == WIDTH and all(0 <= x < P for x in v) for v in vectors)
        compared += len(values)
    assert compared > 2000


def test_every_operator_of_the_model_has_a_kernel() -> None:
    assert set(KERNELS) == set(KINDS)


# what the two sides decide differently, and who is right


def refusing(op: Op, backend: CaptureBackend) -> Case:
    """A program of one operator, in a bucket of four; a step of two tokens and one of four."""
    slots = 1 if backend.uses_slots else None
    setting = Setting(Program((op,)), backend, Ladder.of([4], slots), (0,), ROOM)
    return Case(setting, (Step((Request(0, 0, 0, 2),)), Step((Request(1, 1, 0, 4),))))


@pytest.mark.parametrize("backend", [FULL, BREAKABLE, TC_PIECEWISE], ids=lambda b: b.name)
@pytest.mark.parametrize("kind", ["host", "draw"])
def test_what_needs_the_host_is_refused_by_both(kind: str, backend: CaptureBackend) -> None:
    """A host read, or a draw from a generator of one's own, outside a break; it runs eager."""
    op = next(Op(k, (0,)) for k in KINDS if k == kind)
    report = check(refusing(op, backend), RecordingCpuDevice())
    assert (report.refused, report.unseen) == (1, 0)
    assert report.reasons == Counter({"not captured": 2})


@pytest.mark.parametrize("backend", [FULL, BREAKABLE, TC_PIECEWISE], ids=lambda b: b.name)
def test_an_unmasked_mix_is_captured_and_then_wrong_where_there_is_padding(
    backend: CaptureBackend,
) -> None:
    """The model refuses it, the recording cannot know: the model is right. It is equal when the
    batch fills the bucket, and padding leaks when it does not.
    """
    case = refusing(Op("mix_all", (0,)), backend)
    assert check(case, RecordingCpuDevice()).unseen == 1
    padded, exact = outputs(case)
    terms = Terms()
    numbers = Numbers(terms, lambda _: 0)
    for found, step, same in zip((padded, exact), case.steps, (False, True), strict=True):
        rows, _ = run(terms, case.setting.program, step, EMPTY)
        expected = [list(map(float, numbers.of(row))) for row in rows]
        assert (found == expected) is same


def outputs(case: Case) -> list[list[list[float]]]:
    """What the real backend gives, without the model beside it."""
    real = Executor(case, RecordingCpuDevice())
    real.capture()
    poison = Poison(real, 0)
    return [real.step(step, poison).rows.tolist() for step in case.steps]


def test_a_draw_from_the_default_generator_in_a_graph_draws_for_padding_too() -> None:
    """No device refuses it, as replays advance that generator; the model does, and is right: the
    draws of a bucket of four are not those of a batch of two.
    """
    device, real = (
        RecordingCpuDevice(),
        Executor(refusing(Op("draw", (0,)), FULL), None or RecordingCpuDevice()),
    )
    assert device
    real.own_draws = torch.default_generator
    with pytest.raises(CaptureError, match="generator of its own"):
        real.capture()
    real.own_draws = None
    real.capture()
    before = torch.get_rng_state()
    real.step(Step((Request(0, 0, 0, 2),)), Poison(real, 0))
    after = torch.get_rng_state()
    drawn = []
    for count in (2, 4):
        torch.set_rng_state(before)
        for _ in range(count):
            torch.randint(P, (1,))
        drawn.append(torch.equal(torch.get_rng_state(), after))
    assert drawn == [False, True]


# cases


def test_a_case_reads_back_from_json_as_it_was() -> None:
    for backend in BACKEND_NAMES:
        for seed in range(40):
            case = case_of(seed, backend)
            assert from_json(to_json(case)) == case
            assert case_of(seed, backend) == case


def test_the_smallest_case_still_fails_and_nothing_can_be_left_out() -> None:
    """Shrinking on whether a program has a break over a state, and a step two requests."""

    def fails(case: Case) -> bool:
        ops = case.setting.program.ops
        wanted = any(op.kind == "state" and op.breaks for op in ops)
        return wanted and any(len(step.requests) == 2 for step in case.steps)

    rng = random.Random(5)
    found = 0
    for seed in rng.sample(range(10_000), 300):
        case = case_of(seed, "breakable")
        if not fails(case):
            continue
        found += 1
        small = smallest(case, fails)
        assert small.setting.program.ops == (Op("state", (0,), breaks=True),)
        assert [[r.query for r in step.requests] for step in small.steps] == [[1, 1]]
        assert len(small.setting.ladder) == 1
        assert small == replace(small, returns=False, in_pool=False)
    assert found > 5


# the command


def command(*arguments: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr("sys.argv", ["conformance", *arguments])
    with pytest.raises(SystemExit) as exit_:
        main()
    return int(str(exit_.value.code))


def test_the_command_prints_what_it_covered(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seeds, steps, and a row for each operator; exit code 0."""
    arguments = ("--backends", "eager", "--steps", "20")
    assert command(*arguments, monkeypatch=monkeypatch) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("eager: seeds 0 to 19, ")
    assert {line.split()[0] for line in lines} >= set(KINDS)
    assert lines[-1].startswith("0 disagreements")


def test_a_failure_is_told_and_saved_small(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 1; what is saved fails when it is read back, and not once the fault is mended."""
    arguments = ("--backends", "eager", "--steps", "20", "--failures", str(tmp_path))
    with pytest.MonkeyPatch.context() as wrong:
        wrong.setitem(KERNELS, "reduce", lambda _model, _k, x, *_: x + 1)
        assert command(*arguments, monkeypatch=monkeypatch) == 1
        saved = [load(path) for path in tmp_path.glob("*.json")]
        assert saved
        for case in saved:
            assert [op.kind for op in case.setting.program.ops] == ["reduce"]
            assert disagreement(case, RecordingCpuDevice())
    assert not any(disagreement(case, RecordingCpuDevice()) for case in saved)
    assert "reduce(ids)" in capsys.readouterr().out


def test_a_folder_that_is_none_is_refused_before_anything_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command("--failures", "/nowhere/at/all", monkeypatch=monkeypatch) == 2
    assert "--failures: got '/nowhere/at/all', expected a folder" in capsys.readouterr().err
