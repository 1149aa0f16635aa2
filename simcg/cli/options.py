"""Options that several subcommands share, and how their texts become values."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from simcg.model.ops import WEIGHT_DTYPES

F = TypeVar("F", bound=Callable[..., Any])

UNITS = {"": 1, "b": 1, "k": 10**3, "kb": 10**3, "m": 10**6, "mb": 10**6, "g": 10**9, "gb": 10**9,
         "kib": 2**10, "mib": 2**20, "gib": 2**30}  # fmt: skip


class Size(click.ParamType[int]):
    """A number of bytes such as 800MB or 1.5GiB."""

    name = "BYTES"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The bytes as an integer."""
        match = re.fullmatch(r"([0-9]{1,18}(?:\.[0-9]+)?)\s*([a-zA-Z]*)", str(value))
        if match is None or match[2].lower() not in UNITS:
            self.fail(f"{value!r} is not a size such as 800MB or 1.5GiB", param, ctx)
        return int(float(match[1]) * UNITS[match[2].lower()])


class Seconds(click.ParamType[int]):
    """A finite number of seconds >= 0 such as 2.5, as nanoseconds."""

    name = "SECONDS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The nanoseconds as an integer."""
        if re.fullmatch(r"[0-9]{1,9}(\.[0-9]+)?", str(value)) is None:
            self.fail(f"{value!r} is not a number of seconds such as 2.5", param, ctx)
        return round(float(value) * 1e9)


class Sizes(click.ParamType[tuple[int, ...]]):
    """Token counts separated by commas or spaces, in any order."""

    name = "SIZES"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """The counts, ascending, without repeats."""
        if isinstance(value, tuple):  # the default
            return value
        words = re.split(r"[,\s]+", str(value).strip())
        if not all(re.fullmatch(r"[0-9]{1,9}", word) and int(word) >= 1 for word in words):
            self.fail(f"{value!r} is not a list of integers >= 1, such as 64,128,256", param, ctx)
        return tuple(sorted({int(word) for word in words}))


class Columns(click.ParamType[dict[str, str]]):
    """ROLE=NAME pairs separated by commas, such as prompt=input_len,arrival=t_ms."""

    name = "ROLE=NAME,..."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[str, str]:
        """Role to column name."""
        pairs = [pair.partition("=") for pair in str(value).split(",")]
        if not all(role.strip() and name.strip() for role, _, name in pairs):
            self.fail(f"{value!r} is not ROLE=NAME,... such as prompt=input_len", param, ctx)
        out = {role.strip(): name.strip() for role, _, name in pairs}
        if len(out) < len(pairs):
            self.fail(f"{value!r} names a role twice", param, ctx)
        return out


def apply(*options: Callable[[F], F]) -> Callable[[F], F]:
    """The options as one decorator, shown in this order."""

    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


traffic_options = apply(
    click.argument("traffic", required=False),
    click.option("--workload", metavar="NAME", help="Built-in traffic, when no file is given: "
                 "azure-conv (default), azure-code, mooncake-conversation, sharegpt, "
                 "summarization, uniform."),
    click.option("--requests", type=click.IntRange(1, 10_000_000), metavar="N",
                 help="Requests to draw from a built-in workload.  [default: as many as its trace,"
                 " at most 5000]"),
    click.option("--format", "file_format", type=click.Choice(["azure", "mooncake", "table",
                 "histogram"]), help="Format of the file.  [default: as its content shows]"),
    click.option("--columns", type=Columns(), help="Columns of a CSV or JSON-lines file by role: "
                 "arrival, prompt, output, cached; usage.input_tokens names a nested field, "
                 "arrival=- reads no times.  [default: by name, see simcg workload --help]"),
    click.option("--skip-invalid", is_flag=True, help="Leave out rows that cannot be used, and say "
                 "how many they are."),
    click.option("--cache-tokens", type=click.IntRange(0), metavar="N", help="Size of the prefix "
                 "cache, for traces with block hashes.  [default: no limit]"),
)  # fmt: skip

server_options = apply(
    click.option("--max-chunk", type=int, default=8192, show_default=True, metavar="N",
                 help="Most tokens of a prefill step (chunked prefill size)."),
    click.option("--model", default="qwen3-8b", show_default=True, metavar="NAME|FILE",
                 help="Built-in model or a Hugging Face config.json."),
    click.option("--hardware", default="h200", show_default=True, metavar="NAME|FILE",
                 help="Built-in profile or a profile file."),
    click.option("--tp", type=click.IntRange(1, 1024), default=1, show_default=True,
                 help="Tensor-parallel ranks."),
    click.option("--dtype", type=click.Choice(WEIGHT_DTYPES),
                 help="Weights stored so.  [default: as the model's config says]"),
    click.option("--engine", default="sglang", show_default=True, metavar="NAME[==VERSION]",
                 help="sglang or vllm; rules and flags belong to the version."),
    click.option("--backend", metavar="NAME", help="Capture backend: full, breakable, "
                 "tc_piecewise.  [default: the engine's]"),
    click.option("--slots", type=click.IntRange(1), help="Request slots of backend full.  "
                 "[default: the engine's]"),
    click.option("--rate", type=float, default=1.0, show_default=True,
                 help="Arrivals so many times faster than the trace."),
    click.option("--max-num-seqs", type=click.IntRange(1), metavar="N",
                 help="Most requests that decode together; vLLM's one list serves them too.  "
                 "[default: as the engine takes from GPU and memory; all of vLLM's default sizes "
                 "are kept]"),
    click.option("--max-requests", type=click.IntRange(1), metavar="N",
                 help="Most requests of a step.  [default: no limit]"),
)  # fmt: skip

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
