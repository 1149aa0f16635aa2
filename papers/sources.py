"""What the report's numbers and figures are taken from, each computed or read once."""

from __future__ import annotations

import csv
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from simcg.api import choose_ladder
from simcg.backend import CaptureBackend
from simcg.cost.kernels import Work
from simcg.cost.step import StepCost, StepTimes
from simcg.hardware.catalog import load_profile
from simcg.model.catalog import load_architecture
from simcg.model.forward import forward_pass
from simcg.optimize.study import Study
from simcg.reproduce.outcome import Reproduction, reproduce
from simcg.runs.read import read_runs
from simcg.runs.validation import Validation, validate
from simcg.server import Server
from simcg.workload.builtin import builtin_workload

ROOT = Path(__file__).parents[1]
BENCHMARKS = ROOT / "benchmarks"
RUNS = BENCHMARKS / "runs"
DATA = Path(__file__).parent / "data"
WORKLOAD, REQUESTS = "azure-conv", 5_000
"""The traffic of `simcg optimize` where none is given."""
COMPUTE_BOUND = Server("qwen3-8b", "h200")
LAUNCH_BOUND = Server("gpt-oss-120b", "gb300", tp=4)
LENGTHS = (16, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
"""Prompts that step times are tabulated for."""


@cache
def study_of(server: Server) -> Study:
    """What `simcg optimize` answers for the built-in traffic."""
    return choose_ladder(builtin_workload(WORKLOAD, REQUESTS), server)


@cache
def prompts(largest: int = 8192) -> Work:
    """One prompt of each size 1..largest, without cached context."""
    return prompts_of(np.arange(1, largest + 1, dtype=np.int64).tolist())


def prompts_of(lengths: list[int]) -> Work:
    """One prompt of each length."""
    n = np.array(lengths, dtype=np.int64)
    return Work(rows=n, tokens=n, requests=np.ones_like(n), pairs=n * (n + 1) // 2)


def step_times(server: Server, backend: CaptureBackend, work: Work) -> StepTimes:
    """Step times of a server's forward under a backend."""
    forward = forward_pass(load_architecture(server.model), tp=server.tp)
    return StepCost(forward, load_profile(server.hardware), backend).times(work)


@cache
def validation() -> Validation:
    """The committed steps, captures, bits and decisions of an H200, by the built-in profile."""
    files = sorted(RUNS.glob("h200-*.jsonl"))
    return validate([read_runs(file) for file in files], load_profile("h200"))


@cache
def served(file: str) -> Validation:
    """One file of served traces."""
    return validate([read_runs(RUNS / file)], load_profile("h200"))


@cache
def reproduction() -> Reproduction:
    """What `simcg reproduce` finds."""
    return reproduce()


def gains() -> list[dict[str, str]]:
    """The gains on public traces, measured by `python -m benchmarks.gains FOLDER`."""
    with (RUNS / "gains.csv").open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def kept(name: str) -> Any:
    """A result that takes too long for each build; README.md beside it says how it is made."""
    return json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))


def printed(command: str) -> list[str]:
    """The lines of the first block after ``command`` in benchmarks/README.md, as it printed them.

    Raises ``ValueError`` where there is none.
    """
    text = (BENCHMARKS / "README.md").read_text(encoding="utf-8")
    _, found, after = text.partition(command)
    _, fence, block = after.partition("```text\n")
    if not (found and fence):
        raise ValueError(f"benchmarks/README.md has no block after {command}")
    return block.partition("\n```")[0].splitlines()
