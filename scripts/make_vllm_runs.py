"""Makes the table of two real vLLM 0.19 runs from the requests that LLMServingSim recorded.

    python scripts/make_vllm_runs.py FOLDER

Reads GPU_Llama-3.1-8B.requests.jsonl of casys-kaist/LLMServingSim (MIT, Copyright (c) 2024
CASYS, KAIST) and writes simcg/reproduce/data/vllm_runs.csv: times in microseconds since the first
request was queued.
"""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

OUT = Path(__file__).parent.parent / "simcg" / "reproduce" / "data" / "vllm_runs.csv"
RUNS = {"rtx-pro-6000": "RTXPRO6000", "rtx-4090": "RTX4090"}


def main(folder: str) -> None:
    """Write the table."""
    with OUT.open("w", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(("gpu", "prompt", "output", "queued_us", "first_us", "last_us"))
        for gpu, file in RUNS.items():
            lines = (Path(folder) / f"{file}_Llama-3.1-8B.requests.jsonl").read_text().splitlines()
            rows = sorted((json.loads(line) for line in lines), key=lambda row: row["queued_ts"])
            start = rows[0]["queued_ts"]
            for row in rows:
                times = (row[name] for name in ("queued_ts", "first_token_ts", "last_token_ts"))
                micros = (round((time - start) * 1e6) for time in times)
                writer.writerow((gpu, row["input_toks"], row["output_toks"], *micros))


if __name__ == "__main__":
    main(sys.argv[1])
