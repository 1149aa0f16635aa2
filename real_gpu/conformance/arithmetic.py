"""What every operator of the formal model computes, as arithmetic: terms become vectors of numbers.

A value is ``WIDTH`` integers below the prime ``P``. Sums and products of the operators stay below
2**53, so that float64 holds them exactly on every device and in every order of summation.
Operators multiply by coefficients of their own, so that a wrong, missing or stale operand gives
another value but for a chance of about P**-WIDTH.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from simcg.formal.terms import Terms

P = 8191
WIDTH = 4
Vector = tuple[int, ...]
FACTOR, SECOND, OFFSET, EXTRA, MATRIX, FRESH, TOKEN = range(0, 70, 10)
"""What a coefficient is for: ``which`` of ``coefficient``; a matrix takes ``WIDTH`` rows."""


def coefficient(index: int, which: int, lane: int) -> int:
    """One of operator ``index``'s coefficients, from 1 to P - 1."""
    state = 1 + index * 7919 + which * 104729 + lane * 1299709
    for _ in range(3):
        state = (state * 48271 + 11) % 2147483647
    return 1 + state % (P - 1)


def coefficients(index: int, which: int) -> Vector:
    """A coefficient for each lane."""
    return tuple(coefficient(index, which, lane) for lane in range(WIDTH))


def place(position: int) -> int:
    """A factor for the operand at a position of a sum: different for small positions."""
    return (3 * position * position + 5 * position + 7) % P


def token(name: int, position: int) -> Vector:
    """The input row of a sequence's token."""
    return coefficients(100 * name + position, TOKEN)


@dataclass(slots=True)
class Numbers:
    """Interprets terms. ``draw``: the i-th number of the generator."""

    terms: Terms
    draw: Callable[[int], int]
    _known: dict[int, Vector] = field(default_factory=dict)

    def of(self, term: int) -> Vector:
        """The vector that a term stands for."""
        found = self._known.get(term)
        if found is None:
            name, *parts = self.terms.parts(term)
            found = self._known[term] = self._value(str(name), [int(part) for part in parts])
        return found

    def _value(self, name: str, parts: Sequence[int]) -> Vector:
        match name, parts:
            case "token", [sequence, position]:
                return token(sequence, position)
            case "weight", [index]:
                return coefficients(index, EXTRA)
            case "fresh state", []:
                return coefficients(0, FRESH)
        index, *operands = parts
        return self._result(name, index, operands)

    def _result(self, name: str, index: int, operands: Sequence[int]) -> Vector:
        first, *rest = operands
        if name == "gemm":
            return self._matrix(index, self.of(first))
        if name == "state":  # the past stands before the row
            return self._affine(index, self.of(first), self.of(rest[0]))
        if name == "causal":  # the row stands last
            return self._affine(index, self.of(operands[-1]), self._sum(operands))
        return self._affine(index, self.of(first), self._second(name, rest))

    def _second(self, name: str, rest: Sequence[int]) -> Vector:
        """What an operator adds to its first input's row, before its factor."""
        match name:
            case "attend" | "mix" | "mix_all":
                return self._sum(rest)
            case "random" | "launch" | "host":
                return (place(rest[0]),) * WIDTH
            case "draw":
                return (self.draw(rest[0]),) * WIDTH
            case "scatter" | "reduce":
                return (0,) * WIDTH
            case "add" | "accumulate" | "constant" | "borrow":
                return self.of(rest[0])
        raise ValueError(f"no meaning for {name}")

    def _affine(self, index: int, x: Vector, y: Vector) -> Vector:
        a, b, c = (coefficients(index, which) for which in (FACTOR, SECOND, OFFSET))
        return tuple((a[i] * x[i] + b[i] * y[i] + c[i]) % P for i in range(WIDTH))

    def _matrix(self, index: int, x: Vector) -> Vector:
        rows = [coefficients(index, MATRIX + i) for i in range(WIDTH)]
        c = coefficients(index, OFFSET)
        return tuple(
            (sum(x[i] * rows[i][j] for i in range(WIDTH)) + c[j]) % P for j in range(WIDTH)
        )

    def _sum(self, terms: Sequence[int]) -> Vector:
        """Each term times the factor of its place."""
        vectors = [self.of(term) for term in terms]
        return tuple(
            sum(place(i) * vector[lane] for i, vector in enumerate(vectors)) % P
            for lane in range(WIDTH)
        )
