"""What people write, under audit: no wrong code is passed off as fine, no right code is accused."""

from __future__ import annotations

import gzip
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install '.[gpu]'")

import torch

from real_gpu.audit import Audit, audit
from real_gpu.backends.backend import Backend
from real_gpu.backends.breakable import breakable
from real_gpu.backends.breaks import eager_on_graph
from real_gpu.backends.full import full
from real_gpu.graphs.cpu import RecordingCpuDevice
from real_gpu.graphs.device import CaptureError, GraphDevice
from simcg.errors import InputError, SimcgError
from simcg.formal.audit.baked import ALONE, DERIVED, HIDDEN
from simcg.ladder import Bucket
from tests.studies import run_cli

torch.set_num_threads(1)
ROWS, WIDTH = 16, 4
Forward = Callable[[], torch.Tensor]


@dataclass
class Case:
    """A forward by bucket, with its static input and output; ``state`` is what the host holds."""

    x: torch.Tensor
    y: torch.Tensor
    state: SimpleNamespace
    declared: dict[str, Any]

    @staticmethod
    def new(**state: Any) -> Case:
        x, y = torch.randn(ROWS, WIDTH), torch.zeros(ROWS, WIDTH)
        return Case(x, y, SimpleNamespace(**state), {"x": ("static", x), "y": ("output", y)})


KEPT: list[object] = []


def captured(
    case: Case,
    forward: Callable[[int], torch.Tensor],
    sizes: tuple[int, ...] = (8,),
    make: Callable[[GraphDevice], Backend] = full,
    between: Callable[[], object] = lambda: None,
) -> tuple[Audit, Backend]:
    """The forward captured at each size; the host's state may change after the first."""
    backend = make(RecordingCpuDevice())
    with audit(case.declared) as found:
        for place, size in enumerate(sizes):
            if place:
                between()
            backend.capture_one(Bucket(size), lambda size=size: forward(size))  # type: ignore[misc]
    KEPT.append((case, backend))
    return found, backend


def told(found: Audit) -> set[str]:
    return {f"{f.invariant} {f.verdict}" for f in found.check().findings}


def test_a_value_of_a_single_capture_is_listed_and_not_decided(tmp_path: Path) -> None:
    """The replay goes on with it, and the report says operator, argument and value."""
    case = Case.new(scale=2.0)
    found, backend = captured(
        case, lambda n: torch.mul(case.x[:n], case.state.scale, out=case.y[:n])
    )
    case.state.scale = 3.0
    assert not torch.equal(backend.replay(Bucket(8)), case.x[:8] * 3)
    report = found.check()
    assert report.verdict("I17") == "not decided"
    assert "aten.mul.out, other: 2.0 at 8 tokens" in map(str, report.undecided)
    assert {value.why for value in report.undecided} == {ALONE}
    found.write(tmp_path / "one.json")
    ran = run_cli("verify", "--recording", str(tmp_path / "one.json"))
    assert ran.code == 0
    assert "other: 2.0 at 8 tokens" in ran.out
    assert ran.out.splitlines()[-1].endswith("not decided")


def test_the_number_of_real_tokens_of_a_full_batch_is_not_decided() -> None:
    """It equals the bucket's size at each capture, and no replay takes the batch's."""
    case = Case.new(real=0)

    def forward(n: int) -> torch.Tensor:
        case.state.real = n
        return torch.div(case.x[:n], case.state.real, out=case.y[:n])

    report = captured(case, forward, (16, 8))[0].check()
    (value,) = (v for v in report.undecided if v.argument == "other")
    assert (value.values, value.why) == ((("16 tokens", 16), ("8 tokens", 8)), DERIVED)
    assert report.verdict("I17") == "not decided"
    assert report.findings == ()


@eager_on_graph
def normalised(q: torch.Tensor, plan: SimpleNamespace, out: torch.Tensor) -> None:
    out.zero_()
    out[: plan.rows].copy_(q[: plan.rows].softmax(-1))


def test_an_object_that_a_break_is_given_is_not_decided() -> None:
    """Its type alone is recorded."""
    case = Case.new(plan=SimpleNamespace(rows=4))

    def forward(n: int) -> torch.Tensor:
        normalised(case.x[:n] * 2, case.state.plan, case.y[:n])
        return case.y[:n]

    report = captured(case, forward, (16, 8), breakable)[0].check()
    (value,) = (v for v in report.undecided if v.why == HIDDEN)
    assert value.values[0][1] == "SimpleNamespace"


def test_rows_that_the_host_chose_are_compared() -> None:
    """A slice is a constant of the launch, as a scalar is."""
    case = Case.new(first=0)

    def forward(_n: int) -> torch.Tensor:
        first = case.state.first
        return torch.mul(case.x[first : first + 4], 2, out=case.y[:4])

    found, _ = captured(case, forward, (16, 8), between=lambda: setattr(case.state, "first", 3))
    (finding,) = found.check().findings
    assert (finding.invariant, finding.verdict) == ("I17", "not decided")
    assert "where mul reads static 'x'" in finding.found
    assert "(48, 64) at 8 tokens" in finding.found
    assert finding.line.startswith(f"{__file__}:")


def test_another_program_of_a_bucket_is_told_and_two_models_are_not_accused() -> None:
    """Of two backends nobody knows whether they captured one forward."""
    case = Case.new()
    other = torch.zeros(ROWS, WIDTH)
    backends = [full(RecordingCpuDevice()) for _ in range(2)]
    with audit({**case.declared, "other": ("output", other)}) as found:
        backends[0].capture_one(Bucket(8), lambda: torch.mul(case.x[:8], 2.0, out=case.y[:8]))
        backends[1].capture_one(Bucket(8), lambda: torch.add(case.x[:8], 3.0, out=other[:8]))
    assert told(found) == {"I16 not decided"}
    assert not found.check().violated
    assert len({capture.group for capture in found.recordings.captures}) == 2


@eager_on_graph
def softmax_of(state: SimpleNamespace, out: torch.Tensor) -> None:
    out.copy_(state.q[: out.shape[0]].softmax(-1))


def test_a_break_that_finds_memory_of_the_graphs_by_a_name_is_told() -> None:
    """In a replay the name may refer to something else."""
    case = Case.new(q=None)

    def forward(n: int) -> torch.Tensor:
        case.state.q = case.x[:n] * 2
        softmax_of(case.state, case.y[:n])
        return case.y[:n]

    found, _ = captured(case, forward, make=breakable)
    assert told(found) == {"I4 not decided"}
    assert "is none of its arguments" in found.check().findings[0].found


@eager_on_graph
def masked(q: torch.Tensor, mask: torch.Tensor, out: torch.Tensor) -> None:
    out.copy_(q * mask[: q.shape[0]])


def test_an_undeclared_argument_must_not_be_replaced() -> None:
    """The replay has the tensor of the capture; one that is declared is promised to stay."""
    case = Case.new(mask=torch.ones(ROWS, WIDTH))

    def forward(n: int) -> torch.Tensor:
        masked(case.x[:n] * 2, case.state.mask, case.y[:n])
        return case.y[:n]

    found, backend = captured(case, forward, make=breakable)
    assert told(found) == {"I1 holds only while"}
    case.state.mask = torch.zeros(ROWS, WIDTH)
    assert not torch.equal(backend.replay(Bucket(8)), torch.zeros(8, WIDTH))
    case.declared["mask"] = "static", case.state.mask
    assert told(captured(case, forward, make=breakable)[0]) == set()


def test_a_break_that_returns_its_cache_is_told_where_a_graph_changes_it() -> None:
    """The graph changes a copy; one that only reads it is right."""
    case, cache = Case.new(), torch.zeros(ROWS, WIDTH)
    case.declared["cache"] = "cache", cache

    @eager_on_graph
    def stored(q: torch.Tensor) -> torch.Tensor:
        cache[: q.shape[0]] = q
        return cache

    def changing(n: int) -> torch.Tensor:
        stored(case.x[:n] * 2).add_(1)
        return torch.mul(cache[:n], 2, out=case.y[:n])

    def reading(n: int) -> torch.Tensor:
        return torch.mul(stored(case.x[:n] * 2)[:n], 2, out=case.y[:n])

    assert told(captured(case, changing, make=breakable)[0]) == {"I3 violated"}
    assert told(captured(case, reading, make=breakable)[0]) == set()


def test_tensors_of_one_storage_have_roles_of_their_own() -> None:
    """Carved from a buffer, input and output are right; a write to the input is told by name."""
    case, buffer = Case.new(), torch.randn(4 * ROWS, WIDTH)
    x, y = buffer[:ROWS], buffer[ROWS : 2 * ROWS]
    case.declared = {"x": ("static", x), "y": ("output", y)}
    assert told(captured(case, lambda n: torch.mul(x[:n], 2, out=y[:n]), (16, 8))[0]) == set()

    def writing(n: int) -> torch.Tensor:
        x[:n].add_(1)
        return torch.mul(x[:n], 2, out=y[:n])

    (finding,) = captured(case, writing)[0].check().findings
    assert (finding.invariant, finding.verdict, finding.tensor) == ("I11", "violated", "static 'x'")
    columns = torch.zeros(ROWS, 2 * WIDTH)
    left, right = columns[:, :WIDTH], columns[:, WIDTH:]
    case.declared = {"left": ("static", left), "right": ("output", right)}
    assert told(captured(case, lambda n: torch.mul(left[:n], 2, out=right[:n]))[0]) == set()


def test_scratch_is_written_before_it_is_read() -> None:
    """Else it would be state, and that is a cache."""
    case, scratch = Case.new(), torch.zeros(ROWS, WIDTH)
    case.declared["scratch"] = "scratch", scratch

    def right(n: int) -> torch.Tensor:
        torch.mul(case.x[:n], 2, out=scratch[:n])
        return torch.add(scratch[:n], 1, out=case.y[:n])

    def wrong(n: int) -> torch.Tensor:
        scratch[:n].add_(case.x[:n])
        return torch.add(scratch[:n], 1, out=case.y[:n])

    assert told(captured(case, right)[0]) == set()
    assert told(captured(case, wrong)[0]) == {"I4 violated"}


def test_a_capture_that_records_nothing_is_not_decided() -> None:
    """A forward that returns its input, tensors of no rows."""
    case = Case.new()
    assert told(captured(case, lambda n: case.x[:n])[0]) == {"I12 not decided"}
    none = torch.zeros(0, WIDTH)
    case.declared = {"none": ("static", none)}
    assert told(captured(case, lambda _: torch.mul(none, 2, out=none))[0]) == {"I12 not decided"}


def test_nothing_recorded_is_an_error_and_a_failed_capture_is_said(tmp_path: Path) -> None:
    """Nobody takes a capture outside the audit, or a failed one, for a right one."""
    case = Case.new()
    with audit(case.declared) as found:
        pass
    for ask in (found.check, lambda: found.write(tmp_path / "nothing.json")):
        with pytest.raises(SimcgError, match="nothing was recorded"):
            ask()
    assert list(tmp_path.iterdir()) == []
    backend = full(RecordingCpuDevice())
    with audit(case.declared) as found, pytest.raises(CaptureError):
        backend.capture_one(Bucket(16), lambda: case.y.fill_(case.x.sum().item()))
    with pytest.raises(SimcgError, match="nothing was recorded; failed: capture of bucket of 16"):
        found.check()
    with audit(case.declared) as found:
        backend.capture_one(Bucket(8), lambda: torch.mul(case.x[:8], 2, out=case.y[:8]))
        with pytest.raises(CaptureError):
            backend.capture_one(Bucket(16), lambda: case.y.fill_(case.x.sum().item()))
    (failed,) = found.check().failed
    assert (failed.num_tokens, failed.reason[:28]) == (16, "capture of bucket of 16 toke")
    found.write(tmp_path / "one.json")
    ran = run_cli("verify", "--recording", str(tmp_path / "one.json"))
    assert ran.code == 0
    assert "breakable, 16 tokens" not in ran.out
    assert "full, 16 tokens: capture of bucket of 16 tokens failed" in ran.out
    assert ran.out.splitlines()[-1].endswith("1 capture failed")


def test_memory_that_was_freed_as_the_graphs_were_accuses_nobody() -> None:
    """A file that is written at the end of a function, after a clean-up."""
    case = Case.new()
    found, backend = captured(case, lambda n: torch.mul(case.x[:n], 2, out=case.y[:n]))
    backend.cleanup()
    KEPT.clear()
    case.declared.clear()
    del case.x, case.y
    assert told(found) == {"I1 not decided"}


WHOLE = torch.zeros(4, 4)
BAD: dict[str, tuple[Any, str]] = {
    "no mapping": ([("x", "static", WHOLE)], "declared: got a list"),
    "nothing": (None, "declared: got a NoneType"),
    "no role": ({"x": WHOLE}, r"declared\['x'\]: got a Tensor"),
    "an unknown role": ({"x": ("foo", WHOLE)}, "got 'foo', expected a role of static, constant"),
    "a role that is nobody's": ({"x": ("unknown", WHOLE)}, "got 'unknown'"),
    "no tensor": ({"x": ("static", 5)}, "got a int, expected one tensor"),
    "two tensors": ({"x": ("static", [WHOLE, WHOLE])}, "got a list, expected one tensor"),
    "no memory": ({"x": ("static", torch.empty(3, device="meta"))}, "on meta"),
    "a sparse tensor": ({"x": ("static", torch.eye(3).to_sparse())}, "torch.sparse_coo"),
    "no name": ({"": ("static", WHOLE)}, "a name that is text and not empty"),
    "a number for a name": ({1: ("static", WHOLE)}, "a name that is text and not empty"),
    "two roles": ({"a": ("static", WHOLE), "b": ("cache", WHOLE[2:])},
                  r"declared\['b'\]: got cache memory that 'a' declares static"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_declaration_is_refused_before_any_capture(case: str) -> None:
    """In one line that names it; afterwards the device captures as before."""
    declared, words = BAD[case]
    x, y = torch.ones(4), torch.zeros(4)
    backend = full(RecordingCpuDevice())
    with pytest.raises(InputError, match=words), audit(declared):
        pytest.fail("the audit began")
    backend.capture_one(Bucket(4), lambda: torch.mul(x, 2, out=y))
    assert backend.replay(Bucket(4)).tolist() == [2.0] * 4


def test_one_tensor_may_be_declared_twice_with_one_role() -> None:
    """As a view, too."""
    case = Case.new()
    case.declared |= {"rows": ("static", case.x[:3]), "again": ("static", case.x)}
    assert told(captured(case, lambda n: torch.mul(case.x[:n], 2, out=case.y[:n]))[0]) == set()


def test_many_undeclared_weights_are_one_line_with_the_way_to_declare_them(tmp_path: Path) -> None:
    """Which names type and shape; declared, they are silent."""
    case = Case.new()
    layers = [torch.nn.Linear(WIDTH, WIDTH) for _ in range(30)]
    module = torch.nn.Sequential(*layers).requires_grad_(requires_grad=False)

    def forward(n: int) -> torch.Tensor:
        return torch.add(module(case.x[:n]), 1, out=case.y[:n])

    found, _ = captured(case, forward, (16, 8))
    found.write(tmp_path / "capture.json")
    out = run_cli("verify", "--recording", str(tmp_path / "capture.json")).out
    section = out.split("holds only while a tensor lives and is not replaced:")[1]
    section = section.split("not looked at")[0]
    assert len(section.strip().splitlines()) < 12
    assert "(float32[4, 4])" in section
    assert "and so for" in section
    assert "module.named_parameters()" in section
    case.declared |= {name: ("constant", p) for name, p in module.named_parameters()}
    assert told(captured(case, forward, (16, 8))[0]) == set()


def test_a_recording_is_read_as_other_files_are(tmp_path: Path) -> None:
    """Packed, with a byte-order mark, and with the path checked when it is written."""
    case = Case.new()
    found, _ = captured(case, lambda n: torch.mul(case.x[:n], math.pi, out=case.y[:n]))
    plain, packed, marked = (tmp_path / name for name in ("a.json", "a.json.gz", "b.json"))
    found.write(plain)
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    marked.write_bytes(b"\xef\xbb\xbf" + plain.read_bytes())
    answers = [run_cli("verify", "--recording", str(p), "--json") for p in (plain, packed, marked)]
    assert len({(ran.code, ran.out) for ran in answers}) == 1
    assert answers[0].code == 0
    with pytest.raises(InputError, match="the path of a file"):
        found.write("")
