"""Evidence that a ladder is optimal, and a checker that shares no code with the solver.

The evidence is a table of potentials d[k, j]: the least cost with exactly k buckets of which
the largest is the j-th allowed size (position j; position 0 is the empty ladder). The checker
derives sizes, prefix sums and costs from the problem again and verifies that

- d[0, 0] = 0 and no other position is reached with 0 buckets;
- d[k+1, j] is attained by a predecessor, and is at most d[k, i] + cost(i, j] for EVERY
  predecessor i: by induction each potential is then a lower bound on every ladder's cost;
- the claimed cost is the ladder's own cost, and at most d[k, t] + tail(t) for every permitted
  ceiling t, for k = K ("exactly") or for all k <= K and for no graphs at all ("at most").

The lower bounds are verified in ``bounds.py``, by linear-time tests or by all pairs.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from simcg.optimize.bounds import View, check_by_pairs, check_by_rows, spent_in
from simcg.optimize.evidence import (
    NO_PARENT,
    UNREACHABLE,
    Certificate,
    CertificateError,
    Proof,
    reject,
)
from simcg.optimize.problem import COST_LIMIT_NS, LadderProblem

__all__ = ["Certificate", "CertificateError", "Proof", "check_certificate"]


def check_certificate(
    problem: LadderProblem, ladder: tuple[int, ...], cost: int, certificate: Certificate
) -> None:
    """Return if the ladder is legal, costs ``cost`` ns and is proven optimal.

    Raises ``CertificateError`` with the reason otherwise.
    """
    _check_legal(problem, ladder, certificate)
    spent = _cost_of(problem, ladder)
    if spent != cost:
        reject(f"the ladder costs {spent} ns, not {cost}")
    view = View(problem)
    _check_shape(view, certificate)
    if certificate.proof is Proof.ROWS:
        check_by_rows(view, certificate)
    else:
        check_by_pairs(view, certificate)
    _check_optimal(view, len(ladder), cost, certificate)


def _check_legal(problem: LadderProblem, ladder: tuple[int, ...], claim: Certificate) -> None:
    """The ladder is ascending and keeps every limit of the problem and of the claim."""
    for size in ladder:
        if not (1 <= size <= problem.max_tokens and problem.allowed[size]):
            reject(f"bucket {size} is not an allowed size")
    if any(a >= b for a, b in pairwise(ladder)):
        reject(f"the ladder {ladder} does not ascend")
    missing = set(problem.required) - set(ladder)
    if missing:
        reject(f"the ladder lacks the required sizes {sorted(missing)}")
    if ladder and not problem.tops[ladder[-1]]:
        reject(f"{ladder[-1]} may not be the ceiling")
    if ladder and problem.top_by_count:
        tops = dict(enumerate(problem.top_by_count))
        if ladder[-1] > tops.get(len(ladder), 0):
            reject(f"{ladder[-1]} may not be the ceiling of {len(ladder)} buckets")
    count, limit = len(ladder), claim.max_buckets
    if count > limit or (claim.exactly and count != limit):
        reject(f"the ladder has {count} buckets, the claim is about {limit}")


def _cost_of(problem: LadderProblem, ladder: tuple[int, ...]) -> int:
    """The ladder's cost, bucket by bucket and size by size."""
    total, below = 0, 0
    for bucket in ladder:
        total += int(spent_in(problem, below, bucket).sum()) + int(problem.charge_ns[bucket])
        below = bucket
    return total + int(problem.eager_ns[below + 1 :].sum())


def _check_shape(view: View, certificate: Certificate) -> None:
    """The tables have enough layers, layer 0 is right, and all entries are in range."""
    potentials, parents = certificate.potentials, certificate.parents
    if potentials.ndim != 2 or potentials.shape != parents.shape:
        reject("potentials and parents are not two tables of one shape")
    layers, columns = potentials.shape
    needed = min(certificate.max_buckets, len(view.sizes) - 1) + 1
    if columns != len(view.sizes) or layers < needed:
        reject(f"{layers} x {columns} potentials, {needed} x {len(view.sizes)} are needed")
    if potentials.dtype != np.int64 or parents.dtype.kind != "i":
        reject("potentials and parents are not integers")
    reached = potentials != UNREACHABLE
    held = potentials[reached]
    if np.any((held <= -COST_LIMIT_NS) | (held >= COST_LIMIT_NS)):
        reject("a potential is out of range")
    if potentials[0, 0] != 0 or np.any(reached[0, 1:]):
        reject("layer 0 does not start at the empty ladder")
    if (
        np.any(reached[1:, 0])
        or np.any(parents[0] != NO_PARENT)
        or np.any(parents[:, 0] != NO_PARENT)
    ):
        reject("the empty ladder has a predecessor")


def _check_optimal(view: View, count: int, cost: int, certificate: Certificate) -> None:
    """No permitted ceiling of any layer in the claim is cheaper, and the price supports it."""
    problem = view.problem
    tail = view.eager_upto[-1] - view.eager
    is_top = problem.tops[view.sizes] & (view.sizes > 0)
    if problem.required:
        is_top &= view.sizes >= problem.required[-1]
    at_top = certificate.potentials[:, is_top]
    totals = np.where(at_top == UNREACHABLE, UNREACHABLE, at_top + tail[is_top])
    if problem.top_by_count:
        most = np.zeros(len(totals), dtype=np.int64)
        given = problem.top_by_count[: len(totals)]
        most[: len(given)] = given
        totals[view.sizes[is_top][None, :] > most[:, None]] = UNREACHABLE
    least = [int(row.min(initial=UNREACHABLE)) for row in totals]
    least[0] = UNREACHABLE if problem.required else int(view.eager_upto[-1])
    if least[count] != cost:
        reject(f"{count} buckets can cost {least[count]} ns, the ladder costs {cost}")
    if not certificate.exactly and min(least[: certificate.max_buckets + 1]) < cost:
        reject("a ladder of fewer buckets costs less")
    if certificate.price_ns is None:
        return
    if problem.max_ratio is not None and not problem.eager_if_cheaper:
        reject("there is no price under a hard guard")
    bought = [total + certificate.price_ns * k for k, total in enumerate(least)]
    reachable = [bought[k] for k in range(1, len(least)) if least[k] < UNREACHABLE]
    if count < 1 or min(reachable) < bought[count]:
        reject(f"{certificate.price_ns} ns is not the price of a bucket")
