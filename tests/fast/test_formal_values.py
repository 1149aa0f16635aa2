"""What kind of values the model and the ladder are made of."""

from __future__ import annotations

import pkgutil
from dataclasses import FrozenInstanceError, fields, is_dataclass
from importlib import import_module
from types import ModuleType

import pytest

pytest.importorskip("z3", reason="z3 is not installed: pip install '.[verify]'")

import simcg.formal
import simcg.ladder

WORKING = {
    "Blocks", "Capture", "Checker", "Explorer", "Ground", "Hunt", "Images", "Lowering", "Machine",
    "Meaning", "Memory", "Ranks", "Replay", "Run", "Runner", "Tally", "Violation", "Walker",
    "_Step",
}  # fmt: skip
"""Classes that change while they work; all others are values."""

OPEN = {"Program", "Step", "Violation"}
"""Two remember what they derive from their fields, and one is an exception: they have a dict."""


def modules() -> list[ModuleType]:
    found = pkgutil.walk_packages(simcg.formal.__path__, "simcg.formal.")
    return [simcg.ladder, *(import_module(one.name) for one in found)]


CLASSES = {
    f"{module.__name__}.{name}": value
    for module in modules()
    for name, value in vars(module).items()
    if is_dataclass(value) and isinstance(value, type) and value.__module__ == module.__name__
}


@pytest.mark.parametrize("name", CLASSES)
def test_a_value_is_never_changed_and_what_works_is(name: str) -> None:
    kind = CLASSES[name]
    made, field = kind.__new__(kind), fields(kind)[0].name
    if kind.__name__ in WORKING:
        setattr(made, field, 1)
        assert getattr(made, field) == 1
    else:
        with pytest.raises(FrozenInstanceError):
            setattr(made, field, 1)


@pytest.mark.parametrize("name", CLASSES)
def test_a_name_that_a_class_does_not_have_cannot_be_set(name: str) -> None:
    """A misspelt one would be lost without a word."""
    made = CLASSES[name].__new__(CLASSES[name])
    assert hasattr(made, "__dict__") == (CLASSES[name].__name__ in OPEN)


def test_every_class_of_the_lists_is_there() -> None:
    assert {kind.__name__ for kind in CLASSES.values()} >= WORKING | OPEN
