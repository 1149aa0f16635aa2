"""Bytes from outside: files, standard input, gzip; every failure is one clear line."""

from __future__ import annotations

import codecs
import gzip
import sys
import zlib
from pathlib import Path

from simcg.errors import Finding, InputError

STANDARD_INPUT = "-"
_GZIP_MAGIC = b"\x1f\x8b"


def source_name(path: str | Path) -> str:
    """What texts call the file: its path, or standard input for ``-``."""
    return "standard input" if str(path) == STANDARD_INPUT else str(path)


def read_utf8(path: str | Path, expected: str = "a header or JSON lines, then data") -> bytes:
    """The bytes of a UTF-8 file or of standard input (``-``), unpacked if it is gzip.

    gzip is recognised by its first bytes. A byte-order mark is dropped, and so is white space
    at the end. ``expected``: what an empty file should have held. Raises InputError for what
    cannot be read, is cut short, is not UTF-8 or is empty.
    """
    name = source_name(path)
    data = unpack(name, _read_bytes(path))
    try:
        data.decode()  # only checked: lines are decoded as they are read
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        bad = data[error.start : error.start + 4]
        raise InputError(name, f"line {line}", bad, "UTF-8 text (or gzip of it)") from error
    data = data.removeprefix(codecs.BOM_UTF8).rstrip(b" \t\r\n")
    if not data:
        raise InputError(name, "", Finding("an empty file"), expected)
    return data


def _read_bytes(path: str | Path) -> bytes:
    """All bytes of the file, or of standard input for ``-``."""
    if path == "":  # as a Path it would be the working directory
        raise InputError("traffic", "", "", "a file's path, or - for standard input")
    is_standard = str(path) == STANDARD_INPUT
    if is_standard and sys.stdin is None:  # closed by the caller
        raise InputError(source_name(path), "", Finding("a closed one"), "an open one")
    try:
        if is_standard:
            return sys.stdin.buffer.read()
        return Path(path).read_bytes()
    except OSError as error:
        reason = Finding(error.strerror or str(error))
        raise InputError(source_name(path), "", reason, "a readable file") from error
    except ValueError as error:  # a path with a NUL character
        raise InputError(str(path), "", Finding(error), "a path") from error


def unpack(name: str, data: bytes) -> bytes:
    """``data`` itself, or its content if it is gzip; ``name`` is for the error."""
    if not data.startswith(_GZIP_MAGIC):
        return data
    try:
        return gzip.decompress(data)
    except EOFError as error:
        raise InputError(name, "", Finding("gzip cut short"), "a complete gzip file") from error
    except (OSError, zlib.error) as error:
        damage = Finding(f"damaged gzip ({error})")
        raise InputError(name, "", damage, "an intact gzip file") from error
