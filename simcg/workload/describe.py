"""Facts about traffic, as data; printing them is done elsewhere."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from simcg.arrays import Ints
from simcg.workload.load import Utilisation
from simcg.workload.requests import Requests
from simcg.workload.steps import Steps


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Mean, and the smallest values with at least 50, 90, 99 and 100 % at or below them."""

    mean: float
    p50: int
    p90: int
    p99: int
    max: int


@dataclass(frozen=True, slots=True)
class RequestFacts:
    """What a client sends. Times None: no time axis. ``output_tokens`` None: unknown.

    ``burstiness`` is the coefficient of variation of the gaps between arrivals: 1 for Poisson.
    """

    requests: int
    duration_ns: int | None
    requests_per_s: float | None
    burstiness: float | None
    prompt_tokens: Quantiles
    new_tokens: Quantiles
    cached_share: float
    output_tokens: Quantiles | None


@dataclass(frozen=True, slots=True)
class StepFacts:
    """What a server runs: quantiles over the steps, each as often as it is counted."""

    steps: int
    distinct_tokens: int
    duration_ns: int | None
    tokens: Quantiles
    requests: Quantiles
    context: Quantiles


@dataclass(frozen=True, slots=True)
class Description:
    """Facts about one input; ``load`` if steps were made from it on a server."""

    source: str
    facts: RequestFacts | StepFacts
    load: Utilisation | None = None

    @property
    def kind(self) -> str:
        """``requests`` or ``steps``."""
        return "requests" if isinstance(self.facts, RequestFacts) else "steps"

    def to_json(self) -> dict[str, object]:
        """Plain dicts, numbers and strings; what is unknown is None."""
        load = self.load
        shares = {"busy_share": load.busy_share, "unstable": load.unstable} if load else {}
        return {
            "kind": self.kind,
            "source": self.source,
            **asdict(self.facts),
            "load": asdict(load) | shares if load else None,
        }


def describe(traffic: Requests | Steps, load: Utilisation | None = None) -> Description:
    """The facts about requests or steps."""
    if isinstance(traffic, Requests):
        return Description(traffic.source, _request_facts(traffic), load)
    return Description(traffic.source, _step_facts(traffic), load)


def _request_facts(requests: Requests) -> RequestFacts:
    count = len(requests)
    each = np.ones(count, dtype=np.int64)
    duration_ns = rate = burstiness = None
    if requests.arrival_ns is not None:
        gaps = np.diff(requests.arrival_ns)
        duration_ns = int(requests.arrival_ns[-1] - requests.arrival_ns[0])
        if duration_ns > 0:
            rate = (count - 1) / (duration_ns / 1e9)
            burstiness = float(gaps.std() / gaps.mean())
    cached, prompt = sum(requests.cached_tokens.tolist()), sum(requests.prompt_tokens.tolist())
    known = bool(requests.output_tokens.any())
    return RequestFacts(
        requests=count,
        duration_ns=duration_ns,
        requests_per_s=rate,
        burstiness=burstiness,
        prompt_tokens=quantiles(requests.prompt_tokens, each),
        new_tokens=quantiles(requests.new_tokens, each),
        cached_share=cached / prompt,
        output_tokens=quantiles(requests.output_tokens, each) if known else None,
    )


def _step_facts(steps: Steps) -> StepFacts:
    times = steps.start_ns
    return StepFacts(
        steps=steps.total,
        distinct_tokens=len(np.unique(steps.tokens)),
        duration_ns=None if times is None else int(times[-1] - times[0]),
        tokens=quantiles(steps.tokens, steps.count),
        requests=quantiles(steps.requests, steps.count),
        context=quantiles(steps.context, steps.count),
    )


def quantiles(values: Ints, count: Ints) -> Quantiles:
    """Quantiles of ``values``, each taken ``count`` times (int64 arrays of one length)."""
    order = np.argsort(values, kind="stable")
    cumulative = np.cumsum(count[order])
    total = int(cumulative[-1])

    def at(percent: int) -> int:
        rank = -(-total * percent // 100)
        return int(values[order[np.searchsorted(cumulative, rank)]])

    mean = float((values.astype(np.float64) * count).sum() / total)
    return Quantiles(mean, at(50), at(90), at(99), at(100))
