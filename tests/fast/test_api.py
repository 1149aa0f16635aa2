"""What ``import simcg`` offers says what the command line says."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simcg
from simcg.errors import InputError
from tests.studies import run_cli

SERVER: dict[str, Any] = {
    "max_chunk": 2048,
    "model": "gpt-oss-20b",
    "hardware": "h100",
    "tp": 2,
    "dtype": "bf16",
}


def said_by(command: str, *args: str) -> Any:
    """The JSON of a command with the server of these tests."""
    options = [word for name, value in SERVER.items()
               for word in ("--" + name.replace("_", "-"), str(value))]  # fmt: skip
    ran = run_cli(command, "--requests", "60", "--json", *options, *args)
    assert (ran.code, ran.err) == (0, "")
    return json.loads(ran.out)


def test_a_ladder_is_that_of_optimize() -> None:
    """Sizes, flags and gain, with limits and a rate."""
    traffic, server = simcg.builtin_workload("azure-conv", 60), simcg.Server(**SERVER)
    result = simcg.choose_ladder(traffic, server, rate=2, limits=simcg.Limits(max_buckets=5))
    said = said_by("optimize", "--rate", "2", "--buckets", "5")
    assert list(result.ladder.sizes) == said["answer"]["sizes"]
    assert result.flags == said["flags"]
    assert result.gain.share == said["gain"]["share"]


@pytest.mark.parametrize("ladder", [None, (256, 2048)])
@pytest.mark.parametrize("policy", [None, "bucket-edge"])
def test_a_run_is_that_of_simulate(ladder: tuple[int, ...] | None, policy: str | None) -> None:
    """Every figure, for random arrivals."""
    traffic, server = simcg.builtin_workload("azure-conv", 60), simcg.Server(**SERVER)
    run = simcg.simulate(
        traffic, server, process=simcg.Poisson(20), ladder=ladder, policy=policy, seed=3
    )
    flags = ["--request-rate", "20", "--seed", "3"]
    flags += ["--ladder", ",".join(map(str, ladder))] if ladder else []
    flags += ["--policy", policy] if policy else []
    said = said_by("simulate", *flags)
    figures = run.result.summary()
    assert figures == {name: said[name] for name in figures}


def test_ladders_compare_as_on_the_command_line() -> None:
    """Sizes and a ladder beside the default, which no other may be called."""
    traffic, server = simcg.builtin_workload("azure-conv", 60), simcg.Server(**SERVER)
    few = simcg.Ladder.of((2048, 64), server.replay_model.slots)
    scores = simcg.compare(traffic, server, ladders={"one": (256,), "few": few})
    said = said_by("compare", "--ladder", "one=256", "--ladder", "few=64,2048")
    assert list(scores) == list(said) == ["default", "one", "few"]
    for name, one in scores.items():
        assert one.mean_step_ns == said[name]["mean_step_ns"]
        assert list(one.ladder.sizes) == said[name]["sizes"]
    with pytest.raises(InputError, match="no other ladder"):
        simcg.compare(traffic, server, ladders={"default": (256,)})


@pytest.mark.parametrize("backend", ["eager", "tc_piecewise", "breakable", "full", None])
def test_a_step_on_the_machine_takes_what_its_time_says(backend: str | None) -> None:
    """The same prompt event by event and by the recurrence; None is the engine's backend."""
    server = simcg.Server("qwen3-8b")
    times = simcg.step_times((64, 300), server, backend=backend)
    runs = [simcg.run_step(n, server, backend=backend) for n in (64, 300)]
    assert [run.end_ns for run in runs] == times.ns.tolist()
    assert {run.host_ns for run in runs} == {times.host_ns}
    if backend is None:
        usual = server.rules.default_backend.name
        assert times.ns.tolist() == simcg.step_times((64, 300), server, backend=usual).ns.tolist()


def test_a_step_of_some_layers_is_the_beginning_of_the_step() -> None:
    """Its kernels are the first of the whole; layers and lengths that there are not are refused."""
    server = simcg.Server("qwen3-8b")
    part, whole = (
        [(span.name, span.start_ns) for span in run.spans if span.kind == "kernel"]
        for run in (simcg.run_step(64, server, backend="eager", layers=n) for n in (2, None))
    )
    assert part == whole[: len(part)]
    assert 17 * len(part) < len(whole) < 20 * len(part)  # 36 layers and the logits
    with pytest.raises(InputError, match="1 to 36"):
        simcg.run_step(64, server, layers=37)
    for wrong in ([], [0, 5], [1 << 18]):
        with pytest.raises(InputError, match="from 1 to"):
            simcg.step_times(wrong, server)
    with pytest.raises(InputError, match="breakable"):
        simcg.run_step(64, server, backend="breakabel")


def test_what_does_not_go_together_is_told_where_it_is_written() -> None:
    """A server is checked when it is made."""
    wrongs: tuple[tuple[dict[str, Any], str], ...] = (
        ({"model": "qwen3-9b"}, "qwen3-8b"),
        ({"hardware": "h201"}, "h200"),
        ({"backend": "fuII"}, "one of breakable, full"),
        ({"dtype": "bf17"}, "bf16"),
        ({"model": "deepseek-r1"}, "more ranks"),
    )
    for wrong, says in wrongs:
        with pytest.raises(InputError, match=says):
            simcg.Server(**wrong)


def calls() -> dict[str, tuple[Callable[[], object], str]]:
    """Calls with a value of another type, and how the error begins: whose, which, expected."""
    traffic, server = simcg.builtin_workload("azure-conv", 20), simcg.Server()
    wrong: Any = {"model": "qwen3-8b"}
    given: Any = simcg
    return {
        "chunk as text": (lambda: given.Server(max_chunk="8192"),
                          "Server, max_chunk: got '8192', expected an integer"),
        "chunk as float": (lambda: given.Server(max_chunk=8192.0),
                           "Server, max_chunk: got 8192.0, expected an integer"),
        "chunk of nothing": (lambda: given.Server(max_chunk=0), "--max-chunk: got 0, expected"),
        "ranks as text": (lambda: given.Server(tp="2"), "Server, tp: got '2'"),
        "ranks as truth": (lambda: given.Server(tp=True), "Server, tp: got True"),
        "model as dict": (lambda: given.Server(model=wrong), "Server, model: got {'model'"),
        "dtype as number": (lambda: given.Server(dtype=8),
                            "Server, dtype: got 8, expected a string or None"),
        "one size": (lambda: given.Limits(include=512),
                     "Limits, include: got 512, expected a tuple, each an integer"),
        "sizes as text": (lambda: given.Limits(include=("64",)), "Limits, include: got ('64',)"),
        "rate as text": (lambda: given.Poisson("4"), "Poisson, per_s: got '4', expected a number"),
        "clients as text": (lambda: given.Closed("4"), "Closed, concurrency: got '4'"),
        "a file's name": (lambda: given.choose_ladder("trace.csv", server),
                          "choose_ladder, traffic: got 'trace.csv', expected Requests or Steps"),
        "swapped": (lambda: given.choose_ladder(server, traffic), "choose_ladder, traffic: got Se"),
        "limits as dict": (lambda: given.choose_ladder(traffic, server, limits=wrong),
                           "choose_ladder, limits: got {'model'"),
        "times faster": (lambda: given.choose_ladder(traffic, server, rate="2"),
                         "choose_ladder, rate: got '2', expected a number"),
        "process as number": (lambda: given.simulate(traffic, server, process=4),
                              "simulate, process: got 4, expected Traced, Poisson, Gamma"),
        "seed as text": (lambda: given.simulate(traffic, server, seed="0"), "simulate, seed: got"),
        "ladder as number": (lambda: given.simulate(traffic, server, ladder=64),
                             "simulate, ladder: got 64, expected Ladder or a tuple"),
        "ladder as text": (lambda: given.compare(traffic, server, ladders={"one": "64"}),
                           "compare, ladder: got ('6', '4'), expected Ladder or a tuple"),
        "no names": (lambda: given.compare(traffic, server, ladders=[64]), "compare, ladders: got"),
        "sizes for buckets": (lambda: given.Ladder([64, 128]), "Ladder, buckets: got [64, 128]"),
        "lengths as text": (lambda: given.step_times("64", server), "step_times, lengths: got ('6"),
        "step and server": (lambda: given.run_step(server, 64), "run_step, server: got 64"),
        "part of a token": (lambda: given.run_step(64.5, server), "run_step, tokens: got 64.5"),
    }  # fmt: skip


@pytest.mark.parametrize("name", calls())
def test_another_type_is_refused_by_name(name: str) -> None:
    """Where it is given, and not where it is used: whose argument it is, its value, what fits."""
    call, begins = calls()[name]
    with pytest.raises(InputError) as refused:
        call()
    assert str(refused.value).startswith(begins)


def test_what_is_as_good_is_taken() -> None:
    """NumPy's integers, lists of sizes, integers for numbers, and paths of files."""
    traffic, few = simcg.builtin_workload("azure-conv", 20), np.array([64, 128])
    server = simcg.Server(max_chunk=np.int64(2048))  # type: ignore[arg-type]  # fits as well
    limits = simcg.Limits(include=[64, 128])  # type: ignore[arg-type]  # fits as well
    assert set(few) <= set(simcg.choose_ladder(traffic, server, limits=limits).ladder.sizes)
    assert len(simcg.compare(traffic, server, ladders={"few": few}, rate=1)) == 2
    folder = Path(simcg.__file__).parent / "hardware" / "data"
    by_path: Any = folder / "h200.json"
    assert simcg.Server(hardware=by_path).replay_model == simcg.Server().replay_model


def test_what_calls_return_shows_in_a_line() -> None:
    """However much is in it: a notebook's cell may end in it."""
    traffic, server = simcg.builtin_workload("azure-conv", 200), simcg.Server()
    result = simcg.choose_ladder(traffic, server)
    shown = {
        "Study(": result, "Scenario(": result.scenario, "Requests(200 requests": traffic,
        f"Steps({result.traffic.counted.total} steps": result.traffic.counted,
        "ServingReport(": simcg.simulate(traffic, server),
    }  # fmt: skip
    for begins, one in shown.items():
        assert repr(one).startswith(begins)
        assert len(repr(one)) < 2000
        assert "\n" not in repr(one)
    assert result.verdict in repr(result)


def test_a_study_says_what_the_command_says() -> None:
    """Its decision and verdict are those of ``simcg optimize --json``."""
    traffic, server = simcg.builtin_workload("azure-conv", 60), simcg.Server(**SERVER)
    result, said = simcg.choose_ladder(traffic, server), said_by("optimize")
    assert result.decision == said["decision"]
    assert result.verdict == said["verdict"][0]


def test_importing_simcg_imports_nothing_heavy() -> None:
    """And every public name is there."""
    code = (
        "import simcg, sys; print(*sys.modules); [getattr(simcg, name) for name in simcg.__all__]"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numpy", "simpy", "torch", "matplotlib"} & set(ran.stdout.split())
    assert set(simcg.__all__) <= set(dir(simcg))
    with pytest.raises(AttributeError, match="no attribute 'study_'"):
        simcg.study_  # noqa: B018 - the access is the test
