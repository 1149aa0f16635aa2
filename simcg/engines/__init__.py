"""What each engine does by default, may be told by flags, and prints."""

from simcg.engines.engine import PLAIN_DEPLOYMENT, Deployment, Engine
from simcg.engines.registry import (
    LADDER_RULES,
    LadderRule,
    engine_named,
    ladder_rule_named,
    ladder_rule_sizes,
)
from simcg.engines.traps import warnings

__all__ = [
    "LADDER_RULES",
    "PLAIN_DEPLOYMENT",
    "Deployment",
    "Engine",
    "LadderRule",
    "engine_named",
    "ladder_rule_named",
    "ladder_rule_sizes",
    "warnings",
]
