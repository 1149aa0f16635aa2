"""A command's own process ends with the command."""

from __future__ import annotations

import signal
import subprocess
import sys

PARENT = """
import sys
from simcg.cli.child import run_child
sleep = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
sys.exit(run_child([sys.executable, "-c", sleep]))
"""


def test_a_terminated_command_terminates_its_process() -> None:
    """The exit code says so, and the output, which the child holds open too, ends."""
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert int(parent.stdout.readline()) > 0
        parent.send_signal(signal.SIGTERM)
        assert parent.stdout.read() == b""
    assert parent.returncode == 128 + signal.SIGTERM
