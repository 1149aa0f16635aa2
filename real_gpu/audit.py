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

import torch

from real_gpu.backends.watch import watching_breaks
from real_gpu.graphs.cpu import RecordingCpuDevice
from real_gpu.graphs.cuda import CudaGraphDevice
from real_gpu.observe.cuda import watch_captures, watch_events
from real_gpu.observe.devices import watch_backends, watch_device
from real_gpu.observe.libraries import watch_libraries, watch_triton
from real_gpu.observe.log import Declared
from real_gpu.observe.patch import Patches
from real_gpu.observe.session import Session, Taken
from simcg.errors import InputError
from simcg.formal.audit.check import Report, check
from simcg.formal.recording import VERSION, Recordings, encode_recordings

NOTHING: Declared = {}


class Audit:
    """The captures that were recorded, as of now: tensors may be gone that lived before."""

    def __init__(self, taken: list[Taken]) -> None:
        self._taken = taken

    @property
    def recordings(self) -> Recordings:
        """In the order of capture."""
        captures = tuple(taken.now() for taken in self._taken)
        devices = {taken.log.device.type for taken in self._taken}
        return Recordings(
            VERSION, "cuda" if "cuda" in devices else "cpu", str(torch.__version__), captures
        )

    def check(self) -> Report:
        """What ``simcg verify --recording`` says; see ``simcg.formal.audit``."""
        return check(self.recordings)

    def write(self, path: str | Path) -> None:
        """Write the recordings to a file, whole or not at all; ``InputError`` if it cannot be."""
        found, target = self.recordings, Path(path)
        data = encode_recordings(found.captures, found.device, found.torch)
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

    ``declared``: what tensors outside the pool are for, by name: "static", "constant", "cache" or
    "output". Who declares one promises that it lives as long as the graphs. Of any other it is
    said on what its graph's correctness hangs.
    """
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
            yield Audit(session.taken)
    finally:
        patches.undo()
        session.drop()
        session.declared = {}  # what is declared lives no longer for it
