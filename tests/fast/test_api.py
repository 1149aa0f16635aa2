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
