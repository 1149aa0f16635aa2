"""Makes the table of measured deployments from the package aiconfigurator-core 0.12.0.

    python scripts/make_silicon.py SILICON_SAMPLE_CSV

Reads ``systems/silicon_sample.csv`` of the package (Apache-2.0) and writes
simcg/reproduce/data/silicon.csv: all its points, the columns that simcg reads, times to six
digits. A point without a precision ran the checkpoint's own 16 bits.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

OUT = Path(__file__).parent.parent / "simcg" / "reproduce" / "data" / "silicon.csv"

COLUMNS = (
    "id", "source", "framework", "version", "model", "system", "precision", "mode", "isl", "osl",
    "concurrency", "tp", "attention_dp", "expert_parallel", "ttft_ms", "tpot_ms",
)  # fmt: skip


def source_of(text: str) -> str:
    """Where the package has the point from: the first part, paths without their folders."""
    name = text.split(";", maxsplit=1)[0].strip().removeprefix("source_file=")
    return "gap-analysis" if "gap-analysis/" in name else name


def size(text: str) -> int:
    """A size of parallelism; absent ones and the 0 of models without experts are 1."""
    return max(1, round(float(text or 1)))


def row(line: dict[str, str]) -> tuple[object, ...]:
    """One point."""
    return (
        line["id"], source_of(line["silicon_data_source"]), line["backend"],
        line["backend_version"], line["model_path"], line["system"], line["precision"] or "bf16",
        line["mode"], line["isl"], line["osl"], size(line["batch_size"]), size(line["tp_size"]),
        size(line["attention_dp_size"]), size(line["moe_ep_size"]),
        f"{float(line['silicon_ttft_ms']):.6g}", f"{float(line['silicon_tpot_ms']):.6g}",
    )  # fmt: skip


def main(path: str) -> None:
    """Write the table."""
    with Path(path).open(newline="") as lines, OUT.open("w", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(row(line) for line in csv.DictReader(lines))


if __name__ == "__main__":
    main(sys.argv[1])
