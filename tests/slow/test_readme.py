"""Commands and tables of the documents are what they give today."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.example_files import ROOT, write_example_files
from tests.studies import run_cli

pytest.importorskip("z3", reason="z3 is not installed: pip install '.[verify]'")

from scripts.make_readme import filled

README = ROOT / "README.md"
DOCUMENTS = [*ROOT.glob("*.md"), *(path for folder in ("benchmarks", "notebooks", "papers", "tests")
             for path in (ROOT / folder).glob("*.md"))]  # fmt: skip
ELSEWHERE = {
    "python3 -m venv": "test_the_first_command_works_in_a_fresh_environment",
    "scripts/test": "what runs this test",
    "simcg calibrate": "needs a GPU: tests/gpu/test_calibrate.py",
    "simcg measure --hardware": "needs a GPU: tests/gpu/test_measure.py",
    "simcg verify   ": "tests/slow/test_formal_deep.py",
    "pip install": "scripts/test, which installs the extras",
    "python -m papers.build": "tests/slow/test_papers.py",
}
"""Where commands are tested that are not run here, by their beginnings."""


def lines() -> list[str]:
    """Every line of every sh block."""
    blocks = [
        block
        for path in DOCUMENTS
        for block in re.findall(r"```sh\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)
    ]
    return [line for block in blocks for line in block.splitlines() if line]


def here(line: str) -> bool:
    return not line.startswith(tuple(ELSEWHERE))


def test_every_exception_is_one() -> None:
    """No beginning is listed that no command has."""
    assert all(any(line.startswith(start) for line in lines()) for start in ELSEWHERE)


@pytest.mark.parametrize("line", sorted({line for line in lines() if here(line)}))
def test_a_command_runs(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder with the files that it names; pictures and results that it names are there."""
    write_example_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    name, *words = shlex.split(line, comments=True)
    assert name == "simcg"
    ran = run_cli(*words)
    missed = words[0] == "validate"  # the committed runs miss some stated limits
    assert (ran.code, ran.err) == (int(missed), "")
    assert ran.out
    for file in re.findall(r"--(?:plot|out|timeline) (\S+)", line):
        assert (tmp_path / file).stat().st_size > 1000


def test_the_tables_of_the_readme_are_made_from_data() -> None:
    """python scripts/make_readme.py would change nothing."""
    text = README.read_text(encoding="utf-8")
    assert filled(text) == text


def test_what_the_main_command_says_is_what_it_says() -> None:
    """Each line of the README's shortened output stands in the output, up to where it is cut."""
    text = README.read_text(encoding="utf-8")
    shown = re.search(r"prints, shortened:\n\n```text\n(.*?)```", text, re.DOTALL)
    assert shown
    said = " ".join(run_cli("optimize", "--max-chunk", "8192").out.split())
    for line in shown[1].splitlines():
        words = " ".join(line.removesuffix("...").split())
        assert words in said, line


def test_the_first_command_works_in_a_fresh_environment(tmp_path: Path) -> None:
    """Without what only tests need: as written, in a copy of the sources."""
    for name in ("simcg", "real_gpu"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, tmp_path / name)
    (line,) = (line for line in lines() if line.startswith("python3 -m venv"))
    line = line.replace("python3", shlex.quote(sys.executable), 1)
    command = ["bash", "-c", line]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "flags of sglang" in ran.stdout
