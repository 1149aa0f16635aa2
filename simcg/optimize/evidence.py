"""What a certificate holds, and the error that says why it does not hold."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from simcg.arrays import Ints
from simcg.errors import SimcgError

UNREACHABLE = 2**61
"""Potential of a position that no ladder of that many buckets can have as its top."""

NO_PARENT = -1


class Proof(Enum):
    """How the lower bounds of a certificate are verified."""

    ROWS = "rows"
    PAIRS = "pairs"


class CertificateError(SimcgError):
    """A certificate does not prove the claim; the text says which part fails."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """Evidence for "no ladder of at most (or exactly) ``max_buckets`` buckets costs less".

    ``potentials`` and ``parents`` have shape (layers, allowed sizes + 1). A parent is the
    predecessor that attains the potential (PAIRS) or the minimum of the band (ROWS).
    ``price_ns``: p with cost(k) + p k least at the ladder's own k >= 1 among the layers given.
    """

    max_buckets: int
    exactly: bool
    proof: Proof
    potentials: Ints
    parents: NDArray[np.int32]
    price_ns: int | None = None


def reject(reason: str) -> NoReturn:
    """Raise the error."""
    raise CertificateError(f"certificate: {reason}")
