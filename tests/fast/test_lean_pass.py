"""``lean_pass`` is what the decoder does: the same ops in the same order, the same memory."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from simcg.errors import InputError
from simcg.model.activations import lifetimes, live_row_bytes, peak_activation_bytes
from simcg.model.architecture import Architecture
from simcg.model.catalog import architecture_named, model_names
from simcg.model.forward import forward_pass
from simcg.model.lean import lean_pass
from simcg.model.ops import Attention, Gemm, GroupedGemm, Op

pytest.importorskip("torch", reason="torch is not installed: pip install '.[gpu]'")

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from real_gpu.attention.attention import using
from simcg.batch import Batch
from tests.decoders import CPU, FAMILIES, LLAMA, Engine, random_ids
from tests.lean_models import lean_names

torch.set_num_threads(1)
TOKENS = 24
SUBJECTS = [*FAMILIES, replace(LLAMA, name="wide", intermediate=200, hidden=16)]
by_family = pytest.mark.parametrize("arch", SUBJECTS, ids=lambda arch: arch.name)
ATEN = {"mm": "gemm", "addmm": "gemm", "index_select": "lookup", "zeros_like": "elementwise",
        "copy_": "elementwise"}  # fmt: skip
KERNELS = {
    "add_norm": "norm", "qk_norm": "norm", "rotary": "rotary", "kv_write": "kv_write",
    "silu_mul": "activation", "swiglu": "activation", "route": "router",
    "sort_by_expert": "moe_sort", "grouped_mm": "grouped_gemm", "combine": "moe_combine",
}  # fmt: skip


class Watch(TorchDispatchMode):  # type: ignore[misc] # torch is untyped here
    """Notes what a decoder issues, and the bytes of the storages that it holds during each op.

    What a kernel allocates for itself is left out, as one on a GPU allocates nothing; what it
    returns counts.
    """

    def __init__(self) -> None:
        super().__init__()
        self.issued: list[str] = []
        self.held: list[int] = []
        self._live = 0
        self._inside = False
        self._known: set[int] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if not self._inside:
            self._count(result)
            if func.overloadpacket.__name__ in ATEN:
                self._note(ATEN[func.overloadpacket.__name__])
        return result

    def kernel(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """``function`` as one kernel of that name."""

        def call(*args: Any) -> Any:
            self._inside = True
            result = function(*args)
            self._inside = False
            self._count(result)
            self._note(KERNELS[name])
            return result

        return call

    def flash(self, q: torch.Tensor, *_: object) -> torch.Tensor:
        """Allocates as flash attention does: a result and fp32 row sums; its values are zeros."""
        out = torch.zeros(q.shape, dtype=q.dtype)
        sums = torch.zeros((q.shape[1], q.shape[0]), dtype=torch.float32)
        self._note("attention")
        del sums
        return out

    def _note(self, kind: str) -> None:
        self.issued.append(kind)
        self.held.append(self._live)

    def _count(self, result: object) -> None:
        """Count the storage of ``result``, if it is a new one, until it dies."""
        if not isinstance(result, torch.Tensor):
            return
        storage = result.untyped_storage()
        address, size = storage.data_ptr(), storage.nbytes()
        if address in self._known:
            return
        self._known.add(address)
        self._live += size

        def gone() -> None:
            self._known.discard(address)
            self._live -= size

        weakref.finalize(storage, gone)


def watched(arch: Architecture) -> Watch:
    """One forward of the decoder under watch."""
    watch = Watch()
    engine = Engine.of(arch, CPU, torch.bfloat16, watch.flash)
    decoder = engine.decoder
    watched = {name: watch.kernel(name, getattr(decoder.kernels, name)) for name in KERNELS}
    decoder.kernels = SimpleNamespace(**watched)
    batch = Batch((TOKENS - 5, 5), (0, 7))
    bounds = engine.planner.write(batch, [1, 40], TOKENS, 2)
    metadata = engine.planner.metadata(TOKENS, 2)
    engine.attention.use(metadata, bounds)
    ids, out = random_ids(TOKENS, 1, arch), torch.empty(TOKENS, arch.hidden, dtype=torch.bfloat16)
    with using(engine.attention), watch:
        decoder.forward(ids, metadata, out)
    return watch


def issued_as(op: Op) -> str:
    """The kind that ``Watch`` sees: lookups and products are torch's, whatever they serve."""
    if op.name in ("embedding", "moe_gather"):
        return "lookup"
    return "gemm" if isinstance(op.shape, Gemm) else op.kind


@by_family
def test_the_decoder_issues_the_ops_of_the_pass_in_order(arch: Architecture) -> None:
    """Kernel by kernel the same kinds, none more and none missing."""
    assert watched(arch).issued == [issued_as(op) for op in lean_pass(arch).ops]


@by_family
def test_the_decoder_holds_at_each_op_what_the_pass_says(arch: Architecture) -> None:
    """Bytes alive during each op are equal, and so is their peak.

    The ends of the experts' stretches are the one tensor whose size no row decides.
    """
    forward = lean_pass(arch)
    per_row, names = live_row_bytes(forward), [op.name for op in forward.ops]
    sorted_ops = ("moe_sort", "moe_gather", "experts_gate_up", "experts_down", "moe_combine")
    expected = []
    in_experts = False
    for row_bytes, name in zip(per_row, names, strict=True):
        in_experts = name in sorted_ops or (in_experts and name == "activation")
        expected.append(TOKENS * row_bytes + 4 * arch.experts * in_experts)
    held = watched(arch).held
    assert held == expected
    assert max(held) - peak_activation_bytes(forward, TOKENS) in (0, 4 * arch.experts)


@pytest.mark.parametrize("name", lean_names())
def test_it_is_the_engines_forward_but_for_what_it_states(name: str) -> None:
    """Products, windows and breaks are those of ``forward_pass`` in bf16, in the same order."""
    arch = architecture_named(name)
    lean, engine = lean_pass(arch), forward_pass(arch, dtype="bf16")
    assert len(lean.layers) == arch.layers
    kinds = {id(layer) for layer in lean.layers}
    assert len(kinds) == len(set(arch.layer_kinds)), "layers of one kind are one object"
    products = (Gemm, GroupedGemm, Attention)
    ours = [op.shape for op in lean.ops if isinstance(op.shape, products)]
    theirs = [op.shape for op in engine.ops[:-1] if isinstance(op.shape, products)]
    assert ours == theirs
    for layer in lean.layers:
        breaks = [op.name for op in layer if op.is_break]
        assert breaks == ["attention", "copy"]
    assert lean.tail == engine.tail[:1]
    for life in lifetimes(lean):
        assert life.last_read > life.written or life.tensor.name == "flash_sums"


def test_the_models_that_it_cannot_run_are_refused_by_name() -> None:
    """Latent, linear and gated attention, wide norms and shared experts are not in it."""
    refused = sorted(set(model_names()) - set(lean_names()))
    assert {"deepseek-r1", "glm-5.2", "minimax-m2.5", "qwen3.5-397b-a17b"} <= set(refused)
    for name in refused:
        with pytest.raises(InputError, match=f"lean decoder, model: got '{name}'"):
            lean_pass(architecture_named(name))


def test_kernels_of_a_layer() -> None:
    """A Llama layer is 11 kernels, Qwen3's 12; with experts 19 (two grouped products of 2)."""
    expected = {"llama-3.1-8b": 11, "qwen3-8b": 12, "qwen3-30b-a3b": 19, "gpt-oss-20b": 18}
    for name, kernels in expected.items():
        layers = lean_pass(architecture_named(name)).layers
        assert {sum(op.kernels for op in layer) for layer in layers} == {kernels}
