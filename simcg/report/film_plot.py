"""The picture of a counterexample: what cells hold after each kernel, right and wrong."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from simcg.formal.film import Film, Frame
from simcg.formal.terms import Part, Terms

SAME, WRITTEN, WRONG = "#F2F2F2", "#A6D3F0", "#D55E00"
KEYS = {
    SAME: "unchanged",
    WRITTEN: "written at this moment",
    WRONG: "not what the correct system holds",
}
EMPTY = "white"
PLAIN: dict[Part, str] = {
    "poison": "",  # of cells that nobody may read
    "foreign": "a new owner's",
    "old cache": "old",
    "old state": "old",
    "fresh state": "fresh",
}
WIDTH = 110
COLUMNS_INCHES, LETTER_INCHES, FONT = 7.4, 0.0625, 8
"""All cells are that wide; so is a letter of the usual size."""


def film_figure(wrong: Film, right: Film, regions: Sequence[str]) -> Figure:
    """Both films, moment by moment, over the cells of these regions that either of them touches.

    ``regions``: what names of cells begin with, such as "cache" and "pool", in the order wanted.
    ``right``: the same step under correct rules.
    """
    cells = _cells((wrong, right), regions)
    films = {"correct": right, "mutant": wrong}
    rows = [len(film.frames) for film in films.values()]
    figure = Figure(figsize=(10, 1.6 + 0.36 * sum(rows)), layout="constrained")
    panels = figure.subplots(2, 1, height_ratios=rows)
    for axes, (name, film) in zip(panels, films.items(), strict=True):
        _panel(axes, film, right, cells)
        end = "nothing is violated" if film.violation is None else str(film.violation)
        title = textwrap.fill(f"{name}: {end}", WIDTH)
        axes.set_title(title, fontsize=10, loc="left")
    patches = [
        Patch(facecolor=colour, edgecolor="grey", label=text) for colour, text in KEYS.items()
    ]
    figure.legend(handles=patches, loc="outside lower center", ncols=len(patches), fontsize=9)
    return figure


def _cells(films: Sequence[Film], regions: Sequence[str]) -> dict[int, str]:
    """Names by address of the cells to show, a region after the other."""
    touched = {cell for film in films for frame in film.frames for cell in frame.touched}
    names = films[0].places()
    return {
        address: names[address]
        for region in regions
        for address in sorted(touched)
        if names[address].startswith(region)
    }


def _panel(axes: Axes, film: Film, right: Film, cells: dict[int, str]) -> None:
    """Moments from top to bottom, cells from left to right."""
    for row, frame in enumerate(film.frames):
        before = film.frames[max(0, row - 1)]
        for column, address in enumerate(cells):
            text = short(film.machine.terms, frame.memory.value[address])
            colour = _colour(address, frame, before, text)
            if _differs(film, right, row, address):
                text, colour = text or "(not written)", WRONG
            box = Rectangle((column, row), 1, 1, facecolor=colour, edgecolor="white", lw=1.5)
            axes.add_patch(box)
            ink = "white" if colour == WRONG else "black"
            axes.text(
                column + 0.5, row + 0.5, text, ha="center", va="center", color=ink,
                fontsize=_font(text, len(cells)),
            )  # fmt: skip
    axes.set(xlim=(0, len(cells)), ylim=(len(film.frames), 0))
    middles = [column + 0.5 for column in range(len(cells))]
    axes.set_xticks(middles, list(cells.values()), fontsize=FONT)
    axes.set_yticks([row + 0.5 for row in range(len(film.frames))], [f.what for f in film.frames])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def _font(text: str, columns: int) -> float:
    """The largest size, up to the usual one, at which the text fits one of so many columns."""
    return FONT * min(1.0, COLUMNS_INCHES / columns / (LETTER_INCHES * max(1, len(text))))


def _differs(film: Film, right: Film, row: int, address: int) -> bool:
    """Whether the cell should hold something else at that moment.

    Of an empty cell that is said if it is the host's: a kernel may have written its result
    elsewhere. Where a film ends within a kernel, what that kernel should have written is not
    missed.
    """
    frame, hosts = film.frames[row], address < film.machine.at.out
    halted = row == len(film.frames) - 1 < len(right.frames) - 1
    if halted and not hosts and address not in frame.touched:
        return False
    found, expected = (
        short(one.machine.terms, one.frames[row].memory.value[address]) for one in (film, right)
    )
    return found != expected and (hosts or bool(found))


def _colour(address: int, frame: Frame, before: Frame, text: str) -> str:
    if not text:
        return EMPTY
    memory, earlier = frame.memory, before.memory
    changed = memory.value[address] != earlier.value[address]
    return WRITTEN if changed or memory.tag[address] != earlier.tag[address] else SAME


def short(terms: Terms, value: int, depth: int = 1) -> str:
    """A term in few words, in the notation of counterexamples; results deep in it by their maker.

    ``gemm#2`` is what operator 2 made, ``s0[3]`` the token of sequence 0 at position 3.
    """
    if not terms.parts(value):
        return "padding" if depth == 0 and value == 0 else str(value)
    name, *rest = terms.parts(value)
    if name in PLAIN:
        return PLAIN[name]
    if name == "token":
        return "s{}[{}]".format(*rest)
    operator = f"{'tensor' if name == 'weight' else name}#{int(rest[0]) + 1}"
    if not depth or name == "weight":
        return operator
    arguments = [short(terms, int(part), depth - 1) for part in rest[1:]]
    return f"{operator}({', '.join(arguments)})"
