"""The timeline of a server holds its run, and its first steps last as long on the machine."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from simcg.des.machine.step import simulate_step
from simcg.des.serving import Arrivals, Poisson, simulate
from simcg.des.serving.lines import TICKS_PER_NS
from simcg.des.serving.server import LoggedStep
from simcg.report.serving_timeline import priced_step
from tests.fast.test_serving_traffic import CONV
from tests.serving import small_server
from tests.studies import run_cli


@pytest.mark.parametrize("policy", ["prefill-first", "mixed"])
def test_the_servers_steps_last_as_long_on_the_machine(policy: str) -> None:
    """Event by event on hosts and streams: within 1 % of the clock, steps of every kind."""
    config = small_server(64, 256, policy=policy)
    log: list[LoggedStep] = []
    clock = replace(config.clock(), pace=None)  # the machine's clock is steady
    simulate(config, Arrivals(CONV, Poisson(12.0), 30), 1, clock=clock, log=log)
    kinds = {(bool(one.tokens), bool(one.decodes)) for one in log}
    assert len(kinds) == 2 + (policy == "mixed")
    random = np.random.default_rng(0)
    for one in (log[i] for i in random.permutation(len(log))[:25]):
        cost, work = priced_step(config, one)
        machine = simulate_step(cost, work).end_ns
        if one.steps == 1:
            assert machine == pytest.approx(one.ticks / TICKS_PER_NS, rel=0.01)
        else:  # the first of a run is its shortest
            assert machine <= 1.01 * one.ticks / TICKS_PER_NS / one.steps


def test_a_timeline_has_tracks_of_start_up_server_host_and_stream(tmp_path: Path) -> None:
    """Written whole, with counters of the queue and the cache."""
    path = tmp_path / "run.json"
    ran = run_cli(
        "simulate", "--requests", "20", "--request-rate", "9", "--max-chunk", "256",
        "--timeline", str(path),
    )  # fmt: skip
    assert ran.code == 0
    events = json.loads(path.read_text())
    events = events["traceEvents"] if isinstance(events, dict) else events
    names = {e["args"]["name"] for e in events if e["ph"] == "M" and "name" in e["args"]}
    assert {"start-up", "server", "rank 0", "host", "steps", "capture"} <= names
    counters = {e["name"] for e in events if e["ph"] == "C"}
    assert {"waiting requests", "KV cache (tokens)", "pool (bytes)"} <= counters


def test_start_up_is_drawn_as_long_as_it_is_said_to_last(tmp_path: Path) -> None:
    """Every prefill and decode bucket has its span, one after the other; then the server steps."""
    path = tmp_path / "run.json"
    ran = run_cli(
        "simulate", "--requests", "20", "--rate", "3", "--max-chunk", "256",
        "--timeline", str(path), "--max-num-seqs", "40", "--json",
    )  # fmt: skip
    said = json.loads(ran.out)
    events = json.loads(path.read_text())
    events = events["traceEvents"] if isinstance(events, dict) else events
    buckets = sorted(
        (e["ts"], e["ts"] + e["dur"], e["name"]) for e in events if e["name"].startswith("bucket ")
    )
    prefill, decode = (sorted(said[name], reverse=True) for name in ("ladder", "decode_ladder"))
    assert [name for *_, name in buckets] == [f"bucket {n}" for n in (*prefill, *decode)]
    assert all(a[1] == pytest.approx(b[0]) for a, b in pairwise(buckets))
    assert buckets[-1][1] == pytest.approx(said["startup_ns"] / 1e3)
    first = min(e["ts"] for e in events if e["name"].startswith(("prefill", "decode")))
    assert first == pytest.approx(said["startup_ns"] / 1e3)
