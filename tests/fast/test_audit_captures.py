"""Real captures under audit: right ones are silent, and the hazards of breaks are told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install '.[gpu]'")

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from real_gpu.audit import Audit, audit
from real_gpu.backends.backend import Backend
from real_gpu.backends.breakable import _Breaking, breakable, debug_graph
from real_gpu.backends.breaks import eager_on_graph
from real_gpu.backends.full import full
from real_gpu.backends.tc_piecewise import TcPiecewise
from real_gpu.graphs.cpu import RecordingCpuDevice
from real_gpu.graphs.device import CaptureError, GraphDevice
from simcg.errors import InputError
from simcg.formal.audit.check import check
from simcg.formal.audit.finding import Finding
from simcg.formal.recording import Break, Role, Segment, decode_recordings
from simcg.ladder import Bucket
from simcg.model.architecture import Architecture
from tests.audited import audited_ladder
from tests.decoders import CPU, FAMILIES, Engine
from tests.pieces import Inputs, Model
from tests.programs import EVERY_STEP, Buffers, Step, forward_of, ladders, programs
from tests.studies import run_cli

torch.set_num_threads(1)
MAKERS: dict[str, Callable[[GraphDevice], Backend]] = {
    "full": full,
    "breakable": breakable,
    "debug": debug_graph,
    "tc_piecewise": TcPiecewise,
}
Declared = dict[str, tuple[Role, torch.Tensor]]


@pytest.mark.parametrize("arch", FAMILIES, ids=lambda arch: arch.name)
@pytest.mark.parametrize("maker", MAKERS)
def test_decoders_are_clean(arch: Architecture, maker: str) -> None:
    """No violation, nothing that hangs on a tensor's life; undecided is what dispatch hides."""
    report = audited_ladder(
        Engine.of(arch, CPU, torch.float32), RecordingCpuDevice(), MAKERS[maker]
    ).check()
    assert {finding.verdict for finding in report.findings} <= {"not decided"}
    # experts scatter rows, which no schema tells from all rows
    expected = {"it reads memory of which some may not be written in this replay": "moe"}
    expected["the break did not run at capture: nobody saw what it does"] = "tc_piecewise"
    moe = any(kind.moe for kind in arch.layer_kinds)
    assert {expected[finding.found] for finding in report.findings} <= (
        {maker, "moe"} if moe else {maker}
    )
    assert report.cases["I4"] > 100
    assert report.cases["I14"] == 3


def buffers_declared(buffers: Buffers) -> Declared:
    return {
        "source": ("static", buffers.source),
        "shift": ("static", buffers.shift),
        "weight": ("constant", buffers.weight),
        "out": ("output", buffers.out),
    }


@settings(max_examples=40)
@given(programs, ladders, st.sampled_from(("full", "breakable", "debug")))
def test_any_program_is_clean(program: list[Step], buckets: list[Bucket], maker: str) -> None:
    """Of steps that copy, write in place, drop, break and return: nothing at all is found."""
    device, buffers = RecordingCpuDevice(), Buffers.on(CPU, 12)
    backend = MAKERS[maker](device)
    with audit(buffers_declared(buffers)) as found:
        for bucket in buckets:
            forward = forward_of(program, buffers, bucket.num_tokens)
            if maker == "full":  # a whole graph cannot hold breaks that read the host
                forward = forward_of(
                    [s for s in program if "break" not in s[0]], buffers, bucket.num_tokens
                )
            backend.capture_one(bucket, forward)
    report = found.check()
    assert report.findings == ()
    assert report.cases["I14"] == len(buckets)


def test_compiled_pieces_are_clean() -> None:
    """Of a model with an in-place residual, a cache, nested and unused breaks."""
    model, inputs, device = Model.new(), Inputs.of(8), RecordingCpuDevice()
    declared: Declared = {
        "x": ("static", inputs.x), "slots": ("static", inputs.slots),
        "cache": ("cache", model.cache), "seen": ("cache", model.seen),
        **{f"w{n}": ("constant", weight) for n, weight in enumerate(model.weights)},
    }  # fmt: skip
    backend = TcPiecewise(device)
    with audit(declared) as found:
        backend.capture_one(Bucket(8), inputs.forward(model, 8))
    assert {f.verdict for f in found.check().findings} == {"not decided"}
    for name in [name for name in declared if name[0] == "w"]:
        del declared[name]
    with audit(declared) as found:
        backend.capture_one(Bucket(5), inputs.forward(model, 5))
    assert {f.verdict for f in found.check().findings} == {"not decided", "holds only while"}


# the hazard: a break's argument from outside the pool, held weakly


@eager_on_graph
def scale_into(x: torch.Tensor, by: torch.Tensor, out: torch.Tensor) -> None:
    torch.mul(x, by, out=out)


def hazard(held_weakly: bool, monkeypatch: pytest.MonkeyPatch) -> tuple[Audit, list[torch.Tensor]]:
    """A forward whose break gets a factor that somebody else owns, captured under audit."""
    if held_weakly:
        monkeypatch.setattr(_Breaking, "_held", _weakly)
    x, out, owned = torch.ones(4), torch.zeros(4), [torch.full((4,), 3.0)]

    def forward() -> torch.Tensor:
        y = x + 1
        z = torch.empty_like(y)
        scale_into(y, owned[0], z)
        return out.copy_(z)

    backend = breakable(RecordingCpuDevice())
    with audit({"x": ("static", x), "out": ("output", out)}) as found:
        backend.capture_one(Bucket(4), forward)
    KEPT.append((x, out, backend))
    return found, owned


KEPT: list[object] = []


def _weakly(self: Any, leaf: Any) -> Any:
    return self._device.alias(leaf) if isinstance(leaf, torch.Tensor) else leaf


def test_an_argument_held_weakly_hangs_on_its_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    """While it lives that is said; once it is gone the same recording is violated."""
    found, owned = hazard(held_weakly=True, monkeypatch=monkeypatch)
    (alive,) = found.check().findings
    assert (alive.invariant, alive.verdict) == ("I5", "holds only while")
    assert alive.op == f"argument 1 of {__name__}.scale_into"
    owned.clear()
    report = found.check()
    (gone,) = report.findings
    assert (gone.invariant, gone.verdict) == ("I5", "violated")
    assert "freed" in gone.found
    assert (gone.op, gone.tensor, gone.spot.item) == (alive.op, alive.tensor, 1)


def test_an_argument_held_strongly_must_not_be_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """It lives, as the break holds it, and each replay has it whatever its owner has by then."""
    found, owned = hazard(held_weakly=False, monkeypatch=monkeypatch)
    owned[0] = torch.zeros(4)
    (finding,) = found.check().findings
    assert (finding.invariant, finding.verdict) == ("I1", "holds only while")
    assert finding.op == f"argument 1 of {__name__}.scale_into"


def test_from_a_capture_to_the_exit_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``simcg verify --recording`` of what an audit wrote, while the owner lives and after."""
    found, owned = hazard(held_weakly=True, monkeypatch=monkeypatch)
    file = str(tmp_path / "capture.json")
    found.write(file)
    ran = run_cli("verify", "--recording", file)
    assert ran.code == 0
    assert "I5 weak-reference safety, holds only while storage" in ran.out
    owned.clear()
    found.write(file)
    ran = run_cli("verify", "--recording", file)
    assert (ran.code, ran.out.splitlines()[-1]) == (1, "a replay can be wrong: 1 violation")
    assert f"{__name__}.scale_into" in " ".join(ran.out.split())


def undeclared() -> tuple[Audit, list[torch.Tensor]]:
    x, out, owned = torch.ones(4), torch.zeros(4), [torch.full((4,), 3.0)]
    backend = full(RecordingCpuDevice())
    with audit({"x": ("static", x), "out": ("output", out)}) as found:
        backend.capture_one(Bucket(4), lambda: out.copy_(x * owned[0]))
    KEPT.append((x, out, backend))
    return found, owned


def test_a_tensor_that_a_graph_reads_and_nobody_declared() -> None:
    """A graph has its address: right as long as it lives."""
    found, owned = undeclared()
    (alive,) = found.check().findings
    assert (alive.invariant, alive.verdict, alive.op) == (
        "I1", "holds only while", "aten.mul.Tensor",
    )  # fmt: skip
    owned.clear()
    (gone,) = found.check().findings
    assert (gone.invariant, gone.verdict) == ("I1", "violated")


def test_a_result_that_is_not_copied_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A backend that lets the next segment read what the break made at capture."""
    from real_gpu.backends.boundary import Boundary  # noqa: PLC0415 - patched here alone

    def rebound(self: Boundary, call: Any, _device: Any) -> Any:
        KEPT.append(self.leaves)  # else the CPU device notices that it is gone
        return self.leaves[0], call

    monkeypatch.setattr(Boundary, "placed", rebound)
    assert {f.invariant for f in violations([("break returns", 0, 0)])} >= {"I3"}


def violations(program: list[Step]) -> list[Finding]:
    buffers = Buffers.on(CPU, 4)
    with audit(buffers_declared(buffers)) as found:
        backend = breakable(RecordingCpuDevice())
        backend.capture_one(Bucket(4), forward_of(program, buffers, 4))
    return [f for f in found.check().findings if f.verdict == "violated"]


def test_segments_of_a_bare_device_are_recordings_of_their_own() -> None:
    """Without a backend nobody says which belong together, nor of what bucket they are."""
    device, x = RecordingCpuDevice(), torch.ones(3)
    pool = device.new_pool()
    with audit({"x": ("cache", x)}) as found:
        for _ in range(2):
            device.begin(pool)
            x.add_(1)
            device.end()
    captures = found.recordings.captures
    assert [(c.num_tokens, len(c.items)) for c in captures] == [(0, 1), (0, 1)]
    assert {f.invariant for f in found.check().findings} == {"I14"}


def test_a_failed_capture_leaves_no_recording_and_no_watch() -> None:
    """The next capture in the same audit is recorded as if it were the first."""
    x = torch.zeros(2)
    backend = full(RecordingCpuDevice())
    with audit() as found:
        with pytest.raises(CaptureError):
            backend.capture_one(Bucket(2), lambda: x + x.sum().item())
        assert torch.utils._python_dispatch._get_current_dispatch_mode() is None
        backend.capture_one(Bucket(2), lambda: x.add_(1))
    (capture,) = found.recordings.captures
    assert [type(item) for item in capture.items] == [Segment]


def test_after_an_audit_nothing_is_patched_and_nothing_is_noted() -> None:
    """Classes are as before, also after an error; a later capture adds no recording."""
    before = dict(vars(RecordingCpuDevice))
    audits: list[Audit] = []

    def fails() -> None:
        with audit() as found:
            audits.append(found)
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert dict(vars(RecordingCpuDevice)) == before
    x = torch.zeros(2)
    full(RecordingCpuDevice()).capture_one(Bucket(2), lambda: x.add_(1))
    assert audits[0].recordings.captures == ()


def test_a_replay_under_audit_is_no_capture() -> None:
    """It runs as ever and adds nothing."""
    x = torch.zeros(2)
    backend = full(RecordingCpuDevice())
    with audit() as found:
        backend.capture_one(Bucket(2), lambda: x.add_(1))
        backend.replay(Bucket(2))
    assert len(found.recordings.captures) == 1
    replayed = x.clone()
    backend.replay(Bucket(2))
    assert torch.equal(x, replayed + 1)


def test_what_is_written_is_what_is_checked(tmp_path: Path) -> None:
    """A file holds the recordings; it is whole or not there."""
    buffers = Buffers.on(CPU, 4)
    with audit(buffers_declared(buffers)) as found:
        breakable(RecordingCpuDevice()).capture_one(Bucket(4), forward_of(EVERY_STEP, buffers, 4))
    file = tmp_path / "capture.json"
    found.write(file)
    read = decode_recordings(file.read_bytes(), "file")
    assert read == found.recordings
    assert check(read) == found.check()
    assert any(isinstance(item, Break) for item in read.captures[0].items)
    with pytest.raises(InputError, match="a file that can be written"):
        found.write(tmp_path / "nowhere" / "capture.json")
    with pytest.raises(InputError):
        found.write(tmp_path)
    assert [one.name for one in tmp_path.iterdir()] == ["capture.json"]
