"""The `simcg` command: finds the subcommand, turns errors into one line and an exit code."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import NoReturn

import click

from simcg import __version__
from simcg.errors import SimcgError

COMMANDS = {
    "optimize": "The ladder for your traffic, its proof, and flags to paste.",
    "compare": "Given ladders beside the engine's default, on the same steps.",
    "ladder": "What an engine or a rule captures by default.",
    "workload": "What is in a trace: requests, and the steps made of them.",
    "model": "The ops of a model's forward that are priced.",
    "calibrate": "Measure a profile of this GPU and its host.",
    "measure": "Run steps, captures and a server on this GPU, to compare.",
    "validate": "Predictions of a profile beside what was measured.",
    "reproduce": "Published results beside simulated ones.",
    "simulate": "One server under load: latency, throughput, memory.",
    "sweep": "Simulate many configurations, on all cores or Dask.",
    "profile": "Show, compare and import hardware profiles.",
    "verify": "Prove or refute that replay equals eager.",
}
"""Each subcommand in one line of the help, which fits 80 columns."""


class LazyGroup(click.Group):
    """Imports a subcommand's module when it is asked for, so that the others cost nothing."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        """The subcommands in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The subcommand of that name, None if there is none."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"simcg.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The subcommands with their lines, none of them imported."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="simcg")
def app() -> None:
    """Choose, price and prove CUDA-graph capture ladders for LLM serving.

    \b
    Example:
      simcg optimize --max-chunk 8192 --model gpt-oss-120b --hardware gb300 --tp 4
    """


def main() -> None:
    """Run the command line; exit code 2 and one line for anything a user can get wrong."""
    if sys.stdout is None:  # closed by the caller
        _fail("standard output: it is closed, expected an open file or pipe", 2)
    if isinstance(sys.stdout, io.TextIOWrapper):  # an ASCII terminal must not end in a traceback
        sys.stdout.reconfigure(errors="replace")
    try:
        code = app.main(standalone_mode=False) or 0
        sys.stdout.flush()
    except SimcgError as error:
        _fail(str(error), 2)
    except click.exceptions.NoArgsIsHelpError as error:
        with suppress(OSError):
            error.show()
        code = 2
    except click.ClickException as error:
        _fail(error.format_message(), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        _fail("interrupted", 130)
    except (BrokenPipeError, SystemExit):
        # the reader, such as head, has seen enough; click and rich then exit by themselves
        _discard_output()
        code = 0
    except OSError as error:  # a full disk: files that are read have errors of their own
        _discard_output()
        _fail(f"{error.filename or 'standard output'}: {error.strerror or error}", 2)
    sys.exit(code)


def _discard_output() -> None:
    """Drop what is still buffered: Python would fail again when it flushes at its end."""
    with suppress(io.UnsupportedOperation):  # a stream in memory has nothing to drop
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(text: str, code: int) -> NoReturn:
    one_line = " ".join(text.split())
    with suppress(OSError):  # where standard error is full, the exit code remains
        click.echo(f"simcg: error: {one_line}", err=True)
    sys.exit(code)
