"""What ladders gain over the engine's default on real traces, as a Markdown table.

    python -m benchmarks.gains FOLDER      with the public traces in FOLDER

Traces are not shipped: see README for where they come from.
"""

from __future__ import annotations

import sys
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


def row(name: str, setting: Setting, rate: float, result: Study) -> str:
    """One line of the table."""
    default, research = result.default, result.research
    gain, half, fewest = result.gain, result.half, result.no_loss

    def less(ns: float) -> str:
        return f"{100 * (1 - ns / default.mean_step_ns):.2f}%"

    load = result.traffic.load
    busy = "-" if load is None else f"{100 * load.busy_share:.0f}%"
    fewer = fewest.score if fewest else default
    more = 0.0 if research is None else result.answer.score.mean_step_ns - research.mean_step_ns
    cells = [
        name, setting.label, f"{rate:g}x, {busy}", f"{default.mean_step_ns / 1e6:.2f}",
        f"{100 * gain.share:.2f}% ({100 * gain.low:.1f} to {100 * gain.high:.1f})",
        "-" if half is None else less(half.score.mean_step_ns),
        less(result.no_graphs.mean_step_ns), less(result.limit_ns), str(len(fewer.ladder)),
        f"{100 * more / default.mean_step_ns:.2f}%",
        f"{default.startup.ns / 1e9:.1f} / {fewer.startup.ns / 1e9:.1f}",
        f"{default.memory.device >> 20} / {fewer.memory.device >> 20}",
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    folder = Path(sys.argv[1])
    print("| trace | setting | rate, busy | default ms | gain, as many graphs (95%) | half as many "
          "| no graphs | every size | fewest that lose nothing | research adds "
          "| start-up s, default / fewest | graph MiB, default / fewest |")  # fmt: skip
    print("|---" * 12 + "|")
    for file, name in TRACES.items():
        for setting in SETTINGS:
            for rate in RATES:
                result = ask(folder / file, setting, rate)
                print(row(name, setting, rate, result), flush=True)


if __name__ == "__main__":
    main()
