"""Typed access to the fields of a config.json."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from simcg.errors import InputError

MAX_SIZE = 1 << 30
"""No model comes near it; it keeps a mistyped size from filling the memory."""


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of one JSON object; a missing or null field takes the default."""

    source: str
    raw: dict[str, Any]  # JSON as decoded: every access below checks the type

    def fail(self, field: str, expected: str) -> InputError:
        """The error that names this field, its value and what was expected."""
        return InputError(self.source, field, self.raw.get(field), expected)

    def integer(
        self, field: str, default: int | None = None, least: int = 1, most: int = MAX_SIZE
    ) -> int:
        """An integer of that range."""
        value = self.raw.get(field)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self.fail(field, f"an integer from {least} to {most}")
        return value

    def flag(self, field: str, default: bool = False) -> bool:
        """True or false."""
        value = self.raw.get(field)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.fail(field, "true or false")
        return value

    def experts(self, field: str) -> tuple[int, int]:
        """Experts of a layer, which ``field`` names, and how many of them a token takes."""
        experts, top_k = self.integer(field), self.integer("num_experts_per_tok")
        if top_k > experts:
            raise self.fail("num_experts_per_tok", f"at most the {experts} experts")
        return experts, top_k

    def check_word(self, field: str, known: tuple[str, ...]) -> None:
        """Refuses any value but those, or none."""
        value = self.raw.get(field)
        if value is not None and value not in known:
            raise self.fail(field, "one of " + ", ".join(known))

    def items(self, field: str, kind: type, what: str) -> list[Any] | None:
        """A list of values of one type, or None."""
        value = self.raw.get(field)
        if value is None:
            return None
        if not isinstance(value, list) or not all(type(item) is kind for item in value):
            raise self.fail(field, f"a list of {what}")
        return value

    def inner(self, field: str) -> Fields | None:
        """An object inside this one, or None."""
        value = self.raw.get(field)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.fail(field, "an object")
        return Fields(f"{self.source}, {field}", value)
