"""The ladders that decisions are measured for: engines' defaults, and simcg's under each rule."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from simcg.cost.table import CostTable, cost_table
from simcg.engines.registry import ladder_rule_sizes
from simcg.ladder import AdmissionRule
from simcg.optimize.build import cheaper_eager, engine_problem, research_problem
from simcg.optimize.scenario import Limits, Scenario, choices
from simcg.optimize.score import logits_rows, score
from simcg.optimize.solve import solve
from simcg.optimize.study import Traffic
from simcg.runs.schema import LadderLine

NO_GUARD = AdmissionRule()


@dataclass(frozen=True, slots=True)
class _Contest:
    """One scenario's traffic, priced once."""

    scenario: Scenario
    traffic: Traffic
    table: CostTable

    def best(
        self, name: str, graphs: int, rule: AdmissionRule, against: tuple[str, ...],
        memory_bytes: int | None = None,
    ) -> LadderLine:  # fmt: skip
        """The ladder of at most so many graphs that costs least under ``rule``."""
        asked = Limits(max_buckets=graphs, memory_bytes=memory_bytes)
        limits = choices(replace(self.scenario, limits=asked), self._requests)
        problem = engine_problem(self.table, limits, rule).problem
        sizes = solve(problem, graphs).best_ladder(graphs)
        return LadderLine(name, sizes, _ratio(rule), against=against)

    def research(self, name: str, graphs: int, against: tuple[str, ...]) -> LadderLine:
        """The best for a runner that picks the cheaper of its bucket and eager for each size."""
        limits = choices(replace(self.scenario, limits=Limits(graphs)), self._requests)
        problem = research_problem(self.table, limits).problem
        sizes = solve(problem, graphs).best_ladder(graphs)
        ranges = cheaper_eager(problem, sizes).eager_ranges
        return LadderLine(name, sizes, None, ranges, against)

    def device_bytes(self, rival: LadderLine) -> int:
        """Graph memory of a ladder."""
        counted, model, top = self.traffic.counted, self.scenario.model, self.scenario.max_chunk
        return score(rival.ladder, rival.rule, counted, model, top).memory.device

    @property
    def _requests(self) -> int:
        return logits_rows(self.traffic.counted, self.scenario.model)


def contenders(scenario: Scenario, traffic: Traffic) -> list[LadderLine]:
    """Default ladders, and simcg's answer to each under its own rule with as many graphs.

    ``scenario``: of SGLang, whose flags take any size. ``research`` may choose graph or eager per
    size; ``equal memory`` has no limit on graphs but SGLang's default's memory.
    """
    chunk = scenario.max_chunk
    guard = scenario.engine.admission
    rivals = [LadderLine("sglang", scenario.default_ladder.sizes, _ratio(guard))] + [
        LadderLine(name, ladder_rule_sizes(rule, chunk))
        for name, rule in (("vllm", "vllm"), ("tokenspeed", "tokenspeed-prefill"))
    ]
    powers = tuple(1 << k for k in range(4, chunk.bit_length()) if 1 << k <= chunk)
    rivals.append(LadderLine("powers-of-two", powers))
    sglang = rivals[0]
    table = cost_table(traffic.counted, scenario.model, chunk)
    contest = _Contest(scenario, traffic, table)
    bare = LadderLine("no-graphs", ())
    ours = [contest.best("simcg", len(sglang.sizes), guard, ("sglang", "no-graphs"))] + [
        contest.best(f"simcg as {rival.name}", len(rival.sizes), NO_GUARD, (rival.name,))
        for rival in rivals[1:]
    ]
    names = tuple(one.name for one in (*rivals, bare))
    ours.append(contest.research("simcg research", len(sglang.sizes), names))
    memory = contest.device_bytes(sglang)
    most = 2 * len(sglang.sizes)
    ours.append(contest.best("simcg equal memory", most, guard, ("sglang",), memory))
    return [*rivals, bare, *ours]


def _ratio(rule: AdmissionRule) -> tuple[int, int] | None:
    ratio: Fraction | None = rule.max_ratio
    return None if ratio is None else (ratio.numerator, ratio.denominator)
