"""Versions of engines: rules and flags belong to a version, so versions must compare."""

from __future__ import annotations

import re

from simcg.errors import InputError

Release = tuple[int, int, int]

_RELEASE = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?(?:\.post\d+)?")


def parse_release(engine: str, text: str, example: str) -> Release:
    """(0, 5, 15) for "0.5.15", "v0.5.15" or "0.5.15.post1"; "0.33" is (0, 33, 0).

    A post-release keeps the rules of its release.  Errors: ``InputError`` for anything else
    (a pre-release has rules of its own, which nobody has read), with ``example``, one of its own.
    """
    match = _RELEASE.fullmatch(text.strip())
    if match is None:
        raise InputError(f"{engine} version", "", text, f"a release such as {example}")
    major, minor, patch = match.groups()
    return int(major), int(minor), int(patch or 0)


def show_release(release: Release) -> str:
    """The release as engines print it: "0.5.15"."""
    return ".".join(map(str, release))
