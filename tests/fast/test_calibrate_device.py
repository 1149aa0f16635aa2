"""The measuring code that needs no GPU, run on the CPU device: its times mean nothing there."""

from __future__ import annotations

import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simcg.errors import SimcgError
from tests.calibrations import made_raw

torch = pytest.importorskip("torch", reason="real_gpu needs torch")

import real_gpu.models.decoder  # noqa: E402
from real_gpu.calibrate import __main__ as program  # noqa: E402
from real_gpu.calibrate import curves, plan, sections, startup  # noqa: E402
from real_gpu.calibrate.clock import Timed  # noqa: E402
from real_gpu.calibrate.host import Stopwatch, dispatch, watched  # noqa: E402
from real_gpu.calibrate.issue import Bench  # noqa: E402
from real_gpu.calibrate.profile import build_profile  # noqa: E402
from real_gpu.calibrate.sections import Job, Section  # noqa: E402
from real_gpu.calibrate.small import thin  # noqa: E402
from real_gpu.graphs.cpu import RecordingCpuDevice  # noqa: E402
from simcg.cost.kernels import Kernels, Work  # noqa: E402
from simcg.model.architecture import Architecture  # noqa: E402
from simcg.model.catalog import architecture_named  # noqa: E402
from simcg.model.lean import lean_pass  # noqa: E402
from simcg.model.ops import Attention, Gemm, GroupedGemm  # noqa: E402
from tests.cost_laws import rows_work  # noqa: E402
from tests.decoders import FAMILIES  # noqa: E402

CPU = torch.device("cpu")
QWEN = architecture_named("qwen3-8b")
CURVES = ("gemm ", "grouped ", "attention ", "decode attention ", "elementwise")


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.mark.parametrize("arch", FAMILIES, ids=lambda arch: arch.name)
def test_every_op_of_a_lean_forward_can_be_issued_alone(arch: Architecture) -> None:
    """Each runs at one row and at several; products give results of the op's own sizes."""
    bench = Bench(CPU, torch.float32)
    for op in lean_pass(arch).numbered[0]:
        for rows in (1, 12):
            result = bench.one(arch, op, rows)[0]()
            match op.shape:
                case Gemm(n=n):
                    assert result.shape == (rows, n)  # type: ignore[attr-defined]  # a tensor
                case GroupedGemm(top_k=top_k, n=n):
                    assert result.shape == (rows * top_k, n)  # type: ignore[attr-defined]
                case Attention(heads=heads, head_dim=dim):
                    assert result.shape == (rows, heads, dim)  # type: ignore[attr-defined]


def test_weights_are_cold_each_time() -> None:
    """So many different matrices that their bytes pass ten times an L2, in the calls' order."""
    bench = Bench(CPU, torch.float32)
    matrices = bench.matrices(Gemm(4096, 8192))
    assert len(matrices) * 4096 * 8192 * 4 > 512 << 20
    assert len({m.data_ptr() for m in matrices}) == len(matrices)
    assert len(bench.matrices(Gemm(16, 16))) == 256


def test_requests_of_a_grouped_product_are_drawn_anew() -> None:
    """Each call has other experts, and every one routes all rows."""
    shape = GroupedGemm(8, 2, 16, 24)
    bench = Bench(CPU, torch.float32)
    calls = bench.grouped(shape, bench.experts(shape), 40, draws=4)
    ends = [call.args[2].tolist() for call in calls]  # type: ignore[attr-defined]  # partials
    assert all(e[-1] == 80 and e == sorted(e) for e in ends)
    assert len({tuple(e) for e in ends}) > 1


@pytest.mark.parametrize("arch", FAMILIES, ids=lambda arch: arch.name)
def test_dispatch_is_seen_for_every_kind_of_op(arch: Architecture) -> None:
    """As many marks as the lean pass has ops, or it is refused; every kind takes some time."""
    found = dispatch(arch, CPU, samples=2)
    assert set(found) == {op.kind for op in lean_pass(arch).ops}
    assert all(median > 0 and spread > 0 for median, spread in found.values())


def test_watching_leaves_the_decoder_as_it_was() -> None:
    """Also after an error."""
    module: Any = real_gpu.models.decoder
    before = module.torch, module.kernels_for, module.attend

    def fail() -> None:
        with watched(Stopwatch()):
            assert module.attend is not before[2]
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert (module.torch, module.kernels_for, module.attend) == before


@pytest.mark.parametrize("name", ["qwen3-8b", "qwen3-30b-a3b", "gpt-oss-20b"])
def test_thin_decoders_issue_the_same_ops(name: str) -> None:
    """The same kinds, kernels and breaks in the same order, over other sizes."""
    arch = architecture_named(name)
    ops = [(op.name, op.kernels, op.is_break) for op in lean_pass(arch).layers[0]]
    assert [(o.name, o.kernels, o.is_break) for o in lean_pass(thin(arch, 1)).layers[0]] == ops


def test_backends_are_run_at_two_depths_and_make_a_profile() -> None:
    """All four by their real code; a layer more is a segment more where it breaks."""
    depths = (1, 2)
    rows = startup.backends(QWEN, RecordingCpuDevice(), depths)
    assert [(r["backend"], r["layers"]) for r in rows] == [
        (name, depth) for depth in depths for name in ("eager", "full", "breakable", "tc_piecewise")
    ]
    for row in rows:
        broken = row["backend"] in {"breakable", "tc_piecewise"}
        assert row["segments"] == (row["layers"] + 1 if broken else row["backend"] == "full")
        assert row["host_ns"][0] > 0
    for name in ("full", "breakable"):
        shallow, deep = (r for r in rows if r["backend"] == name)
        assert deep["nodes"] > shallow["nodes"] > 0
        assert deep["capture_ns"] > 0
    raw = made_raw([QWEN])
    raw["sections"]["backends"] = rows
    host = build_profile(raw, "h200").host
    assert host.break_body.provenance == "measured"


def test_compilations_start_anew_at_each_depth() -> None:
    """Each of the depths is compiled, the last as the first, and runs without graphs too."""
    rows = startup.compiled(QWEN, RecordingCpuDevice(), "eager", (1, 2, 1))
    assert [row["layers"] for row in rows] == [1, 2, 1]
    assert all(row["compile_ns"] > 0 and row["compiled_ns"][0] > 0 for row in rows)


def test_a_failed_section_costs_no_other_one(capsys: pytest.CaptureFixture[str]) -> None:
    """Its error is kept in its place and said in one line; each section reports its place."""

    def fails() -> object:
        raise RuntimeError("no\nmemory")

    results, seconds = program.measure(
        [Section("a", 1, lambda: 1), Section("b", 2.5, fails), Section("c", 1, lambda: 3)]
    )
    assert (results["a"], results["c"]) == (1, 3)
    assert results["b"]["error"] == "RuntimeError: no\nmemory"
    assert list(seconds) == ["a", "b", "c"]
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "failed b: RuntimeError: no memory"
    assert [line.split(" ")[1] for line in (lines[0], *lines[2:])] == ["1/3", "2/3", "3/3"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_it_says_what_works(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """One line, exit code 2, nothing written."""
    out = tmp_path / "out.json"
    monkeypatch.setattr(sys, "argv", ["calibrate", "--out", str(out)])
    with pytest.raises(SystemExit) as caught:
        program.main()
    said = capsys.readouterr().err
    assert caught.value.code == 2
    assert said.count("\n") == 1
    assert "no CUDA device" in said
    assert "optimize" in said
    assert not list(tmp_path.iterdir())


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    """What was there stays until the new one is complete."""
    path = tmp_path / "p.json"
    program.write(path, b"old")
    program.write(path, b"new")
    assert path.read_bytes() == b"new"
    assert [f.name for f in tmp_path.iterdir()] == ["p.json"]
    with pytest.raises(OSError, match="No such file"):
        program.write(tmp_path / "none" / "p.json", b"")


def test_a_profile_that_cannot_be_written_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Exit code 2; the line names the file."""
    out = tmp_path / "none" / "p.json"
    monkeypatch.setattr(sys, "argv", ["calibrate", "--out", str(out)])
    monkeypatch.setattr(program, "run", lambda args: program.write(args.out, b""))
    with pytest.raises(SystemExit) as caught:
        program.main()
    said = capsys.readouterr().err
    assert (caught.value.code, said.count("\n")) == (2, 1)
    assert f"{out}.part: No such file" in said


def test_models_are_loaded_before_anything_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is none ends the run at once."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(program, "measure", lambda _: pytest.fail("measured"))
    arguments = program.parser().parse_args(["--model", "qwen3-9b"])
    with pytest.raises(SimcgError, match="did you mean qwen3-8b"):
        program.run(arguments)


def test_marks_follow_each_other() -> None:
    """A mark is set at the end of each watched call, in order."""
    watch = Stopwatch()
    call = watch.behind(lambda x: x + 1)
    begin = watch.restart()
    assert [call(i) for i in range(5)] == [1, 2, 3, 4, 5]
    assert all(a <= b for a, b in pairwise([begin, *watch.marks]))
    assert len(watch.marks) == 5
    assert 0 < watch.own_ns() < 1e5
    assert not watch.marks


def decodes(requests: list[int]) -> Work:
    """Steps of that many requests with 12 keys each."""
    m = np.array(requests, dtype=np.int64)
    return Work(m, 0 * m, m, 0 * m, m, 12 * m)


class Wall:
    """In the place of a GPU's clock: a thousandth of the wall time of one call."""

    def call_ns(self, calls: Any, _guess_us: float, rows: int) -> Timed:
        begin = time.perf_counter_ns()
        calls[-1]()
        return Timed((time.perf_counter_ns() - begin) / 1e3, 1.0, rows, 2e6)


def test_every_planned_curve_is_measured_and_ends_in_the_profile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The curve sections of small models, timed by the wall: one curve each, on its grid."""
    monkeypatch.setattr(Job, "clock", Wall())
    monkeypatch.setattr(plan, "SPREAD_GEMMS", (Gemm(16, 48),))
    monkeypatch.setattr(plan, "SPREAD_GROUPED", ())
    monkeypatch.setattr(plan, "SPREAD_ATTENTIONS", ())
    monkeypatch.setattr(sections, "FEW_TOKENS", [1, 8])
    monkeypatch.setattr(curves, "TOKENS", [1, 8, 16])
    monkeypatch.setattr(curves, "KEYS", [8, 16, 24])
    monkeypatch.setattr(curves, "DECODES", [1, 3, 4])
    monkeypatch.setattr(curves, "DECODE_KEYS", [8, 16, 24])
    for grid in ("fine_rows", "middle_rows"):
        monkeypatch.setattr(sections, grid, lambda: [1, 4, 9])
    monkeypatch.setattr(sections, "BYTE_ROWS", [1, 4, 9])
    monkeypatch.setattr(sections, "POWERS", [10, 12, 16])
    job = Job(FAMILIES, RecordingCpuDevice(), quick=True)
    monkeypatch.setattr(plan, "both_kinds", lambda models: models)
    monkeypatch.setattr(Job, "bench", Bench(CPU, torch.float32))
    work = [s for s in sections.sections(job) if s.name.startswith(CURVES)]
    results, _ = program.measure(work)
    assert not {name: r["error"] for name, r in results.items() if "error" in r}
    raw = made_raw(FAMILIES)
    raw["sections"] = {n: s for n, s in raw["sections"].items() if not n.startswith(CURVES)}
    profile = build_profile({**raw, "sections": {**raw["sections"], **results}}, "h200")
    assert len(profile.curves) == len(work)
    kernels = Kernels(profile)
    for arch in FAMILIES:
        for op in lean_pass(arch).numbered[0]:
            assert kernels.time(op, rows_work([1, 9])).provenance == "measured"
            assert kernels.time(op, decodes([1, 3])).provenance == "measured"


def test_decodes_with_one_long_request_end_as_widths(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every attention without a window; drawn batches go along, and change no curve."""
    monkeypatch.setattr(Job, "clock", Wall())
    monkeypatch.setattr(plan, "SPREAD_ATTENTIONS", ())
    monkeypatch.setattr(curves, "DECODES", [1, 3, 4])
    monkeypatch.setattr(curves, "DECODE_KEYS", [8, 64, 256])
    monkeypatch.setattr(curves, "LONG_KEYS", [32, 200])
    monkeypatch.setattr(sections, "LONG_DECODES", [2, 4])
    monkeypatch.setattr(Job, "bench", Bench(CPU, torch.float32))
    job = Job(FAMILIES, RecordingCpuDevice(), quick=True)
    work = [s for s in sections.sections(job) if "decode" in s.name]
    results, _ = program.measure(work)
    assert not {name: r["error"] for name, r in results.items() if "error" in r}
    long = {name: r for name, r in results.items() if name.startswith("long decode")}
    assert len(long) == sum(not r["key"]["window"] for r in results.values()) / 2
    for one in long.values():
        assert one["x"] == [[2, 32], [2, 200], [4, 32], [4, 200]]
        assert [len(lengths) for lengths in one["drawn"]["x"]] == [4]
    raw = made_raw(FAMILIES)
    kept = {n: s for n, s in raw["sections"].items() if not n.startswith("decode attention")}
    profile = build_profile({**raw, "sections": {**kept, **results}}, "h200")
    known = [c for c in profile.curves if c.key.op == "decode_attention"]
    assert len(known) == len(work) - len(long)
    assert all(bool(c.width) == (c.key.window == 0) for c in known)


def test_requests_of_any_length_attend_to_their_own_keys() -> None:
    """One call over ragged requests gives each what a call of its own would."""
    torch.manual_seed(0)
    bench, shape = Bench(CPU, torch.float32), Attention(4, 2, 8)
    call: Any
    (call,) = bench.ragged(shape, [3, 9, 1], 1, 64, most=1)
    whole = call()
    queries, keys, values, metadata, bounds, window = call.args
    starts = metadata.key_starts.tolist()
    assert starts == [0, 3, 12, 13]
    assert bounds.longest_key == 64
    for i, begin in enumerate(starts[:-1]):
        own = slice(begin, starts[i + 1])
        alone = metadata.__class__(
            query_ends=metadata.query_ends[:2],
            key_starts=metadata.key_starts[:2] * 0,
            key_lengths=metadata.key_lengths[i : i + 1],
            slots=metadata.slots,
            positions=metadata.positions,
        )
        found = call.func(
            queries[i : i + 1], keys[own], values[own], alone,
            bounds.__class__(1, 1, 1, 64), window,
        )  # fmt: skip
        torch.testing.assert_close(whole[i : i + 1], found)
