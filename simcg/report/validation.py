"""Tables and sentences of a validation, at most 100 columns wide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from simcg.report.tables import plain_table
from simcg.report.units import percent, size
from simcg.runs.compare import Compared, Errors
from simcg.runs.decide import Decision
from simcg.runs.limits import Check
from simcg.runs.order import Order
from simcg.runs.schema import PeerCell
from simcg.runs.serving import FIGURES, ServingComparison
from simcg.runs.validation import Validation

BYTES = ("graph pool", "eager peak", "graph memory")


def errors_table(errors: Sequence[Errors]) -> Table:
    """|predicted / measured - 1| by kind, backend and what calibration had timed."""
    return plain_table(
        ("predicted", "backend", "group", "cells", "median", "p95", "worst", "bias", "repeats"),
        [
            (
                one.kind, one.backend, one.group, str(one.count), percent(one.median),
                percent(one.p95), percent(one.worst), f"{100 * one.bias:+.1f}%",
                "-" if one.floor is None else percent(one.floor),
            )
            for one in errors
        ],
    )  # fmt: skip


def worst_table(errors: Sequence[Errors]) -> Table:
    """The worst cell of each group, and the part of the prediction that is largest there."""
    rows = []
    for one in errors:
        cell = one.worst_cell
        rows.append(
            (
                f"{one.kind}, {cell.backend}", f"{cell.model} {cell.label}",
                amount(cell.kind, cell.measured), f"{100 * cell.error:+.1f}%", cell.blame or "-",
            )
        )  # fmt: skip
    return plain_table(("worst of", "cell", "measured", "error", "largest part"), rows)


def cells_table(cells: Sequence[Compared]) -> Table:
    """Every cell."""
    return plain_table(
        ("of", "model", "cell", "predicted", "measured", "error"),
        [
            (
                f"{c.kind}, {c.backend}", c.model, c.label, amount(c.kind, c.predicted),
                amount(c.kind, c.measured), f"{100 * c.error:+.1f}%",
            )
            for c in cells
        ],
    )  # fmt: skip


def amount(kind: str, value: float) -> str:
    """Milliseconds or bytes."""
    return size(value) if kind in BYTES else f"{value / 1e6:.3f} ms"


def decisions_table(found: Sequence[Decision]) -> Table:
    """What each ladder of simcg's saved against each other one."""
    return plain_table(
        ("ladder (graphs)", "against (graphs)", "steps", "mean ms", "saves", "95%", "predicted"),
        [
            (
                f"{one.ours} ({one.graphs[0]})", f"{one.theirs} ({one.graphs[1]})",
                str(one.steps), f"{one.mean_ns[0] / 1e6:.2f}", f"{100 * one.measured:+.2f}%",
                f"{100 * one.low:+.2f} to {100 * one.high:+.2f}", f"{100 * one.predicted:+.2f}%",
            )
            for one in found
        ],
    )  # fmt: skip


def order_table(found: Sequence[Order]) -> Table:
    """Up to which size launches are what a step waits for, and where the order of speed breaks."""
    groups: dict[tuple[str, int], list[Order]] = {}
    for one in found:
        groups.setdefault((one.model, one.requests), []).append(one)
    rows = []
    for (model, requests), pairs in groups.items():
        bound = max(pairs[0].launch_bound, default=0)
        wrong = sorted({n for one in pairs for n in one.wrong})
        breaks = f"not at {' '.join(map(str, wrong))}" if wrong else "at every size"
        rows.append((model, str(requests), str(bound) if bound else "-", breaks))
    headers = ("model", "requests", "launch-bound to", "full <= breakable <= tc_piecewise <= eager")
    return plain_table(headers, rows)


def peers_table(peers: Sequence[PeerCell]) -> Table:
    """Median replay, capture time and pool of each way, and replay over the bare loop's."""
    from statistics import median  # noqa: PLC0415  # slow to import, and seldom needed

    base = {p.program: median(p.replay_ns) for p in peers if p.contender == "bare loop"}
    return plain_table(
        ("program", "by", "replays", "median us", "over bare", "capture ms", "pool"),
        [
            (
                p.program, p.contender, str(len(p.replay_ns)), f"{median(p.replay_ns) / 1e3:.1f}",
                f"{median(p.replay_ns) / base[p.program]:.3f}" if p.program in base else "-",
                f"{p.capture_ns / 1e6:.1f}", size(p.pool),
            )
            for p in peers
        ],
    )  # fmt: skip


def serving_table(found: Sequence[ServingComparison]) -> Table:
    """Latencies of served traces, measured and simulated."""
    return plain_table(
        ("served", "policy", "load", "a second", "figure", "measured ms", "simulated ms", "diff"),
        [
            (
                one.run.line.trace, one.run.line.policy, f"{one.run.line.utilisation:g}",
                f"{one.run.rate:.2f}", name, f"{one.run.figures[name] / 1e6:.2f}",
                f"{one.simulated[name] / 1e6:.2f}", f"{100 * one.error(name):+.1f}%",
            )
            for one in found
            for name in FIGURES
        ],
    )  # fmt: skip


def served_steps_table(found: Sequence[ServingComparison]) -> Table:
    """The forwards of the steps that ran beside their prices, and what ran beside them."""
    return plain_table(
        ("served steps", "load", "steps", "median", "p95", "bias", "beside us", "taken us"),
        [
            (
                step.kind, f"{one.run.line.utilisation:g}", str(step.count), percent(step.median),
                percent(step.p95), f"{100 * step.bias:+.1f}%", f"{step.overhead_ns / 1e3:.0f}",
                f"{step.taken_ns / 1e3:.0f}",
            )
            for one in found
            for step in one.steps
        ],
    )  # fmt: skip


def checks_table(checks: Sequence[Check]) -> Table:
    """The stated limits."""
    table = plain_table(
        ("stated limit", "found", "allowed", ""),
        [(c.what, c.found, c.limit, "met" if c.holds else "MISSED") for c in checks],
    )
    for column in table.columns[:3]:
        column.no_wrap, column.justify = False, "left"
    return table


def validation_json(result: Validation) -> dict[str, Any]:
    """Everything as plain values: ns, bytes, shares."""
    return {
        "profile": result.profile.name,
        "runs": [
            {"file": runs.source, **_environment(runs.header.environment)} for runs in result.runs
        ],
        "warnings": list(result.warnings),
        "passed": result.passed,
        "checks": [asdict(check) for check in result.checks],
        "errors": [_errors_json(one) for one in result.comparison.errors],
        "cells": [{**asdict(cell), "error": cell.error} for cell in result.comparison.cells],
        "decisions": [asdict(one) for one in result.decisions],
        "orders": [asdict(one) for one in result.orders],
        "serving": [_serving_json(one) for one in result.serving],
    }


def _serving_json(one: ServingComparison) -> dict[str, Any]:
    line = one.run.line
    return {
        "file": one.source,
        **{name: getattr(line, name) for name in ("run", "model", "trace", "policy")},
        "utilisation": line.utilisation,
        "requests": len(one.run.requests),
        "requests_per_s": one.run.rate,
        "overheads": one.overheads._asdict(),
        "measured_ns": one.run.figures,
        "simulated_ns": one.simulated,
        "steps": [asdict(step) for step in one.steps],
    }


def _environment(environment: Any) -> dict[str, str]:
    return {name: getattr(environment, name) for name in environment.__struct_fields__}


def _errors_json(one: Errors) -> dict[str, Any]:
    values = asdict(one)
    values["worst_cell"]["error"] = one.worst_cell.error
    return values
