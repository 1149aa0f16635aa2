"""Asks aiconfigurator-core 0.12.0 for TTFT and TPOT of every point that simcg claims.

    pip install aiconfigurator-core==0.12.0 && python scripts/run_aiconfigurator.py

Writes simcg/reproduce/data/aiconfigurator.csv. It runs the package's own aggregated estimate
(``run_agg``) on its own tables of the newest complete versions, with a prompt as the tokens of a
mixed step. Where the tables lack the point's data types, the types of ``fallbacks`` are tried in
order; the first that the package can price is kept for the whole family. What it cannot price
by any is left out.
"""

from __future__ import annotations

import csv
import logging
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiconfigurator_core.sdk.backends.factory import get_backend
from aiconfigurator_core.sdk.config import RuntimeConfig
from aiconfigurator_core.sdk.config_builders import build_model_config
from aiconfigurator_core.sdk.models import get_model
from aiconfigurator_core.sdk.perf_database import get_database

from simcg.reproduce.point import Point
from simcg.reproduce.silicon import claimed_points

OUT = Path(__file__).parent.parent / "simcg" / "reproduce" / "data" / "aiconfigurator.csv"
VERSIONS = {"trtllm": "1.3.0rc20", "sglang": "0.5.14", "vllm": "0.24.0"}
CONFIGS = {
    "zhipuai/GLM-5": "zai-org/GLM-5",
    "nvidia/Qwen3-32B-NVFP4": "Qwen/Qwen3-32B",
    "nvidia/Llama-3.1-8B-Instruct-FP8": "meta-llama/Meta-Llama-3.1-8B",
    "meta-llama/Llama-3.1-8B-Instruct": "meta-llama/Meta-Llama-3.1-8B",
    "meta-llama/Llama-3.1-70B": "meta-llama/Meta-Llama-3.1-70B",
    "nvidia/DeepSeek-R1-NVFP4": "deepseek-ai/DeepSeek-R1",
    "nvidia/DeepSeek-V3.1-NVFP4": "deepseek-ai/DeepSeek-V3",
}
TYPES = {"bf16": "bfloat16", "fp8": "fp8", "fp4": "nvfp4"}

Types = tuple[str | None, str | None, str | None, str | None]
"""Of products, experts, KV cache and attention; None is the package's own choice."""


def fallbacks(precision: str) -> tuple[Types, ...]:
    """The data types to try, the ones that the point names first."""
    named = TYPES[precision]
    return (
        (named, named, None, None),
        (named, None, None, None),
        (named, named, None, "bfloat16"),
        (named, "fp8_block", None, "bfloat16"),
        (None, None, None, None),
        (None, None, "fp8", "bfloat16"),
    )


@dataclass
class Estimator:
    """The package with what it has loaded so far."""

    databases: dict[tuple[str, str], Any] = field(default_factory=dict)
    models: dict[tuple[object, ...], Any] = field(default_factory=dict)
    chosen: dict[tuple[str, ...], Types] = field(default_factory=dict)

    def estimate(self, point: Point) -> tuple[float, float] | None:
        """TTFT and TPOT in ms; None if no data types can be priced."""
        family = (point.framework, point.model, point.system, point.precision)
        known = self.chosen.get(family)
        for types in (known,) if known else fallbacks(point.precision):
            try:
                out = self._run(point, types)
            except Exception:
                continue
            self.chosen[family] = types
            return out
        return None

    def _run(self, point: Point, types: Types) -> tuple[float, float]:
        where = (point.system, point.framework)
        if where not in self.databases:
            self.databases[where] = get_database(*where, VERSIONS[point.framework])
        key = (point.framework, point.model, point.tp, types)
        if key not in self.models:
            gemm, moe, kv, attention = types
            config = build_model_config(
                point.tp, 1, 1, point.tp, 1, gemm_quant_mode=gemm, moe_quant_mode=moe,
                kvcache_quant_mode=kv, fmha_quant_mode=attention,
            )  # fmt: skip
            name = CONFIGS.get(point.model, point.model)
            self.models[key] = get_model(name, config, point.framework)
        run = RuntimeConfig(
            batch_size=point.concurrency, beam_width=1, isl=point.isl, osl=point.osl, prefix=0
        )
        backend = get_backend(point.framework)
        model, tables = self.models[key], self.databases[where]
        result = backend.run_agg(model, tables, run, ctx_tokens=point.isl).get_result_dict()
        return result["ttft"], result["tpot"]


def main() -> None:
    """Write the table."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    estimator = Estimator()
    with OUT.open("w", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(("id", "ttft_ms", "tpot_ms"))
        for point in claimed_points():
            found = estimator.estimate(point)
            if found is not None:
                writer.writerow((point.id, *(f"{ms:.5g}" for ms in found)))


if __name__ == "__main__":
    main()
