"""``simcg ladder``: what an engine captures when nobody says anything."""

from __future__ import annotations

import click

from simcg.cli.options import json_option
from simcg.cli.show import console, print_json
from simcg.engines import engine_named
from simcg.engines.registry import LADDER_RULES, ladder_rule_named, ladder_rule_sizes
from simcg.engines.traps import warnings
from simcg.optimize.scenario import check_chunk


@click.command("ladder")
@click.argument("name")
@click.option("--max-chunk", type=int, default=8192, show_default=True, metavar="N",
              help="Most tokens of a prefill step; for other rules, their own limit.")  # fmt: skip
@json_option
def command(name: str, max_chunk: int, as_json: bool) -> None:
    """The default ladder of engine or rule NAME: sizes, count, rule and traps.

    NAME is an engine (sglang, vllm, sglang==0.5.15) or a rule such as sglang-decode,
    tensorrt-llm-decode, tensorrt-llm-prefill, tokenspeed-prefill.

    \b
    Example:
      simcg ladder sglang --max-chunk 8192
    """
    check_chunk(max_chunk)
    out = console()
    if name in LADDER_RULES and name not in ("sglang", "vllm"):
        rule = ladder_rule_named(name)
        sizes = ladder_rule_sizes(name, max_chunk)
        if as_json:
            print_json({"rule": name, "limit": max_chunk, "sizes": sizes, "source": rule.source})
            return
        out.print(f"{name}, {rule.limit} {max_chunk}: {len(sizes)} graphs ({rule.source})")
        out.print(" ".join(map(str, sizes)))
        return
    engine = engine_named(name)
    ladder = engine.default_ladder(max_chunk)
    ratio = engine.admission.max_ratio
    if as_json:
        print_json(
            {
                "engine": f"{engine.name}=={engine.version}",
                "max_chunk": max_chunk,
                "sizes": ladder.sizes,
                "max_ratio": None if ratio is None else float(ratio),
                "backend": engine.default_backend.name,
                "fallback": engine.fallback_backend.name,
            }
        )
        return
    guard = "no guard" if ratio is None else f"eager when the bucket is above {ratio} n"
    out.print(
        f"{engine.name} {engine.version}, chunk {max_chunk}: {len(ladder)} graphs, backend "
        f"{engine.default_backend.name}; smallest bucket >= n, {guard}; else "
        f"{engine.fallback_backend.name}"
    )
    out.print(" ".join(map(str, ladder.sizes)))
    for line in warnings(ladder, engine, max_chunk, typed=False):
        out.print(f"note: {line}")
