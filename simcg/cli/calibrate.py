"""``simcg calibrate``: a profile of the GPU at hand, measured in a process of its own."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import click

from simcg.cli.child import check_output, require_torch, run_child
from simcg.errors import require
from simcg.model.catalog import load_architecture

WORKS_WITHOUT = (
    "optimize, compare, ladder, workload, model and validate work without, with the built-in "
    "profiles or one from another machine"
)
SECTION = re.compile(r"section (\d+)/(\d+) [^:]*: (.*)")
"""How real_gpu.calibrate says that it is done with a section."""


@click.command("calibrate")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    metavar="PROFILE.json",
    help="The profile to write.",
)
@click.option(
    "--model",
    multiple=True,
    metavar="NAME|FILE",
    help="Whose kernels to time; "
    "repeatable.  [default: qwen3-8b, llama-3.1-8b, qwen3-30b-a3b, gpt-oss-20b]",
)
@click.option("--name", help="The profile's name.  [default: the GPU's]")
@click.option(
    "--raw",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="RAW.json",
    help="Keep the measurements themselves too.",
)
@click.option("--quick", is_flag=True, help="Three points a curve: does it run here?")
def command(
    out: Path, model: tuple[str, ...], name: str | None, raw: Path | None, quick: bool
) -> int:
    """Measure what this GPU and its host cost, in under five minutes on an H200.

    \b
    Examples:
      simcg calibrate --out mine.json
      simcg calibrate --model qwen3-8b --model my/config.json --out mine.json
    """  # fmt: skip
    check_output("--out", out)
    if raw is not None:
        check_output("--raw", raw)
        require(raw.resolve() != out.resolve(), "--raw", "", str(raw), "another file than --out")
    for one in model:
        load_architecture(one)  # a mistyped name is told before anything is measured
    require_torch(WORKS_WITHOUT)
    arguments = ["--out", str(out)]
    for flag, values in (("--model", model), ("--name", (name,)), ("--raw", (raw,))):
        for value in values:
            arguments += [flag, str(value)] if value is not None else []
    return _measured([*arguments, *(["--quick"] if quick else [])])


def _measured(arguments: list[str]) -> int:
    """The exit code; sections move a bar on a terminal, other lines are printed."""
    call = [sys.executable, "-m", "real_gpu.calibrate", *arguments]
    with progress() as bar:
        return run_child(call, partial(_follow, bar))


def _follow(bar: Bar, lines: Iterable[str]) -> None:
    for line in lines:
        done = SECTION.match(line)
        if done is None:
            bar.tell(line.rstrip())
        else:
            bar.step(int(done[1]), int(done[2]), done[3])


class Bar(Protocol):
    """Where a run stands."""

    def step(self, number: int, of: int, name: str) -> None:
        """So many sections of all are done."""

    def tell(self, line: str) -> None:
        """A line for the user."""


class Quiet:
    """No bar: only what the user must know."""

    def step(self, number: int, of: int, name: str) -> None:
        """Nothing."""

    def tell(self, line: str) -> None:
        """On standard output."""
        click.echo(line)


class OnTerminal:
    """A bar on standard error."""

    def __init__(self, rich: Any) -> None:
        self._rich, self._task = rich, rich.add_task("starting", total=None)

    def step(self, number: int, of: int, name: str) -> None:
        """Move the bar."""
        self._rich.update(self._task, completed=number, total=of, description=name)

    def tell(self, line: str) -> None:
        """Above the bar."""
        self._rich.console.print(line, highlight=False, markup=False)


@contextmanager
def progress() -> Iterator[Bar]:
    """A bar where standard error is a terminal."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield Quiet()
        return
    from rich.console import Console  # noqa: PLC0415  # only here
    from rich.progress import Progress  # noqa: PLC0415

    with Progress(console=Console(stderr=True), transient=True) as rich:
        yield OnTerminal(rich)
