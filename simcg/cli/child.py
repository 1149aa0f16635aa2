"""A process that does the work of a command and ends with it."""

from __future__ import annotations

import signal
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from simcg.errors import Finding, InputError, require


def run_child(call: Sequence[str], read: Callable[[IO[str]], None] | None = None) -> int:
    """The exit code, 128 and the signal's number where one ended it; ``read`` gets its output.

    SIGTERM is passed on; whatever else ends the wait terminates the child.
    """
    output = None if read is None else subprocess.PIPE
    with subprocess.Popen(call, stdout=output, text=True, encoding="utf-8") as child:
        before = signal.signal(signal.SIGTERM, lambda *_: child.terminate())
        try:
            if read is not None and child.stdout is not None:
                read(child.stdout)
            code = child.wait()
        except BaseException:
            child.terminate()
            child.wait()
            raise
        finally:
            signal.signal(signal.SIGTERM, before)
    return code if code >= 0 else 128 - code


def require_torch(works_without: str) -> None:
    """Raise ``InputError`` where torch is not installed, naming what works without it."""
    if find_spec("torch") is None:
        expected = f"pip install '.[gpu]' in the checkout; {works_without}"
        raise InputError("torch", "", Finding("no such package"), expected)


def check_output(flag: str, path: Path) -> None:
    """Raise ``InputError`` unless a file can be made there; leaves nothing behind."""
    folder = "a file in a folder that exists"
    require(path.name not in ("", "..") and path.parent.is_dir(), flag, "", _given(path), folder)
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        expected = f"a file that can be written ({error.strerror})"
        raise InputError(flag, "", str(path), expected) from None


def _given(path: Path) -> str:
    return str(path) if path.name else ""
