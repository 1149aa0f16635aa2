"""The measured deployments: 5,221 TTFT/TPOT points and what another estimator says of them."""

from __future__ import annotations

import csv
import io
from functools import cache
from importlib.resources import files

from simcg.reproduce.point import Point, refusal


@cache
def silicon_points() -> tuple[Point, ...]:
    """All points of the package, in its order."""
    return tuple(_point(fields) for fields in _table("silicon.csv"))


@cache
def claimed_points() -> tuple[Point, ...]:
    """The points that simcg claims to predict."""
    return tuple(point for point in silicon_points() if refusal(point) is None)


@cache
def estimates() -> dict[str, tuple[float, float]]:
    """By point id, TTFT and TPOT in ms as aiconfigurator-core 0.12.0 estimates them.

    Points that it has no tables for are absent. Made by ``scripts/run_aiconfigurator.py``.
    """
    lines = _table("aiconfigurator.csv")
    return {line["id"]: (float(line["ttft_ms"]), float(line["tpot_ms"])) for line in lines}


def _table(name: str) -> csv.DictReader[str]:
    return csv.DictReader(io.StringIO((files("simcg.reproduce") / "data" / name).read_text()))


def _point(fields: dict[str, str]) -> Point:
    return Point(
        id=fields["id"],
        source=fields["source"],
        framework=fields["framework"],
        version=fields["version"],
        model=fields["model"],
        system=fields["system"],
        precision=fields["precision"],
        mode=fields["mode"],
        isl=int(fields["isl"]),
        osl=int(fields["osl"]),
        concurrency=int(fields["concurrency"]),
        tp=int(fields["tp"]),
        attention_dp=int(fields["attention_dp"]),
        expert_parallel=int(fields["expert_parallel"]),
        ttft_ms=float(fields["ttft_ms"]),
        tpot_ms=float(fields["tpot_ms"]),
    )
