"""``simcg model``: the ops of one forward, and their sums."""

from __future__ import annotations

from dataclasses import asdict

import click

from simcg.cli.options import json_option
from simcg.cli.show import console, print_json
from simcg.model.catalog import load_architecture
from simcg.model.forward import forward_pass
from simcg.model.ops import WEIGHT_DTYPES, Dtype
from simcg.model.table import model_rows, model_totals


@click.command("model")
@click.argument("name")
@click.option("--tp", type=click.IntRange(1, 1024), default=1, show_default=True,
              help="Tensor-parallel ranks.")  # fmt: skip
@click.option("--dtype", type=click.Choice(WEIGHT_DTYPES),
              help="Weights stored so.  [default: as the config says]")  # fmt: skip
@json_option
def command(name: str, tp: int, dtype: Dtype | None, as_json: bool) -> None:
    """The ordered ops of one prefill forward of model NAME (or a config.json) on one rank.

    \b
    Example:
      simcg model gpt-oss-120b --tp 4
    """
    arch = load_architecture(name)
    rows = model_rows(forward_pass(arch, tp=tp, dtype=dtype))
    totals = model_totals(arch, tp=tp, dtype=dtype)
    if as_json:
        print_json({"totals": asdict(totals), "ops": [asdict(row) for row in rows]})
        return
    from simcg.report.tables import model_table, plain_table, totals_rows  # noqa: PLC0415

    out = console()
    out.print(model_table(rows))
    out.print()
    out.print(plain_table((arch.name, f"tp {tp}"), totals_rows(totals)))
