"""The file of a ladder: JSON with sizes or buckets, a rule and limits."""

from __future__ import annotations

import json
from collections import Counter
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Annotated

import msgspec
from msgspec import Meta

from simcg.engines.pasted import ladder_of_flags
from simcg.errors import Finding, InputError, SimcgError, require
from simcg.formal.ladder_check.question import (
    MOST_BUCKETS,
    MOST_TOKENS,
    LadderQuestion,
    default_requests,
    sorted_ladder,
)
from simcg.ladder import AdmissionRule, Bucket
from simcg.workload.source import read_utf8, source_name

SUCH = 'a ladder such as {"sizes": [8, 16]}'
_Count = Annotated[int, Meta(ge=1, le=MOST_TOKENS)]
_Sizes = Annotated[tuple[_Count, ...], Meta(min_length=1, max_length=MOST_BUCKETS)]
_Buckets = Annotated[tuple[tuple[_Count, _Count], ...], Meta(min_length=1, max_length=MOST_BUCKETS)]


class _Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    max_ratio: int | float | str | None = None
    eager_ranges: tuple[tuple[_Count, _Count], ...] = ()


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    sizes: _Sizes | None = None
    buckets: _Buckets | None = None
    rule: _Rule = _Rule()
    max_tokens: _Count | None = None
    max_requests: _Count | None = None
    align: _Count = 1
    query_len: _Count = 1

    def __post_init__(self) -> None:
        if (self.sizes is None) == (self.buckets is None):
            raise ValueError("give either sizes or buckets")


def read_question(path: str) -> LadderQuestion:
    """The question in a JSON file, or in standard input for ``-``.

    ``{"sizes": [T, ...]}`` or ``{"buckets": [[T, S], ...]}``, and as the user likes ``rule``
    (``max_ratio``, ``eager_ranges``), ``max_tokens`` (the ceiling by default), ``max_requests``
    (all slots), ``align`` and ``query_len``; or an engine's flags, pasted. Raises ``SimcgError``
    naming the file and the field.
    """
    name = source_name(path)
    file = _decoded(read_utf8(path, SUCH), name)
    rule = AdmissionRule(_ratio(file.rule.max_ratio, name), _ranges(file.rule.eager_ranges, name))
    try:
        return _question(file, rule)
    except InputError as error:
        raise InputError(name, error.where, error.value, error.expected) from None


def _question(file: _File, rule: AdmissionRule) -> LadderQuestion:
    given = [Bucket(size) for size in file.sizes or ()]
    ladder, repeated = sorted_ladder(given or [Bucket(*pair) for pair in file.buckets or ()])
    max_tokens = file.max_tokens or max(ladder.ceiling, file.query_len)
    limits = {"max_tokens": file.max_tokens}
    if file.buckets:
        limits["max_requests"] = file.max_requests
    return LadderQuestion(
        ladder,
        rule,
        max_tokens,
        file.max_requests or default_requests(ladder, max_tokens),
        file.align,
        file.query_len,
        repeated,
        tuple(limit for limit, value in limits.items() if value is None),
    )


def _decoded(data: bytes, name: str) -> _File:
    pasted = ladder_of_flags(data.decode(), name)
    try:
        if pasted is None:
            file = msgspec.json.decode(data, type=_File)
        else:
            file = msgspec.convert(pasted, type=_File)
    except (msgspec.DecodeError, RecursionError) as error:
        text = "".join(c if c.isprintable() else " " for c in str(error))
        raise SimcgError(f"{name}: {text}, expected {SUCH}") from None
    if data.lstrip().startswith(b"{"):
        json.loads(data, object_pairs_hook=partial(_each_once, name))
    return file


def _each_once(name: str, pairs: list[tuple[str, object]]) -> None:
    """JSON allows a field twice, and decoders take the last: a user meant one of them."""
    twice = [key for key, times in Counter(key for key, _ in pairs).items() if times > 1]
    require(not twice, name, "".join(twice[:1]), Finding("two values"), "each field once")


def _ranges(given: tuple[tuple[int, int], ...], name: str) -> tuple[tuple[int, int], ...]:
    """The ranges, in any order, ascending."""
    where, ordered = "rule, eager_ranges", tuple(sorted(given))
    for low, high in ordered:
        require(low <= high, name, where, [low, high], "[low, high] with low <= high")
    for one, other in pairwise(ordered):
        apart, both = one[1] < other[0], Finding(f"{list(one)} and {list(other)}")
        require(apart, name, where, both, "ranges that have no size in common")
    return ordered


def _ratio(value: float | str | None, name: str) -> Fraction | None:
    """2, 1.5 and "3/2" as exact fractions."""
    if value is None:
        return None
    try:
        ratio = Fraction(str(value))
    except (ValueError, ZeroDivisionError):
        ratio = Fraction(0)
    if not 1 <= ratio <= MOST_TOKENS or ratio.denominator > MOST_TOKENS:
        shown = Finding(value) if isinstance(value, str) and value.isprintable() else value
        raise InputError(name, "rule, max_ratio", shown, 'a ratio >= 1 such as 2, 1.5 or "3/2"')
    return ratio
