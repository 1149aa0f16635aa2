"""The ladders that decisions are measured for: engines' defaults, and simcg's under each rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from simcg.cost.table import CostTable, cost_table
from simcg.engines.registry import ladder_rule_sizes
from simcg.errors import require
from simcg.ladder import AdmissionRule
from simcg.optimize.build import cheaper_eager, engine_problem, research_problem
from simcg.optimize.scenario import Limits, Scenario, choices
from simcg.optimize.score import logits_rows, score
from simcg.optimize.solve import solve
from simcg.optimize.study import Traffic
from simcg.runs.schema import LadderLine


@dataclass(frozen=True, slots=True)
class _Contest:
    """One scenario's traffic, priced once."""

    scenario: Scenario
    traffic: Traffic
    table: CostTable

    def best(
        self, name: str, like: LadderLine, against: tuple[str, ...],
        graphs: int | None = None, memory_bytes: int | None = None,
    ) -> LadderLine:  # fmt: skip
        """The cheapest ladder under the rule of ``like``, with as many graphs unless told."""
        graphs = len(like.sizes) if graphs is None else graphs
        asked = Limits(max_buckets=graphs, memory_bytes=memory_bytes)
        limits = choices(replace(self.scenario, limits=asked), self._requests)
        problem = engine_problem(self.table, limits, like.rule).problem
        sizes = solve(problem, graphs).best_ladder(graphs)
        return LadderLine(name, sizes, like.max_ratio, against=against)

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


RIVALS = ("sglang", "vllm", "tokenspeed", "powers-of-two", "no-graphs")
"""Names of the ladders that simcg's are held against."""


def contenders(
    scenario: Scenario, traffic: Traffic, names: Sequence[str] = RIVALS
) -> list[LadderLine]:
    """The named ladders, and simcg's answer to each under its own rule with as many graphs.

    ``scenario``: of SGLang, whose flags take any size. ``simcg research`` may choose graph or
    eager per size; ``simcg equal memory`` has the memory of SGLang's default, and up to twice its
    graphs. Raises ``InputError`` for a name that is not one of ``RIVALS``.
    """
    rivals = [_rival(name, scenario) for name in names]
    table = cost_table(traffic.counted, scenario.model, scenario.max_chunk)
    contest = _Contest(scenario, traffic, table)
    guard = scenario.engine.admission
    ours = []
    bare = tuple(rival.name for rival in rivals if not rival.sizes)
    for rival in rivals:
        if rival.sizes:  # the best of no graphs is no graphs
            ours.append(contest.best(f"simcg as {rival.name}", rival, (rival.name, *bare)))
    usual = _rival("sglang", scenario)
    ours.append(contest.research("simcg research", len(usual.sizes), tuple(names)))
    if "sglang" in names:
        free = LadderLine("", (), _ratio(guard))
        memory = contest.device_bytes(usual)
        most = 2 * len(usual.sizes)
        ours.append(contest.best("simcg equal memory", free, ("sglang",), most, memory))
    return [*rivals, *ours]


def _rival(name: str, scenario: Scenario) -> LadderLine:
    chunk = scenario.max_chunk
    if name == "sglang":
        sizes, rule = scenario.default_ladder.sizes, scenario.engine.admission
        return LadderLine(name, sizes, _ratio(rule))
    if name in ("vllm", "tokenspeed"):
        rule_name = {"vllm": "vllm", "tokenspeed": "tokenspeed-prefill"}[name]
        return LadderLine(name, ladder_rule_sizes(rule_name, chunk))
    if name == "powers-of-two":
        return LadderLine(name, tuple(1 << k for k in range(4, chunk.bit_length())))
    require(name == "no-graphs", "--ladders", "", name, "some of " + ", ".join(RIVALS))
    return LadderLine(name, ())


def _ratio(rule: AdmissionRule) -> tuple[int, int] | None:
    ratio: Fraction | None = rule.max_ratio
    return None if ratio is None else (ratio.numerator, ratio.denominator)
