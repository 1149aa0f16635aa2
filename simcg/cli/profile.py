"""``simcg profile``: profiles from measured tables; what a profile holds; two beside each other."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from simcg.cli.options import json_option
from simcg.cli.show import console, print_json, stages
from simcg.hardware.catalog import load_profile


@click.group("profile")
def command() -> None:
    """Profiles: what they hold, how two differ, and new ones from measured kernel tables.

    \b
    Example:
      simcg profile show gb300
    """


@command.command("show")
@click.argument("name")
@json_option
def show(name: str, as_json: bool) -> None:
    """What profile NAME (or a file) holds, and how well each part is known.

    \b
    Example:
      simcg profile show gb300
    """
    from simcg.hardware.contents import sections  # noqa: PLC0415  # each subcommand its own

    profile = load_profile(name)
    found = sections(profile)
    if as_json:
        print_json(
            {
                "name": profile.name,
                "description": profile.description,
                "environment": profile.environment,
                "gpu": profile.gpu,
                "host": profile.host,
                "gaps": profile.gaps,
                "burst": profile.burst,
                "sections": [asdict(section) for section in found],
            }
        )
        return
    from simcg.report.profiles import contents_table, figures_table  # noqa: PLC0415

    out = console()
    out.print(profile.description)
    for key, value in profile.environment.items():
        out.print(f"{key}: {value}", style="dim")
    out.print()
    out.print(contents_table(found))
    out.print()
    out.print(figures_table(profile))


@command.command("diff")
@click.argument("first")
@click.argument("second")
@json_option
def diff(first: str, second: str, as_json: bool) -> None:
    """What profile SECOND costs over FIRST: host, gaps and GPU, then kernels by family of ops.

    Kernels: ratios of the same ops of five models at the same sizes. Fused expert layers are
    compared whole, with the gaps between their kernels.

    \b
    Example:
      simcg profile diff h200 h200-sglang
    """
    from simcg.cost.differences import differences  # noqa: PLC0415
    from simcg.hardware.contents import paired_figures  # noqa: PLC0415

    one, two = load_profile(first), load_profile(second)
    found, pairs = differences(one, two), paired_figures(one, two)
    from simcg.report import profiles as tables  # noqa: PLC0415

    if as_json:
        kernels = [asdict(one) | {"ratio": one.worst.ratio} for one in found]
        print_json({"figures": [tables.pair_json(p) for p in pairs], "kernels": kernels})
        return
    out = console()
    out.print(f"{second} over {first}")
    out.print()
    equal = sum(not pair.differs for pair in pairs)
    if equal < len(pairs):
        out.print(tables.pairs_table(pairs))
    out.print(f"{equal} of {len(pairs)} figures of host, gaps and GPU are equal", style="dim")
    out.print()
    out.print(tables.differences_table(found))
    out.print()
    out.print(tables.grounds_table(found))


@command.command("import")
@click.argument("path", metavar="PATH_OR_PACKAGE")
@click.option("--system", required=True, help="A system of the tables, such as gb300 or h200.")
@click.option("--framework", required=True, type=click.Choice(["sglang", "vllm", "trtllm"]),
              help="Whose kernels.")  # fmt: skip
@click.option("--version", help="Tables no newer than this.  [default: the newest]")
@click.option("--base", default="h200", show_default=True,
              help="Profile that what the tables lack is taken from.")  # fmt: skip
@click.option("--out", required=True, type=click.Path(dir_okay=False, path_type=Path),
              help="The profile to write.")  # fmt: skip
@json_option
def import_(  # noqa: PLR0917  # click passes them by name
    path: str,
    system: str,
    framework: str,
    version: str | None,
    base: str,
    out: Path,
    as_json: bool,
) -> None:
    """A profile from the measured kernel tables of the package aiconfigurator-core.

    PATH_OR_PACKAGE: its wheel, a directory with its contents, or its name where it is installed
    (pip install 'simcg[silicon]' aiconfigurator-core).

    \b
    Example:
      simcg profile import aiconfigurator_core --system gb300 --framework sglang --out gb300.json
    """
    from simcg.silicon.build import import_profile  # noqa: PLC0415
    from simcg.silicon.source import open_source  # noqa: PLC0415
    from simcg.silicon.write import write_profile  # noqa: PLC0415

    with stages() as notify:
        notify("reading")
        source = open_source(path)
        profile, notes = import_profile(source, system, framework, version, load_profile(base))
        write_profile(profile, out)
    if as_json:
        print_json(
            {"profile": str(out), "name": profile.name, "tables": [asdict(n) for n in notes]}
        )
        return
    from simcg.report.profiles import notes_table  # noqa: PLC0415

    screen = console()
    screen.print(f"{out}: {profile.description}")
    screen.print()
    screen.print(notes_table(notes))
    screen.print()
    screen.print(
        "host: rows that timed the launch instead of the kernel. order: rows slower than 1.5 times "
        "a row that is larger or equal in every size; they count as that one. held out: what sizes "
        "interpolated at twice the spacing are off, 50, 68 and 95 % of them by less."
    )
