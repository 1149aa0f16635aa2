"""A measured TTFT/TPOT point of a whole deployment, and which points simcg claims to predict."""

from __future__ import annotations

from dataclasses import dataclass

SYSTEMS = ("h100_sxm", "h200_sxm", "b200_sxm", "b300_sxm", "gb200", "gb300")
PRECISIONS = ("bf16", "fp8", "fp4")


@dataclass(frozen=True, slots=True)
class Point:
    """One row of ``silicon_sample.csv`` of the package aiconfigurator-core (0.12.0, Apache-2.0).

    ``source``: the collection that the package has it from.
    ``mode``: ``agg`` (prefill and decode on the same GPUs) or ``disagg``. ``isl``, ``osl``: prompt
    and output tokens. ``concurrency``: requests that the client keeps in flight (the table's
    ``batch_size``). Absent sizes of parallelism are 1.
    """

    id: str
    source: str
    framework: str
    version: str
    model: str
    system: str
    precision: str
    mode: str
    isl: int
    osl: int
    concurrency: int
    tp: int
    attention_dp: int
    expert_parallel: int
    ttft_ms: float
    tpot_ms: float


def refusal(point: Point) -> str | None:
    """Why simcg does not claim to predict this point; None if it does.

    Written on 2026-11-30, before any point had been simulated, so that what is easy could not be
    chosen afterwards. It claims 2,754 of the 5,221 points, of five systems.
    """
    if point.mode != "agg":
        return "prefill and decode on different GPUs: the transfer of the KV cache is not modelled"
    if point.system not in SYSTEMS:
        return "no kernel tables of this system"
    if point.precision not in PRECISIONS:
        return "int4 weights: no such kernels in the tables of every framework"
    if point.attention_dp > 1:
        return "data-parallel attention: ranks with different batches are not modelled"
    if point.expert_parallel > 1:
        return "expert parallelism: the all-to-all and uneven experts are not modelled"
    return None
