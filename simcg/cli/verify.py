"""``simcg verify``: is a replay equal to eager?"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click
from rich.console import Console

from simcg.cli.options import json_option
from simcg.cli.show import console, print_json
from simcg.errors import require

if TYPE_CHECKING:
    from simcg.report.verify import Proved, Verified


@click.command("verify")
@click.option("--recording", metavar="FILE",
              help="Recordings of captures, as real_gpu.audit writes them.")  # fmt: skip
@click.option("--ladder", metavar="FILE", help="A ladder with its rule and limits (JSON): which "
              "batches run eager, and which are padded most.")  # fmt: skip
@click.option("--deep", is_flag=True, help="Explore as far as is reachable: about 20 minutes.")
@click.option("--mutant", metavar="NAME", help="Tell how this wrong system is caught.")
@click.option(
    "--jobs", type=click.IntRange(min=1), help="Processes (default: the cores there are)."
)
@json_option
def command(  # noqa: PLR0917 - one a flag
    recording: str | None,
    ladder: str | None,
    deep: bool,
    mutant: str | None,
    jobs: int | None,
    as_json: bool,
) -> int:
    """Check that replay equals eager: in the formal model, for a recording, or for a ladder.

    Without FILE the model is explored: every program, ladder, order of captures and step of small
    scopes; lemmas are proved by z3; and wrong systems (mutants) are seen to be caught.

    Exit code 1 if an invariant is violated, or if batches within the ladder's limits run eager
    unasked. What a recording does not show is "not decided".

    \b
    A ladder's file, of which only sizes (or buckets, pairs of tokens and slots) must be given:
      {"sizes": [1, 2, 4, 8, 16], "rule": {"max_ratio": 2, "eager_ranges": [[1, 1]]},
       "max_tokens": 17, "max_requests": 8, "align": 8, "query_len": 1}

    \b
    Example:
      simcg verify
      simcg verify --mutant "smaller bucket"
      simcg verify --recording capture.json
      simcg verify --ladder ladder.json
    """
    asked = {"--recording": recording, "--ladder": ladder, "--mutant": mutant, "--deep": deep}
    given = [name for name, value in asked.items() if value]
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)}: one at a time")
    if ladder is not None:
        return _ladder(ladder, as_json)
    if recording is not None:
        return _recording(recording, as_json)
    if mutant is not None:
        return _mutant(mutant, as_json)
    return _model(deep, jobs, as_json)


def _model(deep: bool, jobs: int | None, as_json: bool) -> int:
    from simcg.formal.scopes import DEEP, DEFAULT, WHY_NO_DEEPER  # noqa: PLC0415  # other modes
    from simcg.formal.verification import hunted, verify  # noqa: PLC0415
    from simcg.report import verify as told  # noqa: PLC0415

    jobs = jobs or len(os.sched_getaffinity(0))
    with _progress() as shown:
        stages = verify(DEEP if deep else DEFAULT, jobs, shown("exploring"))
        hunts = hunted(jobs, shown("mutants"))
        verified = told.Verified(stages, _proved(), hunts)
    if as_json:
        print_json(told.as_json(verified))
        return int(bool(verified.failures))
    _print_model(verified)
    if deep:
        console().print(WHY_NO_DEEPER, markup=False)
    return int(bool(verified.failures))


def _print_model(verified: Verified) -> None:
    from simcg.report import verify as told  # noqa: PLC0415
    from simcg.report.tables import plain_table  # noqa: PLC0415

    out = console()
    invariants = ("invariant", "checked by", "seen", "mutants", "")
    out.print(plain_table(invariants, told.invariant_rows(verified)))
    out.print()
    stages = ("explored", "programs", "settings", "checked", "CPU s")
    out.print(plain_table(stages, told.stage_rows(verified.stages)))
    for result in verified.stages:
        out.print(f"{result.stage.name}: {told.scope_words(result.stage)}", markup=False)
    out.print(told.rate_line(verified.stages), markup=False)
    out.print()
    if verified.proved is None:
        out.print("lemmas: not proved, as z3 is not installed: pip install 'simcg[verify]'",
                  markup=False)  # fmt: skip
    else:
        lemmas = ("lemma", "invariant", "kind", "ms", "")
        out.print(plain_table(lemmas, told.lemma_rows(verified.proved)))
    out.print()
    mutants = ("mutant", "killed by", "and by", "after checks")
    out.print(plain_table(mutants, told.mutant_rows(verified.hunts)))
    out.print()
    failed = verified.seen.failed
    for line in told.story(failed) if failed else ():
        out.print(line, markup=False)
    for line in verified.failures or ["no violation: in these scopes every replay equals eager"]:
        out.print(line, markup=False)


def _proved() -> Proved | None:
    """Every lemma with z3's answer; None without z3."""
    if find_spec("z3") is None:
        return None
    from simcg.formal.lemmas import LEMMAS  # noqa: PLC0415  # imports z3

    return [(lemma, lemma.prove()) for lemma in LEMMAS]


@contextmanager
def _progress() -> Iterator[Callable[[str], Callable[[int, int], None]]]:
    """Bars on a terminal; what is given makes one."""
    from rich.progress import Progress  # noqa: PLC0415

    screen = Console(stderr=True)
    with Progress(console=screen, disable=not screen.is_terminal, transient=True) as bars:

        def named(name: str) -> Callable[[int, int], None]:
            bar = bars.add_task(name, total=None)
            return lambda done, of: bars.update(bar, completed=done, total=of)

        yield named


def _mutant(name: str, as_json: bool) -> int:
    from simcg.formal.mutants import MUTANTS  # noqa: PLC0415
    from simcg.formal.mutants.hunt import hunt  # noqa: PLC0415
    from simcg.report.verify import as_json_mutant, mutant_lines  # noqa: PLC0415

    require(name in MUTANTS, "--mutant", "", name, "one of " + ", ".join(MUTANTS))
    result = hunt(MUTANTS[name])
    if as_json:
        print_json(as_json_mutant(name, result))
    else:
        out = console()
        for line in mutant_lines(name, result):
            out.print(line, markup=False)
    return int(result.first is None and not MUTANTS[name].equivalent)


def _recording(path: str, as_json: bool) -> int:
    from simcg.report.recording_check import (  # noqa: PLC0415  # other modes do without
        baked_lines,
        checked,
        conclusion,
        report_json,
        table_rows,
        told,
    )

    recordings, report = checked(path)
    if as_json:
        print_json(report_json(recordings, report))
        return int(report.violated)
    from simcg.report.tables import plain_table  # noqa: PLC0415  # JSON does not need it

    out = console()
    out.print(f"{path}: {len(recordings.captures)} captures on {recordings.device}, "
              f"torch {recordings.torch}", markup=False, soft_wrap=True)  # fmt: skip
    out.print(plain_table(("", "invariant", "cases", "verdict"), table_rows(report)))
    for line in (*baked_lines(report), *told(report), "", conclusion(report)):
        out.print(line, markup=False)
    return int(report.violated)


def _ladder(path: str, as_json: bool) -> int:
    from simcg.formal.ladder_check.check import check_ladder  # noqa: PLC0415  # z3: this mode alone
    from simcg.formal.ladder_check.read import read_question  # noqa: PLC0415
    from simcg.report import ladder_check as told  # noqa: PLC0415

    report = check_ladder(read_question(path))
    if as_json:
        print_json(told.report_json(report))
        return int(not report.good)
    out = console()
    out.print(f"{path}: {told.heading(report)}", markup=False, soft_wrap=True)
    out.print(told.table(report))
    for line in (*told.notes(report), told.proof_line(report), "", told.verdict(report)):
        out.print(line, markup=False)
    return int(not report.good)
