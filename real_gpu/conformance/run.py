"""Runs of many cases, and what becomes of one that fails."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

from real_gpu.conformance.case import Case, from_json, to_json
from real_gpu.conformance.check import Disagreement, check
from real_gpu.conformance.generate import case_of
from real_gpu.conformance.report import Report
from real_gpu.conformance.shrink import smallest
from real_gpu.graphs.device import GraphDevice


def run_cases(
    device: GraphDevice, backend: str, seeds: Iterable[int], told: Callable[[str], None]
) -> tuple[Report, list[tuple[Case, str]]]:
    """Check the cases of these seeds; those that fail, made small, with what differs."""
    report, failures = Report(), list[tuple[Case, str]]()
    for seed in seeds:
        case = case_of(seed, backend)
        try:
            report.add(check(case, device))
        except Disagreement:
            case = smallest(case, lambda smaller: bool(disagreement(smaller, device)))
            failures.append((case, disagreement(case, device)))
            told(f"{backend} seed {seed}: {case.setting.program}: {failures[-1][1]}")
    return report, failures


def disagreement(case: Case, device: GraphDevice) -> str:
    """What differs; "" for nothing."""
    try:
        check(case, device)
    except Disagreement as found:
        return str(found)
    return ""


def save(case: Case, folder: Path, name: str, why: str) -> Path:
    """Write a case where the corpus is replayed from; ``why`` it is there."""
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"why": why, **to_json(case)}, indent=1) + "\n", encoding="utf-8")
    return path


def load(path: Path) -> Case:
    """A case of the corpus."""
    return from_json(json.loads(path.read_text(encoding="utf-8")))
