"""Wrong versions of the parts of the whole answer, each caught by a law or a slow recomputation.

No mutant in the list is equivalent to the original on the scenarios below.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import simcg.optimize.explain  # noqa: F401  # and with it all of MODULES
from simcg.cost.memory import graph_bytes
from simcg.cost.table import cost_table, exact_step_ns
from simcg.des.memory.pool import ladder_memory, pool_bytes
from simcg.errors import SimcgError
from simcg.ladder import Ladder
from simcg.optimize.build import engine_problem
from simcg.optimize.evaluate import ladder_cost
from simcg.optimize.scenario import Choices, Limits, Scenario
from simcg.optimize.score import logits_rows
from simcg.optimize.solve import solve
from simcg.optimize.study import NEGLIGIBLE, Study, scheduled
from simcg.workload.step_sets import aggregate, split_by_time
from tests.ladders import defined_choice
from tests.studies import (
    MIXED,
    drawn,
    on,
    scenario_of,
    steps_of,
    with_host_costs,
    with_thin_curves,
)

MODULES = {
    name: sys.modules[f"simcg.optimize.{name}"]
    for name in ("build", "explain", "gain", "scenario", "score", "study")
}

MUTANTS: dict[str, tuple[str, str, str]] = {
    "own attention dropped": ("build", "count * table.attention_ns +", "0 * count +"),
    "steps beyond the slots free": (
        "build",
        "+ (table.steps.count - count) * table.eager_own_ns",
        "",
    ),
    "slots ignored": ("build", "np.where(steps.requests <= slots, steps.count, 0)", "steps.count"),
    "slots strict": ("build", "steps.requests <= slots", "steps.requests < slots"),
    "eager steps not counted": (
        "build",
        "count * (table.eager_own_ns - table.attention_ns)",
        "table.eager_own_ns - table.attention_ns",
    ),
    "attention counted twice": (
        "build",
        "(table.eager_own_ns - table.attention_ns)",
        "table.eager_own_ns",
    ),
    "guard dropped": ("build", "None if rule is None else rule.max_ratio", "None"),
    "mean without counts": ("score", "np.average(step_ns, weights=steps.count)", "step_ns.mean()"),
    "eager steps padded": ("score", "np.where(bucket > 0, bucket - steps.tokens, 0)", "bucket"),
    "padding per step": ("score", "(steps.tokens * steps.count).sum()", "steps.count.sum()"),
    "eager share of the rows": (
        "score",
        "int(steps.count[bucket == 0].sum()) / steps.total",
        "float((bucket == 0).mean())",
    ),
    "tail forgotten in the peak": ("score", "tokens[eager].max(initial=0)", "ladder.ceiling"),
    "logits of one request": ("score", "int(steps.requests.max()) if", "1 if"),
    "slots not in the logits": ("score", "else model.slots\n", "else 1\n"),
    "sign of the gain": ("gain", "share = 1 - _total(better", "share = _total(better"),
    "no model error": ("gain", "1.96 * SHAPE_ERROR[self.provenance] * sensitivity", "0.0"),
    "no balance error": ("gain", "below = math.hypot(share - traffic[0], shape, balance)",
                         "below = math.hypot(share - traffic[0], shape)"),
    "no traffic error": ("gain", "above = math.hypot(traffic[1] - share, shape, balance)",
                         "above = math.hypot(shape, balance)"),
    "blocks all alike": ("gain", "block = time_blocks(timed, BLOCKS)",
                         "block = np.arange(len(timed.tokens)) % BLOCKS * 0"),
    "half of the interval": ("gain", "COVERAGE = (2.5, 97.5)", "COVERAGE = (25.0, 75.0)"),
    "draws without counts": ("gain", "int(weights.sum()), shares", "len(seen), shares"),
    "slack although buckets are given": (
        "study",
        "0 if scenario.limits.max_buckets is not None else int(least_ns * NEGLIGIBLE)",
        "int(least_ns * NEGLIGIBLE)",
    ),
    "no slack": ("study", "else int(least_ns * NEGLIGIBLE)", "else 0"),
    "most buckets of the slack": ("study", "min(k for k, c in", "max(k for k, c in"),
    "start-up limit ignored": ("study", "if needs[k] <= limit}", "}"),
    "least start-up rounded down": ("study", "math.ceil(least / 1e6)", "math.floor(least / 1e6)"),
    "one round": ("study", "if ladder == before or isinstance", "if True or isinstance"),
    "no loss with one more": ("study", "solved.proved(enough[0])", "solved.proved(enough[-1])"),
    "loss is allowed": ("study", "cost <= default_ns]", "cost <= 1.5 * default_ns]"),
    "hold-out on the first part": ("study", "rest = aggregate(late)", "rest = aggregate(early)"),
    "limit of padded steps": ("study", "np.minimum.accumulate(table.replay_ns[::-1])[::-1]",
                              "table.replay_ns[::-1]"),
    "table error upside down": ("study", "total / answer.cost_ns", "answer.cost_ns / total"),
    "tops ignored in the memory limit": ("scenario", "int(possible[fitting - 1]) if fitting else 0",
                                         "int(possible[-1])"),
    "graphs free in the memory limit": ("scenario", "room = limit - graph_bytes(count, model)",
                                        "room = limit"),
    "ceiling no named size": ("scenario", "return named if limits.ceiling is None else",
                              "return named if True else"),
    "include not required": ("scenario", "return Choices(buckets, allowed, tops, required, ",
                             "return Choices(buckets, allowed, tops, (), "),
    "align ignored": ("scenario", "(sizes % limits.align == 0)", "(sizes >= 0)"),
    "tops above the ceiling": (
        "scenario",
        "tops = sizes == limits.ceiling\n        allowed[limits.ceiling + 1 :] = False",
        "pass",
    ),
    "default's sizes not proposed": (
        "scenario",
        "proposed[[size for size in scenario.default_ladder.sizes if size <= top]] = True",
        "pass",
    ),
    "drop by the score's steps": ("explain", "ladder_cost(study.posed.problem, rest) - cost_ns",
                                  "cost_ns - ladder_cost(study.posed.problem, rest)"),
    "explained rows": ("explain", "steps=int(count.sum())", "steps=len(count)"),
}  # fmt: skip


Law = Callable[[Study], str | None]


def room_for(ceiling: int, graphs: int, scenario: Scenario) -> Scenario:
    """The scenario with just the memory that so many graphs up to ``ceiling`` need."""
    rows = logits_rows(scheduled(scenario, Ladder.of(())).counted, scenario.model)
    need = pool_bytes(ceiling, rows, scenario.model)[1] + graph_bytes(graphs, scenario.model)
    return replace(scenario, limits=replace(scenario.limits, memory_bytes=need))


def scenarios() -> list[Scenario]:
    """Each mutant shows on one of these."""
    context = steps_of(MIXED, requests=5)
    context.pairs[:] += 3000 * context.tokens * np.arange(len(context.tokens))
    small = steps_of({1: 3, 2: 2, 9: 5})
    return [
        scenario_of(context),
        scenario_of(context, backend="full", slots=4),
        scenario_of(context, backend="full", slots=5),
        scenario_of(steps_of({900: 500, 20: 1, 40: 1, 90: 1}), Limits(max_buckets=33)),
        room_for(736, 51, scenario_of(context, engine="vllm")),
        room_for(1024, 38, scenario_of(context, backend="full", slots=2048)),
        scenario_of(steps_of(MIXED), Limits(include=(77,), ceiling=700, align=16)),
        scenario_of(steps_of(MIXED), Limits(ceiling=500)),
        scenario_of(small, Limits(include=(1, 2), ceiling=3), max_chunk=9),
        on(
            with_thin_curves("h200"),
            scenario_of(steps_of({5: 9, 9: 4, 70: 3}), Limits(max_buckets=60)),
        ),
        room_for(700, 8, on(with_host_costs("h200", 30), scenario_of(context))),
        room_for(
            1024,
            20,
            on(with_host_costs("h200", 30), scenario_of(context, Limits(max_buckets=20))),
        ),
        scenario_of(drawn(), rate=4.0, max_chunk=4096),
        scenario_of(drawn(), Limits(startup_ns=800_000_000)),
    ]


def the_problem_is_that_of_the_steps(result: Study) -> str | None:
    """Weights, eager times and what no ladder changes, added up step by step."""
    table, slots = result.table, result.scenario.model.slots
    weights, eager, constant = [0] * (table.max_tokens + 1), [0] * (table.max_tokens + 1), 0
    columns = (table.steps.tokens, table.steps.requests, table.steps.count)
    rows = zip(
        *(c.tolist() for c in (*columns, table.eager_own_ns, table.attention_ns)), strict=True
    )
    for n, m, count, eager_ns, attention_ns in rows:
        if slots is None or m <= slots:
            weights[n] += count
            eager[n] += count * (eager_ns - attention_ns)
            constant += count * attention_ns
        else:
            constant += count * eager_ns
    problem = result.posed.problem
    same = (
        problem.weights.tolist() == weights
        and problem.eager_ns.tolist() == eager
        and result.posed.constant_ns == constant
        and problem.max_ratio == result.scenario.engine.admission.max_ratio
    )
    return None if same else "another problem"


def scores_are_those_of_the_steps(result: Study) -> str | None:
    """Means, shares and memory of three ladders, step by step by the definition of dispatch."""
    model, chunk = result.scenario.model, result.scenario.max_chunk
    steps = result.traffic.counted
    rule = result.scenario.engine.admission
    logits = max(steps.requests.tolist()) if model.slots is None else model.slots
    for scored in (result.default, result.answer.score, result.no_graphs):
        ladder = scored.ladder
        times = exact_step_ns(steps, model, ladder, rule)[0].tolist()
        total = padded = real = eager = 0
        rows = zip(
            steps.tokens.tolist(), steps.requests.tolist(), steps.count.tolist(), strict=True
        )
        for (n, m, count), ns in zip(rows, times, strict=True):
            chosen = defined_choice(ladder, rule, n, m)
            total, real = total + count * ns, real + count * n
            eager += count if chosen < 0 else 0
            padded += 0 if chosen < 0 else count * (ladder.sizes[chosen] - n)
        largest = max(
            (n for n in range(1, chunk + 1) if defined_choice(ladder, rule, n, 1) < 0), default=0
        )
        expected = (total / steps.total, padded / real, eager / steps.total)
        got = (scored.mean_step_ns, scored.padded_share, scored.eager_share)
        if got != pytest.approx(expected):
            return f"shares {got}, not {expected}"
        if scored.memory != ladder_memory(ladder.sizes, largest, logits, model):
            return "another memory"
    return None


def the_gain_is_that_of_the_scores(result: Study) -> str | None:
    """The share, what its interval is made of, and the traffic's part by other draws."""
    gain, count = result.gain, result.traffic.counted.count
    base, better = result.default.step_ns, result.answer.score.step_ns
    if gain.share != pytest.approx(1 - (better * count).sum() / (base * count).sum()):
        return "another share"
    model_error = (gain.shape, gain.balance)
    low = gain.share - math.hypot(gain.share - gain.traffic[0], *model_error)
    high = gain.share + math.hypot(gain.traffic[1] - gain.share, *model_error)
    if (gain.low, gain.high) != pytest.approx((low, high)):
        return "another interval"
    if np.any(base != better) and gain.shape <= 0:
        return "no model error"
    width, expected = gain.traffic[1] - gain.traffic[0], _traffic_width(result)
    # within a few hundredths of a point a few rare steps decide: other draws give other widths
    return None if width == pytest.approx(expected, rel=0.25, abs=2e-4) else "another width"


def _traffic_width(result: Study) -> float:
    """Width of the gain's interval when blocks of time (without times: steps) are drawn again."""
    counted, timed = result.traffic.counted, result.traffic.timed
    random = np.random.default_rng(77)
    scores = (result.default, result.answer.score)
    spent = np.array([s.step_ns * counted.count for s in scores])
    if timed.start_ns is None:
        draws = random.multinomial(counted.total, counted.count / counted.total, 2000)
        sums = (draws / counted.count) @ spent.T
    else:
        mean = [[np.average(c[counted.tokens == n], weights=counted.count[counted.tokens == n])
                 for n in timed.tokens] for c in (s.step_ns for s in scores)]  # fmt: skip
        offset = timed.start_ns - timed.start_ns[0]
        block = offset // (int(offset[-1]) // 50 + 1)
        per_block = np.array([np.bincount(block, column, 50) for column in mean])
        draws = random.multinomial(50, [1 / 50] * 50, 2000)
        sums = draws @ per_block.T
    low, high = np.percentile(1 - sums[:, 1] / sums[:, 0], (2.5, 97.5))
    return float(high - low)


def limits_hold(result: Study) -> str | None:
    """Each limit holds, and where none is given the default's sizes are not beaten by it."""
    limits, scored = result.scenario.limits, result.answer.score
    sizes = scored.ladder.sizes
    named = {*result.posed.problem.required}
    if limits.memory_bytes is not None and scored.memory.device > limits.memory_bytes:
        return "more memory"
    if limits.startup_ns is not None and scored.startup.ns > limits.startup_ns:
        return "longer start-up"
    if not set(limits.include) <= set(sizes) or any(
        s % limits.align and s not in named for s in sizes
    ):
        return "include or align"
    if limits.ceiling is not None and sizes[-1:] != (limits.ceiling,):
        return "another ceiling"
    free = limits == Limits(max_buckets=limits.max_buckets)
    default = result.scenario.default_ladder.sizes
    best = result.curve_ns[-1]
    default_ns = ladder_cost(result.posed.problem, default) + result.posed.constant_ns
    if free and len(default) < len(result.curve_ns) and (best is None or best > default_ns):
        return "worse than the default"
    return None


def ceilings_fit_the_memory(result: Study) -> str | None:
    """Under a memory limit each number of graphs has the largest ceiling up to which all fit."""
    limit, model = result.scenario.limits.memory_bytes, result.scenario.model
    if limit is None:
        return None
    rows, problem = logits_rows(result.traffic.counted, model), result.posed.problem
    least = max(problem.required, default=1)
    tops = [top for top in np.flatnonzero(problem.tops).tolist() if top >= least]
    pools = {top: pool_bytes(top, rows, model)[1] for top in tops}
    for count in range(1, len(result.curve_ns)):
        room = limit - graph_bytes(count, model)
        too_large = next((i for i, top in enumerate(tops) if pools[top] > room), len(tops))
        largest = tops[too_large - 1] if too_large else 0
        if problem.largest_top(count) != largest:
            return "another ceiling for so many graphs"
    return None


def the_number_is_right(result: Study) -> str | None:
    """The answer, the half and the fewest without loss are the ones that their words say."""
    curve, answer = result.curve_ns, result.answer
    sizes, shift = answer.score.ladder.sizes, result.posed.constant_ns
    if answer.cost_ns != ladder_cost(result.posed.problem, sizes) + shift:
        return "another cost"
    costs = [math.inf if cost is None else cost for cost in curve]
    if result.scenario.limits.startup_ns is None:
        given = result.scenario.limits.max_buckets is not None
        usual = ladder_cost(result.posed.problem, result.scenario.default_ladder.sizes) + shift
        slack = max(costs[-1], min(costs[-1] * (1 + NEGLIGIBLE), usual))
        enough = costs[-1] if given else slack
        if len(sizes) != next(k for k, cost in enumerate(costs) if cost <= enough):
            return "another number of buckets"
    default = ladder_cost(result.posed.problem, result.scenario.default_ladder.sizes) + shift
    fewest = next((k for k, cost in enumerate(costs) if cost <= default), None)
    found = None if result.no_loss is None else result.no_loss.max_buckets
    return None if found == fewest else "another number without loss"


def the_rest_is_right(result: Study) -> str | None:
    """Rounds, hold-out, the limit of all ladders and the table's error."""
    again = scheduled(result.scenario, result.answer.score.ladder).counted
    same = np.array_equal(again.tokens, result.traffic.counted.tokens)
    if result.settled and not same:
        return "not settled"
    count = result.traffic.counted.count
    error = float((result.answer.score.step_ns * count).sum()) / result.answer.cost_ns - 1
    if result.table_error != pytest.approx(error, rel=1e-9, abs=1e-12):
        return "another table error"
    costs = [cost for cost in result.curve_ns if cost is not None]
    if result.limit_ns * result.traffic.counted.total > min(costs) * (1 + 1e-9):
        return "a ladder beats the limit"
    holdout = _holdout(result)
    return None if result.holdout == pytest.approx(holdout) else "another hold-out"


def _holdout(result: Study) -> float | None:
    """The gain on the last 30 % of the time of as many buckets chosen on the first 70 %."""
    timed, scenario = result.traffic.timed, result.scenario
    if timed.start_ns is None:
        return None
    early, late = (aggregate(part) for part in split_by_time(timed, 0.7))
    rule, model, chunk = scenario.engine.admission, scenario.model, scenario.max_chunk
    allowed = (result.posed.problem.allowed, result.posed.problem.tops)
    posed = result.posed.problem
    bounds = Choices(result.answer.max_buckets, *allowed, posed.required, posed.top_by_count)
    problem = engine_problem(cost_table(early, model, chunk), bounds, rule, model.slots).problem
    chosen = Ladder.of(
        solve(problem, bounds.max_buckets).best_ladder(bounds.max_buckets), model.slots
    )
    totals = [
        (exact_step_ns(late, model, ladder, rule)[0] * late.count).sum()
        for ladder in (scenario.default_ladder, chosen)
    ]
    return float(1 - totals[1] / totals[0])


LAWS: tuple[Law, ...] = (
    the_problem_is_that_of_the_steps,
    scores_are_those_of_the_steps,
    the_gain_is_that_of_the_scores,
    limits_hold,
    ceilings_fit_the_memory,
    the_number_is_right,
    the_rest_is_right,
)


def explained(result: Study, module: ModuleType) -> str | None:
    """Each bucket's steps and the price of dropping it, from the ladder with and without it."""
    scored, count = result.answer.score, result.traffic.counted.count
    sizes = scored.ladder.sizes
    for use in module.explain(result):
        rest = [size for size in sizes if size != use.bucket]
        problem = result.posed.problem
        if use.drop_ns != ladder_cost(problem, rest) - ladder_cost(problem, sizes):
            return "another price of dropping"
        if use.steps != int(count[scored.bucket_tokens == use.bucket].sum()):
            return "other steps"
    return None


def least_startup_is_met(module: ModuleType) -> str | None:
    """The least start-up that a refusal names is enough."""
    for size in range(64, 72):

        def bounded(limit_ns: int, size: int = size) -> Scenario:
            return scenario_of(steps_of(MIXED), Limits(include=(size,), startup_ns=limit_ns))

        try:
            module.study(bounded(0))
        except SimcgError as error:
            least = float(str(error).split(">= ")[1].split()[0])
            try:
                module.study(bounded(round(least * 1e3) * 1_000_000))
            except SimcgError:
                return "the least start-up is not enough"
        else:
            return "no refusal"
    return None


def complaint(modules: dict[str, ModuleType]) -> str | None:
    """What the laws have against these modules; None if nothing."""
    for index, scenario in enumerate(scenarios()):
        try:
            result = modules["study"].study(scenario)
        except (SimcgError, IndexError, ValueError) as error:
            return f"scenario {index}: {error}"
        said = [law(result) for law in LAWS] + [explained(result, modules["explain"])]
        if any(said):
            return f"scenario {index}: {said}"
    return least_startup_is_met(modules["study"])


def mutated(
    monkeypatch: pytest.MonkeyPatch, name: str, old: str, new: str
) -> dict[str, ModuleType]:
    """The modules with one piece of one text replaced, wherever the others use it."""
    original = MODULES[name]
    source = Path(str(original.__file__)).read_text(encoding="utf-8")
    assert source.count(old) == 1, f"the mutant's place is gone from {name}: {old}"
    mutant = ModuleType("mutant")
    monkeypatch.setitem(sys.modules, mutant.__name__, mutant)
    exec(compile(source.replace(old, new), "mutant", "exec"), mutant.__dict__)
    for key, value in vars(original).items():
        if getattr(value, "__module__", None) != original.__name__:
            continue
        for other in MODULES.values():
            if other is not original and vars(other).get(key) is value:
                monkeypatch.setattr(other, key, getattr(mutant, key))
    return MODULES | {name: mutant}


def test_originals_pass() -> None:
    """The unchanged modules satisfy every law, so a mutant that fails does so for its change."""
    assert complaint(MODULES) is None


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_caught(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Some law tells every wrong version from the right one."""
    assert complaint(mutated(monkeypatch, *MUTANTS[name])) is not None
