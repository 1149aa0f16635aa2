"""``simcg verify``: what it prints, its exit codes, what it imports, and the README's table."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from simcg.cli import verify as cli
from simcg.errors import InputError
from simcg.formal import scopes
from simcg.formal.audit.check import check
from simcg.formal.invariants import INVARIANTS
from simcg.formal.mutants import MUTANTS
from simcg.formal.mutants.hunt import Hunt
from simcg.formal.mutants.named import mutant_named
from simcg.formal.scopes import DEFAULT
from simcg.formal.verification import StageResult
from simcg.formal.violation import Violation
from simcg.report.verify import (
    INVARIANT_COLUMNS,
    LEMMA_COLUMNS,
    MUTANT_COLUMNS,
    Verified,
    scope_words,
)
from tests.recordings import clean
from tests.studies import run_cli
from tests.wrong_recordings import WRONG

README = Path(__file__).parents[2] / "README.md"


def simcg(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "simcg", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_table_of_the_readme_is_the_one_that_the_code_makes() -> None:
    pytest.importorskip("z3", reason="z3 is not installed: pip install '.[verify]'")
    from simcg.report.properties import properties_table  # noqa: PLC0415  # needs z3

    assert properties_table() in README.read_text(encoding="utf-8")


def test_every_invariant_has_a_file_that_checks_it() -> None:
    pytest.importorskip("z3", reason="z3 is not installed: pip install '.[verify]'")
    from simcg.report.properties import files_of  # noqa: PLC0415  # needs z3

    for key in INVARIANTS:
        assert list(files_of(key)), key


def test_a_mutant_is_told_as_a_story() -> None:
    done = simcg("verify", "--mutant", "slot zero as the sink")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("slot zero as the sink: ")
    told = done.stdout
    for part in ("program: ", "captured in this order: ", "replays the capture of", "=> I8 "):
        assert part in told
    assert max(map(len, lines)) <= 100


def test_a_mutant_as_json_names_its_invariants() -> None:
    done = simcg("verify", "--mutant", "smaller bucket", "--json")
    report = json.loads(done.stdout)
    assert report["first"] == "I10"
    assert report["counterexample"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--mutant", "no such"], "--mutant: got 'no such'"),
        (["--mutant", ""], "--mutant: got ''"),
        (["--ladder", ""], "--ladder: got '', expected a file's path"),
        (["--recording", ""], "--recording: got '', expected a file's path"),
        (["--deep", "--ladder", "x.json"], "--ladder and --deep: one at a time"),
        (["--jobs", "0"], "0 is not in the range"),
        (["--jobs", "2", "--mutant", "smaller bucket"], "--jobs and --mutant"),
    ],
)
def test_bad_options_are_one_line(arguments: list[str], words: str) -> None:
    done = simcg("verify", *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("name", MUTANTS)
def test_a_name_that_is_nearly_a_mutant_s_is_told_it(name: str) -> None:
    """In other case, or with a letter left out; the line stays short."""
    for wrong in (name.upper(), name[:-1], f"{name}s"):
        with pytest.raises(InputError) as error:
            mutant_named(wrong)
        assert f"did you mean {name!r}?" in str(error.value)
        assert "--mutant list" in str(error.value)
        assert len(str(error.value)) < 300
    assert mutant_named(name) is MUTANTS[name]


def test_the_list_names_every_mutant_on_a_line_of_its_own() -> None:
    """And no mutant has the list's name."""
    assert "list" not in MUTANTS
    text, shown = (
        run_cli("verify", "--mutant", "list"),
        run_cli("verify", "--mutant", "list", "--json"),
    )
    assert (text.code, shown.code) == (0, 0)
    assert text.out.splitlines() == [f"{m.name}: {m.stands_for}" for m in MUTANTS.values()]
    assert [one["name"] for one in json.loads(shown.out)] == list(MUTANTS)


def test_several_mutants_are_all_told() -> None:
    names = ["smaller bucket", "guard forgotten"]
    asked = [word for name in names for word in ("--mutant", name)]
    text, shown = run_cli("verify", *asked), run_cli("verify", *asked, "--json")
    assert (text.code, shown.code) == (0, 0)
    assert [one["name"] for one in json.loads(shown.out)] == names
    assert all(f"\n{name}: " in "\n" + text.out for name in names)
    refused = run_cli("verify", *asked, "--mutant", "none of them")
    assert (refused.code, refused.out) == (2, "")


def test_several_recordings_are_all_checked_and_the_worst_decides(tmp_path: Path) -> None:
    """A violation in the first is not hidden by the last; with a bad file nothing is said."""
    wrong = next(case for case in WRONG.values() if check(case.edit(clean())).violated)
    files = {"good": clean(), "bad": wrong.edit(clean())}
    for name, recordings in files.items():
        (tmp_path / name).write_bytes(msgspec.json.encode(recordings))
    for order in (["good", "bad"], ["bad", "good"]):
        asked = [word for name in order for word in ("--recording", str(tmp_path / name))]
        text, shown = run_cli("verify", *asked), run_cli("verify", *asked, "--json")
        assert (text.code, shown.code) == (1, 1)
        assert all(f"{tmp_path / name}: " in text.out for name in order)
        assert [one["violated"] for one in json.loads(shown.out)] == [n == "bad" for n in order]
        refused = run_cli("verify", *asked, "--recording", str(tmp_path / "none"))
        assert (refused.code, refused.out) == (2, "")


def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """One stage, of programs of one operator."""
    stage = replace(DEFAULT[0], scope=replace(DEFAULT[0].scope, ops=1, tokens=2, ends=True))
    monkeypatch.setattr(scopes, "DEFAULT", (stage,))
    monkeypatch.setattr("simcg.formal.verification.MUTANTS", {
        name: MUTANTS[name] for name in ("smaller bucket", "offsets of unused slots are zero")
    })  # fmt: skip


def test_a_premise_that_never_occurred_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """This narrow scope has no ranks and no traces: what holds of nothing is not said to hold."""
    few(monkeypatch)
    done = CliRunner().invoke(cli.command, ["--jobs", "1"], standalone_mode=False)
    assert done.return_value == 1
    assert "I19 collective lockstep: its premise never occurred" in done.output
    assert "smaller bucket" in done.output
    for columns in (INVARIANT_COLUMNS, LEMMA_COLUMNS, MUTANT_COLUMNS):
        assert columns in done.output
    assert max(len(line.rstrip()) for line in done.output.splitlines()) <= 100


def test_without_z3_the_lemmas_are_said_to_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    few(monkeypatch)
    monkeypatch.setattr(cli, "find_spec", lambda _name: None)
    done = CliRunner().invoke(cli.command, ["--jobs", "1"], standalone_mode=False)
    line = "lemmas: not proved, as z3 is not installed: pip install 'simcg[verify]'"
    assert line in done.output
    shown = CliRunner().invoke(cli.command, ["--jobs", "1", "--json"], standalone_mode=False)
    assert json.loads(shown.output)["lemmas"] is None


def test_the_model_never_imports_torch() -> None:
    code = (
        "import sys, simcg.cli.verify, simcg.formal.verification, simcg.report.verify; "
        "print([m for m in sys.modules if m.split('.')[0] in {'torch', 'real_gpu', 'z3'}])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_violation_and_a_survivor_are_failures() -> None:
    result = StageResult(DEFAULT[0])
    result.tally.witnesses.update(dict.fromkeys(INVARIANTS, 1))
    name = next(name for name, mutant in MUTANTS.items() if not mutant.equivalent)
    assert Verified([result], None, {}).failures == []
    assert Verified([result], None, {name: Hunt(3)}).failures == [f"mutant not killed: {name}"]
    result.tally.failed = Violation("I4", "row 0 is stale")
    failures = Verified([result], None, {}).failures
    assert failures == ["I4 reaching definition: row 0 is stale"]


def test_scopes_are_told_apart() -> None:
    assert len({scope_words(stage) for stage in DEFAULT}) == len(DEFAULT)
