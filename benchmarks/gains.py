"""What ladders gain over the engine's default on real traces.

    python -m benchmarks.gains FOLDER      with the public traces in FOLDER: writes runs/gains.csv
    python -m benchmarks.gains             prints runs/gains.csv as the Markdown table of README

Traces are not shipped: see README for where they come from.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from simcg.cost.table import ReplayModel
from simcg.engines import engine_named
from simcg.hardware.catalog import load_profile
from simcg.model.catalog import load_architecture
from simcg.model.forward import forward_pass
from simcg.model.ops import Dtype
from simcg.optimize.scenario import Limits, Scenario
from simcg.optimize.study import Study, study
from simcg.workload.read import read_traffic

OUT = Path(__file__).parent / "runs" / "gains.csv"
CHUNK = 8192
RATES = (1.0, 3.0)
TRACES = {
    "azure2023_conv.csv": "Azure conv",
    "azure2023_code.csv.gz": "Azure code",
    "mooncake_conversation.jsonl.gz": "Mooncake conv",
    "apex_llama_summarization_05.csv": "summarisation",
    "sharegpt_llmservingsim_llama-3.1-8b_300.csv": "ShareGPT 300",
    "servegen_m-mid.csv.gz": "ServeGen m-mid (generated)",
}


@dataclass(frozen=True)
class Setting:
    """One model on one GPU."""

    model: str
    hardware: str
    tp: int
    dtype: Dtype | None = None

    @property
    def label(self) -> str:
        """As in the table."""
        stored = f" {self.dtype}" if self.dtype else ""
        return f"{self.model}{stored}, {self.tp} x {self.hardware}"


SETTINGS = (
    Setting("qwen3-8b", "h200", 1),
    Setting("gpt-oss-20b", "h200", 1, "bf16"),
    Setting("qwen3-8b", "gb300", 1),
    Setting("gpt-oss-120b", "gb300", 4),
)


def ask(path: Path, setting: Setting, rate: float) -> Study:
    """As many graphs as the default at most."""
    engine = engine_named("sglang")
    arch = load_architecture(setting.model)
    model = ReplayModel(
        forward=forward_pass(arch, tp=setting.tp, dtype=setting.dtype),
        profile=load_profile(setting.hardware),
        backend=engine.default_backend,
        fallback=engine.fallback_backend,
    )
    usual = len(engine.default_ladder(CHUNK))
    limits = Limits(max_buckets=usual)
    return study(Scenario(engine, model, read_traffic(path), CHUNK, rate=rate, limits=limits))


def record(name: str, setting: Setting, rate: float, result: Study) -> dict[str, str]:
    """One line of the file: shares of the default's mean step time, unless named otherwise."""
    default, research = result.default, result.research
    gain, half, fewest = result.gain, result.half, result.no_loss
    load = result.traffic.load
    fewer = fewest.score if fewest else default
    more = 0.0 if research is None else result.answer.score.mean_step_ns - research.mean_step_ns

    def less(ns: float) -> str:
        return f"{1 - ns / default.mean_step_ns:.9f}"

    return {
        "trace": name,
        "model": setting.model,
        "setting": setting.label,
        "hardware": setting.hardware,
        "rate": f"{rate:g}",
        "busy": "" if load is None else f"{load.busy_share:.4f}",
        "default_ns": f"{default.mean_step_ns:.0f}",
        "gain": f"{gain.share:.9f}",
        "low": f"{gain.low:.9f}",
        "high": f"{gain.high:.9f}",
        "half": "" if half is None else less(half.score.mean_step_ns),
        "no_graphs": less(result.no_graphs.mean_step_ns),
        "every_size": less(result.limit_ns),
        "default_graphs": str(len(default.ladder)),
        "fewest_graphs": str(len(fewer.ladder)),
        "research_adds": f"{more / default.mean_step_ns:.9f}",
        "default_startup_ns": f"{default.startup.ns:.0f}",
        "fewest_startup_ns": f"{fewer.startup.ns:.0f}",
        "default_bytes": str(default.memory.device),
        "fewest_bytes": str(fewer.memory.device),
    }


def records(path: Path = OUT) -> list[dict[str, str]]:
    """The lines of the committed file."""
    with path.open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def row(one: dict[str, str]) -> str:
    """One line of the table in README."""

    def share(name: str, digits: int = 2) -> str:
        return f"{100 * float(one[name]):.{digits}f}" if one[name] else "-"

    cells = [
        one["trace"], one["setting"], f"{one['rate']}x, {share('busy', 0)}%",
        f"{float(one['default_ns']) / 1e6:.2f}",
        f"{share('gain')}% ({share('low', 1)} to {share('high', 1)})",
        f"{share('half')}%" if one["half"] else "-",
        f"{share('no_graphs')}%", f"{share('every_size')}%", one["fewest_graphs"],
        f"{share('research_adds')}%",
        f"{float(one['default_startup_ns']) / 1e9:.1f} / "
        f"{float(one['fewest_startup_ns']) / 1e9:.1f}",
        f"{int(one['default_bytes']) >> 20} / {int(one['fewest_bytes']) >> 20}",
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def measured(folder: Path) -> Iterable[dict[str, str]]:
    """Every trace, setting and rate."""
    for file, name in TRACES.items():
        for setting in SETTINGS:
            for rate in RATES:
                result = ask(folder / file, setting, rate)
                print(name, setting.label, rate, flush=True)
                yield record(name, setting, rate, result)


def main() -> None:
    if len(sys.argv) > 1:
        lines = list(measured(Path(sys.argv[1])))
        with OUT.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, lines[0].keys(), lineterminator="\n")
            writer.writeheader()
            writer.writerows(lines)
        return
    print("| trace | setting | rate, busy | default ms | gain, as many graphs (95%) | half as many "
          "| no graphs | every size | fewest that lose nothing | research adds "
          "| start-up s, default / fewest | graph MiB, default / fewest |")  # fmt: skip
    print("|---" * 12 + "|")
    for one in records():
        print(row(one))


if __name__ == "__main__":
    main()
