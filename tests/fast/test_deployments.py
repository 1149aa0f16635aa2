"""Measured deployments: what is claimed, what is predicted, and what a prediction may know."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from simcg.backend import FULL
from simcg.cli.reproduce import command
from simcg.cost.kernels import Work
from simcg.cost.step import StepCost
from simcg.errors import InputError
from simcg.report.deployments import fit_line
from simcg.reproduce.calibration import (
    BOUNDS,
    configuration,
    is_calibration,
    overheads,
    server_costs,
)
from simcg.reproduce.deployment import MODELS, recipe_of, stored_architecture
from simcg.reproduce.measured import group, predicted, reported, worst
from simcg.reproduce.point import Point, refusal
from simcg.reproduce.predict import (
    Overheads,
    Prediction,
    kernel_profile,
    kv_tokens,
    predict,
    tables_of,
)
from simcg.reproduce.prices import Graphs, ServerPrices, Slowdown
from simcg.reproduce.silicon import claimed_points, estimates, silicon_points
from simcg.reproduce.vllm_runs import SERVERS, outcome, recorded

SAMPLE = claimed_points()[::90]


def made(point: Point) -> Prediction:
    return predict(point, overheads(point, server_costs()[point.framework]))


def named(**wanted: object) -> list[Point]:
    found = [p for p in claimed_points() if all(getattr(p, k) == v for k, v in wanted.items())]
    return sorted(found, key=lambda p: p.concurrency)


def test_every_point_is_claimed_or_refused_for_a_reason() -> None:
    """The claim was fixed before any comparison: 2,754 of 5,221 points, five systems."""
    points = silicon_points()
    assert len(points) == len({point.id for point in points}) == 5221
    reasons = Counter((refusal(point) or "claimed").split(":")[0] for point in points)
    assert reasons == {
        "claimed": 2754,
        "prefill and decode on different GPUs": 1602,
        "expert parallelism": 606,
        "data-parallel attention": 169,
        "int4 weights": 90,
    }
    assert len({point.system for point in claimed_points()}) == 5


def test_points_are_what_benchmarks_measure() -> None:
    """Sizes are positive, and so are times; every claimed model and recipe is known."""
    for point in silicon_points():
        assert min(point.isl, point.osl, point.concurrency, point.tp) >= 1
        assert min(point.ttft_ms, point.tpot_ms) > 0
    for point in claimed_points():
        assert point.model in MODELS
        assert recipe_of(point).step_tokens >= 1
        stored_architecture(point.model, point.precision)


def test_another_estimator_is_read_for_the_points_it_prices() -> None:
    """aiconfigurator-core's own median errors on the claimed points: 16 % TPOT, 45 % TTFT."""
    known = estimates()
    assert set(known) <= {point.id for point in claimed_points()}
    off = np.array(
        [
            (known[p.id][0] / p.ttft_ms - 1, known[p.id][1] / p.tpot_ms - 1)
            for p in claimed_points()
            if p.id in known
        ]
    )
    ttft, tpot = np.median(np.abs(off), axis=0)
    assert len(off) == 2586
    assert (round(ttft, 3), round(tpot, 3)) == (0.452, 0.161)


def test_a_tenth_is_for_calibration_and_never_reported() -> None:
    """Repeated measurements of one configuration are on the same side."""
    chosen = [point for point in claimed_points() if is_calibration(point)]
    assert 0.08 < len(chosen) / len(claimed_points()) < 0.12
    inside = {configuration(point) for point in chosen}
    assert not any(configuration(p) in inside for p in claimed_points() if not is_calibration(p))
    outcomes = predicted(chosen[:2] + list(SAMPLE[:1]), processes=1)
    assert not set(reported(outcomes)) & set(outcomes[:2])


def test_server_costs_are_within_their_bounds() -> None:
    for costs in server_costs().values():
        for name, (low, high) in BOUNDS.items():
            assert low <= getattr(costs, name) <= high


def test_a_prediction_does_not_know_what_was_measured() -> None:
    """Other measured values, the same prediction."""
    for point in SAMPLE[::9]:
        other = replace(point, ttft_ms=1.0, tpot_ms=2.0, id="other")
        assert made(point) == made(other)


def test_more_clients_never_get_tokens_faster() -> None:
    """TPOT rises with the concurrency; throughput does too."""
    points = named(
        model="meta-llama/Llama-3.1-70B", framework="vllm", system="h200_sxm", tp=4, isl=1024,
        osl=1024,
    )  # fmt: skip
    tpot = [made(point).tpot_ms for point in points]
    assert len(tpot) == 5
    assert tpot == sorted(tpot)
    rates = [point.concurrency / ms for point, ms in zip(points, tpot, strict=True)]
    assert rates == sorted(rates)


def test_more_ranks_leave_more_room_and_are_faster() -> None:
    """TPOT falls from one rank to eight, and the KV cache grows more than eightfold."""
    points = [
        p
        for p in claimed_points()
        if (p.model, p.framework, p.system, p.isl, p.osl, p.concurrency)
        == ("meta-llama/Llama-3.1-70B", "trtllm", "h200_sxm", 8192, 1024, 16)
    ]
    by_tp = {point.tp: made(point).tpot_ms for point in points}
    assert [by_tp[tp] for tp in (1, 2, 4, 8)] == sorted(by_tp.values(), reverse=True)
    arch = stored_architecture("meta-llama/Llama-3.1-70B", "fp8")
    profile, recipe = kernel_profile("h200_sxm", "trtllm", 1), recipe_of(points[0])
    assert kv_tokens(arch, profile, recipe, 8) > 8 * kv_tokens(arch, profile, recipe, 1)


def test_every_server_cost_costs() -> None:
    """Each overhead lengthens what it is about."""
    point = named(model="openai/gpt-oss-120b", framework="vllm", system="h200_sxm", tp=1)[0]
    plain = predict(point, Overheads(Slowdown()))
    slower = predict(point, Overheads(Slowdown(step_ns=1e6)))
    assert slower.tpot_ms - plain.tpot_ms == pytest.approx(1.0, rel=0.05)
    assert predict(point, Overheads(Slowdown(kernel_ns=500.0))).tpot_ms > plain.tpot_ms
    assert predict(point, Overheads(Slowdown(prefill=2.0))).ttft_ms > plain.ttft_ms
    assert predict(point, Overheads(Slowdown(host=50.0))).ttft_ms > plain.ttft_ms
    waits = predict(point, Overheads(Slowdown(), request_ns=3e6, token_ns=1e3))
    assert waits.ttft_ms - plain.ttft_ms == pytest.approx(3 + point.isl / 1e3)


def test_tabulated_steps_are_the_cost_models() -> None:
    """Decode and prefill steps by part are within 3 % of the whole step priced at once."""
    tables = tables_of(("meta-llama/Llama-3.1-70B", "fp8"), 4, "h200_sxm", "vllm", 1)
    prices = ServerPrices(tables, Graphs((8, 64), 0, "eager"), Slowdown())
    for requests, context in ((8, 700), (64, 3000)):
        keys = requests * context
        m, k, zero = (np.array([v], dtype=np.int64) for v in (requests, keys, 0))
        cost = StepCost(tables.decode, tables.profile, FULL)
        whole = int(cost.times(Work(m, zero, m, zero, m, k)).device_ns[0])
        assert prices.decode_ns(requests, keys) == pytest.approx(whole, rel=0.03)
    tokens = 5000
    n, pairs = (np.array([v], dtype=np.int64) for v in (tokens, tokens * (tokens + 1) // 2))
    logits = np.array([512], dtype=np.int64)
    whole = int(
        StepCost(tables.prefill, tables.profile, FULL).times(Work(n, n, logits, pairs)).device_ns[0]
    )
    assert prices.mixed_ns(tokens, int(pairs[0]), 0, 0) == pytest.approx(whole, rel=0.03)


def test_what_cannot_be_deployed_says_why() -> None:
    """A split that heads do not divide, a model that does not fit."""
    split = named(system="gb200", framework="sglang")[0]
    with pytest.raises(InputError, match="a divisor of 128"):
        made(split)
    large = named(model="Qwen/Qwen3-235B-A22B-FP8", framework="vllm", tp=1)[0]
    with pytest.raises(InputError, match="GB short"):
        made(large)


def test_results_are_kept_and_taken_up(tmp_path: Path) -> None:
    """A second run simulates nothing, half a last line is simulated again, another is refused."""
    kept = tmp_path / "results.jsonl"
    points = SAMPLE[:3]
    told: list[tuple[int, int]] = []
    first = predicted(points, processes=1, results=kept)
    lines = kept.read_text()
    second = predicted(points, processes=1, results=kept, notify=lambda n, of: told.append((n, of)))
    assert first == second
    assert kept.read_text() == lines
    assert not told
    kept.write_text(lines[:-5])  # as a full disk or a signal may leave it
    assert predicted(points, processes=1, results=kept) == first
    assert kept.read_text() == lines
    kept.write_text(lines + "nonsense\n")
    with pytest.raises(InputError, match="line 4"):
        predicted(points, processes=1, results=kept)


def test_errors_on_a_sample() -> None:
    """Every 90th claimed point: medians as they were when the costs were fitted."""
    outcomes = reported(predicted(SAMPLE, processes=1))
    total = group(("sample",), outcomes)
    assert total.ours is not None
    assert total.theirs is not None
    assert total.ours.tpot[0] == pytest.approx(PINNED[0], abs=0.005)
    assert total.ours.ttft[0] == pytest.approx(PINNED[1], abs=0.01)
    assert total.ours.tpot[0] < total.theirs.tpot[0]
    assert total.ours.ttft[0] < total.theirs.ttft[0]
    assert len(worst(outcomes, 5)) == 5


PINNED = (0.060, 0.148)


def test_the_recorded_run_on_an_rtx_pro_6000() -> None:
    """Two host parameters fitted to 50 of 300 requests: TPOT within 5 %, TTFT within 10 %."""
    server = next(server for server in SERVERS if server.target)
    run = recorded(server.gpu)
    assert len(run.prompt) == 300
    found = outcome(server)
    assert found.recorded_ttft_ms == pytest.approx(7097.2, abs=0.1)
    assert found.recorded_tpot_ms == pytest.approx(32.458, abs=0.001)
    assert abs(found.tpot_error) < 0.05
    assert abs(found.ttft_error) < 0.10
    assert abs(found.rest_tpot_error) < 0.05
    # the fitted cost is what the kernels alone lack
    assert found.step_ns > 1e6
    assert found.bare_tpot_error < -0.05
    assert found.bare_ttft_error < -0.1
    assert "least" not in fit_line(found)


def test_where_kernels_alone_take_too_long_no_cost_is_fitted() -> None:
    """The RTX 4090, of rooflines: the fit ends at nothing, says so, and changes nothing."""
    found = outcome(next(server for server in SERVERS if not server.target))
    assert (found.step_ns, found.request_ns) == (0, 0)
    bare = found.bare_ttft_error, found.bare_tpot_error
    assert bare == pytest.approx((found.ttft_error, found.tpot_error))
    assert found.bare_tpot_error > 0
    assert "as kernels alone take longer" in fit_line(found)


def test_an_unknown_run_is_refused() -> None:
    with pytest.raises(InputError, match="rtx-pro-6000, rtx-4090"):
        recorded("rtx-3090")


def test_the_command_prints_the_runs() -> None:
    """``simcg reproduce vllm-runs``, and options of other sections are refused."""
    shown = CliRunner().invoke(command, ["vllm-runs", "--json"])
    assert shown.exit_code == 0
    assert [run["server"]["gpu"] for run in json.loads(shown.stdout)] == [
        "rtx-pro-6000",
        "rtx-4090",
    ]
    refused = CliRunner().invoke(command, ["silicon", "--row", "M2"])
    assert isinstance(refused.exception, InputError)
