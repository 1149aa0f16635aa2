"""A simulated server in tables and as JSON values."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

from simcg.cost.startup import Startup, startup
from simcg.des.serving.arrivals import Arrivals, shown_rate
from simcg.des.serving.clock import ServingClock
from simcg.des.serving.config import ServerConfig
from simcg.des.serving.grounds import server_grounds
from simcg.des.serving.memory import KvBudget
from simcg.des.serving.overload import Load, load_of
from simcg.des.serving.result import Padding, ServingResult
from simcg.des.serving.server import LoggedStep
from simcg.des.serving.simulate import simulate
from simcg.des.serving.statistics import Interval, batch_means, batch_quantiles
from simcg.report.links import link_note
from simcg.report.tables import Row, plain_table
from simcg.report.units import count, percent, seconds, size

FIGURES = (
    ("ttft", "time to first token"), ("tpot", "time per output token"), ("e2el", "end to end"),
)  # fmt: skip


@dataclass(frozen=True)
class ServingReport:
    """One configuration under one traffic, and all that is said about it."""

    config: ServerConfig
    budget: KvBudget
    result: ServingResult
    load: Load | None
    startup: Startup
    decode_startup: Startup

    def __repr__(self) -> str:
        model = self.config.model
        figures = ", ".join(f"{name} {value:.4g}" for name, value in self.result.summary().items())
        return f"ServingReport({model.forward.name} on {model.profile.name}: {figures})"

    @classmethod
    def of_run(  # noqa: PLR0913 - keyword-only beyond three
        cls,
        config: ServerConfig,
        budget: KvBudget,
        arrivals: Arrivals,
        *,
        seed: int,
        clock: ServingClock | None = None,
        log: list[LoggedStep] | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> ServingReport:
        """Run it, and find whether the server keeps up and how long it takes to start."""
        clock = config.clock() if clock is None else clock
        if config.policy.edges:
            config = config.priced(clock)
        result = simulate(config, arrivals, seed, clock=clock, log=log, progress=progress)
        return cls(
            config=config,
            budget=budget,
            result=result,
            load=load_of(config, arrivals, result, seed=seed, clock=clock),
            startup=startup(config.ladder.sizes, config.model),
            decode_startup=startup(config.decode_ladder.sizes, config.decode_model),
        )

    @property
    def chunked(self) -> Padding:
        """Of the steps with prefill tokens."""
        return self.result.chunked_padding(self.config.ladder, self.config.rule)

    @property
    def decode(self) -> Padding:
        """Of the steps of decodes alone."""
        return self.result.decode_padding(self.config.decode_ladder)

    def intervals(self) -> dict[str, Interval]:
        """95 % intervals in ms of the means and 99th percentiles, by batch means.

        None where all come at once: such a run has no steady state.
        """
        out: dict[str, Interval] = {}
        if self.result.offered_per_s == math.inf:
            return out
        for name, _ in FIGURES:
            values = getattr(self.result, f"{name}_ns") / 1e6
            if len(values):
                out[f"mean_{name}_ms"] = batch_means(values)
                out[f"p99_{name}_ms"] = batch_quantiles(values, 0.99)
        return out


def latency_table(report: ServingReport) -> Table:
    """Latencies in ms, with the interval of each mean."""
    figures, intervals = report.result.summary(), report.intervals()
    rows: list[Row] = []
    for name, words in (*FIGURES, ("itl", "between tokens")):
        known = intervals.get(f"mean_{name}_ms")
        bounds = "-" if known is None else _bounds(known)
        three = (figures[f"{kind}_{name}_ms"] for kind in ("mean", "median", "p99"))
        rows.append((f"{words} (ms)", *map(_plain, three), bounds))
    return plain_table(("", "mean", "median", "p99", "mean, 95%"), rows)


def load_table(report: ServingReport) -> Table:
    """Throughput, queue and cache."""
    figures, result = report.result.summary(), report.result
    requests = count(len(result.output_tokens))
    if result.warm_up:
        requests += f", latencies without the first {count(result.warm_up)}"
    return plain_table(
        ("load", ""),
        [
            ("requests", requests),
            (
                "requests a second, first arrival to last token",
                _plain(figures["request_throughput"]),
            ),
            ("offered", _offered(result.offered_per_s)),
            ("capacity, 95%", "-" if report.load is None else _bounds(report.load.capacity)),
            ("output tokens a second", _plain(figures["output_throughput"], 0)),
            ("server busy", percent(result.utilisation)),
            ("requests that wait, mean", _plain(figures["queue_length"])),
            ("wait for the first step, mean (ms)", _plain(figures["mean_wait_ms"])),
            ("requests held back", _held(report)),
            ("KV cache, most in use", percent(result.kv_peak_share)),
            ("preemptions", count(result.tally.preemptions)),
        ],
    )


def steps_table(report: ServingReport) -> Table:
    """Steps by kind: how many, how long, what graphs did for them."""
    result, rows = report.result, []
    kinds = ("with prefill", "decode only")
    each = zip(kinds, (report.chunked, report.decode), result.busy_ns, strict=True)
    for name, padding, busy_ns in each:
        mean = busy_ns / padding.steps / 1e6 if padding.steps else 0.0
        rows.append(
            (
                name, count(padding.steps), f"{mean:.2f}", percent(busy_ns / result.makespan_ns),
                percent(padding.share), percent(padding.eager_share), _reasons(padding),
            )
        )  # fmt: skip
    columns = ("steps", "number", "mean (ms)", "of the time", "padded", "no graph", "because")
    return plain_table(columns, rows)


def memory_table(report: ServingReport) -> Table:
    """Where a rank's memory goes."""
    budget, config = report.budget, report.config
    rows: list[Row] = [
        ("usable", size(budget.usable)),
        ("weights", size(budget.weights)),
        (f"prefill graphs ({len(config.ladder)})", size(budget.prefill_graphs)),
        (f"decode graphs ({len(config.decode_ladder)})", size(budget.decode_graphs)),
        ("activations of eager steps", size(budget.activations)),
    ]
    if budget.states:
        rows.append(("states of linear layers", size(budget.states)))
    start_ns = report.startup.ns + report.decode_startup.ns
    return plain_table(
        ("memory of a rank", ""),
        [
            *rows,
            ("KV cache", size(budget.kv_bytes)),
            ("KV cache (tokens)", count(config.kv_tokens)),
            ("start-up: capture and compile", seconds(start_ns)),
        ],
    )


def serving_json(report: ServingReport) -> dict[str, Any]:
    """Everything, by vLLM's names where it has them; times as their names say, bytes."""
    load = report.load
    over = None if load is None else load.overload
    return {
        **report.result.summary(),
        "intervals": {name: asdict(one) for name, one in report.intervals().items()},
        "offered_per_s": report.result.offered_per_s,
        "capacity": None if load is None else asdict(load.capacity),
        "keeps_up": None if load is None else load.keeps_up or (None if over is None else False),
        "overload": None if over is None else asdict(over),
        "warnings": warnings_of(report),
        "held_by_cap": report.result.tally.held_by_cap,
        "held_by_cache": report.result.tally.held_by_cache,
        "policy": report.config.policy.name,
        "ladder": list(report.config.ladder.sizes),
        "decode_ladder": list(report.config.decode_ladder.sizes),
        "kv_tokens": report.config.kv_tokens,
        "max_running": report.config.max_running,
        "steps_with_prefill": _padding_json(report.chunked),
        "decode_only_steps": _padding_json(report.decode),
        "memory_bytes": {**asdict(report.budget), "kv_bytes": report.budget.kv_bytes},
        "startup_ns": report.startup.ns + report.decode_startup.ns,
        "provenance": report.result.provenance,
        "rests_on": [asdict(ground) for ground in server_grounds(report.config)],
    }


def warnings_of(report: ServingReport) -> list[str]:
    """That nobody knows whether the server keeps up, or that it does not; what binds; its links."""
    model = report.config.model
    load = None if report.load is None else report.load.warning
    found = (load, _cap_note(report), link_note(model.forward, model.profile))
    return [warning for warning in found if warning is not None]


def _cap_note(report: ServingReport) -> str | None:
    """Said where the number of running requests, not the cache, is what binds."""
    tally = report.result.tally
    if tally.held_by_cap <= tally.held_by_cache:
        return None
    return (
        f"at most {report.config.max_running} requests run together (--max-num-seqs): that, not "
        "the KV cache, holds requests back"
    )


def _held(report: ServingReport) -> str:
    """How often, and by what."""
    tally = report.result.tally
    causes = (("cap", tally.held_by_cap), ("KV cache", tally.held_by_cache))
    return ", ".join(f"{count(times)} x by the {name}" for name, times in causes if times) or "-"


def _plain(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _bounds(known: Interval) -> str:
    finite = math.isfinite(known.half_width)
    return f"{known.low:.2f} to {known.high:.2f}" if finite else "-"


def _offered(per_s: float | None) -> str:
    """Requests a second that come by themselves."""
    if per_s is None:
        return "closed loop"
    return "all at once" if math.isinf(per_s) else shown_rate(per_s)


def _reasons(padding: Padding) -> str:
    total = sum(padding.fallbacks.values())
    return ", ".join(f"{why} {percent(n / total, 0)}" for why, n in padding.fallbacks.items())


def _padding_json(padding: Padding) -> dict[str, Any]:
    return {**asdict(padding), "share": padding.share, "eager_share": padding.eager_share}
