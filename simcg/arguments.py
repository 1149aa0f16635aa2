"""Are arguments what their annotations say: told by name where they are given, not where used."""

from __future__ import annotations

from dataclasses import fields
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from simcg.errors import require

WORDS = {int: "an integer", float: "a number", str: "a string", NoneType: "None"}


def check_fields(made: Any) -> None:
    """Raise ``InputError`` for the first field of a dataclass that is not of its annotated type."""
    kind: type = type(made)
    hints = get_type_hints(kind)
    given = {one.name: (getattr(made, one.name), hints[one.name]) for one in fields(made)}
    check_arguments(kind.__name__, **given)


def check_arguments(source: str, **given: tuple[object, Any]) -> None:
    """Raise ``InputError`` for the first of the arguments (value, type) that is not of its type.

    Types are classes, unions, ``Literal`` strings and tuples of one type.  NumPy's integers are
    integers, every number but bool is a float, and a list passes for a tuple.
    """
    for name, (value, kind) in given.items():
        require(_fits(value, kind), source, name, value, _words(kind))


def _fits(value: object, kind: Any) -> bool:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return any(_fits(value, one) for one in inner)
    if origin is Literal:  # which names there are is told where they are looked up
        return isinstance(value, str)
    if origin is tuple:
        return isinstance(value, tuple | list) and all(_fits(one, inner[0]) for one in value)
    if kind in (int, float):
        number = Integral if kind is int else Real
        return isinstance(value, number) and not isinstance(value, bool)
    return isinstance(value, kind)


def _words(kind: Any) -> str:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        *first, last = (_words(one) for one in inner)
        return f"{', '.join(first)} or {last}"
    if origin is Literal:
        return WORDS[str]
    if origin is tuple:
        named = _words(inner[0])
        return f"a tuple, each {named}"
    return WORDS.get(kind) or str(kind.__name__)
