"""Sparse attention at short prompts, and TensorRT-LLM's fusions, in the reproduction."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib.util import find_spec

import numpy as np
import pytest

from simcg.backend import BREAKABLE, EAGER
from simcg.cost.step import StepCost
from simcg.hardware.catalog import load_profile
from simcg.model.activations import lifetimes
from simcg.model.ops import AllReduce, ForwardPass, Op, weight_bytes
from simcg.reproduce.cases import GLM_SHORT, R1_DECODE, cases
from simcg.reproduce.outcome import Reproduction, reproduce
from simcg.reproduce.parameters import start
from simcg.reproduce.reasons import CAUSES, CHANGED, NOT_SIMULATED
from simcg.reproduce.simulator import TTFT_LENGTHS, Deployment, Simulator, forward_of, prefill_times
from simcg.reproduce.sparse_host import (
    DENSE_NS,
    DENSE_WITH_KEYS_NS,
    KERNEL_SHARE,
    SPARSE_NS,
    sparse_dispatch,
    with_sparse_kernel,
)

GLM_EAGER = GLM_SHORT.outside_graphs
MODULE_16_BIT_MS = {4096: 0.7931, 8192: 1.6196, 16384: 3.3152}
"""GLM-5.2's module by the kernel for an FP8 cache, 16 heads, as measured."""


def layers_of(forward: ForwardPass) -> tuple[list[Op], list[Op]]:
    """The modules of a layer without an indexer and of one with it."""
    modules = [
        list(layer[1 : [op.name for op in layer].index("o") + 1])
        for layer in dict.fromkeys(forward.layers)
    ]
    without, indexed = (
        next(m for m in modules if any(op.name == "index_key" for op in m) == wanted)
        for wanted in (False, True)
    )
    return without, indexed


def host_ns(ops: list[Op], deployment: Deployment) -> float:
    dispatch = sparse_dispatch(forward_of(deployment))
    return sum(dispatch[op.name].value * op.kernels for op in ops if op.name in dispatch)


def test_modules_take_the_host_as_long_as_was_measured() -> None:
    """Dense: to the nanosecond; sparse: but for attention, which runs at the break."""
    dense, with_keys = layers_of(forward_of(GLM_EAGER))
    assert host_ns(dense, GLM_EAGER) == pytest.approx(DENSE_NS)
    assert host_ns(with_keys, GLM_EAGER) == pytest.approx(DENSE_WITH_KEYS_NS)
    sparse, _ = layers_of(forward_of(GLM_SHORT))
    kernels = sum(op.kernels for op in sparse)
    assert host_ns(sparse, GLM_SHORT) == pytest.approx(SPARSE_NS * (kernels - 1) / kernels)


def test_an_eager_step_issues_the_measured_modules_and_dispatches_the_rest() -> None:
    """Counted by hand over the layers: what R4 and the captured runs rest on."""
    values = start()
    simulator = Simulator(values)
    steps = simulator.steps(GLM_SHORT, EAGER, TTFT_LENGTHS)
    forward = forward_of(GLM_EAGER)
    named = set(sparse_dispatch(forward))
    indexed = sum(any(op.name == "index_key" for op in layer) for layer in forward.layers)
    others = sum(op.kernels for op in forward.ops if op.name not in named)
    expected = (
        len(forward.layers) * DENSE_NS
        + indexed * (DENSE_WITH_KEYS_NS - DENSE_NS)
        + others * values.dispatch_ns
    )
    assert steps.host_ns == pytest.approx(expected, rel=1e-4)


def test_a_break_runs_attention_and_issues_what_is_beside_it() -> None:
    """Each break body, its other kernels at their dispatch, and a launch of each graph."""
    simulator = Simulator(start())
    forward, profile = forward_of(GLM_SHORT), simulator.profile(GLM_SHORT)
    host = profile.host
    breaks = sum(
        host.dispatch.get(op.name, host.dispatch[""]).value * op.kernels
        for op in forward.ops
        if op.is_break and op.name != "attention"
    )
    bodies = len(forward.layers) * host.break_body.value
    cost = StepCost(forward, profile, BREAKABLE)
    launches = cost.segments * np.array([host.replay[0].value, host.replay[-1].value])
    got = cost.times_from(prefill_times(GLM_SHORT, (64,))).host_ns
    assert bodies + breaks + launches[0] * 0.5 <= got <= bodies + breaks + launches[1]


def test_the_sparse_kernel_explains_the_measured_modules() -> None:
    """16-bit module of the profile with that kernel against the measured one, at three lengths."""
    sizes = tuple(MODULE_16_BIT_MS)
    times = prefill_times(replace(GLM_SHORT, dtype="bf16"), sizes)
    module, _ = layers_of(forward_of(replace(GLM_SHORT, dtype="bf16")))
    simulated = sum((times.of(op).ns for op in module), np.zeros(len(sizes), dtype=np.int64)) / 1e6
    assert simulated == pytest.approx(list(MODULE_16_BIT_MS.values()), rel=0.05)


def test_only_sparse_attention_is_scaled() -> None:
    before = load_profile("gb300")
    after = with_sparse_kernel(before)
    for old, new in zip(before.curves, after.curves, strict=True):
        if old.key.op == "sparse_attention":
            assert new.ns == pytest.approx([ns * KERNEL_SHARE for ns in old.ns])
        else:
            assert new == old


@pytest.mark.skipif(find_spec("aiconfigurator_core") is None, reason="no aiconfigurator-core")
def test_the_carried_figures_are_the_medians_of_the_tables() -> None:
    """Recomputed from the public package's own file."""
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow reads the tables")
    spec = find_spec("aiconfigurator_core")
    assert spec is not None
    assert spec.submodule_search_locations
    path = "systems/data/gb300/sparse_attention/sglang/0.5.14/dsa_context_module_perf.parquet"
    table = parquet.read_table(f"{spec.submodule_search_locations[0]}/{path}").to_pydict()
    rows = {name: np.array(column) for name, column in table.items()}

    def median_ns(kind: str, op: str) -> float:
        keep = (rows["model"] == "nvidia/GLM-5.2-NVFP4") & (rows["kv_cache_dtype"] == "fp8")
        keep &= (rows["num_heads"] == 16) & (rows["tp_size"] == 4) & (rows["batch_size"] == 1)
        keep &= (rows["isl"] <= 2048) & (rows["isl"] + rows["step"] <= 8192)
        keep &= (rows["kernel_source"] == f"sglang_dsa_{kind}") & (rows["op_name"] == op)
        return float(np.median(rows["latency"][keep]) * 1e6)

    whole, skipped = "dsa_context_module", "dsa_context_module_skip_indexer"
    dense = "dense_mha_trtllm_ragged"
    assert median_ns(dense, skipped) == pytest.approx(DENSE_NS)
    assert median_ns(dense, whole) == pytest.approx(DENSE_WITH_KEYS_NS)
    assert median_ns("skip_indexer_trtllm", skipped) == pytest.approx(SPARSE_NS)


def test_fusions_leave_the_kernels_of_the_published_modules() -> None:
    """Thirteen modules of a decoded layer: 9 kernels of attention, a fused all-reduce, router,
    choice and its sort (4), shared expert (5), experts (3), and a fused sum; unfused sums are two
    more."""
    summed = replace(R1_DECODE, fusions="norms and sums")
    for deployment, kernels in ((summed, 9 + 1 + 4 + 5 + 3 + 1), (R1_DECODE, 25)):
        forward = forward_of(deployment)
        assert sum(op.kernels for op in forward.layers[-1]) == kernels


def products_and_sums(forward: ForwardPass) -> tuple[int, int]:
    """Bytes of all matrices, and all-reduces."""
    reduces = sum(isinstance(op.shape, AllReduce) for op in forward.ops)
    return sum(weight_bytes(op.shape) for op in forward.ops), reduces


def test_fusions_lose_no_product_no_tensor_and_no_all_reduce() -> None:
    plain = forward_of(replace(R1_DECODE, fusions=""))
    for deployment in (replace(R1_DECODE, fusions="norms and sums"), R1_DECODE):
        forward = forward_of(deployment)
        assert lifetimes(forward)  # every tensor that is read was written
        assert products_and_sums(forward) == products_and_sums(plain)
        assert sum(op.name == "input_norm" for op in forward.ops) == 1


@cache
def whole_reproduction() -> Reproduction:
    return reproduce()


def test_changes_and_causes_are_told_of_values_that_exist() -> None:
    """Every value whose model was changed after a look says so, with its first error."""
    outcomes = {o.published.id: o for o in whole_reproduction().outcomes}
    assert set(CHANGED) <= set(cases()) <= set(outcomes)
    for row, text in CHANGED.items():
        assert outcomes[row].changed == text
        assert "% at first" in text
    for stem in (*CAUSES, *NOT_SIMULATED):
        assert any(row.startswith(stem) for row in outcomes)
    assert all(o.changed == "" for row, o in outcomes.items() if row not in CHANGED)
