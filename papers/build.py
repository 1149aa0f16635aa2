"""Builds the report: numbers and figures from committed data and from simcg, then the pages.

python -m papers.build                    writes papers/report.pdf
python -m papers.build --out other.pdf    writes it elsewhere
python -m papers.build --keep FOLDER      keeps the numbers, the figures and a picture of each page
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import shutil
import sys
import tempfile
from pathlib import Path

from papers.figures import draw_figures
from papers.numbers import numbers

HERE = Path(__file__).parent
SOURCES = ("report.typ", "style.typ", "references.bib", "sections")
DAY = 1_796_083_200  # 2026-12-01, so that equal sources give equal bytes


def stage(folder: Path) -> None:
    """Everything that the pages are set from: sources, one JSON file a section, figures."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in SOURCES:
        source = HERE / name
        if source.is_dir():
            shutil.copytree(source, folder / name, dirs_exist_ok=True)
        else:
            shutil.copy(source, folder / name)
    for section, values in numbers().items():
        text = json.dumps(values, indent=1, ensure_ascii=False)
        (folder / f"{section}.json").write_text(text, encoding="utf-8")
    draw_figures(folder)


def typeset(folder: Path, out: Path, *, pages: bool = False) -> None:
    """Sets the staged pages as a PDF, and as pictures beside the sources if asked.

    Raises `typst.TypstError` for a name that no section's numbers have, or a source nobody lists.
    """
    import typst  # noqa: PLC0415 - of the extra papers

    root = str(folder)
    entry = str(folder / "report.typ")
    pdf = typst.compile(entry, root=root, ignore_system_fonts=True, timestamp=DAY, pdf_tags=False)
    draft = out.with_suffix(".part")
    draft.write_bytes(pdf)
    draft.replace(out)
    if pages:
        typst.compile(
            entry,
            output=str(folder / "page-{0p}.png"),
            root=root,
            ignore_system_fonts=True,
            format="png",
            ppi=110,
            timestamp=DAY,
        )


def main(arguments: list[str]) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m papers.build", description="Builds the report")
    parser.add_argument("--out", type=Path, default=HERE / "report.pdf")
    parser.add_argument("--keep", type=Path, help="folder for numbers, figures and pages as PNG")
    asked = parser.parse_args(arguments)
    if importlib.util.find_spec("typst") is None:
        parser.error("typst is not installed: pip install '.[papers]'")
    if not asked.out.parent.is_dir():
        parser.error(f"--out {asked.out}: not in a folder that exists")
    if asked.keep:
        stage(asked.keep)
        typeset(asked.keep, asked.out, pages=True)
        return
    with tempfile.TemporaryDirectory() as folder:
        stage(Path(folder))
        typeset(Path(folder), asked.out)


if __name__ == "__main__":
    main(sys.argv[1:])
