"""Writes the table of verified properties into the README, from the code that checks them.

python scripts/make_properties.py
"""

from __future__ import annotations

from pathlib import Path

from simcg.report.properties import properties_table

README = Path(__file__).parents[1] / "README.md"
BEGIN, END = "<!-- properties: scripts/make_properties.py -->", "<!-- end of properties -->"


def main() -> None:
    """Replace what stands between the two marks."""
    before, _, rest = README.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    text = f"{before}{BEGIN}\n{properties_table()}\n{END}{after}"
    README.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
