"""The profiles that simcg knows by name, and profiles in files."""

from __future__ import annotations

import difflib
from functools import cache
from importlib.resources import files
from pathlib import Path

from simcg.errors import InputError
from simcg.hardware.profile import HardwareProfile, decode_profile


def profile_names() -> tuple[str, ...]:
    """The built-in profiles, sorted."""
    folder = files("simcg.hardware") / "data"
    return tuple(sorted(f.name[:-5] for f in folder.iterdir() if f.name.endswith(".json")))


@cache
def load_profile(name_or_path: str) -> HardwareProfile:
    """A built-in profile by name, or the one in a file (anything with a dot or a slash)."""
    if name_or_path.lower() in profile_names():
        file = files("simcg.hardware") / "data" / f"{name_or_path.lower()}.json"
        return decode_profile(file.read_bytes(), f"profile {name_or_path}")
    if "/" not in name_or_path and "." not in name_or_path:
        close = difflib.get_close_matches(name_or_path.lower(), profile_names(), n=1)
        hint = f" (did you mean {close[0]}?)" if close else ""
        known = ", ".join(profile_names())
        raise InputError("hardware", "", name_or_path, f"a profile file or one of {known}{hint}")
    try:
        data = Path(name_or_path).read_bytes()
    except OSError as error:
        reason = error.strerror or "unreadable"
        raise InputError(name_or_path, "", reason, "a readable profile file") from None
    return decode_profile(data, name_or_path)


def engine_profile(profile: HardwareProfile, engine: str) -> str | None:
    """The built-in profile of the same GPU with that engine's kernels, where this has none."""
    if "framework" in profile.environment:
        return None
    name = f"{profile.name}-{engine}"
    return name if name in profile_names() else None
