"""Predictions held against runs: exact where runs obey, missed where they do not, and never mixed.

Runs are made of predictions, so what a comparison must find is known.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcg.errors import InputError
from simcg.hardware.catalog import load_profile
from simcg.ladder import EAGER_INDEX, dispatch
from simcg.runs.compare import compare
from simcg.runs.decide import Decision, decisions, interval, saved
from simcg.runs.limits import PEERS, decision_checks
from simcg.runs.order import orders
from simcg.runs.schema import (
    Bytes,
    DecisionCell,
    EqualityCell,
    LadderLine,
    Line,
    MemoryCell,
    PeerCell,
    StepCell,
)
from simcg.runs.validation import Validation, validate
from tests.made_runs import (
    GPU,
    MODEL,
    SIZES,
    decision_cells,
    header,
    obedient_lines,
    predictor,
    runs_of,
    slower,
    step_cell,
    write,
)
from tests.studies import run_cli

H200 = load_profile("h200")
OURS = LadderLine("ours", (40, 72, 136, 264, 520), None, ((300, 520),), ("theirs", "none"))
THEIRS = LadderLine("theirs", (48, *range(128, 3073, 128)), (2, 1))
NONE = LadderLine("none", ())


def validated(lines: list[Line]) -> Validation:
    """The lines as one file of an H200, on its profile."""
    return validate([runs_of(lines)], H200)


def missed(result: Validation) -> list[str]:
    """What each missed limit is about."""
    return [check.what for check in result.checks if not check.holds]


def test_runs_that_obey_the_profile_meet_every_limit() -> None:
    """Predictions of exactly what was measured have no error, and no limit is missed."""
    result = validated(obedient_lines())
    assert result.comparison.cells
    assert all(abs(cell.error) < 1e-6 for cell in result.comparison.cells)
    assert result.passed, missed(result)
    assert {one.kind for one in result.comparison.errors} == {
        "step", "capture", "compile", "graph pool", "eager peak", "graph memory",
    }  # fmt: skip


@settings(max_examples=30)
@given(factor=st.floats(0.5, 2.0))
def test_steps_that_take_longer_are_off_by_that_much(factor: float) -> None:
    """All steps measured f times as long: every error is 1/f - 1, and so are all its summaries."""
    lines = [slower(line, factor) for line in obedient_lines()]
    result = validated(lines)
    errors = [one for one in result.comparison.errors if one.kind == "step"]
    off = 1 / factor - 1
    for one in errors:
        found = (one.median, one.p95, one.worst, abs(one.bias))
        assert found == pytest.approx((abs(off),) * 4, abs=1e-6)
        assert one.bias == pytest.approx(off, abs=1e-6)
    late = {what.split(",")[1].strip() for what in missed(result) if what.startswith("step")}
    allowed = {"full": 0.02, "breakable": 0.02, "tc_piecewise (eager)": 0.04, "eager": 0.08}
    wrong = {backend for backend, limit in allowed.items() if abs(off) > limit + 1e-6}
    right = {backend for backend, limit in allowed.items() if abs(off) < limit - 1e-6}
    assert wrong <= late
    assert not late & (right - {"full", "breakable"})  # these two have one limit a group


def test_cells_are_grouped_by_what_calibration_timed() -> None:
    """Rows that every curve has; other rows; and, without a curve for one width, a model unseen."""
    timed = predictor().timed_rows()
    result = validated(obedient_lines())
    for cell in result.comparison.cells:
        if cell.kind == "step":
            assert cell.group == ("timed rows" if cell.tokens in timed else "other rows")
    assert len(timed.intersection(SIZES)) == 3
    fewer = [c for c in H200.curves if (c.key.op, c.key.k, c.key.n) != ("gemm", 4096, 24576)]
    unseen = msgspec.structs.replace(H200, curves=tuple(fewer))
    compared = compare([runs_of(obedient_lines())], unseen)
    assert {c.group for c in compared.cells if c.kind == "step"} == {"unseen model"}


def test_files_are_compared_as_one() -> None:
    """Lines in two files give the errors of the same lines in one."""
    lines = obedient_lines()
    apart = validate([runs_of(lines[::2]), runs_of(lines[1::2])], H200)
    together = validated(lines)

    def table(result: Validation) -> list[tuple[object, ...]]:
        rows = [(e.kind, e.backend, e.group, e.count, e.worst) for e in result.comparison.errors]
        return sorted(rows, key=str)

    assert table(apart) == table(together)


def bytes_of(cell: MemoryCell, factor: float) -> MemoryCell:
    """The same ladder with a pool so many times larger."""
    pool = int(cell.pool * factor)
    after = Bytes(0, 0, cell.after.device + pool - cell.pool)
    return msgspec.structs.replace(cell, pool=pool, after=after)


@pytest.mark.parametrize(("factor", "late"), [(1.0, False), (1.3, True)])
def test_a_pool_larger_than_the_eager_peak_allows_is_reported(factor: float, late: bool) -> None:
    """Above 1.15 times the activations of its largest bucket, a pool misses its limit."""
    lines: list[Line] = [
        bytes_of(line, factor) if isinstance(line, MemoryCell) else line
        for line in obedient_lines()
    ]
    found = missed(validated(lines))
    assert (f"pool over eager peak, {MODEL} full" in found) == late
    assert ("graph pool, breakable" in found) == late


def sampled(steps: int) -> list[Line]:
    """Three ladders and the steps that they are compared on."""
    ladders = [OURS, THEIRS, NONE]
    return [*ladders, *decision_cells(predictor(), ladders, steps)]


def test_decisions_are_the_means_of_dispatched_times() -> None:
    """Measured and predicted savings are those of a loop over steps with the one dispatch."""
    lines = sampled(40)
    cells = [line for line in lines if isinstance(line, DecisionCell)]
    totals = {}
    for ladder in (OURS, THEIRS, NONE):
        total = 0.0
        for cell in cells:
            n, m = np.array([cell.batch.num_tokens]), np.array([cell.batch.num_requests])
            index = int(dispatch(ladder.ladder, ladder.rule, n, m)[0])
            bucket = 0 if index == EAGER_INDEX else ladder.sizes[index]
            total += next(t.ns[0] for t in cell.times if t.bucket == bucket)
        totals[ladder.name] = total
    found = decisions(runs_of(lines), H200)
    assert [(one.ours, one.theirs) for one in found] == [("ours", "theirs"), ("ours", "none")]
    for one in found:
        expected = 1 - totals["ours"] / totals[one.theirs]
        assert one.measured == pytest.approx(expected, rel=1e-12)
        assert one.predicted == pytest.approx(one.measured, abs=1e-6)
        assert one.low <= one.measured <= one.high


def decided(measured: float, low: float, high: float, predicted: float) -> Decision:
    """One comparison on 500 steps."""
    return Decision("m", "ours", "theirs", (5, 5), 500, measured, low, high, predicted, (1, 1))


@pytest.mark.parametrize(
    ("found", "holds"),
    [
        (decided(0.03, 0.02, 0.04, 0.03), True),
        (decided(0.00, -0.01, 0.01, 0.00), True),
        (decided(-0.01, -0.02, -0.001, 0.00), False),  # significantly worse
        (decided(0.025, -0.001, 0.05, 0.021), False),  # predicted better, not certain
        (decided(0.025, -0.001, 0.05, 0.019), True),
        (decided(0.05, 0.04, 0.06, 0.02), False),  # three points off
        (replace(decided(0.03, 0.02, 0.04, 0.03), steps=499), False),  # too few steps
    ],
)
def test_what_a_decision_is_held_to(found: Decision, holds: bool) -> None:
    """Not significantly worse; better where a gain above 2 % is predicted; within two points."""
    (check,) = decision_checks([found])
    assert check.holds == holds


def test_a_step_without_its_bucket_is_refused() -> None:
    """A ladder that sends a step to a bucket nobody timed cannot be judged: the step is named."""
    lines = sampled(5)
    last = lines[-1]
    assert isinstance(last, DecisionCell)
    lines[-1] = msgspec.structs.replace(last, times=())
    with pytest.raises(InputError, match=f"decision of step {last.index}.*a time in bucket"):
        decisions(runs_of(lines), H200)
    with pytest.raises(InputError, match="got 'theirs', expected a known ladder"):
        decisions(runs_of([OURS, *lines[3:4]]), H200)


@given(data=st.data(), steps=st.integers(2, 60))
def test_an_interval_holds_its_share_and_vanishes_between_equals(
    data: st.DataObject, steps: int
) -> None:
    """Paired: a common factor on every step has no width at all, equal ladders have none either."""
    times = st.lists(st.integers(1, 10**6), min_size=steps, max_size=steps)
    own = np.array(data.draw(times), dtype=np.float64)
    factor = data.draw(st.floats(0.5, 2))
    low, high = interval(own, own * factor)
    assert low == pytest.approx(1 - 1 / factor, abs=1e-9)
    assert high == pytest.approx(1 - 1 / factor, abs=1e-9)
    assert saved(own, own) == 0


def test_the_order_of_backends_is_read_off_the_steps() -> None:
    """Sizes at which the one expected to be faster took longer are listed, others are not."""
    of = predictor()
    cells = [step_cell(of, b, c, n) for b, c in (("eager", ""), ("full", "")) for n in SIZES]  # type: ignore[arg-type]
    bound = SIZES[:2]
    cells = [msgspec.structs.replace(c, gpu_bound=c.tokens not in bound) for c in cells]

    def with_full(late: tuple[int, ...]) -> list[StepCell]:
        """``full`` takes 1 ms, eager 2 ms; 3 ms where it is late."""
        ns = {"full": 1e6, "eager": 2e6}
        return [
            msgspec.structs.replace(
                c, ns=3e6 if c.backend == "full" and c.tokens in late else ns[c.backend]
            )
            for c in cells
        ]

    (good,) = orders(with_full(()))
    assert (good.faster, good.slower, good.sizes) == ("full", "eager", SIZES)
    assert (good.launch_bound, good.wrong, good.holds) == (bound, (), True)
    (large,) = orders(with_full(SIZES[3:]))
    assert (large.wrong, large.holds) == (SIZES[3:], True)
    (small,) = orders(with_full(SIZES[:1]))
    assert (small.wrong, small.holds) == (SIZES[:1], False)


def peers(ratio: float, replays: int = 200) -> list[Line]:
    """The breakable backend and its peers, at that ratio of medians."""
    ns = [1000 + i for i in range(replays)]
    others = [PeerCell("out-parameters", name, tuple(ns), 1, 0, True) for name in PEERS]
    ours = tuple(int(t * ratio) for t in ns)
    return [PeerCell("out-parameters", "breakable", ours, 1, 0, True), *others]


@pytest.mark.parametrize(
    ("lines", "late"),
    [
        (peers(1.01), []),
        (peers(1.03), ["breakable over breakable-cuda-graphs"]),
        (peers(1.10), ["breakable over bare loop", "breakable over breakable-cuda-graphs"]),
        (peers(1.0, 199), ["breakable over bare loop", "breakable over breakable-cuda-graphs"]),
    ],
)
def test_peers_are_held_to_ratios_of_medians(lines: list[Line], late: list[str]) -> None:
    """1.05 to a bare loop, 1.02 to the public package, over 200 replays at least."""
    assert missed(validated(lines)) == late


def equality(
    *, at_bucket: bool = True, at_tokens: bool = True, error: float | None,
    eager_error: float | None = 1.0,
) -> Line:  # fmt: skip
    """A replay whose eager twin errs by 1."""
    return EqualityCell(
        model=MODEL, backend="breakable", tokens=9, bucket=16, at_bucket=at_bucket,
        at_tokens=at_tokens, error=error, eager_error=eager_error,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("line", "late"),
    [
        (equality(error=1.0), ""),
        (equality(at_tokens=False, error=1.5), ""),
        (equality(at_tokens=False, error=1.6), "B"),
        (equality(at_tokens=False, error=None), "B"),
        (equality(at_tokens=False, error=None, eager_error=None), "B"),
        (equality(at_bucket=False, error=1.0), "A"),
    ],
)
def test_bits_and_errors_of_replays(line: Line, late: str) -> None:
    """A replay differs from eager at its bucket never, and errs at most 1.5 times as much."""
    assert [what[0] for what in missed(validated([line]))] == ([late] if late else [])


def test_runs_of_the_cpu_are_compared_with_nothing(tmp_path: Path) -> None:
    """Their figures are left out with a warning; a bit that differs still counts."""
    cpu = msgspec.structs.replace(GPU, device="cpu", gpu="")
    lines = [slower(line, 3.0) for line in obedient_lines()]
    result = validate([runs_of([*lines, *peers(2.0)], header(cpu))], H200)
    assert (result.comparison.cells, result.decisions, result.orders) == ((), (), ())
    assert result.passed
    assert "CPU device" in result.warnings[0]
    differs = runs_of([equality(at_bucket=False, error=9.0)], header(cpu))
    assert not validate([differs], H200).passed
    ran = run_cli("validate", str(write(tmp_path / "cpu.jsonl", differs)))
    assert (ran.code, "warning" in ran.err) == (1, True)


def test_another_gpu_is_named_beside_the_profile(tmp_path: Path) -> None:
    """The comparison is made all the same, after a warning with both names."""
    other = msgspec.structs.replace(GPU, gpu="NVIDIA A100-SXM4-80GB")
    runs = runs_of(obedient_lines(), header(other))
    ran = run_cli("validate", str(write(tmp_path / "runs.jsonl", runs)))
    assert ran.code == 0
    assert "NVIDIA A100-SXM4-80GB" in ran.err
    assert "h200" in ran.err


def test_the_command_prints_narrow_tables_and_the_same_figures_as_json(tmp_path: Path) -> None:
    """At most 100 columns with every option; JSON has the same checks; the picture is a file."""
    equal = [LadderLine("ours", THEIRS.sizes, THEIRS.max_ratio, against=("theirs",)), THEIRS]
    steps = decision_cells(predictor(), equal, 500)
    lines = [*obedient_lines(), *equal, *steps, *peers(1.01), equality(error=1.0)]
    path = str(write(tmp_path / "runs.jsonl", runs_of(lines)))
    picture = tmp_path / "errors.svg"
    ran = run_cli("validate", path, "--cells", "--plot", str(picture))
    assert (ran.code, ran.err) == (0, "")
    assert max(map(len, ran.out.splitlines())) <= 100
    assert picture.read_bytes().startswith(b"<?xml")
    content = json.loads(run_cli("validate", path, "--json").out)
    assert content["passed"] is True
    assert f"{len(content['checks'])} of {len(content['checks'])} stated limits met" in ran.out
    assert len(content["decisions"]) == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["missing.jsonl"], "missing.jsonl"),
        (["RUNS", "--plot", "errors.txt"], "--plot"),
        (["RUNS", "--hardware", "h20"], "did you mean h200"),
    ],
)
def test_what_cannot_be_done_is_one_line(tmp_path: Path, arguments: list[str], says: str) -> None:
    """A missing file, a picture of no kind, an unknown profile: exit code 2, one line."""
    path = write(tmp_path / "runs.jsonl", runs_of(obedient_lines()))
    ran = run_cli("validate", *(str(path) if a == "RUNS" else a for a in arguments))
    assert (ran.code, ran.out) == (2, "")
    assert says in ran.err
    assert len(ran.err.splitlines()) == 1


def test_what_can_be_neither_met_nor_missed_is_no_success(tmp_path: Path) -> None:
    """Runs without any cell that a limit is about, and runs that would count twice: code 2."""
    empty = str(write(tmp_path / "empty.jsonl", runs_of([])))
    good, copy = (str(write(tmp_path / name, runs_of(obedient_lines()))) for name in ("a", "b"))
    for files, says in (
        ((empty,), "nothing that a stated limit"),
        ((good, copy), "each file once"),
    ):
        ran = run_cli("validate", *files)
        assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1)
        assert says in ran.err
