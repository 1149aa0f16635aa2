"""The measuring run itself, on the CPU device: real runners, real files, real refusals."""

from __future__ import annotations

import subprocess
import sys
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from simcg.batch import Batch
from simcg.cli import measure
from simcg.des.serving.policy import POLICIES
from simcg.errors import SimcgError
from simcg.runs.read import Runs, read_runs
from simcg.runs.schema import (
    CaptureCell,
    DecisionCell,
    EqualityCell,
    InvarianceCell,
    LadderLine,
    Line,
    MemoryCell,
    PeerCell,
    StepCell,
)
from simcg.runs.serving import served_runs
from tests.made_runs import header
from tests.studies import run_cli

torch = pytest.importorskip("torch", reason="torch is not installed: pip install '.[gpu]'")

from real_gpu.attention.metadata import AttentionMetadata  # noqa: E402  # needs torch
from real_gpu.graphs.cpu import RecordingCpuDevice  # noqa: E402
from real_gpu.measure.bench import Bench, Room  # noqa: E402
from real_gpu.measure.clock import Sample, summary  # noqa: E402
from real_gpu.measure.correctness import (  # noqa: E402
    cases,
    measure_equality,
    poisoned_embedding,
)
from real_gpu.measure.decide import ways_of  # noqa: E402
from real_gpu.measure.plain import Plain  # noqa: E402
from real_gpu.measure.runner import stretches  # noqa: E402
from real_gpu.measure.serving import capacity_of, offered_at  # noqa: E402
from real_gpu.measure.setting import SCALES, TINY, WAYS, setting_from  # noqa: E402
from real_gpu.measure.writer import RunsWriter  # noqa: E402
from real_gpu.models.decoder import Decoder  # noqa: E402
from real_gpu.runners.inputs import StaticInput  # noqa: E402
from real_gpu.serving.model import Ran  # noqa: E402
from real_gpu.serving.request import Asked, Session  # noqa: E402
from real_gpu.serving.server import Served, ServedStep  # noqa: E402

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One small run of every section, from the shell."""
    path = tmp_path_factory.mktemp("measured") / "runs.jsonl"
    call = [
        sys.executable, "-m", "simcg", "measure", "--device", "cpu", "--tokens", "4,16",
        "--backends", "eager,full,breakable,tc_piecewise,debug-graph",
        "--requests", "1,2", "--trace", "azure-conv", "--ladders", "sglang,no-graphs",
        "--out", str(path),
    ]  # fmt: skip
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    for section in ("matrix", "correctness", "peers", "decisions"):
        assert f" s  {section}\n" in done.stdout
    return path


@pytest.fixture(scope="module")
def runs(measured: Path) -> Runs:
    """What it wrote."""
    return read_runs(measured)


def test_every_backend_and_size_has_its_cells(runs: Runs) -> None:
    """Steps of each way at each size, captures of each bucket, memory of each ladder."""
    ways = [("eager", ""), ("full", ""), ("breakable", ""), ("tc_piecewise", "eager")]
    steps = {(c.backend, c.compiler, c.tokens, c.requests) for c in runs.of(StepCell)}
    assert steps == {(*way, n, m) for way in ways for n in (4, 16) for m in (1, 2)}
    captures = {(c.backend, c.compiler, c.bucket) for c in runs.of(CaptureCell)}
    assert captures == {(*way, n) for way in ways[1:] for n in (4, 16)}
    assert {(c.backend, c.buckets) for c in runs.of(MemoryCell)} == {
        (backend, (4, 16)) for backend, _ in ways[1:]
    }
    compiled = {c.backend for c in runs.of(CaptureCell) if c.compile_ns}
    assert compiled == {"tc_piecewise"}
    assert runs.header.environment.device == "cpu"


def test_replays_are_eager_bit_for_bit(runs: Runs) -> None:
    """At its bucket every replay gives the bits of a forward without runner or graph, though all
    that it must not read is NaN; its error is a number.
    """
    assert all(c.bit_equal for c in runs.of(StepCell) if c.backend != "eager")
    cells = runs.of(EqualityCell)
    assert {c.backend for c in cells} == {"full", "breakable", "tc_piecewise"}
    assert {c.backend for c in cells if c.debug_graph} == {"breakable"}
    assert all(c.at_bucket and c.error is not None for c in cells)
    assert any(c.tokens < c.bucket for c in cells)
    assert runs.of(InvarianceCell)
    assert all(c.equal for c in runs.of(PeerCell))


def test_each_step_ran_in_every_bucket_that_its_ladders_choose(runs: Runs) -> None:
    """What decides between ladders was measured, in the order of the trace."""
    cells, ladders = runs.of(DecisionCell), runs.of(LadderLine)
    assert [c.index for c in cells] == sorted(c.index for c in cells)
    wanted = ways_of([c.batch for c in cells], ladders)
    assert [sorted(t.bucket for t in c.times) for c in cells] == wanted


def test_a_trace_is_served_run_by_run(tmp_path: Path) -> None:
    """Two closed runs, then the trace at each utilisation: all its requests, at its rate."""
    path = tmp_path / "serving.jsonl"
    call = [
        sys.executable, "-m", "simcg", "measure", "--device", "cpu", "--sections", "serving",
        "--trace", "azure-conv", "--utilisation", "0.4,0.8", "--seconds", "0.4",
        "--policy", "mixed", "--out", str(path),
    ]  # fmt: skip
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    few, full, *opened = served_runs(read_runs(path))
    assert (few.closed, full.closed) == (True, True)
    assert (few.line.running, full.line.running) == (1, SCALES["cpu"].running)
    assert max(step.prefills + step.decodes for step in few.steps) == 1
    assert [run.line.utilisation for run in opened] == [0.4, 0.8]
    assert opened[1].rate > opened[0].rate > 0
    for run in opened:
        handed_out = sum(request.output for request in run.requests)
        assert handed_out >= sum(step.decodes for step in run.steps) > 0
        assert sum(step.tokens for step in run.steps) == sum(r.prompt for r in run.requests)
        assert run.line.policy == "mixed"
        assert run.line.trace == "azure-conv"


def test_capacity_is_the_tokens_of_the_second_half_over_those_of_a_request() -> None:
    """Three steps of two tokens each in half a second, of requests that want four."""
    tokens = np.ones(3, dtype=np.int64)
    asked = [Asked(0, tokens, 4) for _ in range(2)]
    sessions = [Session(one, index, 1) for index, one in enumerate(asked)]
    steps = [
        ServedStep((0, 1), new, cached, 0, 10**8 * at, 10**8 * (at + 1), Ran([], 0, 1, 1, 1))
        for at, new, cached in (
            (0, (1, 1), (0, 0)), (4, (2, 1), (1, 1)), (5, (1, 1), (2, 2)), (7, (1, 1), (3, 3)),
            (9, (1, 1), (4, 4)),
        )
    ]  # fmt: skip
    assert capacity_of(Served(steps, sessions), asked) == pytest.approx(6 / 4 / 0.5)
    with pytest.raises(SimcgError, match="made no step"):
        capacity_of(Served([], []), asked)
    with pytest.raises(SimcgError, match="ended before its tokens"):
        capacity_of(Served(steps[:1], sessions), asked)


def test_what_is_offered_has_the_rate_and_the_course_of_the_trace() -> None:
    """As many requests as fill the seconds; gaps keep their proportions."""
    asked = [Asked(at * at * 1000 + 7, np.ones(1, dtype=np.int64), 1) for at in range(100)]
    offered = offered_at(asked, 20.0, 2.0)
    arrival = np.array([one.arrival_ns for one in offered])
    assert len(offered) == 40
    assert arrival[0] == 0
    assert arrival[-1] == pytest.approx(39 / 20 * 1e9)
    np.testing.assert_allclose(arrival, np.arange(40) ** 2 * (arrival[-1] / 39**2), atol=1)
    assert len(offered_at(asked, 20.0, 60.0)) == 100


def test_runs_of_the_cpu_validate_by_their_bits_alone(measured: Path) -> None:
    """``simcg validate`` takes the file, compares no figure and meets every limit on bits."""
    ran = run_cli("validate", str(measured))
    assert ran.code == 0
    assert "CPU device" in ran.err
    assert "1 of 1 stated limits met" in ran.out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--sections", "matrix,warp"], "got 'warp', expected some of matrix"),
        (["--ladders", "sglang"], "expected --trace beside it"),
        (["--backends", "debug-graph", "--sections", "matrix"], "the section correctness"),
        (["--out", "no/such/folder.jsonl"], "folder that exists"),
        (["--out", ""], "folder that exists"),
        (["--models", "a,a"], "list of different names"),
        (["--utilisation", "0.5"], "expected --sections serving beside it"),
        (["--seconds", "9"], "expected --sections serving beside it"),
        (["--seconds", "0"], "'--seconds'"),
        (["--policy", "sjf"], "'--policy'"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_it_starts(
    tmp_path: Path, arguments: list[str], says: str
) -> None:
    """Exit code 2, one line, and no file."""
    ran = run_cli("measure", "--out", str(tmp_path / "runs.jsonl"), *arguments)
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1)
    assert says in ran.err
    assert not list(tmp_path.iterdir())


def test_without_torch_one_line_says_what_still_works(tmp_path: Path) -> None:
    """The package that is missing, how to get it, and what needs none."""
    with patch("simcg.cli.child.find_spec", return_value=None):
        ran = run_cli("measure", "--out", str(tmp_path / "runs.jsonl"))
    assert (ran.code, len(ran.err.splitlines())) == (2, 1)
    assert "pip install '.[gpu]'" in ran.err
    assert "work without" in ran.err


def test_the_command_knows_the_policies_of_the_simulator() -> None:
    """It names them itself, so that it starts without the simulator."""
    assert measure.POLICIES == POLICIES


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--sections", "serving"], "got 'serving', expected --trace beside it"),
        (["--trace", "azure-conv", "--utilisation", "1.5"], "shares of the capacity"),
        (["--trace", "azure-conv", "--utilisation", "half"], "numbers separated by commas"),
    ],
)
def test_what_cannot_be_served_is_refused_before_it_starts(
    tmp_path: Path, arguments: list[str], says: str
) -> None:
    """By the measuring program itself."""
    with pytest.raises(SimcgError, match=says):
        setting_from(["--device", "cpu", "--out", str(tmp_path / "runs.jsonl"), *arguments])


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_gpu_one_line_says_what_still_works(tmp_path: Path) -> None:
    """No CUDA device: exit code 2, one line, and no file."""
    call = [sys.executable, "-m", "simcg", "measure", "--out", str(tmp_path / "runs.jsonl")]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "no CUDA device" in done.stderr
    assert "--device cpu" in done.stderr
    assert not list(tmp_path.iterdir())


def test_an_interrupted_run_leaves_no_file(tmp_path: Path) -> None:
    """The file appears when all of it is there; what was measured stays beside it."""
    path = tmp_path / "runs.jsonl"
    first = header()
    with pytest.raises(RuntimeError), RunsWriter(path, first):
        raise RuntimeError
    assert not path.exists()
    assert read_runs(tmp_path / "runs.jsonl.part").header == first
    with RunsWriter(path, first):
        assert not path.exists()
    assert read_runs(path).header == first
    assert [p.name for p in tmp_path.iterdir()] == ["runs.jsonl"]


def test_a_summary_is_medians_and_their_spread() -> None:
    """Rounds that differ make the floor, samples within a round do not."""
    rng = np.random.default_rng(0)
    noise = rng.integers(-50, 51, (5, 101))
    steady = [[Sample(1, 2, 1000 + d) for d in part] for part in noise.tolist()]
    assert summary(steady).floor < 0.02
    drifting = [
        [Sample(1, 2, 1000 + 100 * i + d) for d in part] for i, part in enumerate(noise.tolist())
    ]
    found = summary(drifting)
    assert found.floor == pytest.approx(1.4826 * 100 / 1200, rel=0.2)
    assert (found.samples, found.host_ns, found.plan_ns) == (505, 2, 1)
    assert found.gpu_bound


def stale_ids(self: StaticInput, values: Any, rows: int) -> None:
    """Writes nothing: the step replays on the ids of the step before."""
    del self, values, rows


def leaking(decoder: Decoder) -> Callable[..., Any]:
    """A forward whose rows see each other: what lies in padding reaches real rows."""
    whole = decoder.forward

    def forward(ids: Any, metadata: AttentionMetadata, out: Any) -> Any:
        whole(ids, metadata, out)
        out.add_(out.mean(0))
        return out

    return forward


@pytest.mark.parametrize("fault", ["none", "stale ids", "leaking padding"])
def test_equality_has_teeth(fault: str) -> None:
    """A runner with a known fault differs at its bucket; without one it never does."""
    device, room = RecordingCpuDevice(), Room(16, 2, 64)
    bench = Bench(TINY, device, torch.float32, room)
    if fault == "leaking padding":
        bench.decoder.forward = leaking(bench.decoder)  # type: ignore[method-assign]
    way = bench.way("breakable", "", (8, 16))
    way.runner.capture()
    found: list[Line] = []
    tried = cases((8, 16), 2, 5, 3, TINY.vocab, CPU, np.random.default_rng(0))
    plain = Plain(bench.decoder, bench.cache, room)
    with ExitStack() as stack:
        stack.enter_context(poisoned_embedding(bench.decoder))
        if fault == "stale ids":
            stack.enter_context(patch.object(StaticInput, "write", stale_ids))
        measure_equality("tiny", [way], bench, plain, tried, found.append)
    equal = [cell.at_bucket for cell in found if isinstance(cell, EqualityCell)]
    assert len(equal) == 5
    padded = [case.batch.num_tokens < case.bucket for case in tried]
    assert any(padded)
    if fault == "none":
        assert all(equal)
    elif fault == "stale ids":
        assert not any(equal)
    else:
        assert not any(e for e, p in zip(equal, padded, strict=True) if p)


@pytest.mark.parametrize("name", SCALES["cpu"].ways)
def test_a_closed_bench_leaves_nothing_of_its_model(name: str) -> None:
    """Not the decoder, its weights or its cache, whatever the backend: the next model needs the
    room, and no collection of cycles has to come first.
    """
    device, room = RecordingCpuDevice(), Room(8, 2, 9)
    bench = Bench(TINY, device, torch.float32, room)
    way = bench.way(*WAYS[name], (4, 8), 2 if name == "full" else None)
    way.runner.capture()
    batch, plain = Batch((4,), (0,)), Plain(bench.decoder, bench.cache, room)
    ids, bucket = torch.ones(4, dtype=torch.int64), way.bucket(4)
    out = way.runner.run(way.runner.plan(batch, ids, stretches(batch), bucket))
    assert torch.equal(out, plain.as_in(way, 4, batch, ids))
    weights = bench.decoder.weights
    held = [weakref.ref(x) for x in (bench.decoder, weights.embedding, bench.cache.keys[0])]
    bench.close()
    del bench, way, plain, weights
    assert [reference() for reference in held] == [None] * 3


def test_defaults_follow_the_device() -> None:
    """Decisions need a trace; everything else has a default of its own for each device."""
    cuda = setting_from(["--out", "x"])
    cpu = setting_from(["--out", "x", "--device", "cpu", "--trace", "azure-conv"])
    assert max(cuda.tokens) == 8192
    assert set(cuda.models) == {"qwen3-8b", "llama-3.1-8b", "qwen3-30b-a3b"}
    assert cuda.sections == ("matrix", "correctness", "peers")
    assert cpu.sections == ("matrix", "correctness", "peers", "decisions")
    assert set(cpu.models) == {"tiny"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--trace", "azure-conv", "--backends", "full"], "breakable among them"),
        (["--trace", "none.csv"], "none.csv"),
        (["--hardware", "h20"], "did you mean h200"),
        (["--models", "qwen3-8b,Qwen/Qwen3-8B"], "--models: got .*one model named qwen3-8b"),
    ],
)
def test_a_setting_is_whole_before_anything_is_measured(arguments: list[str], says: str) -> None:
    """Decisions have their backend, traffic and profile can be read, models differ in name."""
    with pytest.raises(SimcgError, match=says):
        setting_from(["--out", "x", "--device", "cpu", *arguments])
