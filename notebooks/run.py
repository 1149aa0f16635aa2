"""Executes the notebooks top to bottom and keeps their outputs.

python -m notebooks.run           all of them
python -m notebooks.run 1 memory  those whose file's name holds one of these words
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode

HERE = Path(__file__).parent
TIMEOUT_S = 120  # of one cell
QUIET = ["--log-level=ERROR"]  # not the kernel's note that its port is open
SLIDERS = "application/vnd.jupyter.widget-view+json"
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def paths(words: list[str]) -> list[Path]:
    """The notebooks whose file's name holds one of the words, all of them without words."""
    files = sorted(HERE.glob("*.ipynb"))
    return [path for path in files if not words or any(word in path.stem for word in words)]


def executed(path: Path, *more: str) -> NotebookNode:
    """The notebook with the outputs of a fresh kernel, less what differs from run to run.

    ``more``: code that is run after the last cell.  Raises `CellExecutionError` for a cell that
    fails, and for one that writes to stderr, which a reader should not have to see.
    """
    notebook: NotebookNode = nbformat.read(path, as_version=4)
    notebook.cells += [nbformat.v4.new_code_cell(source) for source in more]
    NotebookClient(
        notebook,
        timeout=TIMEOUT_S,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
        extra_arguments=QUIET,
    ).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # the times at which it ran
        if cell.cell_type == "code":
            _refuse_complaints(cell)
            # sliders without a kernel are an error message in place of a picture
            cell.outputs = [out for out in cell.outputs if SLIDERS not in out.get("data", {})]
    notebook.metadata = nbformat.from_dict(METADATA)
    return notebook


def _refuse_complaints(cell: NotebookNode) -> None:
    for output in cell.outputs:
        if output.get("name") == "stderr":
            raise CellExecutionError(f"{cell.source}\n{output.text}", "stderr", output.text)


def main(words: list[str]) -> None:
    """The command line."""
    for path in paths(words) or sys.exit(f"no notebook is called {' or '.join(words)}"):
        start = time.perf_counter()
        try:
            notebook = executed(path)
        except CellExecutionError as error:
            sys.exit(f"{path.name}: {error}")
        draft = path.with_suffix(".part")
        draft.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")
        draft.replace(path)
        print(f"{path.name}: {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
