"""Modules with one piece of their text replaced, and whether a law still holds for them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

Law = Callable[[ModuleType], bool]
SEEN: tuple[type[BaseException], ...] = (
    AssertionError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError,
    pytest.fail.Exception,
)  # fmt: skip
"""What a test ends with that sees a mutant, or meets one that stumbles over itself."""


def mutated(monkeypatch: pytest.MonkeyPatch, module: ModuleType, old: str, new: str) -> ModuleType:
    """The module with that text replaced, which must occur once."""
    source = Path(str(module.__file__)).read_text(encoding="utf-8")
    assert source.count(old) == 1, f"the mutant's place is gone from {module.__name__}: {old}"
    mutant = ModuleType("mutant")
    monkeypatch.setitem(sys.modules, mutant.__name__, mutant)  # dataclass looks itself up
    exec(compile(source.replace(old, new), "mutant", "exec"), mutant.__dict__)
    return mutant


def holds(law: Law, module: ModuleType) -> bool:
    """Does the law hold? A mutant that stumbles over itself breaks it too."""
    try:
        return law(module)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return False


def put_in_place(monkeypatch: pytest.MonkeyPatch, original: ModuleType, mutant: ModuleType) -> None:
    """Whoever imported a function, class or table of the original has the mutant's instead."""
    users = [module for module in list(sys.modules.values()) if module is not original]
    for name, value in list(vars(original).items()):
        other = vars(mutant).get(name, value)
        if name.startswith("__") or other is value or isinstance(value, int | float | str):
            continue
        for user in users:
            if user is not mutant and getattr(user, "__dict__", {}).get(name) is value:
                monkeypatch.setattr(user, name, other)
    monkeypatch.setitem(sys.modules, original.__name__, mutant)


def told_apart(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    replaced: tuple[str, str],
    test: Callable[[], object],
    seen: tuple[type[BaseException], ...] = SEEN,
) -> bool:
    """Does the test fail when the module of that name has the second text in place of the first?"""
    original = import_module(name)
    put_in_place(monkeypatch, original, mutated(monkeypatch, original, *replaced))
    try:
        test()
    except seen:
        return True
    return False
