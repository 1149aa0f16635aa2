"""From measurements to a profile, and what a calibration measures for which models."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from real_gpu.calibrate.plan import DEFAULT_MODELS, fine_rows, middle_rows, shapes_of
from real_gpu.calibrate.profile import at_common_clocks, build_profile, profile_name
from simcg.backend import BACKENDS, BREAKABLE, EAGER, FULL, TC_PIECEWISE
from simcg.cost.kernels import Kernels
from simcg.cost.memory import graph_bytes
from simcg.cost.startup import startup
from simcg.cost.step import StepCost
from simcg.cost.table import ReplayModel
from simcg.errors import SimcgError
from simcg.hardware.catalog import load_profile, profile_names
from simcg.hardware.match import profile_matches
from simcg.hardware.profile import HardwareProfile, decode_profile
from simcg.model.architecture import Architecture
from simcg.model.catalog import architecture_named
from simcg.model.forward import forward_pass
from simcg.model.lean import lean_pass
from simcg.model.ops import Attention, ForwardPass, Gemm, GroupedGemm
from tests.calibrations import made_raw
from tests.cost_laws import rows_work
from tests.costs import figures, one_request
from tests.lean_models import lean_names

MODELS = [architecture_named(name) for name in DEFAULT_MODELS]
RAW = made_raw(MODELS)
PROFILE = build_profile(RAW, "h200")


def without(*sections: str, error: str | None = None) -> dict[str, Any]:
    """The measurements without these sections, or with an error in their place."""
    raw = copy.deepcopy(RAW)
    for name in sections:
        del raw["sections"][name]
        if error is not None:
            raw["sections"][name] = {"error": error, "where": "somewhere"}
    return raw


def test_a_layer_more_tells_what_a_break_and_a_piece_cost() -> None:
    """Breakable: 40 us a layer, 4 of them the launch of 11 nodes; tc_piecewise 7 us more."""
    assert PROFILE.host.break_body.value == 36_000
    assert PROFILE.host.piece.value == 7_000
    assert [f.value for f in PROFILE.host.replay] == [3000, 5000, 9000]


@given(st.lists(st.floats(0.8, 1.3), min_size=4, max_size=4), st.floats(0.8, 1.3))
def test_clocks_that_wander_change_no_curve(slower: list[float], all_slower: float) -> None:
    """A point and what ran beside it take longer together: the curve is that of the usual clocks.

    Usual is the median; if all points are slower, it is the slower time that counts.
    """
    timed = [one for one in RAW["sections"].values() if isinstance(one, dict) and "key" in one]
    wandered = copy.deepcopy(timed)
    for i, factor in enumerate(slower):
        wandered[0]["ns"][i] *= factor
        wandered[0]["beside_ns"][i] *= factor
    for one, was in zip(at_common_clocks(wandered), timed, strict=True):
        assert one["ns"] == pytest.approx(was["ns"], abs=1)
    for one in wandered:
        one["ns"] = [ns * all_slower for ns in one["ns"]]
        one["beside_ns"] = [ns * all_slower for ns in one["beside_ns"]]
    for one, was in zip(at_common_clocks(wandered), timed, strict=True):
        assert one["ns"] == pytest.approx([ns * all_slower for ns in was["ns"]], abs=1)


def test_dispatch_is_the_middle_of_both_times() -> None:
    """Kinds at 10, 11, 12 .. us, 0.4 us more the second time; others as the small kernels."""
    dispatch = PROFILE.host.dispatch
    assert dispatch["norm"].value == 12_200
    assert dispatch["norm"].spread == 200
    assert dispatch["moe_combine"].value == 21_200
    small = sorted(dispatch[kind].value for kind in ("norm", "rotary", "kv_write", "activation"))
    assert dispatch[""].value == (small[1] + small[2]) / 2


def test_compiled_code_is_a_layer_less_its_break_over_its_kernels() -> None:
    """93 us a layer, of them 16.2 attention and 11.2 copy, over 11 kernels."""
    dispatch = PROFILE.startup.compilers["inductor"].dispatch
    assert dispatch is not None
    assert dispatch.value == round((93_000 - 16_200 - 11_200) / 11, 1)
    assert dispatch.provenance == "measured"


def test_an_engine_s_compiled_code_counts_as_the_cheapest_call() -> None:
    """Compiled pieces of ours enter Triton's kernels in a way that engines do not."""
    host = PROFILE.host
    assert host.compiled_dispatch.value == host.dispatch["elementwise"].value
    assert host.compiled_dispatch.provenance == "assumed"


def test_gaps_are_medians_over_rows_and_never_negative() -> None:
    """Noise below zero is none; the spread is half the range."""
    gaps = PROFILE.gaps
    assert (gaps.node.value, gaps.node.spread) == (650, 50)
    assert gaps.stream.value == 1000
    assert gaps.graph_start.value == 0
    assert gaps.node_rows == (16, 64, 128)
    assert [f.value for f in gaps.node_at] == [600, 700, 650]


def test_the_gap_behind_a_break_is_what_a_layer_more_costs_breakable_alone() -> None:
    """2,050 ns a layer more than full; two kernels at 1,000 and this gap for three at 650."""
    gap = PROFILE.gaps.after_break
    assert gap.value == 2050 + 3 * 650 - 2 * 1000
    assert gap.spread == 1000
    layer = lean_pass(MODELS[0]).layers[0]
    one, two = (
        ForwardPass("a", lean_pass(MODELS[0]).head, (layer,) * n, lean_pass(MODELS[0]).tail)
        for n in (1, 2)
    )
    work = one_request([256])
    each = {
        backend: int(StepCost(two, PROFILE, backend).times(work).device_ns[0])
        - int(StepCost(one, PROFILE, backend).times(work).device_ns[0])
        for backend in (FULL, BREAKABLE)
    }
    assert each[BREAKABLE] - each[FULL] == 2050


def test_capture_is_split_into_issue_nodes_and_segments() -> None:
    """340 us a layer of full, 200 of them issue, over 12 nodes, instantiation 5.5 us a node apart;
    50 us more for a segment more.
    """
    startup = PROFILE.startup
    assert startup.instantiate_per_node.value == 5500
    assert startup.capture_per_node.value == round(140_000 / 12 - 5500, 1)
    assert startup.capture_per_segment is not None
    assert startup.capture_per_segment.value == 50_000


@pytest.mark.parametrize("run", [0, 2])
def test_a_disturbed_run_of_a_depth_that_ran_twice_counts_for_nothing(run: int) -> None:
    """Either run of the shallow decoder may take 1.7 times as long: no dispatch changes."""
    raw = copy.deepcopy(RAW)
    raw["sections"]["compiled eager"][run]["compiled_ns"][0] *= 1.7
    assert build_profile(raw, "h200").startup.compilers == PROFILE.startup.compilers


def test_compilers_cost_once_and_per_layer() -> None:
    """From two depths a layer; what the first compilation took beside its layers once,
    and 300 ms that the very first one of the process took longer than its like.
    """
    eager, inductor = (PROFILE.startup.compilers[name] for name in ("eager", "inductor"))
    assert (eager.once.value, eager.per_layer.value) == (1200e6, 40e6)
    assert (inductor.once.value, inductor.per_layer.value) == (9300e6, 200e6)
    assert eager.dispatch is not None
    assert eager.dispatch.value == round((90_000 - 16_200 - 11_200) / 11, 1)
    assert PROFILE.startup.compile_per_layer == inductor.per_layer


def test_memory_of_small_graphs_is_more_than_their_nodes() -> None:
    """2 KiB a node in a long graph, 5,000 bytes a graph beside that; segments of the allocator."""
    memory = PROFILE.memory
    assert memory.exec_bytes_per_node.value == 2048
    assert memory.exec_bytes_per_graph is not None
    assert memory.exec_bytes_per_graph.value == 5000
    assert memory.small_segment_bytes is not None
    assert memory.large_segment_bytes is not None
    assert (memory.small_segment_bytes.value, memory.large_segment_bytes.value) == (
        2 << 20, 20 << 20,
    )  # fmt: skip


def test_segments_cost_capture_time_and_device_bytes() -> None:
    """Breakable pays for each of its graphs beside their nodes; compilers by their own figures."""
    plain = msgspec.structs.replace(
        PROFILE,
        startup=msgspec.structs.replace(PROFILE.startup, capture_per_segment=None),
        memory=msgspec.structs.replace(PROFILE.memory, exec_bytes_per_graph=None),
    )
    forward = lean_pass(MODELS[0])
    for backend in (FULL, BREAKABLE, TC_PIECEWISE):
        with_all, without_any = (ReplayModel(forward, p, backend, EAGER) for p in (PROFILE, plain))
        segments = 1 if backend is FULL else 37
        more = startup((64, 512), with_all).capture_ns - startup((64, 512), without_any).capture_ns
        assert more == 2 * segments * 50_000
        assert graph_bytes(3, with_all) - graph_bytes(3, without_any) == 3 * segments * 5000
    pieces = ReplayModel(forward, PROFILE, TC_PIECEWISE, EAGER)
    assert startup((64,), pieces, "eager").compile_ns == (1200 + 36 * 40) * 10**6
    assert startup((64,), pieces, "inductor").compile_ns == (9300 + 36 * 200) * 10**6
    assert startup((), pieces, "eager").compile_ns == 0


def test_a_built_profile_prices_every_backend_and_survives_a_round_trip() -> None:
    """Encoded and read it is the same; every default model has a time under every backend."""
    assert decode_profile(msgspec.json.encode(PROFILE), "test") == PROFILE
    for arch in MODELS:
        for backend in BACKENDS.values():
            times = StepCost(lean_pass(arch), PROFILE, backend).times(one_request([1, 300, 8192]))
            assert (times.ns > 0).all()


def test_nothing_is_fitted_but_the_errors_of_transfers() -> None:
    """No figure of a calibration is solved for on a whole forward."""
    for path, figure in figures(PROFILE).items():
        assert figure.provenance != "fitted" or path.startswith("transfer"), path


@pytest.mark.parametrize("arch", MODELS, ids=lambda arch: arch.name)
def test_every_kernel_of_the_default_models_is_timed(arch: Architecture) -> None:
    """Each op of the lean forward and the logits has a measured curve of its own."""
    kernels, work = Kernels(PROFILE), rows_work([1, 700, 8192])
    logits = forward_pass(arch, dtype="bf16").tail[-1]
    for op in (*lean_pass(arch).numbered[0], logits):
        assert kernels.time(op, work).provenance == "measured", op.name


def test_a_name_goes_before_its_kind() -> None:
    """Where one kind has kernels that differ, an op is priced by the curve of its own name."""
    named = {c.key.kind: c for c in PROFILE.curves if c.key.op == "elementwise"}
    slow = msgspec.structs.replace(named["qk_norm"], ns=(9000, 90_000))
    curves = tuple(slow if c is named["qk_norm"] else c for c in PROFILE.curves)
    kernels = Kernels(msgspec.structs.replace(PROFILE, curves=curves))
    layer = {op.name: op for op in lean_pass(MODELS[0]).layers[0]}
    assert kernels.time(layer["qk_norm"], rows_work([1])).ns[0] >= 9000
    assert kernels.time(layer["input_norm"], rows_work([1])).ns[0] < 2000


@pytest.mark.parametrize("name", ["backends", "gaps", "breaks", "elementwise"])
def test_a_needed_section_that_failed_is_named_with_its_reason(name: str) -> None:
    """One line: the section and what went wrong, or that it is not there."""
    with pytest.raises(SimcgError, match=f"section {name}: got 'OutOfMemoryError: 2 GiB'"):
        build_profile(without(name, error="OutOfMemoryError: 2 GiB"), "h200")
    with pytest.raises(SimcgError, match=f"section {name}: got 'not measured'"):
        build_profile(without(name), "h200")


def test_a_curve_that_failed_is_left_out() -> None:
    """And its kernel is then transferred from the others."""
    profile = build_profile(without("gemm 4096x6144", error="no memory"), "h200")
    assert len(profile.curves) == len(PROFILE.curves) - 1
    qkv = next(op for op in lean_pass(MODELS[0]).layers[0] if op.name == "qkv")
    assert Kernels(profile).time(qkv, rows_work([64])).provenance == "fitted"


def test_without_a_compiler_its_figures_are_not_called_measured() -> None:
    """Published compile time, assumed dispatch; everything else as before."""
    profile = build_profile(without("compiled inductor", error="no gcc"), "h200")
    assert profile.startup.compile_per_layer.provenance == "published"
    assert profile.host.compiled_dispatch.provenance == "assumed"
    assert set(profile.startup.compilers) == {"eager"}


def test_measurements_of_another_version_are_refused() -> None:
    """They would be read wrongly."""
    with pytest.raises(SimcgError, match="raw measurements, version: got 1, expected 3"):
        build_profile({**RAW, "version": 1}, "h200")


def test_a_gpu_without_a_data_sheet_gets_the_rates_that_were_measured() -> None:
    """The fastest product and the fastest stream are its peaks, and shares are of them."""
    profile = build_profile(RAW, "rtx-9090")
    assert profile.gpu.peak_flops["bf16"].provenance == "measured"
    assert 0 < profile.roofline.compute.value <= 1
    assert profile.gpu.memory_bandwidth.value == pytest.approx(1e8 / 35e-6, rel=0.01)
    assert profile.gpu.link_bandwidth.provenance == "assumed"


@pytest.mark.parametrize(
    ("gpu", "name"),
    [("NVIDIA H200", "h200"), ("NVIDIA H100 80GB HBM3", "h100"), ("NVIDIA A100-SXM4-80GB", "a100"),
     ("NVIDIA GB200", "gb200"), ("NVIDIA GeForce RTX 4090", "geforce-rtx-4090")],
)  # fmt: skip
def test_profiles_are_named_after_their_gpu(gpu: str, name: str) -> None:
    """As the data sheets are, where there is one."""
    assert profile_name(gpu) == name


@pytest.mark.parametrize("model", lean_names())
def test_other_models_are_planned_whole(model: str) -> None:
    """Whatever model is asked for, all its products and attentions are in the plan."""
    arch = architecture_named(model)
    shapes = shapes_of([arch])
    planned = {*shapes.gemms, *shapes.grouped, *shapes.attentions}
    used = {
        op.shape
        for op in lean_pass(arch).numbered[0]
        if isinstance(op.shape, Gemm | GroupedGemm | Attention)
    }
    assert used == planned
    spread = {*shapes.spread_gemms, *shapes.spread_grouped, *shapes.spread_attentions}
    assert not used & spread
    kinds = {op.kind for _, op in shapes.elementwise}
    assert {"norm", "activation", "moe_sort", "moe_combine"} <= kinds  # experts or not
    if model in DEFAULT_MODELS:
        everything = shapes_of(MODELS)
        assert used <= {*everything.gemms, *everything.grouped, *everything.attentions}


def test_grids_see_tile_edges_from_both_sides() -> None:
    """The fine grid has every multiple of 64 up to 1,024 and the row after it; all reach 8,192."""
    fine = set(fine_rows())
    assert all({edge, edge + 1} <= fine for edge in range(64, 1025, 64))
    for grid in (fine_rows(), middle_rows()):
        assert grid == sorted(set(grid))
        assert (grid[0], grid[-1]) == (1, 8192)
    assert set(middle_rows()) <= fine


@given(st.sampled_from(profile_names()))
def test_a_profile_matches_its_own_gpu_alone(name: str) -> None:
    """None for its GPU, in any case; both names for every other one.

    Two profiles of an H200 have an engine's kernels instead of ours.
    """
    profile: HardwareProfile = load_profile(name)
    gpus = sorted(
        {other.removesuffix("-sglang").removesuffix("-vllm") for other in profile_names()}
    )
    for other in gpus:
        said = profile_matches(profile, f"NVIDIA {other.upper()}")
        assert (said is None) == (name in (other, f"{other}-sglang", f"{other}-vllm"))
        if said is not None:
            assert name in said
            assert other.upper() in said
    assert profile_matches(PROFILE, "nvidia h200") is None
    assert profile_matches(PROFILE, "NVIDIA H200 NVL") is None
