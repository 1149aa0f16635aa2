"""Films of counterexamples: they end as the hunt says, and begin as the correct system does."""

from __future__ import annotations

import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from simcg.errors import InputError
from simcg.formal.film import Film, counterexample
from simcg.formal.mutants import MUTANTS
from simcg.formal.mutants.hunt import hunt
from simcg.formal.rules import Rules
from simcg.report.film_plot import EMPTY, SAME, WRITTEN, WRONG, film_figure, short

SHORT = [
    "slot zero as the sink",
    "stale positions in the tail",
    "metadata left from the step before",
    "outside argument held weakly",
    "break's result rebound",
    "memory freed too early",
    "constant freed after capture",
    "unmasked operator captured",
]


@pytest.mark.parametrize("name", SHORT)
def test_a_film_ends_with_the_violation_that_the_hunt_finds_first(name: str) -> None:
    """Word for word; and under the correct rules the same step violates nothing."""
    film = counterexample(MUTANTS[name])
    assert str(film.violation) == str(hunt(MUTANTS[name]).first)
    right = film.under(Rules())
    assert right.violation is None
    assert (right.setting, right.step) == (film.setting, film.step)
    assert len(right.frames) >= len(film.frames)
    assert film.under(MUTANTS[name].rules).frames == film.frames


@pytest.mark.parametrize("name", SHORT)
def test_frames_differ_only_where_they_say(name: str) -> None:
    """What is not touched at a moment is as it was; the host comes first, then each kernel."""
    film = counterexample(MUTANTS[name]).under(Rules())
    for before, frame in zip(film.frames, film.frames[1:], strict=False):
        now, then = frame.memory, before.memory
        changed = {i for i, value in enumerate(then.value) if value != now.value[i]}
        assert changed <= frame.touched
        assert frame.touched
    whats = [frame.what for frame in film.frames]
    assert whats[:2] == ["before the step", "the host writes the inputs"]
    ops = film.setting.program.ops
    assert len(whats) == 2 + len(ops) + 1
    lines = [film.setting.program.words(number) for number in range(len(ops))]
    assert whats[2:-1] == lines


def test_every_cell_has_a_name_of_its_own() -> None:
    """From the first static input to the last cell outside the pool."""
    film = counterexample(MUTANTS["slot zero as the sink"])
    places = film.places()
    assert sorted(places) == [*range(film.machine.at.cells)]
    assert len(set(places.values())) == len(places)


@pytest.mark.parametrize("name", ["output read too late", "bucket from local sizes"])
def test_a_mutant_that_no_single_step_tells_is_refused(name: str) -> None:
    """In a line that names it."""
    with pytest.raises(InputError, match=name):
        counterexample(MUTANTS[name])


def grid(axes: Axes, columns: int) -> list[list[tuple[str, str]]]:
    """(colour, text) of each box, a row a moment."""
    colours = [to_hex(b.get_facecolor()).upper() for b in axes.patches if isinstance(b, Rectangle)]
    boxes = list(zip(colours, [text.get_text() for text in axes.texts], strict=True))
    return [boxes[at : at + columns] for at in range(0, len(boxes), columns)]


def drawn(name: str, *regions: str) -> tuple[Film, dict[str, list[list[tuple[str, str]]]]]:
    film = counterexample(MUTANTS[name])
    top, bottom = film_figure(film, film.under(Rules()), regions).axes
    columns = len(top.get_xticks())
    assert [t.get_text() for t in top.get_xticklabels()] == [
        t.get_text() for t in bottom.get_xticklabels()
    ]
    return film, {"correct": grid(top, columns), "mutant": grid(bottom, columns)}


def test_the_picture_marks_what_differs_from_the_correct_system() -> None:
    """Padding's slot, and from then on the first row of the cache; all else is as it should be."""
    film, panels = drawn("slot zero as the sink", "slots", "cache")
    assert all(colour != WRONG for row in panels["correct"] for colour, _ in row)
    wrong = [{i for i, box in enumerate(row) if box[0] == WRONG} for row in panels["mutant"]]
    assert wrong == [set(), {2}, {2, 3}, {2, 3}, {2, 3}]  # slots[2], then cache[0, 0]
    for row, frame in zip(panels["mutant"], film.frames, strict=True):
        cells = {place: address for address, place in film.places().items()}
        text = short(film.machine.terms, frame.memory.value[cells["cache[0, 0]"]])
        assert row[3][1] == text


def test_what_a_halted_kernel_did_not_write_is_not_called_wrong() -> None:
    """The weight is a new owner's from the beginning; the result is missing, not wrong."""
    _, panels = drawn("outside argument held weakly", "outside")
    wrong = [[box[0] == WRONG for box in row] for row in panels["mutant"]]
    assert wrong == [[True, False]] * 3


def test_what_is_written_at_a_moment_is_marked_there_alone() -> None:
    """Cells without a value are empty."""
    _, panels = drawn("memory freed too early", "pool", "output")
    colours = [[colour for colour, _ in row] for row in panels["correct"]]
    white = to_hex(EMPTY).upper()
    assert colours == [
        [white] * 4,
        [white] * 4,
        [WRITTEN, white, white, white],
        [SAME, WRITTEN, white, white],
        [SAME, SAME, WRITTEN, white],
        [SAME, SAME, SAME, WRITTEN],
    ]
    assert panels["correct"][-1][2][1] == "add#3(gemm#1, gemm#2)"


def test_an_input_that_the_host_does_not_write_is_called_missing() -> None:
    """From the moment at which the correct system has it, up to the kernel that stops at it."""
    film, panels = drawn("stale offsets", "offsets")
    wrong = [[box for box in row if box[0] == WRONG] for row in panels["mutant"]]
    assert [len(row) for row in wrong] == [0, 1, 1]
    assert wrong[1] == [(WRONG, "(not written)")]
    assert "offsets[2]" in str(film.violation)
