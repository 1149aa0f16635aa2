"""A sweep that a signal ends: no process stays behind, and it goes on where it stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.studies import run_cli

ARGS = ("--vary", "seed=1,2,3,4,5,6,7,8,9,10,11,12", "--requests", "1500", "--max-chunk", "512",
        "--request-rate", "4")  # fmt: skip
PATIENCE_S = 60.0

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc here")


@pytest.fixture(autouse=True)
def interrupts_are_heard() -> Iterator[None]:
    """What a shell starts in the background ignores interrupts, and so would all it starts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.05)


def group_members(group: int) -> list[int]:
    """Processes of that group that still run."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, own, *_ = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        if int(own) == group and state not in "ZX":
            found.append(int(stat.parent.name))
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_ended_sweep_leaves_no_process_and_goes_on(tmp_path: Path, number: int) -> None:
    out, fresh = tmp_path / "out", tmp_path / "fresh"
    call = [sys.executable, "-m", "simcg", "sweep", *ARGS, "--jobs", "2", "--out", str(out)]
    with subprocess.Popen(
        call, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as child:
        wait_for(lambda: out.exists() and out.read_bytes().count(b"\n") > 0)
        assert len(group_members(child.pid)) >= 3  # it and its two workers
        os.kill(child.pid, number)
        said = child.communicate()[1]
    wait_for(lambda: not group_members(child.pid))
    assert out.read_bytes().count(b"\n") < 12
    assert child.returncode == (130 if number == signal.SIGINT else -number)
    assert "Traceback" not in said
    for path in (out, fresh):
        assert run_cli("sweep", *ARGS, "--jobs", "1", "--out", str(path)).code == 0
    assert out.read_bytes() == fresh.read_bytes()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_predictions_of_deployments_end_at_once_and_quietly(tmp_path: Path, number: int) -> None:
    """A keyboard's interrupt comes to all processes, a scheduler's signal to the first alone:
    either way none stays, none complains, and the results so far are whole lines."""
    out = tmp_path / "results"
    call = [sys.executable, "-m", "simcg", "reproduce", "silicon", "--results", str(out)]
    with subprocess.Popen(
        call, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as child:
        wait_for(lambda: out.exists() and out.read_bytes().count(b"\n") > 0)
        if number == signal.SIGINT:
            os.killpg(child.pid, number)
        else:
            os.kill(child.pid, number)
        said = child.communicate()[1]
    wait_for(lambda: not group_members(child.pid))
    assert child.returncode == (130 if number == signal.SIGINT else -number)
    assert "Traceback" not in said
    assert "Process" not in said
    assert ("simcg: error: interrupted" in said) == (number == signal.SIGINT)
    assert out.read_bytes().endswith(b"\n")
