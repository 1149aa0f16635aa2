"""A profile as a file: figures indented, each curve and grid on a line of its own."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

import msgspec

from simcg.errors import InputError
from simcg.hardware.profile import HardwareProfile


def profile_text(profile: HardwareProfile) -> bytes:
    """The JSON of a profile. A hundred thousand figures a line each would be unreadable."""
    fields = msgspec.to_builtins(profile)
    lists = {name: fields.pop(name, []) for name in ("curves", "grids")}
    head = msgspec.json.format(msgspec.json.encode(fields), indent=1)
    out = head.rstrip().removesuffix(b"}").rstrip()
    for name, entries in lists.items():
        lines = b",\n  ".join(_without_fractions(msgspec.json.encode(entry)) for entry in entries)
        if entries:
            out += b',\n "' + name.encode() + b'": [\n  ' + lines + b"\n ]"
    return out + b"\n}\n"


def _without_fractions(text: bytes) -> bytes:
    """Whole numbers without ``.0``: most figures of a curve are whole."""
    return text.replace(b".0,", b",").replace(b".0]", b"]")


def write_profile(profile: HardwareProfile, path: Path) -> None:
    """The whole file or none; ``InputError`` where it cannot be written."""
    text = profile_text(profile)
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(text)
            Path(temporary).chmod(0o644)
            Path(temporary).replace(path)
        except OSError:
            with suppress(OSError):
                Path(temporary).unlink()
            raise
    except OSError as error:
        reason = error.strerror or "unwritable"
        raise InputError(str(path), "", reason, "a file that can be written") from None
