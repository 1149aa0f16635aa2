"""``simcg verify --recording``: its exit code is the answer, and bad files are one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcg.formal.audit.check import CHECKED, check
from simcg.formal.invariants import INVARIANTS
from simcg.formal.recording import Recordings
from tests.recordings import clean
from tests.studies import Ran, run_cli
from tests.wrong_recordings import WRONG


def verify(folder: Path, recordings: Recordings, *options: str) -> Ran:
    file = folder / "capture.json"
    file.write_bytes(msgspec.json.encode(recordings))
    return run_cli("verify", "--recording", str(file), *options)


def test_a_clean_recording_holds(tmp_path: Path) -> None:
    """Exit code 0, every invariant in the table, and what no recording can decide."""
    ran = verify(tmp_path, clean())
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[-1] == "nothing is violated; 3 things are not decided"
    assert "not decided, follows from the bucket's size: is it the padded" in ran.out
    table, rest = ran.out.split("not looked at, as no recording shows it:")
    for key in INVARIANTS:
        assert f"{key} {INVARIANTS[key].name}" in " ".join(
            (table, rest)[key not in CHECKED].split()
        )


@pytest.mark.parametrize("case", WRONG)
def test_the_exit_code_is_the_answer(case: str, tmp_path: Path) -> None:
    """1 if something is violated, else 0; lines of at most 100 columns; text and JSON agree."""
    recordings = WRONG[case].edit(clean())
    report = check(recordings)
    text, data = verify(tmp_path, recordings), verify(tmp_path, recordings, "--json")
    assert text.code == data.code == int(report.violated)
    assert text.err == data.err == ""
    lines = text.out.splitlines()
    assert max(map(len, lines[1:])) <= 100  # the first names the file
    told = " ".join(text.out.split())
    document = json.loads(data.out)
    assert document["violated"] == report.violated
    assert len(document["findings"]) == len(report.findings)
    for finding, shown in zip(report.findings, document["findings"], strict=True):
        assert f"{finding.invariant} {INVARIANTS[finding.invariant].name}" in told
        assert (shown["invariant"], shown["verdict"]) == (finding.invariant, finding.verdict)
        assert shown["found"] == finding.found
        assert finding.found in told


def test_what_is_not_decided_is_said(tmp_path: Path) -> None:
    """Exit code 0, and the last line does not pass it off as fine."""
    ran = verify(tmp_path, WRONG["an operator that nobody knows"].edit(clean()))
    assert ran.code == 0
    assert ran.out.splitlines()[-1] == "nothing is violated; 10 things are not decided"
    ran = verify(tmp_path, WRONG["an undeclared tensor"].edit(clean()))
    assert ran.out.splitlines()[-1] == (
        "nothing is violated; 3 things are not decided, 1 holds only while a tensor lives"
    )
    assert "holds only while storage 1 lives and is not replaced" in ran.out
    assert "module.named_parameters()" in ran.out


def test_many_findings_are_cut_short_in_text_alone(tmp_path: Path) -> None:
    """Twenty of a verdict in words, the number of the others, and all of them in JSON."""
    wrong = WRONG["a static input written"].edit(clean())
    many = msgspec.structs.replace(wrong, captures=wrong.captures[:1] * 30)
    ran = verify(tmp_path, many)
    assert ran.code == 1
    assert "and 10 more" in ran.out
    assert len(json.loads(verify(tmp_path, many, "--json").out)["findings"]) == 30


def no_file(folder: Path) -> Path:
    return folder / "missing.json"


def a_folder(folder: Path) -> Path:
    return folder


def with_content(content: bytes) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / "bad.json").write_bytes(content)
        return folder / "bad.json"

    return write


def changed(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], Path]:
    document = json.loads(msgspec.json.encode(clean()))
    change(document)
    return with_content(json.dumps(document).encode())


WHOLE = msgspec.json.encode(clean())
BAD: dict[str, tuple[Callable[[Path], Path], str]] = {
    "no file": (no_file, "No such file"),
    "a folder": (a_folder, "a readable file"),
    "an empty file": (with_content(b""), "an empty file"),
    "a truncated file": (with_content(WHOLE[: len(WHOLE) // 2]), "truncated"),
    "a file without its last byte": (with_content(WHOLE[:-1]), "truncated"),
    "not JSON": (with_content(b"captures: []"), "expected recordings of simcg"),
    "another version": (changed(lambda d: d.update(version=1)), "$.version is 1, expected"),
    "no captures": (changed(lambda d: d.update(captures=[])), "nothing was recorded"),
    "an unknown kind of event": (
        changed(lambda d: d["captures"][0]["items"][0]["events"][1].update(type="launch")),
        "launch",
    ),
    "an unknown kind of item": (
        changed(lambda d: d["captures"][0]["items"][1].update(type="host")), "host"
    ),
    "a storage that is not there": (
        changed(lambda d: d["captures"][0]["items"][0]["events"][1]["reads"][0].update(storage=99)),
        "storage 99",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_bad_input_is_one_line(case: str, options: tuple[str, ...], tmp_path: Path) -> None:
    """Exit code 2, nothing on standard output, the file and the fault on standard error."""
    make, words = BAD[case]
    path = make(tmp_path)
    ran = run_cli("verify", "--recording", str(path), *options)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"simcg: error: {path}")
    assert words in ran.err
    assert ran.err.count("\n") == 1


numbers = st.integers(-3, 2**63) | st.sampled_from([0, 1, 2**62])


def leaves(value: Any) -> list[tuple[Any, Any]]:
    """(holder, key) of every leaf of a JSON document."""
    if isinstance(value, dict | list):
        keys = list(value) if isinstance(value, dict) else range(len(value))
        found = [pair for key in keys for pair in leaves(value[key])]
        return found + [(value, key) for key in keys if not isinstance(value[key], dict | list)]
    return []


@given(st.data())
def test_any_change_of_a_leaf_is_checked_or_refused(data: st.DataObject) -> None:
    """No number, text or missing field makes the check stumble."""
    document = json.loads(WHOLE)
    holder, key = data.draw(st.sampled_from(leaves(document)))
    holder[key] = data.draw(numbers | st.text(max_size=3) | st.booleans() | st.none())
    try:
        recordings = msgspec.convert(document, Recordings)
    except msgspec.ValidationError:
        return
    assert isinstance(check(recordings).violated, bool)
