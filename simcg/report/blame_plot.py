"""The picture of measured steps taken apart: which part of a prediction is to blame."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from simcg.report.plots import BLUE, GREY, ORANGE
from simcg.runs.blame import Account, Part

SHOWN = 6
"""Parts of a step; the shorter ones are left out."""


def blame_figure(accounts: Sequence[Account]) -> Figure:
    """A panel a step: its longest parts and the host as predicted, the suspect hatched."""
    figure = Figure(figsize=(10, 0.6 + 2.9 * len(accounts)), layout="constrained")
    panels = figure.subplots(len(accounts), 1, squeeze=False)[:, 0]
    for axes, account in zip(panels, accounts, strict=True):
        _panel(axes, account)
    panels[-1].set_xlabel("time (ms)")
    handles, labels = panels[-1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, fontsize=9)
    return figure


def _panel(axes: Axes, account: Account) -> None:
    cell, suspect = account.cell, account.suspect
    shown = account.parts[:SHOWN]
    if suspect not in (*shown, account.host):
        shown = (*shown[:-1], suspect)
    rows = (*shown, account.host)
    for place, part in enumerate(rows):
        colour = ORANGE if part is suspect else GREY if part is account.host else BLUE
        hatch = "//" if part is suspect else ""
        axes.barh(-place, part.predicted_ns / 1e6, color=colour, hatch=hatch, edgecolor="white")
        text = _needs(part, is_host=part is account.host)
        axes.text(part.predicted_ns / 1e6, -place, f"  {text}", va="center", fontsize=9)
    names = [f"{part.name} ({part.provenance})" for part in rows]
    axes.set_yticks([-place for place in range(len(rows))], names)
    axes.axvline(account.predicted_ns / 1e6, color="black", lw=1.2, ls="--", label="predicted step")
    axes.axvline(cell.ns / 1e6, color="black", lw=1.2, label="measured step")
    axes.set_xlim(0, 1.05 * max(account.predicted_ns, cell.ns) / 1e6)
    where = f" in {cell.bucket:,}" if cell.bucket > cell.tokens else ""
    requests = f"{cell.requests} request" + "s" * (cell.requests > 1)
    title = f"{cell.model}, {cell.backend}, {cell.tokens:,} tokens{where} of {requests}"
    axes.set_title(f"{title}: {100 * account.error:+.1f}%", fontsize=10, loc="left")
    axes.spines[["top", "right"]].set_visible(False)


def _needs(part: Part, *, is_host: bool) -> str:
    if is_host:
        return f"measured {100 * part.needed:+.0f}%"
    return f"explains all if {100 * part.needed:+.0f}%: {part.strain:.1f} times its usual error"
