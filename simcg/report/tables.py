"""Tables of ladders beside each other, as rich renderables of at most 100 columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.table import Table

from simcg.model.table import ModelRow, ModelTotals
from simcg.optimize.explain import BucketUse
from simcg.optimize.score import LadderScore
from simcg.optimize.study import Study
from simcg.report.units import count, ms, percent, seconds, size
from simcg.workload.describe import Description, Quantiles, RequestFacts

Row = tuple[str, ...]


def plain_table(columns: Sequence[str], rows: Iterable[Row]) -> Table:
    """Left-aligned first column, right-aligned numbers, no boxes."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right", no_wrap=index > 0)
    for row in rows:
        table.add_row(*row)
    return table


def ladders_table(
    named: Sequence[tuple[str, LadderScore]], fallback: str, limit_ns: float | None
) -> Table:
    """One column a ladder, one row a figure; the limit is a graph for every size.

    ``fallback``: how steps run without a graph.
    """
    scores = [s for _, s in named]
    rows: list[Row] = [
        ("graphs", *(str(len(s.ladder)) for s in scores)),
        ("mean step (ms)", *(ms(s.mean_step_ns) for s in scores)),
        ("padded tokens", *(percent(s.padded_share) for s in scores)),
        (f"steps that run {fallback}", *(percent(s.eager_share) for s in scores)),
        ("graph memory, live", *(size(s.memory.live) for s in scores)),
        ("graph memory, reserved", *(size(s.memory.reserved) for s in scores)),
        ("graph memory, device", *(size(s.memory.device) for s in scores)),
        (f"peak with {fallback} steps", *(size(s.memory.peak) for s in scores)),
        ("start-up", *(seconds(s.startup.ns) for s in scores)),
    ]
    columns = ["", *(name for name, _ in named)]
    if limit_ns is not None:
        columns.append("every size")
        rows = [(*row, ms(limit_ns) if row[0].startswith("mean") else "-") for row in rows]
    return plain_table(columns, rows)


def study_table(study: Study) -> Table:
    """The answer between the default, half the default, no graphs and the limit."""
    named = [("default", study.default), ("this ladder", study.answer.score)]
    if study.half is not None:
        named.append(("half the default", study.half.score))
    if study.no_loss is not None:
        named.append(("fewest", study.no_loss.score))
    named.append(("no graphs", study.no_graphs))
    return ladders_table(named, study.scenario.model.fallback.name, study.limit_ns)


def explain_table(uses: Sequence[BucketUse]) -> Table:
    """What each bucket serves, and what dropping it would cost."""
    return plain_table(
        ("bucket", "sizes it serves", "steps", "share", "padded", "dropping it costs"),
        [
            (
                str(use.bucket),
                "none" if use.steps == 0 else f"{use.low}..{use.high}",
                count(use.steps),
                percent(use.steps / use.all_steps),
                percent(use.padded_share),
                f"{use.drop_ns / use.all_steps / 1e3:+.2f} us a step",
            )
            for use in uses
        ],
    )


def description_rows(description: Description) -> list[Row]:
    """Quantiles of a workload, one row a quantity."""
    facts = description.facts

    def row(name: str, q: Quantiles) -> Row:
        return (name, f"{q.mean:.1f}", *(count(v) for v in (q.p50, q.p90, q.p99, q.max)))

    if isinstance(facts, RequestFacts):
        rows = [
            row("prompt tokens", facts.prompt_tokens),
            row("tokens to compute", facts.new_tokens),
        ]
        if facts.output_tokens is not None:
            rows.append(row("output tokens", facts.output_tokens))
        return rows
    return [
        row("tokens a step", facts.tokens),
        row("requests a step", facts.requests),
        row("cached context a step", facts.context),
    ]


def model_table(rows: Sequence[ModelRow]) -> Table:
    """The ops of a forward by section; a row's FLOPs and bytes are those of one token."""
    table = plain_table(("op", "kernels", "weights", "MFLOP/row", "KiB/row", ""), ())
    table.add_column("shape", justify="left")
    table.columns[0].no_wrap = True
    section = None
    for row in rows:
        if row.section != section:
            section = row.section
            times = f" (x {row.layers})" if row.layers > 1 else ""
            table.add_row(f"[bold]{section}{times}[/bold]")
        table.add_row(
            f"  {row.name}", str(row.kernels), size(row.weight_bytes) if row.weight_bytes else "-",
            f"{row.flops / 1e6:.1f}" if row.flops else "-", f"{row.allocated_bytes / 1024:.1f}",
            "break" if row.is_break else "", row.shape,
        )  # fmt: skip
    return table


def totals_rows(totals: ModelTotals) -> list[Row]:
    """Sums over a forward."""
    state = ("state of a request on a rank", size(totals.state_bytes_per_request))
    return [
        ("parameters", count(totals.total_params)),
        ("active parameters", count(totals.active_params)),
        ("weights on a rank", size(totals.weight_bytes)),
        ("KV cache a token on a rank", size(totals.kv_bytes_per_token)),
        *([state] if totals.state_bytes_per_request else []),
        ("kernels a forward", count(totals.kernels)),
        ("breaks", count(totals.breaks)),
        ("collectives", count(totals.collectives)),
        ("activation peak a token", size(totals.peak_activation_row_bytes)),
    ]
