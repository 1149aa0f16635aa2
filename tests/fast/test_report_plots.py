"""The picture is written whole, in the format of its ending, the same each time."""

from __future__ import annotations

import struct
from functools import cache
from pathlib import Path

import pytest

from simcg.errors import InputError
from simcg.optimize.scenario import Limits
from simcg.optimize.study import Study, study
from simcg.report.plots import FORMATS, plot_study
from tests.studies import MIXED, drawn, scenario_of, steps_of

STARTS = {"png": b"\x89PNG\r\n\x1a\n", "svg": b"<?xml", "pdf": b"%PDF-"}


@cache
def picture_of(name: str) -> Study:
    scenarios = {
        "histogram": scenario_of(steps_of(MIXED)),
        "one size": scenario_of(steps_of({1: 1}), max_chunk=1),
        "no graphs": scenario_of(steps_of(MIXED), Limits(max_buckets=0), engine="sglang==0.5.11"),
        "trace": scenario_of(drawn("azure-code"), max_chunk=4096),
    }
    return study(scenarios[name])


@pytest.mark.parametrize("kind", FORMATS)
def test_format_is_that_of_the_ending(tmp_path: Path, kind: str) -> None:
    """png, svg and pdf begin as such files do, and no other file is left."""
    path = tmp_path / f"ladder.{kind.upper()}"
    plot_study(picture_of("histogram"), path)
    assert path.read_bytes().startswith(STARTS[kind])
    assert path.stat().st_size > 5_000
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["histogram", "one size", "no graphs", "trace"])
def test_size_is_fixed(tmp_path: Path, name: str) -> None:
    """Every study, also one without graphs or with a single size, has a picture of 1200 x 900."""
    path = tmp_path / "ladder.png"
    plot_study(picture_of(name), path)
    assert struct.unpack(">II", path.read_bytes()[16:24]) == (1200, 900)


def test_same_study_same_picture(tmp_path: Path) -> None:
    """The picture has no dates or random parts in its pixels."""
    first, second = tmp_path / "a.png", tmp_path / "b.png"
    for path in (first, second):
        plot_study(picture_of("histogram"), path)
    assert first.read_bytes() == second.read_bytes()


def test_a_picture_is_replaced_whole_or_kept(tmp_path: Path) -> None:
    """A picture that is there already stays as it is when the new one cannot be drawn."""
    path = tmp_path / "ladder.png"
    path.write_bytes(b"before")
    (tmp_path / "ladder.png.part").mkdir()
    with pytest.raises(InputError, match="--plot"):
        plot_study(picture_of("histogram"), path)
    assert path.read_bytes() == b"before"


@pytest.mark.parametrize("name", ["ladder.jpg", "ladder", "ladder.png.txt", "none/ladder.png"])
def test_bad_paths_are_refused(tmp_path: Path, name: str) -> None:
    """Other endings and folders that are not there are refused, and nothing is written."""
    with pytest.raises(InputError, match="--plot"):
        plot_study(picture_of("histogram"), tmp_path / name)
    assert not list(tmp_path.iterdir())
