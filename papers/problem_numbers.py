"""Numbers of the abstract and of the section about the problem."""

from __future__ import annotations

from papers.optimizer_numbers import answer
from papers.sources import COMPUTE_BOUND, LAUNCH_BOUND, LENGTHS, prompts_of, step_times, study_of
from papers.text import count
from simcg.backend import BREAKABLE, EAGER
from simcg.optimize.gain import COVERAGE


def problem_numbers() -> dict[str, object]:
    """What the default ladder costs in two settings, and how far launches bound a step."""
    study = study_of(COMPUTE_BOUND)
    sizes = study.default.ladder.sizes
    return {
        "engine": f"SGLang {study.scenario.engine.version}",
        "chunk": count(study.scenario.max_chunk),
        "default_graphs": str(len(sizes)),
        "default_first": " ".join(map(str, sizes[:6])),
        "guard": f"{study.scenario.engine.admission.max_ratio}",
        "steps": count(study.traffic.counted.total),
        "compute": answer(COMPUTE_BOUND),
        "launch": answer(LAUNCH_BOUND),
        "coverage": f"{COVERAGE[1] - COVERAGE[0]:.0f} %",
        "ratios": ratios(),
    }


def ratios() -> list[list[str]]:
    """Eager over breakable step time in both settings, by prompt length."""
    work = prompts_of(list(LENGTHS))
    rows = [[count(n)] for n in LENGTHS]
    for server in (COMPUTE_BOUND, LAUNCH_BOUND):
        eager = step_times(server, EAGER, work).ns
        replay = step_times(server, BREAKABLE, work).ns
        for row, mine, theirs in zip(rows, eager, replay, strict=True):
            row += [f"{mine / 1e6:.2f}", f"{theirs / 1e6:.2f}", f"{mine / theirs:.2f}"]
    return rows
