"""Captures under audit on a GPU: ours, torch's own, and those of public breaking libraries."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install '.[gpu]'")

import torch

if not torch.cuda.is_available():
    pytest.skip("no CUDA device", allow_module_level=True)

from real_gpu.attention.attention import Attention
from real_gpu.attention.cache import KvCache
from real_gpu.attention.device import attention_kernel
from real_gpu.attention.plan import Planner
from real_gpu.audit import Audit, audit
from real_gpu.backends.backend import Backend
from real_gpu.backends.breakable import breakable, debug_graph
from real_gpu.backends.full import full
from real_gpu.backends.tc_piecewise import TcPiecewise
from real_gpu.graphs.cuda import CudaGraphDevice
from real_gpu.graphs.device import GraphDevice
from real_gpu.models.decoder import Decoder
from simcg.formal.recording import Break, Op, Recording, Role, Segment
from simcg.ladder import Bucket
from simcg.model.catalog import architecture_named
from tests.audited import KEPT as KEPT_OF_LADDERS
from tests.audited import audited_ladder
from tests.decoders import Engine
from tests.lean_models import lean_names
from tests.programs import EVERY_STEP, Buffers, forward_of

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"
)  # Inductor's imports, and torch's on graphs without work
DEVICE = CudaGraphDevice()
MAKERS: dict[str, Callable[[GraphDevice], Backend]] = {
    "full": full,
    "breakable": breakable,
    "debug": debug_graph,
    "tc_piecewise": TcPiecewise,
    "inductor": lambda device: TcPiecewise(device, "inductor"),
}
COMPILED = ("qwen3-8b", "gpt-oss-20b")
LIBRARIES = {
    "breakable_cuda_graphs": ("breakable_graph", "BreakableCUDAGraph"),
    "piecewise_cuda_graphs": ("piecewise_graph", "CUDAGraphSequence"),
}
Declared = dict[str, tuple[Role, torch.Tensor]]
KEPT: list[object] = []


@pytest.mark.parametrize("model", lean_names())
@pytest.mark.parametrize("maker", MAKERS)
def test_decoders_are_clean(model: str, maker: str) -> None:
    """At published sizes, two layers: no violation, and nothing hangs on the life of a tensor."""
    if maker == "inductor" and model not in COMPILED:
        pytest.skip(f"compiled pieces are audited of {', '.join(COMPILED)}")
    device, dtype = DEVICE.device, torch.bfloat16
    decoder = Decoder(architecture_named(model), device, dtype, seed=3, layers=2)
    cache = KvCache.allocate(decoder.arch, 600, device, dtype)
    decoder.bind(cache)
    attention = Attention(decoder.arch, cache, attention_kernel(device))
    engine = Engine(decoder, attention, Planner(cache, 64, 8))
    report = audited_ladder(engine, DEVICE, MAKERS[maker]).check()
    assert [str(f) for f in report.findings if f.verdict != "not decided"] == []
    assert report.cases["I14"] == 3
    KEPT_OF_LADDERS.clear()
    torch.cuda.empty_cache()


@pytest.mark.parametrize("maker", ["breakable", "debug"])
def test_programs_are_clean(maker: str) -> None:
    """Every kind of step and break: each kernel is an operator's, and all is decided."""
    buffers = Buffers.on(DEVICE.device, 12)
    declared: Declared = {
        "source": ("static", buffers.source), "shift": ("static", buffers.shift),
        "weight": ("constant", buffers.weight), "out": ("output", buffers.out),
    }  # fmt: skip
    backend = MAKERS[maker](DEVICE)
    with audit(declared) as found:
        for rows in (12, 5):
            backend.capture_one(Bucket(rows), forward_of(EVERY_STEP, buffers, rows))
    assert [str(finding) for finding in found.check().findings] == []


def torch_graph(forward: Callable[[], object]) -> torch.cuda.CUDAGraph:
    """A capture as torch documents it."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        forward()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        forward()
    return graph


def test_a_capture_by_torch_is_recorded() -> None:
    """With its kernels, its pool and its streams; the replay is as without an audit."""
    x, out, side = torch.ones(4, device="cuda"), torch.zeros(4, device="cuda"), torch.cuda.Stream()

    def forward() -> None:
        y = x * 10
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            z = y + 1
        torch.cuda.current_stream().wait_stream(side)
        out.copy_(z)

    with audit({"x": ("static", x), "out": ("output", out)}) as found:
        graph = torch_graph(forward)
    (recording,) = found.recordings.captures
    (segment,) = recording.items
    assert isinstance(segment, Segment)
    ops = [event for event in segment.events if isinstance(event, Op)]
    assert [(op.name, op.stream, op.nodes) for op in ops] == [
        ("aten.mul.Tensor", 0, 1), ("aten.add.Tensor", 1, 1), ("aten.copy_.default", 0, 1),
    ]  # fmt: skip
    assert segment.nodes == 3
    report = found.check()
    assert [str(finding) for finding in report.findings] == []
    assert report.cases["I21"] == 2
    x.fill_(3)
    graph.replay()
    assert out.tolist() == [31.0] * 4


def test_a_tensor_that_a_graph_reads_and_nobody_keeps() -> None:
    """Its graph is right as long as it lives, and reads another owner's data after that."""
    x, out, owned = torch.ones(4, device="cuda"), torch.zeros(4, device="cuda"), []
    owned.append(torch.full((4,), 3.0, device="cuda"))
    with audit({"x": ("static", x), "out": ("output", out)}) as found:
        graph = torch_graph(lambda: out.copy_(x * owned[0]))
    KEPT.append(graph)
    assert [(f.invariant, f.verdict) for f in found.check().findings] == [
        ("I1", "holds only while")
    ]
    owned.clear()
    assert [(f.invariant, f.verdict) for f in found.check().findings] == [("I1", "violated")]


def test_memory_that_one_capture_leaves_to_another() -> None:
    """Two graphs of one pool: the second reads what only replays of the first define."""
    x, out = torch.ones(4, device="cuda"), torch.zeros(4, device="cuda")
    pool, made = torch.cuda.graph_pool_handle(), []
    with audit({"x": ("static", x), "out": ("output", out)}) as found:
        for forward in (lambda: made.append(x + 1), lambda: out.copy_(made[0] * 2)):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool):
                forward()
            KEPT.append(graph)
    violated = {f.invariant for f in found.check().findings if f.verdict == "violated"}
    assert "I2" in violated


def library(name: str) -> Any:
    return pytest.importorskip(name, reason=f"{name} is not installed")


def scale_into(x: torch.Tensor, by: torch.Tensor, out: torch.Tensor) -> None:
    torch.mul(x, by, out=out)


def captured_by(
    package: Any, name: str, declared: Declared, forward: Callable[[Any], object]
) -> tuple[Audit, Any]:
    """A forward with a break, captured by a library under audit."""
    capture, sequence = (getattr(package, part) for part in LIBRARIES[name])
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        forward(scale_into)
    torch.cuda.synchronize()
    graph = sequence()
    with audit(declared) as found, capture(graph, stream=stream):
        forward(package.no_graph(scale_into))
    return found, graph


def breaks_of(recording: Recording) -> list[Break]:
    return [item for item in recording.items if isinstance(item, Break)]


@pytest.mark.parametrize("name", LIBRARIES)
def test_the_hazard_of_a_library_is_told(name: str) -> None:
    """A break's argument from outside the pool, held weakly: replay reads its next owner's data.

    The audit says so at capture, as long as the owner lives and after.
    """
    package = library(name)
    x, out = torch.ones(1 << 20, device="cuda"), torch.zeros(1 << 20, device="cuda")
    z, owned = torch.zeros_like(out), [torch.full((1 << 20,), 3.0, device="cuda")]

    def forward(step: Callable[..., object]) -> None:
        step(x + 0, owned[0], z)
        out.copy_(z)

    declared: Declared = {
        "x": ("static", x), "z": ("cache", z), "out": ("output", out),
    }  # fmt: skip
    found, graph = captured_by(package, name, declared, forward)
    (at_break,) = breaks_of(found.recordings.captures[0])
    assert [argument.held for argument in at_break.arguments] == ["weak"] * 3
    alive = [f for f in found.check().findings if f.op.startswith("argument 1 of")]
    assert [(f.invariant, f.verdict) for f in alive] == [("I5", "holds only while")]
    graph.replay()
    torch.cuda.synchronize()
    assert out[0].item() == 3
    address = owned[0].data_ptr()
    owned.clear()
    next_owner = torch.full((1 << 20,), -7.0, device="cuda")
    gone = [f for f in found.check().findings if f.verdict == "violated"]
    assert [f.invariant for f in gone] == ["I5"]
    assert "freed" in gone[0].found
    if next_owner.data_ptr() == address:  # as the allocator hands blocks on
        graph.replay()
        torch.cuda.synchronize()
        assert out[0].item() == -7


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_right_capture_of_a_library_is_clean(name: str) -> None:
    """Arguments that the pool owns, and outside ones that are declared."""
    package = library(name)
    x, out, kept = (torch.ones(64, device="cuda") for _ in range(3))

    def forward(step: Callable[..., object]) -> None:
        y = x + 1
        step(y, y, kept)
        out.copy_(kept * 2)

    declared: Declared = {
        "x": ("static", x), "kept": ("cache", kept), "out": ("output", out),
    }  # fmt: skip
    found, graph = captured_by(package, name, declared, forward)
    (recording,) = found.recordings.captures
    assert [type(item).__name__ for item in recording.items] == ["Segment", "Break", "Segment"]
    assert [str(finding) for finding in found.check().findings] == []
    x.fill_(2)
    graph.replay()
    assert out.tolist() == [18.0] * 64


def test_what_no_operator_launches_is_not_decided() -> None:
    """A kernel that reaches the stream past torch's dispatch shows in the number of nodes."""
    x, out = torch.ones(256, device="cuda"), torch.zeros(256, device="cuda")
    driver = ctypes.CDLL("libcuda.so.1")

    def forward() -> None:
        stream = torch.cuda.current_stream().cuda_stream
        address, size = ctypes.c_void_p(x.data_ptr()), ctypes.c_size_t(x.nbytes)
        assert not driver.cuMemsetD8Async(address, 0, size, ctypes.c_void_p(stream))
        out.copy_(x)

    with audit({"x": ("static", x), "out": ("output", out)}) as found:
        KEPT.append(torch_graph(forward))
    assert [(f.invariant, f.verdict) for f in found.check().findings] == [("I12", "not decided")]


@pytest.mark.parametrize("audited", [True, False], ids=["within", "after"])
def test_an_error_of_captured_code_is_told_as_itself(audited: bool) -> None:
    """Within an audit and after one: memory that is freed while it is raised does not hide it."""
    x = torch.ones(4, device="cuda")
    with audit({"x": ("static", x)}):
        torch_graph(lambda: x + 1)
    with (
        audit({"x": ("static", x)}) if audited else nullcontext(),
        pytest.raises(ZeroDivisionError),
        torch.cuda.graph(torch.cuda.CUDAGraph()),
    ):
        (x + 1, 1 // 0)
