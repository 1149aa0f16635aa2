"""Every part of a recording's file is frozen and refuses a field that it does not know."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from simcg.errors import SimcgError
from simcg.formal import recording
from simcg.formal.recording import decode_recordings, encode_recordings
from tests.recordings import clean

STRUCTS = {
    name: kind
    for name, kind in vars(recording).items()
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and not name.startswith("_")
}


@pytest.mark.parametrize("name", STRUCTS)
def test_a_part_is_frozen(name: str) -> None:
    assert STRUCTS[name].__struct_config__.frozen


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all objects in a document, but the free names of ``baked``."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    found = [path] if isinstance(value, dict) else []
    for key, one in inner:
        if isinstance(one, dict | list) and key != "baked":
            found += places(one, (*path, key))
    return found


def document() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(encode_recordings(clean().captures, "cpu", "2.13"))
    return found


def test_an_unknown_field_is_refused_wherever_it_stands() -> None:
    whole = document()
    decode_recordings(msgspec.json.encode(whole), "file")
    seen = set()
    for path in places(whole):
        changed = document()
        at: Any = changed
        for key in path:
            at = at[key]
        at["colour"] = 1
        seen.add(at.get("type", path[-2] if len(path) > 1 else str(path)))
        with pytest.raises(SimcgError, match="colour"):
            decode_recordings(msgspec.json.encode(changed), "file")
    assert {"op", "allocate", "free", "signal", "wait", "segment", "break"} <= seen
    assert {"captures", "storages", "arguments", "reads", "writes"} <= seen


def test_what_is_as_usual_is_left_out_of_the_file() -> None:
    """A field is written where it differs from its default, so that files stay small."""
    text = encode_recordings(clean().captures, "cpu", "2.13")
    for word in (b'"gone":false', b'"decided"', b'"nodes":1,"line"', b'"ran"', b'"returns":[]'):
        assert word not in text
    assert decode_recordings(text, "file").captures == clean().captures


def test_a_dimension_of_no_elements_is_refused() -> None:
    """Nothing would lie in its region."""
    whole = document()
    strided = [one for one in places(whole) if "shape" in at(whole, one)]
    assert strided
    for path in strided:
        changed = document()
        at(changed, path)["shape"][0] = 0
        with pytest.raises(SimcgError, match="shape"):
            decode_recordings(msgspec.json.encode(changed), "file")


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value
