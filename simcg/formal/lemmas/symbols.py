"""The real dispatch on symbols: its code runs as it stands, z3 terms where numbers were.

``symbolic_dispatch`` binds the functions of ``simcg.ladder`` to a stand-in for NumPy that has
the operations they use, over terms. So a lemma is about that code and not about a copy of it; an
operation that the stand-in lacks is an error and never a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any, TypeAlias

import z3

import simcg.ladder
from simcg.ladder import AdmissionRule, Ladder

Term: TypeAlias = Any
"""A term of z3, which has no types."""

Choose: TypeAlias = Callable[[Ladder, AdmissionRule, Term, Term], Term]
"""(ladder, rule, n, m) -> the index that dispatch returns, all of them terms or numbers."""


@dataclass(frozen=True, slots=True)
class _Positive:
    """An unknown integer >= 1: true where Python asks for its truth, as such a number is."""

    term: Term


@dataclass(frozen=True, slots=True)
class _Masked:
    """The entries of an array where ``mask`` holds."""

    mask: Term
    term: Term


class _Entry:
    """An int64 array of one entry: dispatch treats each entry alone."""

    shape = (1,)

    def __init__(self, term: Term) -> None:
        self.term = term

    def astype(self, _dtype: object) -> _Entry:
        return self

    def __neg__(self) -> _Entry:
        return _Entry(-self.term)

    def __mul__(self, other: Term) -> _Entry:
        return _Entry(self.term * _term(other))

    def __floordiv__(self, other: Term) -> _Entry:
        return _Entry(self.term / _term(other))  # z3's rounds down where the divisor is positive

    def __lt__(self, other: Term) -> Term:
        return self.term < _term(other)

    def __le__(self, other: Term) -> Term:
        return self.term <= _term(other)

    def __gt__(self, other: Term) -> Term:
        return self.term > _term(other)

    def __ge__(self, other: Term) -> Term:
        return self.term >= _term(other)

    def __getitem__(self, mask: Term) -> _Masked:
        return _Masked(mask, self.term)

    def __setitem__(self, mask: Term, value: int | _Masked) -> None:
        if isinstance(value, _Masked) and not value.mask.eq(mask):
            raise TypeError("entries of one mask are assigned under another")
        self.term = z3.If(mask, _term(value), self.term)


class _Row:
    """An int64 array of known length."""

    def __init__(self, terms: Sequence[Term]) -> None:
        self.terms = tuple(terms)

    def __len__(self) -> int:
        return len(self.terms)

    def __getitem__(self, index: _Entry) -> _Entry:
        return _Entry(_halved(self.terms, lambda position: index.term < position))


def _halved(answers: Sequence[Term], before: Callable[[int], Term]) -> Term:
    """The answer at an unknown position, by halving: ``before(k)`` says that it is below k.

    A chain of as many cases would be as deep as it is long, and z3 slow.
    """

    def between(low: int, high: int) -> Term:
        if high - low == 1:
            return answers[low]
        middle = (low + high) // 2
        return z3.If(before(middle), between(low, middle), between(middle, high))

    return between(0, len(answers))


class _Numpy:
    """What dispatch uses of NumPy."""

    int64 = int

    @staticmethod
    def full(_shape: tuple[int, ...], value: int, dtype: type) -> _Entry:  # noqa: ARG004  # NumPy's
        return _Entry(z3.IntVal(value))

    @staticmethod
    def array(values: Sequence[Term], dtype: type) -> _Row:  # noqa: ARG004  # NumPy's signature
        return _Row(values)

    @staticmethod
    def minimum(entry: _Entry, value: int) -> _Entry:
        return _Entry(z3.If(entry.term < value, entry.term, value))

    @staticmethod
    def searchsorted(row: _Row, entry: _Entry, side: str) -> _Entry:
        """The first position whose value is >= the entry's (left) or > it (right); sorted rows."""

        def before(position: int) -> Term:
            value = row.terms[position - 1]
            return entry.term <= value if side == "left" else entry.term < value

        return _Entry(_halved([z3.IntVal(i) for i in range(len(row) + 1)], before))


def symbolic_dispatch(module: ModuleType = simcg.ladder) -> Choose:
    """``module.dispatch`` over terms."""
    names = dict(vars(module)) | {"np": _Numpy}
    for name, value in vars(module).items():
        if isinstance(value, FunctionType) and value.__globals__ is vars(module):
            names[name] = FunctionType(value.__code__, names, name, value.__defaults__)
    dispatch = names["dispatch"]

    def choose(ladder: Ladder, rule: AdmissionRule, tokens: Term, requests: Term) -> Term:
        return dispatch(ladder, rule, _Entry(tokens), _Entry(requests)).term

    return choose


def symbolic_least_tokens(rule: AdmissionRule, size: Term) -> Term:
    """``rule.least_tokens`` of a bucket of that size, as a term."""
    entry: Any = _Entry(size)
    least: Any = AdmissionRule.least_tokens(rule, entry)
    return least.term


@dataclass(frozen=True, slots=True)
class _Bucket:
    num_tokens: Term
    slots: _Positive | None


@dataclass(frozen=True, slots=True)
class _Ratio:
    numerator: Term
    denominator: Term


@dataclass(frozen=True, slots=True)
class AnyLadder:
    """Every ladder of ``len(sizes)`` buckets: their numbers are unknowns.

    ``well_formed``: what the constructor of a ladder checks. ``slots`` () without slots.
    """

    ladder: Ladder
    sizes: tuple[Term, ...]
    slots: tuple[Term, ...]
    well_formed: tuple[Term, ...]

    @staticmethod
    def of(count: int, slotted: bool) -> AnyLadder:
        """Unknown sizes T0, T1, ... and, where ``slotted``, unknown slots S0, S1, ..."""
        sizes = tuple(z3.Int(f"T{i}") for i in range(count))
        slots = tuple(z3.Int(f"S{i}") for i in range(count if slotted else 0))
        padded = slots or (None,) * count
        buckets = tuple(
            _Bucket(size, None if slot is None else _Positive(slot))
            for size, slot in zip(sizes, padded, strict=True)
        )
        positive = tuple(number >= 1 for number in (*sizes, *slots))
        known = AnyLadder(_unchecked(Ladder, buckets=buckets), sizes, slots, positive)
        ascending = tuple(known.before(i, i + 1) for i in range(count - 1))
        return AnyLadder(known.ladder, sizes, slots, positive + ascending)

    def before(self, i: int, j: int) -> Term:
        """Bucket i is smaller than j: fewer tokens, or as many and fewer slots."""
        fewer = self.sizes[i] < self.sizes[j]
        if not self.slots:
            return fewer
        same = self.sizes[i] == self.sizes[j]
        return z3.Or(fewer, z3.And(same, self.slots[i] < self.slots[j]))

    def holds(self, i: int, tokens: Term, requests: Term) -> Term:
        """Bucket i has the rows and the request slots."""
        enough = self.sizes[i] >= tokens
        return z3.And(enough, self.slots[i] >= requests) if self.slots else enough

    @property
    def unknowns(self) -> dict[str, Term]:
        """The unknowns by name."""
        return {str(number): number for number in (*self.sizes, *self.slots)}


@dataclass(frozen=True, slots=True)
class AnyRule:
    """Every admission rule with a guard and so many eager ranges.

    ``well_formed``: what the constructor of a rule checks.
    """

    rule: AdmissionRule
    numerator: Term
    denominator: Term
    ranges: tuple[tuple[Term, Term], ...]
    well_formed: tuple[Term, ...]

    @staticmethod
    def of(ranges: int) -> AnyRule:
        """An unknown ratio p/q, and ranges lo0..hi0, lo1..hi1, ..."""
        p, q = z3.Ints("p q")
        ends = tuple((z3.Int(f"lo{i}"), z3.Int(f"hi{i}")) for i in range(ranges))
        checks = [q >= 1, p >= q]
        last: Term = 0
        for low, high in ends:
            checks += [last < low, low <= high]
            last = high
        rule = _unchecked(AdmissionRule, max_ratio=_Ratio(p, q), eager_ranges=ends)
        return AnyRule(rule, p, q, ends, tuple(checks))

    @property
    def unknowns(self) -> dict[str, Term]:
        """The unknowns by name."""
        ends = (end for pair in self.ranges for end in pair)
        return {str(number): number for number in (self.numerator, self.denominator, *ends)}

    def admits(self, size: Term, tokens: Term) -> Term:
        """Neither the guard nor a range sends ``tokens`` in a bucket of ``size`` to eager."""
        guard = size * self.denominator <= tokens * self.numerator
        outside = [z3.Or(tokens < low, tokens > high) for low, high in self.ranges]
        return z3.And(guard, *outside)


def _unchecked(kind: type, **fields: object) -> Any:
    """A frozen value whose constructor's checks cannot be run, as its numbers are unknown."""
    value: Any = object.__new__(kind)
    for name, content in fields.items():
        object.__setattr__(value, name, content)
    return value


def _term(value: Any) -> Term:
    return value.term if isinstance(value, _Entry | _Masked | _Positive) else value
