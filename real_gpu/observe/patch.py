"""Attributes that are replaced for a while."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Patches:
    """Replaces attributes of classes and modules until ``undo``, the last first."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], object]] = []

    def replace(self, owner: Any, name: str, value: Any) -> None:
        """From now on ``owner.name`` is ``value``."""
        own, before = name in vars(owner), vars(owner).get(name)
        setattr(owner, name, value)
        # what was inherited is inherited again
        self._undo.append(lambda: setattr(owner, name, before) if own else delattr(owner, name))

    def on_undo(self, call: Callable[[], object]) -> None:
        """Call it when all is undone."""
        self._undo.append(call)

    def undo(self) -> None:
        """Everything is as it was."""
        while self._undo:
            self._undo.pop()()
