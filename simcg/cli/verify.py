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
@click.option("--recording", "recordings", multiple=True, metavar="FILE",
              help="Recordings of captures, as real_gpu.audit writes them.")  # fmt: skip
@click.option("--ladder", "ladders", multiple=True, metavar="FILE", help="A ladder with its rule "
              "and limits (JSON): which batches run eager, and which are padded most.")  # fmt: skip
@click.option("--deep", is_flag=True, help="Explore as far as is reachable: about 20 minutes.")
@click.option("--mutant", "mutants", multiple=True, metavar="NAME",
              help='Tell how this wrong system is caught; "list" names all.')  # fmt: skip
@click.option(
    "--jobs", type=click.IntRange(min=1), help="Processes (default: the cores there are)."
)
@json_option
def command(  # noqa: PLR0917 - one a flag
    recordings: tuple[str, ...],
    ladders: tuple[str, ...],
    deep: bool,
    mutants: tuple[str, ...],
    jobs: int | None,
    as_json: bool,
) -> int:
    """Check that replay equals eager: in the formal model, for a recording, or for a ladder.

    Without FILE the model is explored: every program, ladder, order of captures and step of small
    scopes; lemmas are proved by z3; and wrong systems (mutants) are seen to be caught.

    --recording, --ladder and --mutant may be repeated: all are looked at, and with --json they
    are a list. Exit code 1 if in any an invariant is violated, or batches within the ladder's
    limits run eager unasked. What a recording does not show is "not decided".

    Batches run eager unasked, a hole of the ladder, above its top size, where no bucket has their
    slots, and where the guard (max_ratio) refuses them although it lets smaller ones replay. What
    a guard refuses below all that replays is as asked for, and so are eager_ranges.

    \b
    A ladder's file, of which only sizes (or buckets, pairs of tokens and slots; at most 1,024)
    must be given. Without max_tokens nothing above the top size is looked at:
      {"sizes": [1, 2, 4, 8, 16], "rule": {"max_ratio": 2, "eager_ranges": [[1, 1]]},
       "max_tokens": 17, "max_requests": 8, "align": 8, "query_len": 1}
    or the flags of an engine, pasted as they are:
      --cuda-graph-bs-prefill 16 32 64 --chunked-prefill-size 64

    \b
    Example:
      simcg verify
      simcg verify --mutant "smaller bucket"
      simcg verify --recording capture.json
      simcg verify --ladder ladder.json
    """
    asked = {"--recording": recordings, "--ladder": ladders, "--mutant": mutants, "--deep": deep}
    given = [name for name, value in asked.items() if value]
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)}: one at a time")
    if jobs is not None and given not in ([], ["--deep"]):
        raise click.UsageError(f"--jobs and {given[0]}: only the exploration has processes")
    if ladders:
        return _ladders(_files("--ladder", ladders), as_json)
    if recordings:
        return _recordings(_files("--recording", recordings), as_json)
    if mutants == ("list",):
        return _mutant_names(as_json)
    if mutants:
        return _mutants(mutants, as_json)
    return _model(deep, jobs, as_json)


def _files(option: str, paths: tuple[str, ...]) -> tuple[str, ...]:
    for path in paths:
        require(bool(path), option, "", path, "a file's path, or - for standard input")
    return paths


def _print_reports(reports: list[object]) -> None:
    """One report is itself, several are a list."""
    print_json(reports if len(reports) > 1 else reports[0])


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
    out.print(told.INVARIANT_COLUMNS, markup=False)
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
        out.print(told.LEMMA_COLUMNS, markup=False)
    out.print()
    mutants = ("mutant", "killed by", "and by", "after checks")
    out.print(plain_table(mutants, told.mutant_rows(verified.hunts)))
    out.print(told.MUTANT_COLUMNS, markup=False)
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


def _mutants(names: tuple[str, ...], as_json: bool) -> int:
    from simcg.formal.mutants.hunt import hunt  # noqa: PLC0415
    from simcg.formal.mutants.named import mutant_named  # noqa: PLC0415
    from simcg.report.verify import as_json_mutant, mutant_lines, survivors  # noqa: PLC0415

    mutants = [mutant_named(name) for name in names]
    hunts = {mutant.name: hunt(mutant) for mutant in mutants}
    if as_json:
        _print_reports([as_json_mutant(name, result) for name, result in hunts.items()])
        return int(bool(survivors(hunts)))
    out = console()
    for place, (name, result) in enumerate(hunts.items()):
        for line in [""] * (place > 0) + mutant_lines(name, result):
            out.print(line, markup=False)
    return int(bool(survivors(hunts)))


def _mutant_names(as_json: bool) -> int:
    from simcg.formal.mutants import MUTANTS  # noqa: PLC0415

    if as_json:
        print_json([{"name": m.name, "stands_for": m.stands_for} for m in MUTANTS.values()])
        return 0
    out = console()
    for mutant in MUTANTS.values():
        out.print(f"{mutant.name}: {mutant.stands_for}", markup=False, soft_wrap=True)
    return 0


def _recordings(paths: tuple[str, ...], as_json: bool) -> int:
    from simcg.formal.words import counted  # noqa: PLC0415
    from simcg.report.recording_check import (  # noqa: PLC0415  # other modes do without
        baked_lines,
        checked,
        conclusion,
        report_json,
        table_rows,
        told,
    )
    from simcg.workload.source import source_name  # noqa: PLC0415

    found = [(path, *checked(path)) for path in paths]
    bad = any(report.violated for _, _, report in found)
    if as_json:
        _print_reports([report_json(recordings, report) for _, recordings, report in found])
        return int(bad)
    from simcg.report.tables import plain_table  # noqa: PLC0415  # JSON does not need it

    out = console()
    for place, (path, recordings, report) in enumerate(found):
        captures = counted(len(recordings.captures), "capture")
        heading = f"{source_name(path)}: {captures} on {recordings.device}, "
        heading += f"torch {recordings.torch}"
        out.print(chr(10) * (place > 0) + heading, markup=False, soft_wrap=True)
        out.print(plain_table(("", "invariant", "cases", "verdict"), table_rows(report)))
        for line in (*baked_lines(report), *told(report), "", conclusion(report)):
            out.print(line, markup=False)
    return int(bad)


def _ladders(paths: tuple[str, ...], as_json: bool) -> int:
    from simcg.formal.ladder_check.check import check_ladder  # noqa: PLC0415  # z3: this mode alone
    from simcg.formal.ladder_check.read import read_question  # noqa: PLC0415
    from simcg.report import ladder_check as told  # noqa: PLC0415
    from simcg.workload.source import source_name  # noqa: PLC0415

    questions = [read_question(path) for path in paths]  # all before any is checked
    reports = [check_ladder(question) for question in questions]
    bad = not all(report.good for report in reports)
    if as_json:
        _print_reports([told.report_json(report) for report in reports])
        return int(bad)
    out = console()
    for place, (path, report) in enumerate(zip(paths, reports, strict=True)):
        heading = f"{source_name(path)}: {told.heading(report)}"
        out.print(chr(10) * (place > 0) + heading, markup=False, soft_wrap=True)
        out.print(told.table(report))
        for line in (*told.notes(report), told.proof_line(report), "", told.verdict(report)):
            out.print(line, markup=False)
    return int(bad)
