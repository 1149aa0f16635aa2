"""Bytes from outside: files, standard input, gzip; every failure is one clear line."""

from __future__ import annotations

import codecs
import gzip
import sys
import zlib
from pathlib import Path

from simcg.errors import InputError

STANDARD_INPUT = "-"
_GZIP_MAGIC = b"\x1f\x8b"


def read_utf8(path: str | Path) -> bytes:
    """The bytes of a UTF-8 file or of standard input (``-``), unpacked if it is gzip.

    gzip is recognised by its first bytes. A byte-order mark is dropped, and so is white space
    at the end. Raises InputError for what cannot be read, is cut short, is not UTF-8 or is empty.
    """
    data = unpack(str(path), _read_bytes(path))
    try:
        data.decode()  # only checked: lines are decoded as they are read
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        bad = data[error.start : error.start + 4]
        raise InputError(str(path), f"line {line}", bad, "UTF-8 text (or gzip of it)") from error
    data = data.removeprefix(codecs.BOM_UTF8).rstrip(b" \t\r\n")
    if not data:
        raise InputError(str(path), "", "an empty file", "a header or JSON lines, then data")
    return data


def _read_bytes(path: str | Path) -> bytes:
    """All bytes of the file, or of standard input for ``-``."""
    try:
        if str(path) == STANDARD_INPUT:
            return sys.stdin.buffer.read()
        return Path(path).read_bytes()
    except OSError as error:
        raise InputError(str(path), "", error.strerror or str(error), "a readable file") from error
    except ValueError as error:  # a path with a NUL character
        raise InputError(str(path), "", str(error), "a path") from error


def unpack(name: str, data: bytes) -> bytes:
    """``data`` itself, or its content if it is gzip; ``name`` is for the error."""
    if not data.startswith(_GZIP_MAGIC):
        return data
    try:
        return gzip.decompress(data)
    except EOFError as error:
        raise InputError(name, "", "gzip cut short", "a complete gzip file") from error
    except (OSError, zlib.error) as error:
        raise InputError(name, "", f"damaged gzip ({error})", "an intact gzip file") from error
