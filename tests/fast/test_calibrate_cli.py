"""``simcg calibrate`` as a user meets it, with and without what it needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

import simcg.cli.calibrate as cli
from simcg.cli import child
from simcg.errors import SimcgError


def run(*arguments: str) -> Any:
    """The command's exit code, or the error that the command line would print."""
    return cli.command.main(list(arguments), standalone_mode=False)


def speaking(monkeypatch: pytest.MonkeyPatch, text: str, code: int = 0) -> list[list[str]]:
    """A child that prints ``text`` instead of measuring; the calls that were made for it."""
    calls: list[list[str]] = []
    real = subprocess.Popen

    def popen(call: list[str], **options: Any) -> Any:
        calls.append(call)
        return real([sys.executable, "-c", f"print({text!r}); raise SystemExit({code})"], **options)

    monkeypatch.setattr(subprocess, "Popen", popen)
    monkeypatch.setattr(child, "find_spec", lambda _: object())
    return calls


def test_without_torch_it_says_what_to_install_and_what_works(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One line; nothing is written."""
    monkeypatch.setattr(child, "find_spec", lambda _: None)
    with pytest.raises(SimcgError, match=r"torch: got no such package, .*\.\[gpu\].*optimize"):
        run("--out", str(tmp_path / "p.json"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(("--out", "none/p.json"), "none/p.json"), (("--out", "p.json", "--raw", "no/r"), "no/r"),
     (("--out", ""), "folder that exists"), (("--out", "p", "--raw", "./p"), "another file"),
     (("--out", "/proc/p.json"), "can be written"),
     (("--out", "p.json", "--model", "qwen3-9b"), "did you mean qwen3-8b"),
     (("--out", "p.json", "--model", "qwen3-8b", "--model", "x.json"), "x.json")],
)  # fmt: skip
def test_what_cannot_work_is_told_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: tuple[str, ...], says: str
) -> None:
    """Wrong folders and models; no process is started."""
    monkeypatch.chdir(tmp_path)
    calls = speaking(monkeypatch, "")
    with pytest.raises(SimcgError, match=says):
        run(*arguments)
    assert not calls


def test_no_output_file_is_a_usage_error() -> None:
    """--out must be given."""
    with pytest.raises(click.MissingParameter, match="out"):
        run()


def test_options_reach_the_measuring_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each under its own name, models one by one."""
    calls = speaking(monkeypatch, "")
    out, raw = str(tmp_path / "p.json"), str(tmp_path / "r.json")
    run("--out", out, "--model", "qwen3-8b", "--model", "gpt-oss-20b", "--raw", raw,
        "--name", "mine", "--quick")  # fmt: skip
    assert calls == [
        [sys.executable, "-m", "real_gpu.calibrate", "--out", out, "--model", "qwen3-8b",
         "--model", "gpt-oss-20b", "--name", "mine", "--raw", raw, "--quick"]
    ]  # fmt: skip


@pytest.mark.parametrize("code", [0, 2])
def test_sections_move_a_bar_and_the_rest_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: int
) -> None:
    """Without a terminal only failures and results are printed; the exit code is the child's."""
    text = "section 1/2 0.1 s of 1: a\nfailed b: no\nsection 2/2 0.2 s of 1: b\nwritten"
    speaking(monkeypatch, text, code)
    result = CliRunner().invoke(
        cli.command, ["--out", str(tmp_path / "p.json")], standalone_mode=False
    )
    assert result.return_value == code
    assert result.output.splitlines() == ["failed b: no", "written"]


def test_a_bar_shows_where_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal: the number of the section, of how many, and its name."""
    steps: list[tuple[int, int, str]] = []

    class Watched(cli.Quiet):
        def step(self, number: int, of: int, name: str) -> None:
            steps.append((number, of, name))

    monkeypatch.setattr(cli, "Quiet", Watched)
    speaking(monkeypatch, "section 1/2 0.1 s of 1: gemm 4096x6144\nsection 2/2 9.9 s of 7: b c")
    assert cli._measured([]) == 0
    assert steps == [(1, 2, "gemm 4096x6144"), (2, 2, "b c")]
