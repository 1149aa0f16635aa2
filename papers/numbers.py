"""All numbers of the report: one dictionary a section, each written as SECTION.json."""

from __future__ import annotations

from papers.formal_numbers import formal_numbers
from papers.limits_numbers import limits_numbers
from papers.model_numbers import model_numbers
from papers.optimizer_numbers import optimizer_numbers
from papers.problem_numbers import problem_numbers
from papers.reproduction_numbers import reproduction_numbers
from papers.validation_numbers import validation_numbers


def numbers() -> dict[str, dict[str, object]]:
    """Names to values; text as it is printed, so that no page formats or rounds anything."""
    return {
        "problem": problem_numbers(),
        "model": model_numbers(),
        "optimizer": optimizer_numbers(),
        "formal": formal_numbers(),
        "validation": validation_numbers(),
        "reproduction": reproduction_numbers(),
        "limits": limits_numbers(),
    }
