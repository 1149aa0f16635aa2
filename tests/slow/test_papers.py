"""The report is set by one command, and what it prints is what the data and simcg say."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pypdf import PdfReader

from papers.build import main, typeset
from simcg.reproduce.outcome import PREDICTED_MEDIAN_LIMIT
from tests.studies import run_cli

ROOT = Path(__file__).parents[2]
PAPERS, RUNS = ROOT / "papers", ROOT / "benchmarks" / "runs"
SECTIONS = sorted((PAPERS / "sections").glob("*.typ"))
NUMBER = re.compile(r"(?<![\w.\-#])\d[\d.,]*")
"""A number that stands alone; one that is part of a name (Qwen3-8B, H200, T4) does not."""
LAYOUT = re.compile(
    r"[\d.]+(fr|mm|em|pt)\b|width: \d+%|\(1fr,\) \* \d+|columns: \S+|\.(at|slice)\(\d+\)"
    r"|len\(\) \+ \d|[<>=]=? \d\b"
)
"""Lengths and places in tables."""
NAMES = re.compile(r"T\d|I\d+|[KM]\d|GLM-5\.2")


@dataclass(frozen=True)
class Report:
    """A fresh build: its folder of sources and numbers, its file, its text on one line."""

    folder: Path
    pdf: Path
    text: str


def words(pdf: Path) -> str:
    """All text with single spaces; hyphens at line ends are joined as nothing in tables has any."""
    text = " ".join(page.extract_text() for page in PdfReader(pdf).pages)
    return re.sub(r"\s+", " ", text.replace("-\n", "").replace("\u00a0", " "))


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """One build for all tests of this file."""
    folder = tmp_path_factory.mktemp("report")
    main(["--out", str(folder / "report.pdf"), "--keep", str(folder / "kept")])
    return Report(folder / "kept", folder / "report.pdf", words(folder / "report.pdf"))


@cache
def said(*arguments: str) -> Any:
    """What a command prints as JSON."""
    return json.loads(run_cli(*arguments, "--json").out)


def percent(share: float, digits: int = 1) -> str:
    """As printed, zero without a minus sign."""
    return f"{100 * share + 0.0:.{digits}f} %"


def gains() -> list[dict[str, str]]:
    with (RUNS / "gains.csv").open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def test_the_gain_is_the_one_of_the_command(report: Report) -> None:
    """The abstract's gain and interval, and the ladder's length, are those of simcg optimize."""
    study = said("optimize", "--max-chunk", "8192")
    gain = study["gain"]
    low, high = 100 * gain["low"], 100 * gain["high"]
    assert f"by {percent(gain['share'])} (95 % interval" in report.text
    assert f"{low:.1f} to {high:.1f} %" in report.text
    graphs = len(study["answer"]["sizes"])
    default = len(study["default"]["sizes"])
    assert f"{graphs} graphs instead of {default}, {percent(gain['share'])} less" in report.text


def test_running_without_graphs_stands_with_its_condition(report: Report) -> None:
    """How much slower a host may be stands in the abstract, beside the table and at the figure."""
    margin = f"{said('optimize', '--max-chunk', '8192')['no_loss_host_margin']:.1f} times slower"
    assert report.text.count(margin) == 3


def test_few_graphs_do_what_the_default_does(report: Report) -> None:
    """The launch-bound count of graphs, and what running without any would cost."""
    options = ("--max-chunk", "8192", "--model", "gpt-oss-120b", "--hardware", "gb300", "--tp", "4")
    study = said("optimize", *options)
    fewest = len(study["no_loss"]["sizes"])
    times = study["no_graphs"]["mean_step_ns"] / study["default"]["mean_step_ns"]
    assert f"graphs are worth a factor of {times:.1f}" in report.text
    assert f"{fewest} graphs do what the default’s {len(study['default']['sizes'])} do" in (
        report.text.replace("'", "’")
    )


def test_missed_limits_are_counted_and_listed(report: Report) -> None:
    """All limits that simcg validate calls missed are in the report, with what was found."""
    found = said("validate", *map(str, sorted(RUNS.glob("h200-*.jsonl"))))
    missed = [check for check in found["checks"] if not check["holds"]]
    assert f"Of {len(found['checks'])} limits, {len(missed)} are missed" in report.text
    for check in missed:
        assert f"{check['what']} {check['found']} {check['limit']}" in report.text


def test_gains_between_ladders_are_the_measured_ones(report: Report) -> None:
    """Each comparison of ladders prints its measured and its predicted gain."""
    found = said("validate", *map(str, sorted(RUNS.glob("h200-*.jsonl"))))
    for one in found["decisions"]:
        row = f"{one['ours']} ({one['graphs'][0]}) {one['theirs']} ({one['graphs'][1]}) "
        assert f"{row}{100 * one['measured']:+.1f} %" in report.text
        assert f"{100 * one['predicted']:+.1f} %" in report.text
    inside = sum(one["low"] <= one["predicted"] <= one["high"] for one in found["decisions"])
    assert f"in {inside} of the {len(found['decisions'])} comparisons" in report.text


def test_errors_of_the_reproduction_are_the_commands(report: Report) -> None:
    """Median and worst of the predicted values that follow from no others, and of all."""
    rows = said("reproduce")["rows"]
    predicted = [row for row in rows if row["kind"] == "predicted"]
    every = [abs(row["relative_error"]) for row in predicted]
    errors = [abs(row["relative_error"]) for row in predicted if not row["follows"]]
    median, worst = percent(float(np.median(errors))), percent(max(errors))
    assert f"the other {len(errors)} the median error is {median}" in report.text
    assert f"over all {len(every)} the median is {percent(float(np.median(every)))}" in report.text
    assert f"Of {len(errors)} published values that nothing was fitted to" in report.text
    assert report.text.count(f"the worst {worst}") == 2
    times = [abs(r["relative_error"]) for r in predicted if not r["follows"] and r["id"][0] != "M"]
    without = f"over the {len(times)} without the rows M the median is"
    assert f"{without} {percent(float(np.median(times)))}, above the target" in report.text
    assert np.median(times) > PREDICTED_MEDIAN_LIMIT
    changed = [not row["follows"] for row in predicted if row["changed"]]
    assert f"For {sum(changed)} of them the model was changed" in report.text
    assert f"for {len(changed)} of the {len(every)} the model was changed" in report.text
    for row in rows:
        if row["kind"] in ("fitted", "predicted"):
            assert f"{row['id']} {row['kind']}" in report.text


def test_errors_on_silicon_are_the_kept_ones(report: Report) -> None:
    """Both medians, beside those of the other estimator."""
    total = json.loads((PAPERS / "data" / "silicon.json").read_text(encoding="utf-8"))["total"]
    ours, theirs = total["simcg"], total["aiconfigurator"]
    assert f"the median error is {percent(ours['tpot_median'])} of TPOT" in report.text
    assert f"{percent(ours['ttft_median'])} of TTFT" in report.text
    tpot, ttft = percent(theirs["tpot_median"]), percent(theirs["ttft_median"])
    assert f"own estimates are off by {tpot} and {ttft}" in report.text


def test_gains_on_traces_are_the_committed_ones(report: Report) -> None:
    """The largest gain, and how many intervals lie above zero, counted again."""
    certain = sum(float(one["low"]) > 0 for one in gains())
    largest = max(float(one["gain"]) for one in gains())
    assert f"The largest is {percent(largest)}, and {certain} of {len(gains())}" in report.text


def test_bucket_edges_are_counted_as_printed(report: Report) -> None:
    """Rows of the policy benchmark whose interval for the mean excludes zero."""
    text = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    block = text.partition("python -m benchmarks.bench_policy")[2].partition("```text\n")[2]
    rows = block.partition("\n```")[0].splitlines()[1:]
    bounds = [re.findall(r"\(\s*([+-][\d.]+) to\s+([+-][\d.]+)\)", row)[0] for row in rows]
    better = sum(float(low) > 0 for low, _ in bounds)
    worse = sum(float(high) < 0 for _, high in bounds)
    assert f"over {len(rows)} rows of workload" in report.text
    assert f"is better in {better} (by" in report.text
    assert f"worse in {worse} (by" in report.text


def test_padding_of_powers_of_two_is_what_it_is(report: Report) -> None:
    """Padded over real tokens of the ladder 1, 2, 4 .. 8192, size by size."""
    sizes = range(1, 8193)
    padded = [1 << (n - 1).bit_length() for n in sizes]
    uniform = sum(padded) / sum(sizes) - 1
    inverse = sum(t / n for t, n in zip(padded, sizes, strict=True)) / len(sizes) - 1
    assert f"powers of two 14 {percent(uniform, 2)} {percent(inverse, 2)}" in report.text


def test_captions_say_what_the_figures_show() -> None:
    """Without graphs the compute-bound step is shorter than the default's, and the solver is faster
    than four layers of the textbook recurrence.
    """
    study = said("optimize", "--max-chunk", "8192")
    assert study["no_graphs"]["mean_step_ns"] < study["default"]["mean_step_ns"]
    text = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    (textbook,) = re.findall(r"textbook .*K = 4 only\s+([\d.]+)", text)
    solved = re.findall(r"solve, .*N = 8,192, all K <= 64\s+([\d.]+)", text)
    assert len(solved) == 4
    assert max(map(float, solved)) < float(textbook)


def prose(source: str) -> Iterator[str]:
    """What a reader sees of a section's own text, line by line: no code, formulas, names, keys."""
    text = re.sub(r"(?m)//.*$|^#(let|import|show|set|grid|columns).*$", "", source)
    text = re.sub(r"\$[^$]*\$|`[^`]*`|<[\w-]+>|@[\w-]+", "", text, flags=re.DOTALL)
    text = re.sub(r"#[a-z]+(\.[a-z_0-9]+)+(\([^)]*\))?", "", text)
    yield from NAMES.sub("", text).splitlines()


@pytest.mark.parametrize("path", SECTIONS, ids=lambda path: path.stem)
def test_no_number_is_typed_by_hand(path: Path) -> None:
    """A section's sentences hold no number; layout (lengths, fractions, column counts) may."""
    typed = {
        (number, line.strip())
        for line in prose(path.read_text(encoding="utf-8"))
        for number in NUMBER.findall(LAYOUT.sub("", line))
    }
    assert not typed


def test_typed_numbers_would_be_found() -> None:
    """The law above sees a share, a time and a count in a sentence, and no part of a name."""
    source = "It gains 4.1 % on Qwen3-8B, T4 says; #o.gain of $x^2$ in 12 ms over 1,024 steps."
    (line,) = prose(source)
    assert NUMBER.findall(line) == ["4.1", "12", "1,024"]


def test_every_source_is_listed(report: Report) -> None:
    """The references have as many numbers as references.bib has entries, each cited one among
    them; a key that no entry has ends the build.
    """
    bib = (PAPERS / "references.bib").read_text(encoding="utf-8")
    entries = set(re.findall(r"(?m)^@\w+\{([^,]+),", bib))
    text = "\n".join(path.read_text(encoding="utf-8") for path in SECTIONS)
    cited = set(re.findall(r"@([\w-]+)", text)) - set(re.findall(r"<([\w-]+)>", text))
    assert len(cited) > 20
    assert cited <= entries
    listed = report.text.rpartition("References")[2]
    numbers = {int(number) for number in re.findall(r"\[(\d+)\]", listed)}
    assert numbers == set(range(1, len(entries) + 1))


def test_equal_sources_give_equal_bytes(report: Report, tmp_path: Path) -> None:
    """Setting the same pages again gives the same file."""
    typeset(report.folder, tmp_path / "again.pdf")
    assert (tmp_path / "again.pdf").read_bytes() == report.pdf.read_bytes()


def test_the_committed_report_is_what_the_sources_say(report: Report) -> None:
    """Where this fails: python -m papers.build."""
    assert words(PAPERS / "report.pdf") == report.text
