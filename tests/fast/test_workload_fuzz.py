"""Readers under fire: whatever the bytes, a valid result with every row, or InputError."""

from __future__ import annotations

import gzip
import json

from hypothesis import example, given
from hypothesis import strategies as st

from simcg.workload.formats import FORMATS
from simcg.workload.requests import Requests
from tests.workload_files import check_mutated, data_lines, row_count, traffic_of, valid_files

formats = st.sampled_from([None, *FORMATS])


@given(st.binary(max_size=200), formats)
@example(b"\x1f\x8b", None)
@example(b"{", None)
@example(b"\xef\xbb\xbf", None)
@example(b'"', None)
def test_any_bytes(data: bytes, chosen: str | None) -> None:
    """Arbitrary bytes, plain or in gzip, never raise anything but a SimcgError."""
    traffic_of(data, chosen)
    traffic_of(gzip.compress(data, mtime=0), chosen)


@given(st.text(alphabet='0123456789.-+eEnaNT:Z,;"\n\r\t {}[]tokenscuprmi_\x00é', max_size=120))
def test_any_text_after_a_header(text: str) -> None:
    """Nearly valid text is refused or read whole."""
    for head in ("time,input_tokens\n", "tokens,count\n", '{"input_tokens": 1}\n'):
        data = (head + text).encode()
        traffic = traffic_of(data)
        if traffic is not None and '"' not in text and "\r" not in text:
            assert row_count(traffic) == data_lines(data)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
names = st.sampled_from(
    ["timestamp", "input_length", "hash_ids", "output_length", "input_tokens", "tokens", "count"]
)


@given(st.lists(st.dictionaries(names, json_values), min_size=1, max_size=4), formats)
def test_any_json_objects(objects: list[dict[str, object]], chosen: str | None) -> None:
    """JSON objects with any values in the known fields are refused or read whole."""
    data = "\n".join(map(json.dumps, objects)).encode()
    traffic = traffic_of(data, chosen)
    assert traffic is None or row_count(traffic) == len(objects)


@given(valid_files(), st.sampled_from([b"", b"\n", b"\r\n\r\n"]), st.booleans())
def test_valid_files_are_read_whole(
    file: tuple[bytes, int, int], tail: bytes, packed: bool
) -> None:
    """A valid file gives one row a line with its sizes, whatever its end and packing."""
    data, count, total = file
    data += tail
    traffic = traffic_of(gzip.compress(data, mtime=0) if packed else data)
    assert traffic is not None
    assert row_count(traffic) == count
    sizes = traffic.prompt_tokens if isinstance(traffic, Requests) else traffic.tokens
    assert sizes.sum() == total


@given(valid_files(), st.data())
def test_mutated_files(file: tuple[bytes, int, int], data: st.DataObject) -> None:
    """A valid file with bytes cut, changed or put in is refused, or read whole as it now is."""
    check_mutated(file, data)
