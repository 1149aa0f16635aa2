"""``simcg measure``: real runs on the GPU at hand, in a process of their own."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from simcg.cli.child import check_output, require_torch, run_child
from simcg.cli.options import Sizes
from simcg.errors import require

WORKS_WITHOUT = "all other subcommands work without (validate on committed runs too)"
SECTIONS = ("matrix", "correctness", "peers", "decisions", "serving")
POLICIES = ("prefill-first", "mixed", "bucket-edge", "bucket-edge-mixed")

DEBUG_GRAPH = "debug-graph"


class Names(click.ParamType[tuple[str, ...]]):
    """Names separated by commas, each once."""

    name = "NAMES"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """The names in their order."""
        if isinstance(value, tuple):  # the default
            return value
        names = tuple(word.strip() for word in str(value).split(","))
        if not all(names) or len(set(names)) < len(names):
            self.fail(f"{value!r} is not a list of different names, such as a,b", param, ctx)
        return names


@click.command("measure")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    metavar="RUNS.jsonl",
    help="The file to write.",
)
@click.option(
    "--models",
    type=Names(),
    default=(),
    metavar="NAME|FILE,...",
    help="Built-in models or config.json files.  [default: qwen3-8b, llama-3.1-8b, "
    "qwen3-30b-a3b; on the CPU device a tiny one]",
)
@click.option(
    "--backends",
    type=Names(),
    default=(),
    metavar="NAME,...",
    help="eager, full, breakable, tc_piecewise, tc_piecewise-inductor; debug-graph: correctness "
    "also of the whole forward as one break, which tells whether a fault lies in capture.  "
    "[default: all but debug-graph; on the CPU without Inductor]",
)
@click.option(
    "--tokens",
    type=Sizes(),
    default=(),
    help="Token counts of the matrix.  "
    "[default: 13 sizes up to 8192; on the CPU device 4 small ones]",
)
@click.option(
    "--requests",
    type=Sizes(),
    default=(),
    help="Requests of its batches.  [default: 1,8; on the CPU device 1,2]",
)
@click.option(
    "--trace",
    metavar="FILE|NAME",
    help="Traffic whose steps decide between ladders, or that is served: a "
    "trace or a built-in workload.  [default: no decisions]",
)
@click.option(
    "--ladders",
    type=Names(),
    default=(),
    metavar="NAME,...",
    help="Ladders that simcg's are held against.  [default: sglang, vllm, tokenspeed, "
    "powers-of-two, no-graphs]",
)
@click.option(
    "--sections",
    type=Names(),
    default=(),
    metavar="NAME,...",
    help="Some of matrix, correctness, peers, decisions, serving.  [default: all that the other "
    "options permit, without serving]",
)
@click.option(
    "--utilisation",
    type=Names(),
    default=(),
    metavar="SHARE,...",
    help="Serve the trace at these shares of what a full server does.  [default: 0.3,0.5,0.7]",
)
@click.option(
    "--policy",
    type=click.Choice(POLICIES),
    default="prefill-first",
    show_default=True,
    help="Steps of the served trace: prompts before decodes, or both in one step.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0.1, 3600),
    metavar="SECONDS",
    help="How long requests arrive at each utilisation.  [default: 60; on the CPU device 0.5]",
)
@click.option(
    "--hardware",
    default="h200",
    show_default=True,
    metavar="NAME|FILE",
    help="The profile that simcg's ladders are chosen with.",
)
@click.option(
    "--device",
    type=click.Choice(["cuda", "cpu"]),
    default="cuda",
    show_default=True,
    help="cpu: the same code on a recording device; its figures mean nothing.",
)
def command(
    out: Path,
    seconds: float | None,
    trace: str | None,
    *,
    hardware: str,
    device: str,
    policy: str,
    **lists: tuple[str | int, ...],
) -> int:
    """Measure steps, captures, memory, decisions and serving: runs, as JSON lines.

    \b
    Examples:
      simcg measure --out runs.jsonl
      simcg measure --trace azure-conv --sections decisions --out decisions.jsonl
      simcg measure --trace azure-conv --sections serving --out serving.jsonl
      simcg measure --device cpu --out smoke.jsonl
    """
    for name in lists["sections"]:
        require(name in SECTIONS, "--sections", "", name, "some of " + ", ".join(SECTIONS))
    runs_it = not lists["sections"] or "correctness" in lists["sections"]
    good = runs_it or DEBUG_GRAPH not in lists["backends"]
    require(good, "--backends", "", DEBUG_GRAPH, "the section correctness, which runs it")
    served = "serving" in lists["sections"]
    shares = ",".join(map(str, lists["utilisation"]))
    for flag, given in (("--utilisation", shares), ("--seconds", seconds)):
        require(served or not given, flag, "", given, "--sections serving beside it")
    asked = ",".join(map(str, lists["ladders"]))
    require(bool(trace) or not asked, "--ladders", "", asked, "--trace beside it")
    check_output("--out", out)
    require_torch(WORKS_WITHOUT)
    arguments = ["--out", str(out), "--hardware", hardware, "--device", device]
    for name, values in lists.items():
        if values:
            arguments += [f"--{name}", ",".join(map(str, values))]
    arguments += ["--policy", policy]
    if seconds is not None:
        arguments += ["--seconds", str(seconds)]
    if trace is not None:
        arguments += ["--trace", trace]
    return run_child([sys.executable, "-m", "real_gpu.measure", *arguments])
