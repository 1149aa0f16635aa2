"""The command as a process: closed and full streams end in one line or in silence."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.studies import run_cli

full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")


def shell(command: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error; ``simcg`` is run from this checkout."""
    line = command.replace("simcg", f"'{sys.executable}' -m simcg")
    ran = subprocess.run(["/bin/sh", "-c", line], check=False, capture_output=True, text=True)
    return ran.returncode, ran.stdout, ran.stderr


@full
@pytest.mark.parametrize(
    "command", ["model qwen3-8b", "model qwen3-8b --json", "--help", "ladder sglang"]
)
def test_a_full_disk_is_one_line(command: str) -> None:
    """What cannot be written is an error of standard output: text, JSON and help alike."""
    expected = "simcg: error: standard output: No space left on device\n"
    assert shell(f"simcg {command} > /dev/full") == (2, "", expected)


def test_closed_standard_output_is_one_line() -> None:
    """Nobody could read the answer."""
    expected = "simcg: error: standard output: it is closed, expected an open file or pipe\n"
    assert shell("simcg optimize --requests 20 >&-") == (2, "", expected)


def test_closed_standard_input_is_one_line() -> None:
    """Traffic from a standard input that is closed is refused."""
    expected = "simcg: error: standard input: got a closed one, expected an open one\n"
    assert shell("simcg optimize - <&-") == (2, "", expected)


@pytest.mark.parametrize("stream", ["2>&-", pytest.param("2>/dev/full", marks=full)])
def test_without_standard_error_the_exit_code_remains(stream: str) -> None:
    """An answer needs no standard error, and an error still has its exit code."""
    code, out, _ = shell(f"simcg model qwen3-8b {stream}")
    assert (code, bool(out)) == (0, True)
    assert shell(f"simcg model qwen3 {stream}") == (2, "", "")
    assert shell(f"simcg {stream}") == (2, "", "")


@pytest.mark.parametrize("command", ["model qwen3-8b", "model qwen3-8b --json", "--help"])
def test_a_reader_that_left_is_no_error(command: str) -> None:
    """``head`` closes the pipe when it has seen enough: silence and exit code 0."""
    line = f"{{ sleep 0.1; simcg {command}; echo code $? >&2; }} | true"
    assert shell(line) == (0, "", "code 0\n")


def test_without_arguments_the_help_is_printed() -> None:
    """The help in its lines, as --help prints it, and the exit code of a wrong call."""
    ran = run_cli()
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == run_cli("--help").out
    assert ran.err.count("\n") > 10
