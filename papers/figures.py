"""The report's figures, drawn by `simcg.report`."""

from __future__ import annotations

from pathlib import Path


def draw_figures(folder: Path) -> None:
    """Writes each figure as SVG into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
