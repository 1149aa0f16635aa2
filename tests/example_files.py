"""The files that examples in help texts and documents name."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from simcg.hardware.catalog import load_profile
from tests.recordings import clean

ROOT = Path(__file__).parents[1]

QWEN3_8B = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 4096,
    "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
    "intermediate_size": 12288, "vocab_size": 151936, "max_position_embeddings": 40960,
    "torch_dtype": "bfloat16", "tie_word_embeddings": False,
}  # fmt: skip
"""The published config.json of Qwen3-8B, as far as it is read."""


def write_example_files(folder: Path) -> None:
    """A trace, a histogram, a model, a ladder, a recording, a profile and runs, by usual names."""
    rows = [f"{i * 0.2:.1f},{50 + 37 * i % 900},{20 + i}" for i in range(60)]
    (folder / "trace.csv").write_text("\n".join(["arrival_s,input_tokens,output_tokens", *rows]))
    (folder / "steps.csv").write_text("tokens,count\n40,7\n333,20\n700,5\n2048,9\n")
    (folder / "config.json").write_text(json.dumps(QWEN3_8B))
    (folder / "ladder.json").write_text('{"sizes": [1, 2, 4, 8]}')
    (folder / "capture.json").write_bytes(msgspec.json.encode(clean()))
    (folder / "mine.json").write_bytes(msgspec.json.encode(load_profile("h200")))
    runs = ROOT / "benchmarks" / "runs" / "h200-matrix.jsonl"
    (folder / "runs.jsonl").write_bytes(runs.read_bytes())
    (folder / "benchmarks").symlink_to(ROOT / "benchmarks")
