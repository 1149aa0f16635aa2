"""Whether a profile is of the GPU at hand."""

from __future__ import annotations

import re

from simcg.hardware.profile import HardwareProfile


def profile_matches(profile: HardwareProfile, gpu_name: str) -> str | None:
    """None if the profile is of that GPU, else one line with both names.

    ``gpu_name`` is what the driver calls it, such as NVIDIA H200. A profile that was measured
    knows that name of its own; others are held against the words of it.
    """
    measured_on = profile.environment.get("gpu")
    words = set(re.split(r"[^a-z0-9]+", gpu_name.lower()))
    named = set(profile.name.lower().split("-")) <= words
    if (measured_on or "").lower() == gpu_name.lower() or named:
        return None
    of = f"measured on {measured_on}" if measured_on else "of another GPU"
    return f"profile {profile.name} is {of}, this is {gpu_name}: calibrate it, or choose another"
