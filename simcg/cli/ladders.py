"""Ladders as a user types them: sizes, or the name of a rule."""

from __future__ import annotations

import re

from simcg.engines.engine import Deployment
from simcg.engines.registry import LADDER_RULES, ladder_rule_sizes
from simcg.errors import InputError, one_of, require

NO_GRAPHS = "none"


def typed_sizes(flag: str, text: str, limit: int, deployment: Deployment) -> tuple[int, ...]:
    """The sizes in ``text``: numbers, a rule under ``limit``, or ``none`` for no graphs."""
    if text == NO_GRAPHS:
        return ()
    if re.fullmatch(r"[0-9]{1,9}([,\s]+[0-9]{1,9})*", text):
        sizes = tuple(sorted({int(size) for size in re.split(r"[,\s]+", text)}))
        require(sizes[0] >= 1, flag, "", text, "sizes >= 1")
        return sizes
    if text in LADDER_RULES:
        return ladder_rule_sizes(text, limit, deployment)
    known = one_of(text, (*LADDER_RULES, NO_GRAPHS))
    raise InputError(flag, "", text, f"sizes such as 64,128,256 or {known}")
