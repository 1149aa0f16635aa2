"""The cost table of a ladder problem, beside the full timeline of every step."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcg.arrays import Ints
from simcg.backend import BREAKABLE, COMPILED, EAGER, FULL, TC_PIECEWISE, CaptureBackend
from simcg.cost.clock import step_clock
from simcg.cost.kernels import Work
from simcg.cost.table import (
    CostTable,
    ReplayModel,
    Slower,
    cost_table,
    exact_step_ns,
    work_of_steps,
)
from simcg.hardware.catalog import load_profile, profile_names
from simcg.hardware.profile import HardwareProfile
from simcg.ladder import AdmissionRule, Ladder
from simcg.model.catalog import architecture_named
from simcg.model.forward import forward_pass
from simcg.provenance import weakest
from simcg.workload.steps import Steps
from tests.cost_laws import ints
from tests.costs import host_scaled, unmeasured, with_even_gaps

MAX = 2048
BACKENDS: dict[str, CaptureBackend] = {b.name: b for b in (FULL, BREAKABLE, TC_PIECEWISE)}
FORWARD = forward_pass(architecture_named("qwen3-8b"))


def random_steps(seed: int, count: int = 40, largest: int = MAX) -> Steps:
    """Steps of all sizes, with up to four requests and contexts up to ten thousand tokens."""
    random = np.random.default_rng(seed)
    tokens = random.integers(4, largest + 1, count)
    requests = random.integers(1, 5, count)
    context = random.integers(0, 10_000, count)
    pairs = tokens * (tokens + 1) // 2 + context * tokens
    return Steps(
        tokens, requests, context, pairs, random.integers(1, 9, count), None, f"random {seed}"
    )


def model_of(
    profile: HardwareProfile, backend: CaptureBackend, slots: int | None = None
) -> ReplayModel:
    return ReplayModel(FORWARD, profile, backend, EAGER, slots)


def unsmoothed(steps: Steps, model: ReplayModel) -> tuple[Ints, Ints]:
    """Replay and eager times at 1..MAX beside the mean step, as measured."""

    def mean(column: Ints) -> Ints:
        whole = sum(v * c for v, c in zip(column.tolist(), steps.count.tolist(), strict=True))
        return np.full(MAX, max(1, round(whole / steps.total)), dtype=np.int64)

    rows = np.arange(1, MAX + 1, dtype=np.int64)
    requests = mean(steps.requests) if model.slots is None else np.full_like(rows, model.slots)
    work = Work(rows, mean(steps.tokens), requests, mean(steps.pairs))
    return model.replay.times(work).ns, model.eager.times(work).ns


def approximate(table: CostTable, replay: Ints, bucket: int) -> Ints:
    """Each step in that bucket by the table: the bucket's replay, and the step's attention."""
    out: Ints = replay[bucket - 1] + table.attention_ns
    return out


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("factor", [0, 10_000], ids=["GPU-bound", "host-bound"])
@pytest.mark.parametrize("slots", [None, 8])
def test_the_table_is_the_timeline_where_one_side_rules(
    name: str, factor: float, slots: int | None
) -> None:
    """GPU-bound or host-bound: replay by bucket plus attention by step equals the timeline."""
    model = model_of(host_scaled(load_profile("h200"), factor), BACKENDS[name], slots)
    steps = random_steps(3)
    table = cost_table(steps, model, MAX)
    replay, eager = unsmoothed(steps, model)
    for bucket in (1024, 1500, MAX):
        exact, chosen = exact_step_ns(steps, model, Ladder.of([bucket]), AdmissionRule())
        in_bucket = chosen == 0
        assert np.array_equal(exact[in_bucket], approximate(table, replay, bucket)[in_bucket])
    own = model.eager.times(work_of_steps(steps, steps.tokens)).ns
    undone = table.eager_own_ns - table.eager_ref_ns[steps.tokens] + eager[steps.tokens - 1]
    assert np.array_equal(own, undone)


@pytest.mark.parametrize("name", BACKENDS)
def test_in_between_the_table_errs_by_little(name: str) -> None:
    """On h200 as measured the table is within 2 % of the timeline at every step and bucket."""
    model, steps = model_of(load_profile("h200"), BACKENDS[name]), random_steps(4)
    table = cost_table(steps, model, MAX)
    for bucket in (64, 300, 1024, MAX):
        exact, chosen = exact_step_ns(steps, model, Ladder.of([bucket]), AdmissionRule())
        found = table.replay_ns[bucket] + table.attention_ns
        np.testing.assert_allclose(found[chosen == 0], exact[chosen == 0], rtol=0.02)


@given(st.integers(0, 1000), st.sampled_from(sorted(BACKENDS)), st.integers(4, MAX))
def test_a_ladder_of_one_size_prices_steps_at_that_size(seed: int, name: str, size: int) -> None:
    """Steps that fit replay with dense ops at the size and attention at their own; others eager."""
    model, steps = model_of(load_profile("h200"), BACKENDS[name]), random_steps(seed, 8)
    ns, chosen = exact_step_ns(steps, model, Ladder.of([size]), AdmissionRule())
    assert np.array_equal(chosen == 0, steps.tokens <= size)
    padded = Work(np.full_like(steps.tokens, size), steps.tokens, steps.requests, steps.pairs)
    alone = Work(steps.tokens, steps.tokens, steps.requests, steps.pairs)
    expected = np.where(chosen == 0, model.replay.times(padded).ns, model.eager.times(alone).ns)
    assert np.array_equal(ns, expected)


def test_slots_pad_the_requests() -> None:
    """With slots the logits of a replay run at the slots; what runs eager keeps its requests."""
    steps = random_steps(5)
    few, many = (model_of(load_profile("h200"), FULL, slots) for slots in (8, 512))
    ladder, rule = Ladder.of([1024, MAX]), AdmissionRule(Fraction(2))
    a, chosen = exact_step_ns(steps, few, ladder, rule)
    b, _ = exact_step_ns(steps, many, ladder, rule)
    assert np.all(b[chosen >= 0] > a[chosen >= 0])
    assert np.array_equal(b[chosen < 0], a[chosen < 0])


@pytest.mark.parametrize("name", [n for n in profile_names() if n != "h200"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_nothing_is_cheaper_in_a_larger_bucket_of_an_unmeasured_gpu(
    name: str, backend: str
) -> None:
    """Without measured curves replay and eager times never fall, and smoothing moves nothing.

    Gaps over rows are measured too, and fall a little somewhere: here they are even.
    """
    profile = with_even_gaps(unmeasured(name))
    table = cost_table(random_steps(6), model_of(profile, BACKENDS[backend]), MAX)
    assert np.all(np.diff(table.replay_ns) >= 0)
    assert np.all(np.diff(table.eager_ref_ns) >= 0)
    assert (table.correction.largest_correction, table.correction.fall) == (0, 0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_measured_costs_fall_only_beyond_their_noise(backend: str) -> None:
    """On h200 the falls that are left are real ones, reported, and smoothing moves under 2 %."""
    model, steps = model_of(load_profile("h200"), BACKENDS[backend]), random_steps(6)
    table = cost_table(steps, model, MAX)
    replay, _ = unsmoothed(steps, model)
    moved = np.abs(table.replay_ns[1:] / replay - 1)
    assert moved.max() == table.correction.largest_correction < 0.02
    falls = 1 - table.replay_ns[2:] / table.replay_ns[1:-1]
    assert max(falls.max(), 0) == table.correction.fall < 0.15


def test_columns_have_their_lengths_and_signs() -> None:
    """Tables run from 0 to the largest size, steps' columns over the steps; host times are one."""
    model, steps = model_of(load_profile("h200"), BREAKABLE), random_steps(7)
    table = cost_table(steps, model, MAX)
    assert table.max_tokens == MAX
    for column in (table.replay_ns, table.eager_ref_ns, table.replay_device_ns):
        assert (len(column), column[0]) == (MAX + 1, 0)
        assert column[1:].min() > 0
    assert len(table.attention_ns) == len(table.eager_own_ns) == len(steps.tokens)
    assert table.eager_own_ns.min() > 0
    own = model.replay.times(work_of_steps(steps, steps.tokens))
    replay, _ = unsmoothed(steps, model)
    assert np.array_equal(table.attention_ns, own.ns - replay[steps.tokens - 1])
    assert table.replay_host_ns == own.host_ns
    eager = model.eager.times(work_of_steps(steps, steps.tokens))
    assert table.provenance == weakest([own.provenance, eager.provenance])


@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_scaled_kernels_are_priced_by_the_same_dispatch(scale: float) -> None:
    """A slower GPU changes times, never the bucket, and no step by more than the factor."""
    model, steps = model_of(load_profile("h200"), BREAKABLE), random_steps(8)
    ladder, rule = Ladder.of([256, 1024]), AdmissionRule(Fraction(2))
    base, chosen = exact_step_ns(steps, model, ladder, rule)
    scaled, same = exact_step_ns(steps, model, ladder, rule, Slower(kernels=scale))
    assert np.array_equal(chosen, same)
    ratio = scaled / base
    assert ratio.min() > min(scale, 1) - 1e-3
    assert ratio.max() < max(scale, 1) + 1e-3


@pytest.mark.parametrize("fallback", [EAGER, COMPILED], ids=lambda b: b.name)
def test_the_clock_is_the_timeline_of_a_lone_request(fallback: CaptureBackend) -> None:
    """Without context a step lasts as dispatch has it, by either backend; pairs make it longer."""
    model = ReplayModel(FORWARD, load_profile("h200"), BREAKABLE, fallback)
    ladder, rule = Ladder.of([64, 256, 1000]), AdmissionRule(Fraction(2))
    clock = step_clock(model, ladder, rule, 1200)
    tokens = ints(range(1, 1201))
    ones, pairs = np.ones_like(tokens), tokens * (tokens + 1) // 2
    steps = Steps(tokens, ones, ones - 1, pairs, ones, None, "test")
    exact, _ = exact_step_ns(steps, model, ladder, rule)
    found = [clock(int(n), int(p)) for n, p in zip(tokens, pairs, strict=True)]
    assert found == exact.tolist()
    far = pairs + 1024 * tokens
    ahead, _ = exact_step_ns(
        Steps(tokens, ones, 1024 * ones, far, ones, None, "test"), model, ladder, rule
    )
    longer = [clock(int(n), int(p)) for n, p in zip(tokens, far, strict=True)]
    assert np.abs(np.array(longer) - np.maximum(ahead, exact)).max() <= 1
    assert clock(1, 0) >= 1
