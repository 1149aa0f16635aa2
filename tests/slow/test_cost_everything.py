"""Every built-in model on every built-in profile under every backend."""

from __future__ import annotations

import numpy as np
import pytest

from simcg.backend import BACKENDS, EAGER
from simcg.cost.kernels import Kernels
from simcg.cost.startup import startup
from simcg.cost.step import OpTimes, StepCost
from simcg.cost.table import ReplayModel
from simcg.des.memory.pool import ladder_memory
from simcg.errors import InputError
from simcg.hardware.catalog import load_profile, profile_names
from simcg.model.architecture import Architecture
from simcg.model.catalog import architecture_named, model_names
from simcg.model.forward import forward_pass
from simcg.model.ops import Dtype, Op
from simcg.provenance import ORDER
from tests.costs import one_request, plain_step, unmeasured

DTYPES: tuple[Dtype | None, ...] = (None, "fp8", "mxfp4", "nvfp4")
HOUR_NS = 3600 * 10**9
SIZES = [1, 2, 127, 128, 129, 1000, 8192, 131_072]
PLACE = 4
"""The size that the reference prices."""


PAIRS = [(name, profile) for name in model_names() for profile in profile_names()]


def ranks(arch: Architecture) -> list[int]:
    """The tensor-parallel sizes that divide the model."""
    found = []
    for tp in (1, 2, 4, 8):
        try:
            arch.check_tp(tp)
        except InputError:
            continue
        found.append(tp)
    return found


def all_variants(name: str) -> list[tuple[int, Dtype | None]]:
    """Every rank count and dtype of a model."""
    return [(tp, dtype) for dtype in DTYPES for tp in ranks(architecture_named(name))]


def variants(name: str, profile_name: str) -> list[tuple[int, Dtype | None]]:
    """The two that are priced on a profile: the next two with each profile, later by model."""
    every = all_variants(name)
    first = 2 * profile_names().index(profile_name) + model_names().index(name)
    return [every[(first + more) % len(every)] for more in range(2)]


def test_variants_cover_what_they_are_drawn_from() -> None:
    """Each model with every rank count and dtype; each profile with each of either."""
    for name in model_names():
        met = {one for profile in profile_names() for one in variants(name, profile)}
        assert met == set(all_variants(name))
    for profile in profile_names():
        met = {one for name in model_names() for one in variants(name, profile)}
        assert {dtype for _, dtype in met} == set(DTYPES)
        assert {tp for tp, _ in met} == {1, 2, 4, 8}


@pytest.mark.parametrize(("name", "profile_name"), PAIRS)
def test_every_step_has_a_sensible_price(name: str, profile_name: str) -> None:
    """Positive, below an hour, no less than host and GPU, as the reference has it.

    Every model on every profile under every backend, on two of its ranks and dtypes.
    """
    arch, profile = architecture_named(name), load_profile(profile_name)
    gaps = profile.gaps
    at_rows = np.interp(SIZES[PLACE], gaps.node_rows, [f.value for f in gaps.node_at])
    wider = round(float(at_rows)) - round(gaps.node.value)
    for tp, dtype in variants(name, profile_name):
        forward = forward_pass(arch, tp=tp, dtype=dtype)
        op_times = OpTimes(profile, one_request(SIZES))
        assumed = any(op_times.of(op).provenance == "assumed" for op in forward.numbered[0])
        for backend in BACKENDS.values():
            times = StepCost(forward, profile, backend).times_from(op_times)
            assert times.ns.min() > 0
            assert times.ns.max() < HOUR_NS
            assert np.all(times.ns >= times.device_ns)
            assert np.all(times.ns > times.host_ns)
            assert times.provenance in ORDER
            if assumed or not profile_name.startswith("h200"):
                assert times.provenance == "assumed"

            def op_ns(op: Op, op_times: OpTimes = op_times) -> int:
                """With the gap before each kernel as much wider as it is at so many rows."""
                return int(op_times.of(op).ns[PLACE]) + op.kernels * wider

            assert times.ns[PLACE] == plain_step(forward, profile, backend, op_ns).ns


@pytest.mark.parametrize("profile_name", profile_names())
@pytest.mark.parametrize("name", model_names())
def test_every_ladder_has_a_sensible_cost(name: str, profile_name: str) -> None:
    """Memory below that of the GPU, start-up below an hour, both positive."""
    arch, profile = architecture_named(name), load_profile(profile_name)
    forward = forward_pass(arch, tp=max(ranks(arch)))
    for backend in (b for b in BACKENDS.values() if b.captures):
        model = ReplayModel(forward, profile, backend, EAGER)
        memory = ladder_memory((64, 1024, 8192), 8192, 16, model)
        assert 0 < memory.live <= memory.reserved <= memory.device < memory.peak
        assert memory.peak < profile.gpu.memory_bytes.value
        assert 0 < startup((64, 1024, 8192), model).ns < HOUR_NS


@pytest.mark.parametrize("profile_name", [n for n in profile_names() if n != "h200"])
@pytest.mark.parametrize("name", model_names())
def test_more_tokens_never_cost_less_where_nothing_was_measured(
    name: str, profile_name: str
) -> None:
    """From 1 to 8192 tokens of one request, every kernel of every GPU but for its measurements."""
    forward = forward_pass(architecture_named(name), tp=2)
    kernels, work = Kernels(unmeasured(profile_name)), one_request(range(1, 8193))
    for op in forward.numbered[0]:
        assert np.all(np.diff(kernels.time(op, work).ns) >= 0), op.name
