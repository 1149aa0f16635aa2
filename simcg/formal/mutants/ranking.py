"""Mutants of ranks: what each decides by itself although all must do the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simcg.formal.kernels import KERNELS
from simcg.formal.launch import Launch
from simcg.formal.mutants.mutant import Mutant
from simcg.formal.rules import Rules

if TYPE_CHECKING:
    from simcg.formal.machine import Machine, Run


def _unless_alone(machine: Machine, launch: Launch, run: Run) -> None:
    """Outside graphs a rank with a single token takes a way without the collective."""
    eager = run.breaking or not run.key
    KERNELS["reduce" if not eager or run.tokens > 1 else "gemm"](machine, launch, run)


RANKING = (
    Mutant(
        "bucket from local sizes",
        "each rank chooses the bucket of its own batch, and collectives meet in other sizes",
        Rules(agreed=lambda shapes, rank: shapes[rank]),
        ("I19",),
        ("reduce",),
        checks=("ranks",),
        reports=(
            "vLLM #25906: ranks dispatch on local token counts and hang",
            "vLLM #18724: all ranks must run as many dispatch and combine kernels",
            "lmdeploy #3311: batch sizes of ranks are synchronised before capture",
        ),
    ),
    Mutant(
        "collective on some ranks only",
        "a rank with little to do leaves out a collective that the others wait in",
        Rules(kernels={**KERNELS, "reduce": _unless_alone}),
        ("I19",),
        ("reduce",),
        checks=("ranks",),
        reports=("SGLang #16237: collectives differ between ranks at capture",),
    ),
    Mutant(
        "capture failed on one rank",
        "a rank whose capture failed runs the bucket eagerly, the others replay it",
        Rules(drops_everywhere=False),
        ("I19",),
        ("reduce",),
        checks=("ranks",),
        reports=("SGLang #11275: a capture that fails on one rank leaves the others waiting",),
    ),
)
