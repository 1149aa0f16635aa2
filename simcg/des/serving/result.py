"""What a run gave: the life of each request in columns, and the counts of the steps."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from simcg.arrays import Floats, Ints
from simcg.des.serving.lines import TICKS_PER_NS
from simcg.des.serving.server import Server
from simcg.des.serving.tally import Tally, gap_start
from simcg.ladder import EAGER_INDEX, AdmissionRule, Ladder, dispatch, fallback_reason
from simcg.provenance import Provenance

QUANTILES = (("median", 0.5), ("p99", 0.99))


@dataclass(frozen=True, slots=True)
class Padding:
    """Rows of graphs beyond the real ones, and steps that ran eager by reason."""

    steps: int
    real_rows: int
    padded_rows: int
    replayed: int
    fallbacks: dict[str, int]

    @property
    def share(self) -> float:
        """Padded rows over real rows."""
        return self.padded_rows / self.real_rows if self.real_rows else 0.0

    @property
    def eager_share(self) -> float:
        """Of the steps."""
        return 1 - self.replayed / self.steps if self.steps else 0.0


@dataclass(frozen=True)
class ServingResult:
    """A finished run. Columns are int64 by request in order of arrival; times in ns.

    ``start_ns``: of the first step that computes a part of it, ``first_ns``: its first token,
    ``finish_ns``: its last. Latencies leave out the first ``warm_up`` requests. Rates and counts
    are those of all requests over ``makespan_ns``, so that none counts work without its time.
    ``kv_peak``: most of the ``kv_blocks`` in use. ``offered_per_s``: infinite where all come at
    once, None in a closed loop.
    """

    arrival_ns: Ints
    start_ns: Ints
    first_ns: Ints
    finish_ns: Ints
    prompt_tokens: Ints
    output_tokens: Ints
    warm_up: int
    tally: Tally
    kv_blocks: int
    kv_peak: int
    slot_counts: tuple[int, ...]
    offered_per_s: float | None
    provenance: Provenance

    @property
    def makespan_ns(self) -> int:
        """From the first arrival to the last token."""
        return int(self.finish_ns.max()) - int(self.arrival_ns[0])

    @cached_property
    def ttft_ns(self) -> Ints:
        """Time to the first token of each request after the warm-up."""
        out: Ints = (self.first_ns - self.arrival_ns)[self.warm_up :]
        return out

    @cached_property
    def wait_ns(self) -> Ints:
        """Time before the first step of each request after the warm-up."""
        out: Ints = (self.start_ns - self.arrival_ns)[self.warm_up :]
        return out

    @cached_property
    def e2el_ns(self) -> Ints:
        """Time to the last token of each request after the warm-up."""
        out: Ints = (self.finish_ns - self.arrival_ns)[self.warm_up :]
        return out

    @cached_property
    def tpot_ns(self) -> Floats:
        """Time per output token after the first, for requests of two tokens or more."""
        tokens = self.output_tokens[self.warm_up :]
        spent = (self.finish_ns - self.first_ns)[self.warm_up :]
        several = tokens > 1
        out: Floats = spent[several] / (tokens[several] - 1)
        return out

    @property
    def busy_ns(self) -> tuple[float, float]:
        """Time in steps with prefill tokens, and in steps of decodes alone."""
        return self.tally.chunked_ticks / TICKS_PER_NS, self.tally.decode_ticks / TICKS_PER_NS

    @property
    def utilisation(self) -> float:
        """Share of the time in which a step runs."""
        return min(sum(self.busy_ns) / self.makespan_ns, 1.0)  # arrivals are in whole ns

    @property
    def queue_length(self) -> float:
        """Mean number of requests that wait for their first step."""
        return self.mean_waiting(int(self.arrival_ns[0]), int(self.finish_ns.max()))

    def mean_waiting(self, begin_ns: int, end_ns: int) -> float:
        """The same from ``begin_ns`` to ``end_ns``."""
        inside = np.clip(self.start_ns, begin_ns, end_ns) - np.clip(
            self.arrival_ns, begin_ns, end_ns
        )
        return float(inside.sum()) / (end_ns - begin_ns) if end_ns > begin_ns else 0.0

    @property
    def decode_steps(self) -> int:
        """Steps of decodes alone."""
        return sum(self.tally.decode)

    @property
    def chunked_steps(self) -> int:
        """Steps with prefill tokens."""
        return sum(map(sum, self.tally.chunked))

    @property
    def kv_peak_share(self) -> float:
        """Most of the KV cache in use at any time of the run."""
        return self.kv_peak / self.kv_blocks

    def gap_quantile_ns(self, level: float) -> float:
        """Quantile of the gaps between tokens, nan of none; within 0.4 % (see ``Gaps``)."""
        counts = np.array(self.tally.gaps.counts)
        total = int(counts.sum())
        if not total:
            return math.nan
        at = int(np.searchsorted(np.cumsum(counts), level * total))
        return (gap_start(at) + gap_start(at + 1)) / 2 / TICKS_PER_NS

    def chunked_padding(self, ladder: Ladder, rule: AdmissionRule) -> Padding:
        """Padding of the steps with prefill tokens under the ladder that they ran with."""
        requests = (*self.slot_counts, self.slot_counts[-1] + 1) if self.slot_counts else (1,)
        return _padding(
            ladder, rule,
            [
                (rows, many, steps)
                for many, table in zip(requests, self.tally.chunked, strict=True)
                for rows, steps in enumerate(table)
            ],
        )  # fmt: skip

    def decode_padding(self, ladder: Ladder) -> Padding:
        """Padding of the steps of decodes alone."""
        used = [(m, m, steps) for m, steps in enumerate(self.tally.decode)]
        return _padding(ladder, AdmissionRule(), used)

    def summary(self) -> dict[str, float | None]:
        """The figures of vLLM's ``bench serve`` by their names there, and of the server.

        None where there is nothing to measure, as between tokens of requests of one token.
        """
        seconds = self.makespan_ns / 1e9
        tokens, prompts = int(self.output_tokens.sum()), int(self.prompt_tokens.sum())
        count = len(self.output_tokens)
        figures: dict[str, float] = {
            "completed": count,
            "duration": seconds,
            "total_input_tokens": prompts,
            "total_output_tokens": tokens,
            "request_throughput": count / seconds,
            "output_throughput": tokens / seconds,
            "total_token_throughput": (tokens + prompts) / seconds,
        }
        for name, values in (
            ("ttft", self.ttft_ns), ("tpot", self.tpot_ns), ("e2el", self.e2el_ns),
        ):  # fmt: skip
            figures |= _three(name, values)
        gaps = int((self.finish_ns - self.first_ns).sum())
        figures["mean_itl_ms"] = gaps / (tokens - count) / 1e6 if tokens > count else math.nan
        for word, level in QUANTILES:
            figures[f"{word}_itl_ms"] = self.gap_quantile_ns(level) / 1e6
        every = figures | self._server_figures()
        return {name: None if math.isnan(value) else value for name, value in every.items()}

    def _server_figures(self) -> dict[str, float]:
        return {
            "mean_wait_ms": float(self.wait_ns.mean()) / 1e6,
            "queue_length": self.queue_length,
            "utilisation": self.utilisation,
            "prefill_steps": self.chunked_steps,
            "decode_steps": self.decode_steps,
            "prefill_busy_s": self.busy_ns[0] / 1e9,
            "decode_busy_s": self.busy_ns[1] / 1e9,
            "preemptions": self.tally.preemptions,
            "recomputed_tokens": self.tally.recomputed_tokens,
            "kv_peak_share": self.kv_peak_share,
        }


def result_of(
    server: Server, offered_per_s: float | None = None, *, warm_up: int = 0
) -> ServingResult:
    """The result of a server that has finished; latencies leave out the first ``warm_up``."""
    columns = server.columns
    return ServingResult(
        arrival_ns=_column(columns.arrival),
        start_ns=_column(server.start),
        first_ns=_column(server.first),
        finish_ns=_column(server.finish),
        prompt_tokens=_column(columns.prompt),
        output_tokens=_column(columns.output),
        warm_up=warm_up,
        tally=server.tally,
        kv_blocks=server.limits.kv_blocks,
        kv_peak=server.kv_peak,
        slot_counts=server.clock.slot_counts,
        offered_per_s=offered_per_s,
        provenance=server.clock.provenance,
    )


def _column(values: array[int]) -> Ints:
    return np.frombuffer(values, dtype=np.int64)


def _three(name: str, values: Ints | Floats) -> dict[str, float]:
    """Mean and quantiles in ms; nan where there are none."""
    if not len(values):
        return {f"{word}_{name}_ms": math.nan for word in ("mean", "median", "p99")}
    figures = {f"mean_{name}_ms": float(values.mean()) / 1e6}
    for word, level in QUANTILES:
        figures[f"{word}_{name}_ms"] = float(np.quantile(values, level)) / 1e6
    return figures


def _padding(ladder: Ladder, rule: AdmissionRule, used: Sequence[tuple[int, int, int]]) -> Padding:
    """From (rows, requests, steps) of every kind of step."""
    kinds = np.array([kind for kind in used if kind[2]], dtype=np.int64).reshape(-1, 3)
    rows, requests, steps = kinds.T
    index = dispatch(ladder, rule, rows, requests)
    sizes = np.array((*ladder.sizes, 0), dtype=np.int64)
    replays = index != EAGER_INDEX
    padded = np.where(replays, sizes[index] - rows, 0)
    reasons: Counter[str] = Counter()
    for n, many, times in kinds[~replays].tolist():
        reasons[fallback_reason(ladder, rule, n, many) or ""] += times
    return Padding(
        steps=int(steps.sum()),
        real_rows=int((rows * steps).sum()),
        padded_rows=int((padded * steps).sum()),
        replayed=int(steps[replays].sum()),
        fallbacks=dict(reasons.most_common()),
    )
