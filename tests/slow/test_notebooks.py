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


@pytest.fixture(scope="module", params=paths([]), ids=lambda path: path.stem)
def both(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    """A notebook as committed, and executed again with its sliders moved."""
    path: Path = request.param
    return nbformat.read(path, as_version=4), executed(path, SECONDS, MOVES)


def words(cell: Any) -> list[dict[str, Any]]:
    """What a cell's outputs say; of a picture, that it is there."""
    out = []
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        out.append(output | {"data": data | {kind: "" for kind in data if kind[:5] == "image"}})
    return out


def test_outputs_are_those_of_a_fresh_kernel(both: tuple[Any, Any]) -> None:
    """Each cell of the file, run in its place in a new kernel, says the same again."""
    kept, fresh = both
    for old, new in zip(kept.cells, fresh.cells, strict=False):
        assert (old.source, old.get("execution_count")) == (new.source, new.get("execution_count"))
        assert words(old) == words(new), old.source


def test_a_notebook_opens_with_what_the_reader_will_learn(both: tuple[Any, Any]) -> None:
    """The first cell is a title and a text, and there are pictures or tables after it."""
    kept, _ = both
    first = kept.cells[0]
    assert first.cell_type == "markdown"
    assert first.source.startswith("# ")
    assert "learn" in first.source
    assert any(cell.get("outputs") for cell in kept.cells)


def test_every_slider_may_be_moved_to_both_ends(both: tuple[Any, Any]) -> None:
    """The function behind each slider has an answer at its ends, as at the start."""
    _, fresh = both
    said = "".join(out.text for out in fresh.cells[-1].outputs if out.output_type == "stream")
    assert "False" not in said
    sliders = "ipywidgets.interactive(" in "".join(cell.source for cell in fresh.cells[:-1])
    assert ("True" in said) == sliders


def test_a_notebook_takes_less_than_two_minutes(both: tuple[Any, Any]) -> None:
    """Of one core, so that a busy machine changes nothing."""
    _, fresh = both
    assert float(fresh.cells[-2].outputs[0].data["text/plain"]) < MOST_S


@pytest.mark.parametrize("source", ["1 / 0", "import warnings; warnings.warn('old')"])
def test_a_cell_that_fails_or_warns_stops_the_run(tmp_path: Path, source: str) -> None:
    """Neither an error nor a warning becomes an output that is kept."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    nbformat.write(notebook, tmp_path / "wrong.ipynb")
    with pytest.raises(CellExecutionError):
        executed(tmp_path / "wrong.ipynb")
