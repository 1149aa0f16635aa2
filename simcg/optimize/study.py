"""The whole answer: traffic to steps, steps to costs, costs to a proved ladder, and its worth."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from simcg.cost.clock import step_clock
from simcg.cost.startup import startup
from simcg.cost.table import CostTable, cost_table, exact_step_ns
from simcg.errors import InputError, SimcgError, require
from simcg.ladder import AdmissionRule, Ladder
from simcg.optimize.build import Posed, cheaper_eager, engine_problem, research_problem
from simcg.optimize.certificate import check_certificate
from simcg.optimize.evaluate import ladder_cost
from simcg.optimize.frontier import Frontier
from simcg.optimize.gain import MOST_MARGIN, Gain, GainJudge, eager_host_margin
from simcg.optimize.scenario import Choices, Scenario, choices
from simcg.optimize.score import LadderScore, logits_rows, score
from simcg.optimize.solve import solve
from simcg.workload.load import Utilisation, utilisation
from simcg.workload.scheduler import prefill_steps
from simcg.workload.step_sets import aggregate, split_by_time
from simcg.workload.steps import Steps

NEGLIGIBLE = 0.001
"""Fewer buckets are taken when they cost at most this share of the mean step time more."""
MOST_ROUNDS = 5
"""Steps depend on the ladder through the scheduler: at most so many rounds of both."""
FEW_STEPS = 100
"""Fewer say nothing of the traffic they come from."""
WORTHWHILE = 0.005
"""A share of the mean step time worth another ladder."""
NOTABLE = 0.01
"""A share of the steps worth a thought."""
HOSTS_DIFFER = 2.0
"""So many times slower may one host be than another beside the same GPU (two H200 machines)."""
FIT_SHARE = 0.7
"""Hold-out: the ladder is chosen on this first part of the time and scored on the rest."""

Decision = Literal["use_ladder", "no_graphs", "fewer_graphs", "keep_default"]


@dataclass(frozen=True, slots=True)
class Traffic:
    """Steps in order of time, the same counted, and the server's load (None without times)."""

    timed: Steps
    counted: Steps
    load: Utilisation | None


@dataclass(frozen=True, slots=True)
class Answer:
    """A ladder proved optimal: the claim is about at most ``max_buckets`` buckets.

    ``cost_ns``: total by the cost table, own attention included.  ``price_ns``: what one more
    bucket would save in all, where that is defined.
    """

    score: LadderScore
    max_buckets: int
    cost_ns: int
    price_ns: int | None


@dataclass(frozen=True, slots=True)
class Study:
    """Everything that ``simcg optimize`` says.

    ``posed``: the problem that was solved on the last ``traffic`` and cost ``table``.
    ``answer``: the ladder to use, ``gain`` over ``default``.  ``no_graphs`` and ``limit_ns``
    bracket every ladder: all eager, and a graph for every size (mean ns).
    ``curve_ns[k]``: least total with at most k buckets by the table, None if there is none.
    ``no_loss``: the fewest buckets that cost no more than the default, None if none do; whether
    they can be used without measuring first is ``fewest``.
    ``half``: at most half as many buckets as the *default* has.  ``research``: the per-size choice.
    ``holdout``: gain on the last part of the time of a ladder chosen on the first part.
    ``eager_host_margin``, ``no_loss_margin``: how many times slower the host may issue eager steps
    before the answer, or ``no_loss``, gains nothing over the default.
    ``table_error``: full timeline over cost table on the answer, less 1.
    ``rounds``: rounds of steps and ladder; ``settled``: the ladder repeated.
    """

    scenario: Scenario
    traffic: Traffic
    table: CostTable
    posed: Posed
    default: LadderScore
    answer: Answer
    gain: Gain
    no_graphs: LadderScore
    limit_ns: float
    curve_ns: tuple[int | None, ...]
    no_loss: Answer | None
    half: Answer | None
    research: LadderScore | None
    holdout: float | None
    eager_host_margin: float
    no_loss_margin: float
    table_error: float
    bound_gap: float
    rounds: int
    settled: bool

    def __repr__(self) -> str:
        model = self.scenario.model
        return f"Study({model.forward.name} on {model.profile.name}: {self.verdict})"

    @property
    def ladder(self) -> Ladder:
        """The proved ladder; ``decision`` says whether to use it."""
        return self.answer.score.ladder

    @property
    def flags(self) -> str:
        """What to start the engine with for ``ladder``."""
        return self.flags_of(self.answer)

    def flags_of(self, answer: Answer) -> str:
        """What to start the engine with for one of the ladders."""
        return self.scenario.engine.flags(answer.score.ladder, self.scenario.model.backend)

    @property
    def decision(self) -> Decision:
        """Change only for a gain that is certain and worth it, or for fewer graphs as good."""
        gain, graphs = self.gain, len(self.ladder)
        if not self.has_enough_steps or not gain.is_certain:
            return "keep_default"
        if gain.low > 0 and gain.share >= WORTHWHILE:
            return "use_ladder" if graphs else "no_graphs"
        fewer = 0 < graphs < len(self.default.ladder)
        return "fewer_graphs" if fewer and gain.low > -2 * NEGLIGIBLE else "keep_default"

    @property
    def verdict(self) -> str:
        """What to do, in one sentence."""
        from simcg.report.words import verdict  # noqa: PLC0415 - words are made from studies

        return verdict(self)[0]

    @property
    def has_enough_steps(self) -> bool:
        """The traffic has steps enough to judge by."""
        return self.traffic.counted.total >= FEW_STEPS

    @property
    def fewest(self) -> Answer | None:
        """``no_loss`` where it can be used unmeasured: it has fewer buckets than the default, keeps
        the start-up limit and loses nothing beside another host (``HOSTS_DIFFER``).
        """
        found, limit, slower = self.no_loss, self.scenario.limits.startup_ns, self.no_loss_slowdown
        if found is None or not self.has_enough_steps:
            return None
        saves = len(found.score.ladder) < len(self.default.ladder)
        within = limit is None or found.score.startup.ns <= limit
        return found if saves and within and (slower is None or slower >= HOSTS_DIFFER) else None

    @property
    def slowdown(self) -> float | None:
        """``eager_host_margin`` where ``ladder`` runs more steps without a graph than the default;
        None elsewhere.
        """
        more = self.answer.score.eager_share - self.default.eager_share
        return self.eager_host_margin if more > NOTABLE else None

    @property
    def no_loss_slowdown(self) -> float | None:
        """``no_loss_margin`` where it binds: more steps run without a graph than by default."""
        if self.no_loss is None or self.no_loss_margin >= MOST_MARGIN:
            return None
        more = self.no_loss.score.eager_share - self.default.eager_share
        return self.no_loss_margin if more > NOTABLE else None


def study(scenario: Scenario, notify: Callable[[str], None] = lambda _: None) -> Study:
    """Choose, prove and judge a ladder for the scenario; ``notify`` hears what is being done."""
    ladder = scenario.default_ladder
    for rounds in range(1, MOST_ROUNDS + 1):
        notify(f"round {rounds}: scheduling and solving")
        solved = solved_on(scenario, scheduled(scenario, ladder))
        before, ladder = ladder, solved.ladder
        if ladder == before or isinstance(scenario.traffic, Steps):
            return _judge(solved, rounds, settled=True)
    return _judge(solved, MOST_ROUNDS, settled=False)


def scheduled(scenario: Scenario, ladder: Ladder) -> Traffic:
    """The steps that the scheduler runs when the server has this ladder."""
    traffic, chunk = scenario.traffic, scenario.max_chunk
    if isinstance(traffic, Steps):
        largest = int(traffic.tokens.max())
        require(largest <= chunk, traffic.source, "tokens", largest, f"at most {chunk} (chunk)")
        return Traffic(traffic, aggregate(traffic), None)
    clock = step_clock(scenario.model, ladder, scenario.engine.admission, chunk)
    steps = prefill_steps(
        traffic,
        max_chunk=chunk,
        step_ns=clock,
        max_requests=scenario.max_requests,
        rate=scenario.rate,
    )
    timed = steps.start_ns is not None
    load = utilisation(steps, traffic, clock, scenario.rate) if timed else None
    return Traffic(steps, aggregate(steps), load)


@dataclass(frozen=True, slots=True)
class Solved:
    """One round: traffic, table, problem, solution, and how many buckets of it are taken."""

    scenario: Scenario
    traffic: Traffic
    table: CostTable
    limits: Choices
    posed: Posed
    frontier: Frontier
    chosen: int
    bound_gap: float

    @property
    def ladder(self) -> Ladder:
        """The ladder that is taken."""
        return Ladder.of(self.frontier.ladder(self.chosen), self.scenario.model.slots)

    def score(self, ladder: Ladder, rule: AdmissionRule | None = None) -> LadderScore:
        """A ladder on this traffic, under the engine's rule unless told otherwise."""
        rule = self.scenario.engine.admission if rule is None else rule
        model, chunk = self.scenario.model, self.scenario.max_chunk
        return score(ladder, rule, self.traffic.counted, model, chunk)

    def proved(self, most: int) -> Answer:
        """The best ladder of at most ``most`` buckets, its certificate checked."""
        count = self.frontier.best_count(most)
        cost = self.frontier.best_cost(most)
        if count is None or cost is None:
            raise InputError("ladder", "buckets", most, "a number that the limits permit")
        sizes = self.frontier.ladder(count)
        certificate = self.frontier.certificate(most)
        check_certificate(self.posed.problem, sizes, cost, certificate)
        scored = self.score(Ladder.of(sizes, self.scenario.model.slots))
        return Answer(scored, most, cost + self.posed.constant_ns, certificate.price_ns)


def solved_on(scenario: Scenario, traffic: Traffic) -> Solved:
    """The exact frontier on this traffic, and how many buckets to take."""
    table = cost_table(traffic.counted, scenario.model, scenario.max_chunk)
    limits = choices(scenario, logits_rows(traffic.counted, scenario.model))
    posed = engine_problem(table, limits, scenario.engine.admission, scenario.model.slots)
    frontier = solve(posed.problem, limits.max_buckets)
    chosen, gap = _choose(scenario, frontier, posed)
    return Solved(scenario, traffic, table, limits, posed, frontier, chosen, gap)


def _choose(scenario: Scenario, frontier: Frontier, posed: Posed) -> tuple[int, float]:
    """The fewest buckets that cost next to nothing more, within the start-up limit; the gap.

    The gap is the share by which the start-up limit may keep the answer from the optimum without
    it: start-up is a sum over buckets, and only the ladders of the frontier are tried.
    """
    costs = {
        k: cost + posed.constant_ns
        for k, cost in enumerate(frontier.exact_costs_ns)
        if cost is not None
    }
    if not costs:
        raise SimcgError(
            f"no ladder of at most {frontier.max_buckets} buckets satisfies --align, --include "
            "and --ceiling together"
        )
    best_ns = min(costs.values())
    limit = scenario.limits.startup_ns
    if limit is not None:
        needs = {k: startup(frontier.ladder(k), scenario.model).ns for k in costs}
        least = min(needs.values())
        enough = f">= {math.ceil(least / 1e6) / 1e3:.3f} seconds"
        require(least <= limit, "--max-startup", "", limit / 1e9, enough)
        costs = {k: cost for k, cost in costs.items() if needs[k] <= limit}
    least_ns = min(costs.values())
    slack = 0 if scenario.limits.max_buckets is not None else int(least_ns * NEGLIGIBLE)
    default_ns = ladder_cost(posed.problem, scenario.default_ladder.sizes) + posed.constant_ns
    enough_ns = max(least_ns, min(least_ns + slack, default_ns))  # never slower than the default
    return min(k for k, c in costs.items() if c <= enough_ns), least_ns / best_ns - 1


def _judge(solved: Solved, rounds: int, settled: bool) -> Study:
    """Score the ladders beside each other and check the certificates."""
    scenario, table, counted = solved.scenario, solved.table, solved.traffic.counted
    default = solved.score(scenario.default_ladder)
    answer = solved.proved(solved.chosen)
    judge = GainJudge(counted, solved.traffic.timed, scenario.model, table.provenance)
    most = solved.frontier.max_buckets
    best = [solved.frontier.best_cost(k) for k in range(most + 1)]
    shift = solved.posed.constant_ns
    default_ns = ladder_cost(solved.posed.problem, scenario.default_ladder.sizes)
    enough = [k for k, cost in enumerate(best) if cost is not None and cost <= default_ns]
    half = min(len(scenario.default_ladder) // 2, most)
    no_loss = solved.proved(enough[0]) if enough else None

    def margin(score: LadderScore) -> float:
        return eager_host_margin(default, score, counted, table.eager_host_ns)

    total = float((answer.score.step_ns * counted.count).sum())
    return Study(
        scenario=scenario,
        traffic=solved.traffic,
        table=table,
        posed=solved.posed,
        default=default,
        answer=answer,
        gain=judge.gain(default, answer.score),
        no_graphs=solved.score(Ladder(())),
        limit_ns=_limit_ns(table),
        curve_ns=tuple(None if cost is None else cost + shift for cost in best),
        no_loss=no_loss,
        half=None if best[half] is None else solved.proved(half),
        research=_research(solved),
        holdout=_holdout(solved),
        eager_host_margin=margin(answer.score),
        no_loss_margin=margin(no_loss.score if no_loss else default),
        table_error=total / answer.cost_ns - 1,
        bound_gap=solved.bound_gap,
        rounds=rounds,
        settled=settled,
    )


def _limit_ns(table: CostTable) -> float:
    """Mean time with a graph for every size, and every step in the cheapest that holds it."""
    cheapest = np.minimum.accumulate(table.replay_ns[::-1])[::-1]
    replay = cheapest[table.steps.tokens] + table.attention_ns
    least = np.minimum(replay, table.eager_own_ns)
    return float(np.average(least, weights=table.steps.count))


def _research(solved: Solved) -> LadderScore:
    """The best ladder of as many buckets for a runner that picks the cheaper way per size."""
    posed = research_problem(solved.table, solved.limits, solved.scenario.model.slots)
    sizes = solve(posed.problem, solved.chosen).best_ladder(solved.chosen)
    ladder = Ladder.of(sizes, solved.scenario.model.slots)
    return solved.score(ladder, cheaper_eager(posed.problem, sizes))


def _holdout(solved: Solved) -> float | None:
    """Gain over the default, on the last part of the time, of a ladder chosen on the first."""
    scenario, timed = solved.scenario, solved.traffic.timed
    if timed.start_ns is None or timed.start_ns[0] == timed.start_ns[-1]:
        return None
    early, late = split_by_time(timed, FIT_SHARE)
    table = cost_table(aggregate(early), scenario.model, scenario.max_chunk)
    rule = scenario.engine.admission
    problem = engine_problem(table, solved.limits, rule, scenario.model.slots).problem
    sizes = solve(problem, solved.chosen).best_ladder(solved.chosen)
    rest = aggregate(late)
    totals = [
        float((exact_step_ns(rest, scenario.model, ladder, rule)[0] * rest.count).sum())
        for ladder in (scenario.default_ladder, Ladder.of(sizes, scenario.model.slots))
    ]
    return 1 - totals[1] / totals[0]
