"""The picture of what ladders make of the sizes in a range: the time that each size pays."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from simcg.arrays import Floats, Ints
from simcg.errors import require
from simcg.ladder import EAGER_INDEX, Ladder, dispatch
from simcg.optimize.study import Study
from simcg.report.plots import BLUE, GREEN, GREY, ORANGE


def ladder_figure(study: Study, low: int, high: int) -> Figure:
    """Sizes ``low`` to ``high``: a panel for the default and one for the study's ladder.

    Each has the replay of a bucket of just that size, the eager step, and what is paid.
    Raises ``InputError`` for a range that is none, or beyond the chunk.
    """
    most = study.table.max_tokens
    require(1 <= low < high <= most, "ladder_figure", "range", (low, high), f"inside 1..{most}")
    figure = Figure(figsize=(10, 7), layout="constrained")
    top, bottom, traffic = figure.subplots(3, 1, sharex=True, height_ratios=(4, 4, 1.4))
    _panel(top, study, study.default.ladder, f"default, {len(study.default.ladder)} graphs")
    _panel(bottom, study, study.ladder, f"this ladder, {len(study.ladder)} graphs")
    bottom.sharey(top)
    top.legend(loc="upper left", fontsize=9)
    n = np.arange(low, high + 1)
    traffic.fill_between(n, study.traffic.counted.weights(most)[n], color=GREY, step="mid")
    traffic.set(xlabel="tokens n", ylabel="steps", xlim=(low, high))
    shown = np.concatenate([study.table.replay_ns[n], study.table.eager_ref_ns[n]]) / 1e6
    room = 0.08 * (shown.max() - shown.min())
    top.set_ylim(shown.min() - room, max(shown.max(), paid_ms(study, study.ladder)[n].max()) + room)
    return figure


def paid_ms(study: Study, ladder: Ladder) -> Floats:
    """What a step of n tokens and one request takes under this ladder, index n = 0..chunk.

    By the study's cost table: attention as in the mean step.
    """
    table = study.table
    n: Ints = np.arange(1, table.max_tokens + 1, dtype=np.int64)
    chosen = dispatch(ladder, study.scenario.engine.admission, n, np.ones_like(n))
    bucket = np.array((*ladder.sizes, 0), dtype=np.int64)[chosen]
    ns = np.where(chosen == EAGER_INDEX, table.eager_ref_ns[n], table.replay_ns[bucket])
    return np.concatenate([[0.0], ns / 1e6])


def _panel(axes: Axes, study: Study, ladder: Ladder, title: str) -> None:
    table = study.table
    n = np.arange(1, table.max_tokens + 1)
    model = study.scenario.model
    ideal = f"{model.backend.name} replay, were there a bucket of n"
    axes.plot(n, table.replay_ns[n] / 1e6, color=BLUE, lw=1.2, label=ideal)
    eager = f"{model.fallback.name} at n"
    axes.plot(n, table.eager_ref_ns[n] / 1e6, color=ORANGE, ls="--", lw=1.2, label=eager)
    paid = paid_ms(study, ladder)
    axes.plot(n, paid[n], color=GREEN, lw=2.4, alpha=0.75, label="paid with this ladder")
    axes.plot(
        ladder.sizes, [0.03] * len(ladder), "|", color="black", ms=9, mew=1.4, label="its graphs",
        transform=axes.get_xaxis_transform(),
    )  # fmt: skip
    axes.set_ylabel("step time (ms)\nattention as in the mean step")
    axes.set_title(title, fontsize=10, loc="left")
