"""What a simulated configuration is judged by, and which of many is the best."""

from __future__ import annotations

from collections.abc import Sequence

from simcg.sweep.store import Record

FIGURES = (
    "completed", "duration", "total_input_tokens", "total_output_tokens", "request_throughput",
    "output_throughput", "total_token_throughput", "mean_ttft_ms", "median_ttft_ms", "p99_ttft_ms",
    "mean_tpot_ms", "median_tpot_ms", "p99_tpot_ms", "mean_e2el_ms", "median_e2el_ms",
    "p99_e2el_ms", "mean_itl_ms", "median_itl_ms", "p99_itl_ms", "mean_wait_ms", "queue_length",
    "utilisation", "prefill_steps", "decode_steps", "prefill_busy_s", "decode_busy_s",
    "preemptions", "recomputed_tokens", "kv_peak_share", "graphs", "kv_tokens",
)  # fmt: skip
"""Every number of a record but ``capacity_per_s``, which only an overloaded server has."""
MORE_IS_BETTER = frozenset(
    {"completed", "request_throughput", "output_throughput", "total_token_throughput", "kv_tokens"}
)


def figure_of(record: Record, name: str) -> float | None:
    """The figure, None where the configuration failed or its record does not have it."""
    value = record.get("figures", {}).get(name)
    return float(value) if isinstance(value, int | float) else None


def diverges(record: Record) -> bool:
    """Was the server offered more than its capacity?"""
    return record.get("figures", {}).get("capacity_per_s") is not None


def best_first(records: Sequence[Record], name: str) -> list[int]:
    """Indices of records by this figure; those without it after the others, failed ones last."""
    sign = -1 if name in MORE_IS_BETTER else 1

    def rank(index: int) -> tuple[bool, bool, float, int]:
        record = records[index]
        value = figure_of(record, name)
        return "figures" not in record, value is None, sign * (value or 0.0), index

    return sorted(range(len(records)), key=rank)
