"""The notebooks: what their files show is what a fresh kernel says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError

from notebooks.run import executed, paths

MOST_S = 120
MOVES = """
import ipywidgets

panels = [value for value in [*globals().values()] if isinstance(value, ipywidgets.interactive)]
for panel in panels:
    start = {widget._kwarg: widget.value for widget in panel.kwargs_widgets}
    for widget in panel.kwargs_widgets:
        values = getattr(widget, "options", None) or (widget.min, widget.max)
        for value in (values[0], values[-1]):
            print(panel.f(**start | {widget._kwarg: value}) is not None)
print(*(panel.result is not None for panel in panels))
"""
SECONDS = "import time; time.process_time()"


def words(cell: Any) -> list[dict[str, Any]]:
    """What a cell's outputs say; of a picture, that it is there."""
    out = []
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        out.append(output | {"data": data | {kind: "" for kind in data if kind[:5] == "image"}})
    return out


@pytest.mark.parametrize("path", paths([]), ids=lambda path: path.stem)
def test_a_file_shows_what_a_fresh_kernel_says(path: Path) -> None:
    """Cell by cell, in less than two minutes of a core; each slider has an answer at both ends."""
    kept: Any = nbformat.read(path, as_version=4)
    fresh: Any = executed(path, SECONDS, MOVES)
    *cells, seconds, moves = fresh.cells
    for old, new in zip(kept.cells, cells, strict=True):
        assert (old.source, old.get("execution_count")) == (new.source, new.get("execution_count"))
        assert words(old) == words(new), old.source
    assert float(seconds.outputs[0].data["text/plain"]) < MOST_S
    said = "".join(out.text for out in moves.outputs if out.output_type == "stream")
    assert "False" not in said
    sliders = "ipywidgets.interactive(" in "".join(cell.source for cell in cells)
    assert ("True" in said) == sliders


@pytest.mark.parametrize("path", paths([]), ids=lambda path: path.stem)
def test_a_notebook_opens_with_what_the_reader_will_learn(path: Path) -> None:
    """The first cell is a title and a text, and there are pictures after it."""
    first, *rest = nbformat.read(path, as_version=4).cells
    assert first.cell_type == "markdown"
    assert first.source.startswith("# ")
    assert "learn" in first.source
    assert any(
        "image/png" in out.get("data", {}) for cell in rest for out in cell.get("outputs", ())
    )


@pytest.mark.parametrize("source", ["1 / 0", "import warnings; warnings.warn('old')"])
def test_a_cell_that_fails_or_warns_stops_the_run(tmp_path: Path, source: str) -> None:
    """Neither an error nor a warning becomes an output that is kept."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    nbformat.write(notebook, tmp_path / "wrong.ipynb")
    with pytest.raises(CellExecutionError):
        executed(tmp_path / "wrong.ipynb")
