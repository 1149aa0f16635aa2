"""Numbers of the section about the formal model, from committed runs of the checker.

benchmarks/runs/verify.json          simcg verify --json
benchmarks/runs/verify-deep.json     simcg verify --deep --json; the section does without it
benchmarks/runs/h200-conformance.txt python -m real_gpu.conformance --device cuda
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from simcg.formal import reference
from simcg.formal.audit.check import CHECKED
from simcg.formal.invariants import INVARIANTS
from simcg.formal.mutants.capturing import CAPTURING
from simcg.formal.mutants.choosing import CHOOSING
from simcg.formal.mutants.inputs import INPUTS
from simcg.formal.mutants.ranking import RANKING
from simcg.formal.program import KINDS
from simcg.report.units import count
from simcg.report.verify import DONE

RUNS = Path(__file__).parents[1] / "benchmarks" / "runs"
GROUPS = {
    "dispatch and output": CHOOSING,
    "inputs and padding": INPUTS,
    "capture and memory": CAPTURING,
    "ranks": RANKING,
}
REPORT = re.compile(r"(?P<project>\S+(?: \S+)*) #(?P<number>\d+): .+", re.DOTALL)
"""A public report as mutants cite it."""
CASES = re.compile(
    r"(?P<backend>\w+): seeds 0 to (?P<last>\d+), (?P<steps>\d+) steps, each operator in each way "
    r"at least (?P<least>\d+) times, (?P<seconds>\d+) s"
)
Row = dict[str, Any]


def formal_numbers() -> dict[str, object]:
    """Everything that the section prints; ``deep`` is None where no such run is committed."""
    run, deep = _run("verify.json"), RUNS / "verify-deep.json"
    known = {stage["name"] for stage in run["stages"]}
    return {
        "kinds": str(len(KINDS)),
        "reference_lines": str(_lines(Path(reference.__file__))),
        "invariants": _invariants(run),
        "recorded": str(len(CHECKED)),
        "explored": _explored(run["stages"]),
        "deep": _explored(_run(deep.name)["stages"], known) if deep.is_file() else None,
        "lemmas": _lemmas(run["lemmas"]),
        "matrix": _matrix(run["mutants"]),
        "mutants": _mutants(run["mutants"]),
        "reports": _reports(run["mutants"]),
        "conformance": conformance((RUNS / "h200-conformance.txt").read_text(encoding="utf-8")),
    }


def _run(name: str) -> Row:
    found: Row = json.loads((RUNS / name).read_text(encoding="utf-8"))
    if not found["holds"]:
        raise ValueError(f"{name}: a run in which a check failed: {found['failures']}")
    return found


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def _invariants(run: Row) -> list[Row]:
    checks = {stage["name"]: stage["checks"] for stage in run["stages"]}
    proofs = Counter(lemma["invariant"] for lemma in run["lemmas"])
    kills = Counter(key for mutant in run["mutants"] for key in mutant["caught"])
    rows = []
    for seen in run["invariants"]:
        key, law = seen["key"], INVARIANTS[seen["key"]]
        tools = list(dict.fromkeys(checks[stage] for stage in seen["stages"]))
        tools += ["z3"] * bool(proofs[key]) + ["recordings"] * (key in CHECKED)
        rows.append({
            "key": key, "name": law.name, "sentence": law.sentence, "formula": law.formula,
            "tools": ", ".join(tools), "seen": count(seen["witnesses"]), "kills": str(kills[key]),
        })  # fmt: skip
    return rows


def _done(counts: Row) -> int:
    return sum(counts.get(name, 0) for name in DONE)


def _explored(stages: list[Row], known: Collection[str] = ()) -> Row:
    """Totals of all stages, and rows of those that are not ``known`` from another table."""
    whole: Counter[str] = Counter()
    for stage in stages:
        whole.update(stage["counts"])
    return {
        "stages": [
            {"name": s["name"], "scope": s["scope"], "programs": count(s["counts"]["programs"]),
             "settings": count(s["counts"].get("settings") or s["counts"]["walks"]),
             "steps": count(_done(s["counts"])) if _done(s["counts"]) else "",
             "cpu": f"{s['cpu_ns'] / 1e9:.0f}"}
            for s in stages
            if s["name"] not in known
        ],
        "programs": count(whole["programs"]),
        "steps": count(_done(whole)),
        "replays": count(whole["replays"]),
        "padded": count(whole["padded"]),
        "eager": count(whole["eager"]),
        "refused": count(whole["refused"]),
        "cpu": count(round(sum(s["cpu_ns"] for s in stages) / 1e9)),
    }  # fmt: skip


def _lemmas(lemmas: list[Row]) -> Row:
    kinds = Counter(lemma["kind"] for lemma in lemmas)
    return {
        "all": str(len(lemmas)),
        "always": str(kinds["always"]),
        "sometimes": str(kinds["sometimes"]),
        "slowest_ms": f"{max(lemma['ms'] for lemma in lemmas):.0f}",
        "all_s": f"{sum(lemma['ms'] for lemma in lemmas) / 1e3:.1f}",
        "rows": [
            {"invariant": m["invariant"], "sentence": m["sentence"], "kind": m["kind"],
             "scope": m["scope"] if m["kind"] == "always" else m["counterexample"],
             "ms": f"{m['ms']:.0f}"}
            for m in lemmas
        ],
    }  # fmt: skip


def _matrix(mutants: list[Row]) -> Row:
    """``cells``: by invariant, "first" where its check failed first, "also" where it failed too."""
    found = {mutant["name"]: mutant for mutant in mutants}
    keys = list(INVARIANTS)
    groups = []
    for group, members in GROUPS.items():
        rows = []
        for member in members:
            mutant = found.pop(member.name)
            cells = [_cell(mutant, key) for key in keys]
            rows.append({"name": mutant["name"], "cells": cells,
                         "equivalent": mutant["equivalent"],
                         "reports": str(len(mutant["reports"]) or "")})  # fmt: skip
        groups.append({"name": group, "rows": rows})
    if found:
        raise ValueError(f"verify.json: mutants that no longer are: {', '.join(found)}")
    kills = Counter(key for mutant in mutants for key in mutant["caught"])
    return {"keys": keys, "groups": groups, "kills": [str(kills[key]) for key in keys]}


def _cell(mutant: Row, key: str) -> str:
    if key == mutant["first"]:
        return "first"
    return "also" if key in mutant["caught"] else ""


def _mutants(mutants: list[Row]) -> Row:
    killed = [m for m in mutants if m["first"]]
    kills = Counter(key for mutant in mutants for key in mutant["caught"])
    return {
        "all": str(len(mutants)),
        "killed": str(len(killed)),
        "equivalent": str(len(mutants) - len(killed)),
        "by_one": str(sum(len(m["caught"]) == 1 for m in killed)),
        "by_several": str(sum(len(m["caught"]) > 1 for m in killed)),
        "fewest_kills": str(min(kills[key] for key in INVARIANTS)),
        "most_checks": count(max(m["until"] for m in killed)),
        "distinct": str(len(set(cited(r for m in mutants for r in m["reports"])))),
        "unreported": str(sum(not m["reports"] for m in mutants)),
    }


def _reports(mutants: list[Row]) -> list[Row]:
    """By project, most first; projects with one report share the last row."""
    numbers: dict[str, set[int]] = {}
    for project, number in cited(report for mutant in mutants for report in mutant["reports"]):
        numbers.setdefault(project, set()).add(number)
    ordered = sorted(numbers.items(), key=lambda item: (-len(item[1]), item[0].lower()))
    rows = [
        {"project": project, "numbers": ", ".join(f"#{number}" for number in sorted(found))}
        for project, found in ordered
        if len(found) > 1
    ]
    single = [f"{project} #{number}" for project, found in ordered if len(found) == 1
              for number in found]  # fmt: skip
    return [*rows, {"project": "others", "numbers": ", ".join(single)}]


def cited(reports: Iterable[str]) -> list[tuple[str, int]]:
    """Project and number of each report; ``ValueError`` for one that names neither."""
    found = []
    for report in reports:
        match = REPORT.fullmatch(report)
        if match is None:
            raise ValueError(f"no report of a project: {report}")
        found.append((match["project"], int(match["number"])))
    return found


def conformance(text: str) -> Row:
    """The run of random programs on real backends; ``ValueError`` if it is not in the text."""
    backends = [m.groupdict() for m in CASES.finditer(text)]
    totals = re.search(r"^(\d+) cases .*; (\d+) steps checked$", text, re.MULTILINE)
    refused = re.search(r"captures refused by both sides: (\d+); by the model alone, as no "
                        r"recording shows an unmasked mix of rows: (\d+)", text)  # fmt: skip
    wrong = re.search(r"^(\d+) disagreements", text, re.MULTILINE)
    if not (backends and totals and refused and wrong):
        raise ValueError("h200-conformance.txt: not what real_gpu.conformance prints")
    return {
        "cases": count(int(totals[1])),
        "steps": count(int(totals[2])),
        "least": min((b["least"] for b in backends), key=int),
        "refused": refused[1],
        "refused_alone": refused[2],
        "disagreements": wrong[1],
        "backends": [
            {"name": b["backend"], "cases": count(int(b["last"]) + 1),
             "steps": count(int(b["steps"])), "seconds": b["seconds"]}
            for b in backends
        ],
    }  # fmt: skip
