"""What pytest does beside a mutant's tests: limits, and in a clean run who runs which line.

The file that the environment variable PLAN names holds the seconds of each test; a clean run is
one where it is not there yet, and writes it.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

PLAN = "SIMCG_MUTATION_PLAN"
LIMIT = 4
MEMORY_BYTES = 8 << 30
SECONDS: dict[str, float] = {}  # of the tests of this process


def pytest_sessionstart() -> None:
    """A mutant must not fill the machine's memory."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """In a clean run, notes what a test runs and how long; else ends it at its limit."""
    plan = Path(os.environ[PLAN])
    clean = not plan.exists()
    if clean:
        import coverage  # noqa: PLC0415  # the clean run's

        (coverage.Coverage.current() or coverage.Coverage()).switch_context(item.nodeid)
    else:
        (plan.parent / "running").write_text(item.nodeid, "utf-8")
        usual_s = json.loads(plan.read_text("utf-8"))[item.nodeid]
        signal.setitimer(signal.ITIMER_PROF, 5 + LIMIT * usual_s)
    start = time.process_time()
    result = yield
    signal.setitimer(signal.ITIMER_PROF, 0)
    if clean:
        SECONDS[item.nodeid] = time.process_time() - start
    return result


def pytest_sessionfinish() -> None:
    """Leaves the clean run's seconds for the runs that follow."""
    if SECONDS:
        Path(os.environ[PLAN]).write_text(json.dumps(SECONDS), "utf-8")
