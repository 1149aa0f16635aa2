"""Sources of the report: each has an address or says what was not verified, and figures of ours in
the notes are what the data says.
"""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from papers.formal_numbers import GROUPS, cited, conformance, formal_numbers
from simcg.engines.sizes import tensorrt_llm_decode_sizes
from simcg.formal.enumerate import programs
from simcg.formal.invariants import INVARIANTS
from simcg.formal.lemmas import LEMMAS
from simcg.formal.mutants import MUTANTS
from simcg.formal.mutants.hunt import hunt
from simcg.formal.scopes import DEEP, DEFAULT
from simcg.formal.stage import explore
from simcg.reproduce.calibration import is_calibration
from simcg.reproduce.silicon import claimed_points, estimates, silicon_points

ROOT = Path(__file__).parents[2]
PAPERS, RUNS = ROOT / "papers", ROOT / "benchmarks" / "runs"
NOTES = sorted(path for path in (PAPERS / "notes").glob("*.md") if path.name != "README.md")
HEADINGS = ["What it claims", "What simcg reproduces", "What it does not"]
ADDRESS = re.compile(r"https://[^\s{}]+\.[^\s{}]+")
DOI = re.compile(r"10\.\d{4,}/\S+")
EXCUSES = ("not verified: ", "has no DOI; ")


@cache
def entries() -> dict[str, dict[str, str]]:
    """The bibliography: key to fields. An entry ends with a brace in the first column."""
    text = (PAPERS / "references.bib").read_text(encoding="utf-8")
    kept = "\n".join(line for line in text.splitlines() if not line.startswith("%"))
    found = re.findall(r"^@(\w+)\{([\w-]+),\n(.*?)^\}\n", kept + "\n", re.MULTILINE | re.DOTALL)
    assert len(found) == len(re.findall("^@", kept, re.MULTILINE))
    assert max(Counter(key for _, key, _ in found).values()) == 1
    return {key: {"type": kind, **_fields(key, body)} for kind, key, body in found}


def _fields(key: str, body: str) -> dict[str, str]:
    lines = [re.fullmatch(r"  (\w+) = \{(.*)\},", line) for line in body.splitlines()]
    assert all(lines), f"{key}: one field a line, in braces, with a comma"
    fields = [(line[1], line[2]) for line in lines if line]
    assert all(value.count("{") == value.count("}") for _, value in fields), key
    assert max(Counter(name for name, _ in fields).values()) == 1, key
    return dict(fields)


@pytest.mark.parametrize("key", entries())
def test_a_source_has_an_address_or_says_why_it_has_none(key: str) -> None:
    entry = entries()[key]
    assert entry["title"]
    assert re.fullmatch(r"\d{4}", entry["year"])
    assert re.fullmatch(ADDRESS, entry.get("url", "https://x.y"))
    assert re.fullmatch(DOI, entry.get("doi", "10.1000/x"))
    note = entry.get("note", "")
    assert not note or note.startswith(EXCUSES), "a note says what could not be verified"
    assert "url" in entry or "doi" in entry or note, "no address and no word about it"


def test_most_sources_were_verified() -> None:
    doubtful = [key for key, e in entries().items() if e.get("note", "").startswith("not verified")]
    assert len(doubtful) <= len(entries()) // 10


@pytest.mark.parametrize("path", NOTES, ids=lambda path: path.stem)
def test_a_note_is_about_a_source_and_says_what_was_not_reproduced(path: Path) -> None:
    assert path.stem in entries()
    text = path.read_text(encoding="utf-8")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == HEADINGS
    assert re.search(r"\bread\b", text, re.IGNORECASE), "what was read"
    assert max(map(len, text.splitlines())) <= 110
    for name in re.findall(r"`([\w./-]+\.(?:csv|jsonl|json|md|py|txt))`", text):
        homes = (ROOT, PAPERS / "notes", ROOT / "simcg" / "reproduce" / "data")
        assert any((home / name).is_file() for home in homes), name


def requests_of(workload: str) -> str:
    text = (ROOT / "simcg" / "workload" / "data" / f"{workload}.json").read_text()
    return f"{json.loads(text)['requests']:,}"


def gain(trace: str, setting: str) -> dict[str, str]:
    """At the trace's own rate: gain and interval in %, and the fewest graphs."""
    with (RUNS / "gains.csv").open(encoding="utf-8") as file:
        (row,) = [
            r for r in csv.DictReader(file)
            if (r["trace"], r["setting"], r["rate"]) == (trace, setting, "1")
        ]  # fmt: skip
    low, high = (f"{100 * float(row[name]):.1f}" for name in ("low", "high"))
    return {"gain": f"{100 * float(row['gain']):.2f}%", "low": low, "high": high,
            "fewest": row["fewest_graphs"]}  # fmt: skip


def lines(name: str, kind: str) -> list[dict[str, Any]]:
    with (RUNS / name).open(encoding="utf-8") as file:
        return [cell for cell in map(json.loads, file) if cell["type"] == kind]


def azure() -> list[str]:
    conversation, code = (
        gain("Azure conv", "qwen3-8b, 1 x h200"),
        gain("Azure code", "qwen3-8b, 1 x h200"),
    )
    return [
        f"`azure-conv` ({requests_of('azure-conv')} requests) and `azure-code` "
        f"({requests_of('azure-code')})",
        f"gains {conversation['gain']} of the mean prefill step on the conversation trace (95%: "
        f"{conversation['low']} to {conversation['high']}) and {code['gain']} on the code trace "
        f"({code['low']} to {code['high']})",
    ]


def mooncake() -> list[str]:
    small = gain("Mooncake conv", "qwen3-8b, 1 x h200")
    large = gain("Mooncake conv", "gpt-oss-120b, 4 x gb300")
    assert small["fewest"] == "1"
    return [
        f"{requests_of('mooncake-conversation')} requests",
        f"{small['gain']} for Qwen3-8B on an H200 and {large['gain']} for gpt-oss-120b on four "
        "GB300",
        "one graph does what 58 do",
    ]


def estimator() -> list[str]:
    points, theirs = [p for p in claimed_points() if not is_calibration(p)], estimates()
    known = [p for p in points if p.id in theirs]
    tpot = median(abs(theirs[p.id][1] / p.tpot_ms - 1) for p in known)
    ttft = median(abs(theirs[p.id][0] / p.ttft_ms - 1) for p in known)
    claimed = len(claimed_points())
    return [
        f"{len(silicon_points()):,} measured points",
        f"Which {claimed:,} of them are claimed",
        f"Without the {claimed - len(points)} on which",
        f"tables for {len(known):,} of {len(points):,}",
        f"{100 * tpot:.1f}% for TPOT and {100 * ttft:.1f}% for TTFT",
    ]


def peers() -> list[str]:
    cells = lines("h200-correctness.jsonl", "peer")
    took = {c["contender"]: median(c["replay_ns"]) for c in cells
            if c["program"] == "out-parameters"}  # fmt: skip
    ours = took["breakable"]
    names = {"breakable": "`real_gpu` breakable", "bare loop": "bare loop of launches and calls",
             "breakable-cuda-graphs": "breakable-cuda-graphs 0.1.0"}  # fmt: skip
    return [f"| {names[n]} | {ns / 1e3:.1f} | {ns / ours:.3f} |" for n, ns in took.items()]


def h200() -> list[str]:
    took = {(c["tokens"], c["backend"]): c["ns"] for c in lines("h200-matrix.jsonl", "step")
            if (c["model"], c["requests"]) == ("qwen3-8b", 1)}  # fmt: skip
    small, large = (took[n, "eager"] / took[n, "full"] for n in (64, 1500))
    return [f"eager {small:.2f} times as long as a full graph at 64 tokens, and {large:.2f} times "
            "at 1,500"]  # fmt: skip


def pytorch() -> list[str]:
    reports = Counter(project for project, _ in {
        found for mutant in MUTANTS.values() for found in cited(mutant.reports)
    })  # fmt: skip
    assert reports["PyTorch"] == 9
    return ["Nine reports of PyTorch's tracker stand behind mutants"]


def tensorrt_llm() -> list[str]:
    return [f"has {len(tensorrt_llm_decode_sizes(2048))} sizes up to 2,048"]


def serving() -> list[str]:
    text = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    line = r"^simcg +([\d,]+) requests, ([\d,]+) steps, mean TTFT ([\d.]+) ms"
    found = re.search(line, text, re.MULTILINE)
    faster = re.search(r"^simcg is ([\d.]+) times as fast", text, re.MULTILINE)
    assert found
    assert faster
    assert float(faster[1]) > 10
    requests, steps, ttft = found.groups()
    return [
        f"both take {steps} steps for {requests} requests, with a mean TTFT of {ttft} ms",
        "less than a tenth of the time",
    ]


FIGURES: dict[str, Callable[[], list[str]]] = {
    "splitwise": azure,
    "mooncake": mooncake,
    "aiconfigurator": estimator,
    "breakable-cuda-graphs": peers,
    "sglang-breakable": h200,
    "pytorch-cuda-graph": pytorch,
    "trtllm-blog20": tensorrt_llm,
    "sched-sim": serving,
}


@pytest.mark.parametrize("note", FIGURES)
def test_figures_of_ours_in_a_note_are_what_the_data_says(note: str) -> None:
    text = " ".join((PAPERS / "notes" / f"{note}.md").read_text(encoding="utf-8").split())
    for sentence in FIGURES[note]():
        assert " ".join(sentence.split()) in text


@cache
def run() -> dict[str, Any]:
    """The committed run of the checker."""
    found: dict[str, Any] = json.loads((RUNS / "verify.json").read_text(encoding="utf-8"))
    return found


def test_the_committed_run_of_the_checker_is_of_this_checker() -> None:
    """Invariants, lemmas, mutants and stages by name, in order; nothing failed.

    Where it is not: simcg verify --json > benchmarks/runs/verify.json
    """
    assert run()["holds"]
    assert [found["key"] for found in run()["invariants"]] == list(INVARIANTS)
    assert [found["name"] for found in run()["lemmas"]] == [lemma.name for lemma in LEMMAS]
    assert [found["sentence"] for found in run()["lemmas"]] == [m.sentence for m in LEMMAS]
    assert [found["name"] for found in run()["mutants"]] == list(MUTANTS)
    assert [found["name"] for found in run()["stages"]] == [stage.name for stage in DEFAULT]
    assert all(lemma["holds"] for lemma in run()["lemmas"])


def test_a_committed_deep_run_has_the_deep_stages() -> None:
    """Those that the default run has too have its counts."""
    path = RUNS / "verify-deep.json"
    if not path.is_file():
        pytest.skip("no deep run is committed: simcg verify --deep --json")
    deep = json.loads(path.read_text(encoding="utf-8"))
    assert deep["holds"]
    assert [found["name"] for found in deep["stages"]] == [stage.name for stage in DEEP]
    counts = {found["name"]: found["counts"] for found in deep["stages"]}
    assert all(counts[found["name"]] == found["counts"] for found in run()["stages"])


def test_a_stage_explored_again_gives_the_counts_of_the_committed_run() -> None:
    (stage,) = [stage for stage in DEFAULT if stage.name == "long traces"]
    (found,) = [found for found in run()["stages"] if found["name"] == stage.name]
    assert dict(explore(stage, programs(stage.scope)).counts) == found["counts"]


@pytest.mark.parametrize("mutant", [m.name for m in GROUPS["dispatch and output"]])
def test_a_mutant_hunted_again_is_caught_as_in_the_committed_run(mutant: str) -> None:
    (found,) = [found for found in run()["mutants"] if found["name"] == mutant]
    again = hunt(MUTANTS[mutant])
    assert (dict(again.caught), again.checks, again.until) == (
        found["caught"], found["checks"], found["until"],
    )  # fmt: skip


def test_the_kill_matrix_has_every_mutant_once_and_its_sums_are_those_of_its_rows() -> None:
    matrix: Any = formal_numbers()["matrix"]
    rows = [row for group in matrix["groups"] for row in group["rows"]]
    assert sorted(row["name"] for row in rows) == sorted(MUTANTS)
    for place, key in enumerate(matrix["keys"]):
        marked = [row for row in rows if row["cells"][place]]
        assert matrix["kills"][place] == str(len(marked)) != "0", key
    for row in rows:
        firsts = row["cells"].count("first")
        assert firsts == (0 if row["equivalent"] else 1), row["name"]
        caught = {key for key, cell in zip(matrix["keys"], row["cells"], strict=True) if cell}
        assert caught <= set(MUTANTS[row["name"]].killers)


def test_conformance_totals_are_the_sums_over_backends() -> None:
    found: Any = formal_numbers()["conformance"]
    for name in ("cases", "steps"):
        each = [int(backend[name].replace(",", "")) for backend in found["backends"]]
        assert f"{sum(each):,}" == found[name]


def test_what_is_no_run_of_conformance_and_no_report_is_refused() -> None:
    with pytest.raises(ValueError, match="conformance"):
        conformance("0 disagreements")
    with pytest.raises(ValueError, match="no report"):
        cited(["somebody said so"])


def test_the_log_names_commits_that_are_in_the_history() -> None:
    named = set(re.findall(r"\b[0-9a-f]{7}\b", (PAPERS / "LOG.md").read_text(encoding="utf-8")))
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("no history: this is no clone")
    told = subprocess.run(
        [git, "log", "--format=%h %H"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if told.returncode:
        pytest.skip(f"git does not read this folder: {told.stderr.strip()}")
    whole = {line.partition(" ")[2][:7] for line in told.stdout.splitlines()}
    if len(whole) < len(named):
        pytest.skip("a shallow clone")
    assert len(named) > 50
    assert named <= whole
