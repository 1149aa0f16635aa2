"""The picture of traffic: what clients send, and the steps that the server makes of it."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from simcg.optimize.study import Study
from simcg.report.plots import BLUE, GREY, ORANGE
from simcg.report.units import count
from simcg.workload.requests import Requests

BINS = 60


def traffic_figure(study: Study) -> Figure:
    """Shares of the requests by tokens to compute, where requests are known, and of the steps."""
    steps, requests, chunk = study.traffic.counted, study.scenario.traffic, study.scenario.max_chunk
    figure = Figure(figsize=(10, 4), layout="constrained")
    axes = figure.subplots()
    edges = np.geomspace(1, chunk + 0.5, BINS).tolist()  # no bin has the chunk inside
    if isinstance(requests, Requests):
        longest = int(requests.new_tokens.max())
        while edges[-1] < longest:
            edges.append(edges[-1] * edges[1])
        axes.hist(
            requests.new_tokens, edges, weights=np.full(len(requests), 100 / len(requests)),
            color=GREY, alpha=0.45, label=f"{count(len(requests))} requests: tokens to compute",
        )  # fmt: skip
    axes.hist(
        steps.tokens, edges, weights=100 * steps.count / steps.total, histtype="step",
        color=BLUE, lw=1.8, label=f"{count(steps.total)} prefill steps: tokens of a step",
    )  # fmt: skip
    axes.axvline(chunk, color=ORANGE, ls="--", lw=1.2, label=f"chunk, {count(chunk)}")
    axes.set(xscale="log", xlabel="tokens", ylabel="share (%)")
    axes.set_title(steps.source, fontsize=10)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.legend(loc="upper left", fontsize=9)
    return figure
