"""What an answer rests on, in lines: the weakest parts first, each with its source."""

from __future__ import annotations

from collections.abc import Sequence

from simcg.cost.grounds import Ground, step_grounds, weakest_first
from simcg.cost.table import work_of_steps
from simcg.hardware.catalog import engine_profile
from simcg.hardware.profile import HardwareProfile
from simcg.optimize.study import Study
from simcg.provenance import ORDER


def study_grounds(study: Study) -> list[Ground]:
    """Of the prefill steps that a ladder is chosen for, the weakest parts first."""
    steps, model = study.traffic.counted, study.scenario.model
    replayed = work_of_steps(steps, steps.tokens, model.slots)
    eager = work_of_steps(steps, steps.tokens)
    return weakest_first((*step_grounds(model.replay, replayed), *step_grounds(model.eager, eager)))


def grounds_lines(grounds: Sequence[Ground]) -> list[str]:
    """One line a provenance, the weakest first: ``assumed: gaps, launches (as on h200); ...``."""
    lines = []
    for provenance in reversed(ORDER):
        parts: dict[str, list[str]] = {}
        for one in grounds:
            if one.provenance == provenance:
                parts.setdefault(one.source, []).append(one.part)
        said = [
            ", ".join(names) + (f" ({_short(source)})" if _short(source) else "")
            for source, names in _together(parts, provenance == "measured").items()
        ]
        if parts:
            lines.append(f"{provenance}: {'; '.join(said)}")
    return lines


def better_profile(profile: HardwareProfile, engine: str) -> str | None:
    """A note on the built-in profile of the same GPU with the engine's kernels; None: no other."""
    name = engine_profile(profile, engine)
    if name is None:
        return None
    return (
        f"kernels and host of {profile.name} are those of a lean decoder on torch; --hardware "
        f"{name} has {engine}'s measured kernels"
    )


def _together(parts: dict[str, list[str]], measured: bool) -> dict[str, list[str]]:
    """What was measured needs no source: its parts in one."""
    if not measured:
        return parts
    return {"": [name for names in parts.values() for name in names]}


def _short(source: str) -> str:
    """Up to the detail: ``as on h200`` of ``as on h200: slope of ...``."""
    head, _, rest = source.partition(": ")
    return head if rest and head.startswith("as on h200") else source
