"""All numbers of the report: one dictionary a section, each written as SECTION.json."""

from __future__ import annotations

from papers.formal_numbers import formal_numbers


def numbers() -> dict[str, dict[str, object]]:
    """Names to values; text as it is printed, so that no page formats or rounds anything."""
    return {"formal": formal_numbers()}
