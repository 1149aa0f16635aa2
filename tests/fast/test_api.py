"""What ``import simcg`` offers says what the command line says."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

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
