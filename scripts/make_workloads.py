"""Makes the quantile tables of the built-in workloads from the public traces.

    python scripts/make_workloads.py FOLDER_WITH_TRACES

Writes simcg/workload/data/<name>.json. The traces themselves are never part of the package.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from simcg.arrays import Floats, Ints
from simcg.workload.quantile_table import QuantileTable
from simcg.workload.read import read_requests
from simcg.workload.requests import Requests

DATA = Path(__file__).parent.parent / "simcg" / "workload" / "data"

STRATUM_LEVELS = (*np.linspace(0, 1, 33).tolist()[:-1], 0.98, 0.99, 0.995, 1.0)
"""Even levels, and some more below the maximum, which may lie far above the rest."""


@dataclass(frozen=True)
class Origin:
    """One public trace: where it comes from and how finely it is kept."""

    name: str
    file: str
    source: str
    url: str
    licence: str
    notes: str
    knots: int = 257
    windows: int = 60
    strata: int = 16


ORIGINS = (
    Origin(
        "azure-conv",
        "azure2023_conv.csv",
        "Azure LLM inference trace 2023, conversation (Patel et al., Splitwise, ISCA 2024)",
        "https://github.com/Azure/AzurePublicDataset",
        "CC-BY-4.0",
        "One hour of production traffic. It has no prefix hits: every prompt is computed whole.",
    ),
    Origin(
        "azure-code",
        "azure2023_code.csv.gz",
        "Azure LLM inference trace 2023, code (Patel et al., Splitwise, ISCA 2024)",
        "https://github.com/Azure/AzurePublicDataset",
        "CC-BY-4.0",
        "One hour of production traffic. It has no prefix hits: every prompt is computed whole.",
    ),
    Origin(
        "mooncake-conversation",
        "mooncake_conversation.jsonl.gz",
        "Mooncake conversation trace (Qin et al., FAST 2025)",
        "https://github.com/kvcache-ai/Mooncake",
        "Apache-2.0",
        "One hour of production traffic for a whole cluster, time stamps in ticks of three "
        "seconds. Cached tokens are those of an unlimited prefix cache over blocks of 512 tokens.",
        strata=32,
    ),
    Origin(
        "summarization",
        "apex_llama_summarization_05.csv",
        "summarisation lengths of apex_plus",
        "https://github.com/microsoft/apex_plus",
        "MIT",
        "Lengths of a summarisation data set; the arrivals are synthetic (Poisson).",
        knots=101,
        windows=1,
        strata=4,
    ),
    Origin(
        "sharegpt",
        "sharegpt_llmservingsim_llama-3.1-8b_300.csv",
        "300 ShareGPT conversations of LLMServingSim",
        "https://github.com/casys-kaist/LLMServingSim",
        "MIT",
        "A selection with long answers (output at least 512 tokens), not ShareGPT as a whole; "
        "the arrivals are synthetic (Poisson).",
        knots=101,
        windows=1,
        strata=4,
    ),
)


def make_table(origin: Origin, requests: Requests) -> QuantileTable:
    """The quantile table of a trace that has time stamps."""
    if requests.arrival_ns is None:
        raise SystemExit(f"{origin.file}: no time stamps")
    rate, gaps = _rate_and_gaps(requests.arrival_ns, origin.windows)
    levels = _levels(origin.knots)
    new = requests.new_tokens
    rounded_levels = tuple(round(float(level), 6) for level in levels)
    return QuantileTable(
        name=origin.name,
        source=origin.source,
        url=origin.url,
        licence=origin.licence,
        notes=origin.notes,
        made_by="scripts/make_workloads.py",
        requests=len(requests),
        duration_ns=int(requests.arrival_ns[-1]),
        levels=rounded_levels,
        stratum_levels=STRATUM_LEVELS,
        new_tokens=tuple(np.quantile(new, levels, method="inverted_cdf").tolist()),
        cached_tokens=_strata(new, requests.cached_tokens, origin.strata),
        output_tokens=_strata(new, requests.output_tokens, origin.strata),
        rate=tuple(round(float(value), 4) for value in rate),
        gaps=tuple(round(float(value), 5) for value in np.quantile(gaps, levels)),
    )


def _levels(knots: int) -> Floats:
    """Even levels, with some more in the tails, where a few requests are much of the work."""
    tails = np.array([0.001, 0.002, 0.995, 0.998, 0.999, 0.9995])
    return np.unique(np.concatenate([np.linspace(0, 1, knots), tails]))


def _strata(new: Ints, column: Ints, strata: int) -> tuple[tuple[int, ...], ...]:
    """Quantiles of a column within equal strata of the requests in order of new tokens."""
    if not column.any():
        return ()
    order = np.argsort(new, kind="stable")
    parts = np.array_split(column[order], strata)
    return tuple(
        tuple(np.quantile(p, STRATUM_LEVELS, method="inverted_cdf").tolist()) for p in parts
    )


def _rate_and_gaps(arrival_ns: Ints, windows: int) -> tuple[Floats, Floats]:
    """Arrivals per window with mean 1, and the gaps in units of the local mean gap."""
    edges = np.linspace(0, arrival_ns[-1], windows + 1)
    counts = np.histogram(arrival_ns, edges)[0]
    arrived = np.concatenate([[0.0], np.cumsum(counts)])
    gaps = np.diff(np.interp(arrival_ns, edges, arrived))
    return counts / counts.mean(), gaps / gaps.mean()


def main(folder: Path) -> None:
    """Writes every table."""
    DATA.mkdir(exist_ok=True)
    for origin in ORIGINS:
        requests = read_requests(folder / origin.file)
        encoded = msgspec.json.encode(make_table(origin, requests))
        (DATA / f"{origin.name}.json").write_bytes(msgspec.json.format(encoded, indent=0) + b"\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
