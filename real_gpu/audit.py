"""Records any capture within a ``with`` and checks it: which operator would break a replay?

    with audit({"ids": ("static", ids), "out": ("output", out)}) as found:
        backend.capture_one(bucket, forward)     # or torch.cuda.graph, or another library's
    print(found.check().findings)
    found.write("capture.json")                  # simcg verify --recording capture.json

Recorded are operators that torch dispatches and kernels that Triton launches by name. What other
code launches shows only in a segment's number of kernels, and memory that it takes from the pool
and gives back within one call does not show.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

import torch

from real_gpu.backends.watch import watching_breaks
from real_gpu.graphs.cpu import RecordingCpuDevice
from real_gpu.graphs.cuda import CudaGraphDevice
from real_gpu.observe.cuda import watch_captures, watch_events
from real_gpu.observe.declared import checked
from real_gpu.observe.devices import watch_backends, watch_device
from real_gpu.observe.libraries import watch_libraries, watch_triton
from real_gpu.observe.log import Declared
from real_gpu.observe.patch import Patches
from real_gpu.observe.session import Session, Taken
from simcg.errors import InputError, require
from simcg.formal.audit.check import Report, check
from simcg.formal.recording import (
    VERSION,
    Failure,
    Recordings,
    encode_recordings,
    require_captures,
)

NOTHING: Declared = {}


class Audit:
    """The captures that were recorded, as of now: tensors may be gone that lived before."""

    def __init__(self, taken: list[Taken], failed: list[Failure]) -> None:
        self._taken, self._failed = taken, failed

    @property
    def recordings(self) -> Recordings:
        """In the order of capture."""
        captures = tuple(taken.now() for taken in self._taken)
        devices = {taken.log.device.type for taken in self._taken}
        device: Literal["cuda", "cpu"] = "cuda" if "cuda" in devices else "cpu"
        version = str(torch.__version__)
        return Recordings(VERSION, device, version, captures, tuple(self._failed))

    def check(self) -> Report:
        """What ``simcg verify --recording`` says; ``SimcgError`` if nothing was recorded."""
        return check(self.recordings)

    def write(self, path: str | Path) -> None:
        """Write the recordings to a file, whole or not at all.

        ``InputError`` if it cannot be written, ``SimcgError`` if nothing was recorded.
        """
        found, target = self.recordings, Path(path)
        require(target.name != "", "audit", "path", str(path), "the path of a file")
        require_captures(found, "audit")
        data = encode_recordings(found.captures, found.device, found.torch, found.failed)
        beside = target.with_name(target.name + ".part")
        try:
            beside.write_bytes(data)
            beside.replace(target)
        except OSError as error:
            with suppress(OSError):
                beside.unlink(missing_ok=True)
            raise InputError(str(path), "", error.strerror, "a file that can be written") from None


@contextmanager
def audit(declared: Declared = NOTHING) -> Iterator[Audit]:
    """Within it, captures are recorded.

    ``declared``: what tensors outside the pool are for, by name: "static" is rewritten by the host
    before each replay, "constant" is written by nobody, "cache" is what steps hand on, "scratch"
    what each step writes before it reads it, and "output" what the forward returns. Who declares
    one promises that it lives as long as the graphs and is not replaced; of any other it is said
    what hangs on that. Raises ``InputError`` for what is no tensor with one of these roles.
    """
    declared = checked(declared)
    session, patches = Session(declared), Patches()
    try:
        watch_backends(session, patches)
        watch_device(session, patches, RecordingCpuDevice)
        if torch.cuda.is_available():
            watch_device(session, patches, CudaGraphDevice)
            watch_captures(session, patches)
            watch_events(session, patches)
            watch_libraries(session, patches)
        watch_triton(session, patches)
        with watching_breaks(session):
            yield Audit(session.taken, session.failed)
    finally:
        patches.undo()
        session.drop()
        session.declared = {}  # what is declared lives no longer for it
