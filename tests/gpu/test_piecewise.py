"""tc_piecewise on a GPU: both compilers, Triton kernels in pieces, and real decoders."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install '.[gpu]'")

import torch

if not torch.cuda.is_available():
    pytest.skip("no CUDA device", allow_module_level=True)

from real_gpu.attention.cache import KvCache
from real_gpu.attention.plan import Planner
from real_gpu.backends.breakable import breakable
from real_gpu.backends.breaks import eager_on_graph
from real_gpu.backends.piecewise.compilers import PIECE_COMPILERS, CompilerName
from real_gpu.backends.tc_piecewise import TcPiecewise
from real_gpu.graphs.cuda import CudaGraphDevice
from real_gpu.models.decoder import Decoder
from real_gpu.models.kernels import kernels_for
from real_gpu.recording import observed_capture
from real_gpu.runners.prefill import PrefillRunner
from real_gpu.runners.runner import Runner
from simcg.batch import Batch
from simcg.formal.recording import Op, Segment
from simcg.ladder import AdmissionRule, Bucket, Ladder
from simcg.model.catalog import architecture_named
from tests.decoders import random_ids
from tests.pieces import Inputs, Model, outcome

GPU = torch.device("cuda")
BF16 = torch.bfloat16
SIZES = (12, 8, 3, 2, 1)
kernels = kernels_for(GPU)

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"
)  # Inductor's imports, and its advice on matrix precision
with_each_compiler = pytest.mark.parametrize("compiler", list(PIECE_COMPILERS))


@pytest.fixture(autouse=True)
def memory_back() -> Iterator[None]:
    yield
    torch.cuda.synchronize()
    torch.cuda.empty_cache()


@with_each_compiler
def test_replays_in_any_order_equal_eager_at_their_size(compiler: CompilerName) -> None:
    device, model = CudaGraphDevice(), Model.new(GPU)
    inputs, backend = Inputs.of(max(SIZES), GPU), TcPiecewise(device, compiler)
    for rows in SIZES:
        backend.capture_one(Bucket(rows), inputs.forward(model, rows))
    for seed, rows in enumerate((1, 12, 3, 3, 8, 2, 12, 1)):
        inputs.rewrite(seed)
        device.fill_free(backend.pool, 0x7F)
        inputs.out.fill_(float("nan"))
        found = outcome(model, functools.partial(backend.replay, Bucket(rows)))
        expected = outcome(model, inputs.forward(model, rows))
        assert torch.equal(found[0], expected[0])
        assert torch.equal(found[1], expected[1])
        assert found[2] == expected[2] == 1
    backend.cleanup()


@eager_on_graph
def double_into(x: torch.Tensor, out: torch.Tensor) -> None:
    torch.mul(x, 2, out=out)


@with_each_compiler
def test_triton_kernels_survive_the_compiler_and_write_in_place(compiler: CompilerName) -> None:
    """add_norm writes its residual and its output; both cross a break and are used after it."""
    x, out = torch.randn(64, 256, device=GPU).to(BF16), torch.zeros(64, 256, device=GPU).to(BF16)
    weight, matrix = (
        torch.ones(256, device=GPU).to(BF16),
        torch.randn(256, 256, device=GPU).to(BF16),
    )

    def forward_of(rows: int) -> functools.partial[torch.Tensor]:
        return functools.partial(forward, x[:rows], out[:rows])

    def forward(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        residual = torch.zeros_like(x)
        hidden = torch.mm(x, matrix)
        kernels.add_norm(hidden, residual, weight, hidden)
        doubled = torch.empty_like(hidden)
        double_into(hidden, doubled)
        kernels.add_norm(doubled, residual, weight, out)
        return out

    backend = TcPiecewise(CudaGraphDevice(), compiler)
    for rows in (64, 16):
        backend.capture_one(Bucket(rows), forward_of(rows))
    for rows in (16, 64):
        x.copy_(torch.randn_like(x))
        found = backend.replay(Bucket(rows)).clone()
        with torch.inference_mode():
            expected = forward_of(rows)()
        assert torch.equal(found, expected)
    backend.cleanup()


MODELS = ["llama-3.1-8b", "qwen3-8b", "qwen3-30b-a3b", "gpt-oss-20b"]
BATCHES = [(300, 20), (64,), (5, 6, 7), (16,), (500,)]


def hidden_states(model: str, name: str) -> list[torch.Tensor]:
    """Two layers at their real sizes, over ``BATCHES``, on one of the backends."""
    decoder = Decoder(architecture_named(model), GPU, BF16, seed=3, layers=2)
    cache = KvCache.allocate(decoder.arch, 2000, GPU, BF16)
    decoder.bind(cache)
    device = CudaGraphDevice()
    backend = breakable(device) if name == "breakable" else compiled(device, name)
    runner = Runner(decoder, Planner(cache, 512, 4), backend, Ladder.of([16, 64, 320, 512]))
    runner.capture()
    prefill = PrefillRunner(runner, AdmissionRule())
    out = []
    for queries in BATCHES:
        batch = Batch(queries, (0,) * len(queries))
        starts = [1 + sum(queries[:i]) for i in range(len(queries))]
        ids = random_ids(batch.num_tokens, 3, decoder.arch).to(GPU)
        step = prefill.step(batch, ids, starts)
        assert step.bucket is not None
        out.append(step.hidden.clone())
    backend.cleanup()
    return out


def compiled(device: CudaGraphDevice, name: str) -> TcPiecewise:
    return TcPiecewise(device, "inductor" if name == "inductor" else "eager")


@pytest.mark.parametrize("model", MODELS)
def test_a_decoder_as_traced_gives_the_rows_of_the_breakable_backend(model: str) -> None:
    for found, expected in zip(
        hidden_states(model, "eager"), hidden_states(model, "breakable"), strict=True
    ):
        assert torch.equal(found, expected)


@pytest.mark.parametrize("model", ["qwen3-8b", "qwen3-30b-a3b"])
def test_a_decoder_that_inductor_compiles_is_close(model: str) -> None:
    for found, expected in zip(
        hidden_states(model, "inductor"), hidden_states(model, "breakable"), strict=True
    ):
        assert torch.isfinite(found).all()
        error = (found.float() - expected.float()).norm() / expected.float().norm()
        assert error < 0.02


def test_a_recording_on_a_gpu_names_triton_kernels_as_not_decided() -> None:
    """Each is one node of the graph, which has no other nodes than the recording has operators."""
    x, out = torch.ones(8, 256, device=GPU).to(BF16), torch.zeros(8, 256, device=GPU).to(BF16)
    weight = torch.ones(256, device=GPU).to(BF16)

    def forward() -> torch.Tensor:
        residual = x + 0
        kernels.add_norm(x, residual, weight, out)
        return out

    device = CudaGraphDevice()
    backend = breakable(device)
    declared = {"x": ("static", x), "w": ("constant", weight), "out": ("output", out)}
    recording = observed_capture(backend, Bucket(8), forward, declared)  # type: ignore[arg-type]
    (segment,) = recording.items
    assert isinstance(segment, Segment)
    ops = [event for event in segment.events if isinstance(event, Op)]
    assert [(op.name, op.decided) for op in ops] == [
        ("aten.add.Tensor", True),
        ("triton._add_norm", False),
    ]
    assert segment.nodes == 2
    backend.cleanup()


def test_eager_and_compiled_agree_without_graphs() -> None:
    model, inputs = Model.new(GPU), Inputs.of(17, GPU)
    inputs.rewrite(5)
    forward = inputs.forward(model, 17)
    found = outcome(model, lambda: TcPiecewise(CudaGraphDevice(), "inductor").run(forward, 17))
    assert torch.equal(found[0], outcome(model, forward)[0])
