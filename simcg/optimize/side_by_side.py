"""Ladders side by side on the same steps."""

from __future__ import annotations

from collections.abc import Mapping

from simcg.errors import require
from simcg.ladder import Ladder
from simcg.optimize.scenario import Scenario
from simcg.optimize.score import LadderScore, score
from simcg.optimize.study import scheduled

DEFAULT = "default"


def side_by_side(scenario: Scenario, ladders: Mapping[str, Ladder]) -> dict[str, LadderScore]:
    """The engine's ``default`` and these, on the steps that the default gives rise to.

    Raises ``InputError`` for another ladder of the default's name.
    """
    require(DEFAULT not in ladders, "ladders", "", DEFAULT, "a name that no other ladder has")
    steps = scheduled(scenario, scenario.default_ladder).counted
    rule, model, chunk = scenario.engine.admission, scenario.model, scenario.max_chunk
    named = {DEFAULT: scenario.default_ladder, **ladders}
    return {name: score(ladder, rule, steps, model, chunk) for name, ladder in named.items()}
