"""Timelines are traces that viewers open, with every nanosecond of the run they show."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcg.backend import BACKENDS
from simcg.cost.step import StepCost
from simcg.des.machine.jitter import Jitter
from simcg.des.machine.machine import run_programs
from simcg.des.machine.program import Program
from simcg.des.machine.setup import Machine
from simcg.des.machine.step import simulate_step
from simcg.errors import InputError
from simcg.hardware.catalog import load_profile
from simcg.model.catalog import architecture_named
from simcg.model.forward import forward_pass
from simcg.report.step_timeline import add_step
from simcg.report.timeline import Timeline, write_timeline
from tests.costs import one_request
from tests.machines import rank_programs
from tests.trace_events import Event, faults, ns, read_trace


def of_phase(events: list[Event], phase: str) -> list[Event]:
    return [event for event in events if event["ph"] == phase]


def loaded(timeline: Timeline) -> list[Event]:
    return [json.loads(line) for line in timeline.events()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("timelines")


@given(programs=rank_programs(3), queue=st.integers(1, 4), at=st.integers(0, 2**53 // 10**6))
def test_a_run_of_the_machine_is_a_valid_trace(
    folder: Path, programs: list[Program], queue: int, at: int
) -> None:
    """Any run: fields, nesting, counters, arrows; spans, to the nanosecond, those of the run."""
    run = run_programs(programs, Machine(7, queue), trace=True)
    timeline = Timeline()
    add_step(timeline, run, at)
    path = folder / "run.json"
    write_timeline(path, timeline)
    events = read_trace(path)
    assert not faults(events)
    assert len(events) == len(timeline) + len(of_phase(events, "M"))
    drawn = sorted((ns(e), ns(e, "dur"), e["name"]) for e in of_phase(events, "X"))
    assert drawn == sorted((at + s.start_ns, s.duration_ns, s.name) for s in run.spans)
    for event in of_phase(events, "C"):
        assert event["args"]["value"] >= 0
    launched = {(s.rank, s.call) for s in run.spans if s.stream}
    assert len(of_phase(events, "s")) == len(launched)


def test_a_real_step_is_a_valid_trace_with_the_same_bytes(tmp_path: Path) -> None:
    """Two ranks under jitter, five backends, packed and not; written twice, the bytes are equal."""
    written = []
    for name in ("one.json", "two.json", "one.json.gz", "two.json.gz"):
        timeline, forward = Timeline(), forward_pass(architecture_named("gpt-oss-20b"), tp=2)
        for backend in BACKENDS.values():
            cost = StepCost(forward, load_profile("h200"), backend)
            run = simulate_step(cost, one_request([64]), jitter=Jitter(0.3, 5), trace=True)
            add_step(timeline, run, label=f"{backend.name} ")
        write_timeline(tmp_path / name, timeline)
        written.append((tmp_path / name).read_bytes())
    assert written[0] == written[1]
    assert written[2] == written[3]
    events = read_trace(tmp_path / "one.json")
    assert events == read_trace(tmp_path / "one.json.gz")
    assert not faults([e for e in events if e["ph"] not in "sf"])
    names = {e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert names == {f"{backend} rank {rank}" for backend in BACKENDS for rank in (0, 1)}


def test_all_that_a_timeline_holds() -> None:
    """Names with quotes, numbers of NumPy, marks with details, an empty timeline."""
    timeline = Timeline()
    assert list(timeline.events()) == []
    timeline.span('a "b"', "ü\n", "outer", np.int64(5), 10)  # type: ignore[arg-type]
    timeline.span('a "b"', "ü\n", "inner", 5, 4, {"x": 1.5, "y": True})
    timeline.mark('a "b"', "ü\n", "here", 2**50 + 1, {"why": "so"})
    timeline.counter("c", "bytes", 3, np.float64(2.0))
    timeline.counter("c", "share", 3, 0.25)
    assert len(timeline) == 5
    events = loaded(timeline)
    assert not faults(events)
    assert [e["name"] for e in of_phase(events, "X")] == ["outer", "inner"]
    assert ns(of_phase(events, "i")[0]) == 2**50 + 1
    assert [e["args"] for e in of_phase(events, "C")] == [{"value": 2}, {"value": 0.25}]


def test_the_validator_sees_what_is_wrong() -> None:
    """Each rule of the format is broken once: a trace is not valid for want of a look."""
    timeline = Timeline()
    timeline.span("p", "t", "one", 0, 10)
    timeline.span("p", "t", "two", 5, 10)
    assert any("outlives" in fault for fault in faults(loaded(timeline)))
    timeline = Timeline()
    timeline.span("p", "t", "one", 0, 10)
    timeline.arrow("back", ("p", "t", 9), ("p", "t", 3))
    timeline.arrow("outside", ("p", "t", 9), ("p", "t", 30))
    found = faults(loaded(timeline))
    assert any("points back" in fault for fault in found)
    assert any("outside every span" in fault for fault in found)
    events = loaded(timeline)
    assert faults([e for e in events if e["ph"] != "M"])
    assert faults([e for e in events if e["ph"] != "f"])
    assert faults([{k: v for k, v in e.items() if k != "dur"} for e in events])


@pytest.mark.parametrize(
    "wrong",
    [
        lambda t: t.span("p", "t", "x", 0, -1),
        lambda t: t.span("p", "t", "x", -1, 1),
        lambda t: t.counter("p", "x", 0, float("nan")),
        lambda t: t.mark("p", "t", "x", 0, {"v": float("inf")}),
    ],
)
def test_what_no_viewer_reads_is_refused(wrong: object) -> None:
    assert callable(wrong)
    with pytest.raises(ValueError, match=r"lasts|event at|counter|compliant"):
        wrong(Timeline())


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    """A wrong ending, a folder that is missing or in the way: one line, and no half a file."""
    with pytest.raises(InputError, match=r"--timeline: got '.*\.txt', expected a file ending in"):
        write_timeline(tmp_path / "t.txt", Timeline())
    with pytest.raises(InputError, match="a folder that exists"):
        write_timeline(tmp_path / "no" / "t.json", Timeline())
    (tmp_path / "t.json").mkdir()
    with pytest.raises(InputError, match="a writable file"):
        write_timeline(tmp_path / "t.json", Timeline())
    assert [path.name for path in tmp_path.iterdir()] == ["t.json"]
