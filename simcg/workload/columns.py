"""Which column of a table holds what: well-known names, the user's names, units by suffix."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from simcg.errors import InputError, require

_ARRIVAL = """arrival arrivaltime arrivaltimestamp arrivedat requesttime requesttimestamp
    sendtime starttime starttimeoffset starttimes time timestamp ts"""
_PROMPT = """contexttokens inputlen inputlens inputlength inputtokens inputtoks isl numprefilltokens
    numprompttokens promptlen promptlength prompttokens requesttokens"""
_OUTPUT = """completiontokens generatedtokens numdecodetokens numoutputtokens osl outputlen
    outputlength outputlens outputtokens outputtoks responsetokens"""
_CACHED = "cachedprompttokens cachedtokens numcachedtokens prefixhittokens"

_KNOWN = {
    "arrival": frozenset(_ARRIVAL.split()),
    "prompt": frozenset(_PROMPT.split()),
    "output": frozenset(_OUTPUT.split()),
    "cached": frozenset(_CACHED.split()),
}
"""Names in public traces and tools, in lower case without separators and time unit."""

ROLES = tuple(_KNOWN)
"""A column may also bear its role's own name, where no other is of that role: the text of a prompt
often stands in a column called so.
"""


def column_names() -> str:
    """Every name that is understood, by role, for a reader."""
    return "; ".join(f"{role}: {', '.join(sorted({role, *_KNOWN[role]}))}" for role in ROLES)


_UNITS = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "sec": 1_000_000_000,
    "seconds": 1_000_000_000,
}
NO_COLUMN = "-"
"""Given as a role's column: the table has none."""

_UNIT_SUFFIX = re.compile(r"[_ (\[](" + "|".join(_UNITS) + r")[)\]]?")


@dataclass(frozen=True, slots=True)
class Columns:
    """The column names of a request table; None: the table has no such column."""

    prompt: str
    arrival: str | None = None
    output: str | None = None
    cached: str | None = None


def find_columns(
    source: str, names: tuple[str, ...], given: Mapping[str, str] | None = None
) -> Columns:
    """The columns for each role: those ``given``, else the one with a well-known name.

    ``given`` maps roles (arrival, prompt, output, cached) to names in the table, or to ``-``: no
    such column. Fields of ``usage`` (OpenAI's) come after well-known names of the row itself.
    Raises InputError for an unknown role or name, for two candidates and for no prompt column.
    """
    found: dict[str, str] = {}
    absent = [role for role, name in (given or {}).items() if name == NO_COLUMN]
    for role, name in (given or {}).items():
        require(role in ROLES, "--columns", role, name, f"a role: {', '.join(ROLES)}")
        if role in absent:
            continue
        require(name in names, source, f"--columns {role}", name, f"one of {_listed(names)}")
        found[role] = name
    taken = set(found.values())
    require(len(taken) == len(found), "--columns", "", dict(given or {}), "one column per role")
    for role in ROLES:
        if role in found or role in absent:
            continue
        free = [n for n in names if n not in taken]
        candidates = [n for n in free if _bare(n) in _KNOWN[role]]
        candidates = candidates or [n for n in free if _bare(_in_usage(n)) in _KNOWN[role]]
        candidates = candidates or [n for n in free if _bare(n) == role]
        if len(candidates) > 1:
            expected = f"one column for {role}; name it with --columns {role}=NAME"
            raise InputError(source, "header", candidates, expected)
        if candidates:
            found[role] = candidates[0]
    if "prompt" not in found:
        expected = "a column with prompt tokens, such as input_tokens (or --columns prompt=NAME)"
        raise InputError(source, "header", list(names), expected)
    return Columns(**found)


def has_prompt_column(names: tuple[str, ...]) -> bool:
    """Does a well-known name say that the rows are requests?"""
    return any({_bare(name), _bare(_in_usage(name))} & _KNOWN["prompt"] for name in names)


def unit_ns(name: str) -> int | None:
    """Nanoseconds per unit of a time column, by its suffix (_ns, _us, _ms, _s); None without."""
    suffix = _suffix(name)
    return None if suffix is None else _UNITS[suffix]


def _in_usage(name: str) -> str:
    """The part of a dotted name after ``usage``; empty if there is none."""
    _, _, inner = f".{name}".rpartition(".usage.")
    return inner.rpartition("_details.")[2]


def _suffix(name: str) -> str | None:
    matches = list(_UNIT_SUFFIX.finditer(name.lower()))
    at_end = bool(matches) and matches[-1].end() == len(name.strip())
    return matches[-1][1] if at_end else None


def _bare(name: str) -> str:
    """The name in lower case, without its time unit and separators."""
    suffix = _suffix(name)
    text = name.lower().strip()
    if suffix is not None:
        text = text.rstrip(")]").removesuffix(suffix)
    return re.sub(r"[^a-z0-9]", "", text)


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(repr(n) for n in names)
