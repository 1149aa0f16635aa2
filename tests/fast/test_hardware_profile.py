"""Profiles: the built-in ones, and files that are not quite profiles."""

from __future__ import annotations

import copy
import json
import math
import string
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcg.backend import BACKENDS
from simcg.cost.step import StepCost
from simcg.errors import SimcgError
from simcg.hardware.catalog import load_profile, profile_names
from simcg.hardware.datasheet import DATASHEETS
from simcg.hardware.profile import HardwareProfile, decode_profile
from simcg.model.catalog import architecture_named
from simcg.model.forward import forward_pass
from simcg.model.ops import Attention, Gemm, GroupedGemm
from simcg.provenance import ORDER, RELATIVE_ERROR, Provenance, weakest
from tests.cost_laws import curve_profile
from tests.costs import figures, one_request

VALID: dict[str, Any] = json.loads(msgspec.json.encode(curve_profile()))
FORWARDS = [forward_pass(architecture_named(m), tp=2) for m in ("qwen3-8b", "qwen3-30b-a3b")]


def read(content: object) -> HardwareProfile | str:
    """What these bytes, or this value as JSON, are read as: a profile or one line of error."""
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    try:
        return decode_profile(data, "some.json")
    except SimcgError as error:
        line = str(error)
    assert line.isprintable()
    assert line.startswith("some.json: ")
    assert line.endswith("expected a simcg hardware profile")
    return line


def changed(path: str, value: object) -> dict[str, Any]:
    """The valid profile with one entry, such as gpu.sms.value, set; ``...`` removes it."""
    out = copy.deepcopy(VALID)
    *parents, last = path.split(".")
    at: Any = out
    for name in parents:
        at = at[int(name) if isinstance(at, list) else name]
    if value is ...:
        del at[last]
    else:
        at[int(last) if isinstance(at, list) else last] = value
    return out


def paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every place in a JSON value."""
    yield path
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from paths(inner, (*path, key))


PATHS = list(paths(VALID))


@pytest.mark.parametrize("name", profile_names())
def test_built_in_profiles_load_and_survive_a_round_trip(name: str) -> None:
    """Encoded and read again a profile is the same; its name is its file's."""
    profile = load_profile(name)
    assert decode_profile(msgspec.json.encode(profile), name) == profile
    assert profile.name == name
    assert load_profile(name.upper()) == profile


@pytest.mark.parametrize("name", profile_names())
def test_every_figure_says_where_it_comes_from(name: str) -> None:
    """All figures and curves carry a provenance and a source in words; sizes are plausible."""
    profile = load_profile(name)
    found = figures(profile)
    assert len(found) > 30
    for path, figure in found.items():
        assert figure.provenance in ORDER, path
        assert len(figure.source) > 5, path
        assert 0 <= figure.spread < math.inf, path
    for curve in profile.curves:
        assert curve.provenance in ORDER
        assert len(curve.source) > 5
    for grid in profile.grids:
        assert len(grid.source) > 5


@pytest.mark.parametrize("name", DATASHEETS)
def test_gpus_are_those_of_their_data_sheets(name: str) -> None:
    """Rates within 3 % and sizes within 8 %: makers and tools count gigabytes differently."""
    gpu, sheet = load_profile(name).gpu, DATASHEETS[name]
    assert gpu.sms.value == sheet.sms.value
    assert gpu.memory_bytes.value == pytest.approx(sheet.memory_bytes.value, rel=0.08)
    assert gpu.memory_bandwidth.value == pytest.approx(sheet.memory_bandwidth.value, rel=0.04)
    for dtype, peak in sheet.peak_flops.items():
        assert gpu.peak_flops[dtype].value == pytest.approx(peak.value, rel=0.03)


@pytest.mark.parametrize("name", profile_names())
def test_measurements_name_what_they_were_made_on(name: str) -> None:
    """Kernels were timed on the GPU at hand, or come from tables that the profile names with their
    version, framework and license; of other GPUs at most dispatch was measured of the host."""
    profile = load_profile(name)
    measured = {path for path, f in figures(profile).items() if f.provenance == "measured"}
    assert profile.curves
    if name == "h200":
        assert profile.environment["gpu"] == "NVIDIA H200"
        assert not profile.grids
        return
    said = profile.environment
    assert said["tables"].startswith("aiconfigurator-core 0.12.0")
    assert said["framework"].split()[0] in ("sglang", "vllm")
    assert "Apache-2.0" in said["license"]
    if "gpu" not in said:
        assert {path.split(".")[1] for path in measured} <= {"dispatch"}
    bf16 = next(grid for grid in profile.grids if grid.weights == "bf16")
    assert said["framework"] in bf16.source


BAD: dict[str, tuple[str, object, str]] = {
    "no name": ("name", " ", "name ' ' is empty"),
    "name that does not print": ("name", "h\x07", "characters that do not print"),
    "missing field": ("gaps", ..., "`gaps`"),
    "missing value": ("gpu.sms.value", ..., "$.gpu.sms"),
    "null": ("gpu.sms.value", None, "$.gpu.sms.value"),
    "text": ("host.piece.value", "12", "$.host.piece.value"),
    "negative": ("host.piece.value", -1, "value -1.0 is not a number in 0..1e+18 - at"),
    "huge": ("memory.first_graph_bytes.value", 1e19, "$.memory.first_graph_bytes"),
    "negative spread": ("gaps.node.spread", -0.5, "spread -0.5"),
    "unknown provenance": ("gaps.node.provenance", "guessed", "$.gaps.node.provenance"),
    "empty source": ("gaps.node.source", " ", "source is empty - at `$.gaps.node`"),
    "unknown field": ("gpu.tensor_cores", 4, "`tensor_cores` - at `$.gpu`"),
    "unknown field with a line break": ("gpu.a\nb", 4, "a b"),
    "list for object": ("roofline", [], "$.roofline"),
    "number for list": ("curves", 3, "$.curves"),
    "no bf16 rate": ("gpu.peak_flops", {}, 'no entry "bf16"'),
    "unknown rate": ("gpu.peak_flops.int4", {}, "$.gpu.peak_flops"),
    "no rate": ("gpu.peak_flops.bf16.value", 0, "peak_flops.bf16 is 0.0"),
    "no SMs": ("gpu.sms.value", 0, "sms is 0.0"),
    "no bandwidth": ("gpu.memory_bandwidth.value", 0, "memory_bandwidth is 0.0"),
    "share of nothing": ("roofline.link.value", 0, "link is 0.0, not a number >= 1e-06 - at"),
    "no common dispatch": ("host.dispatch", {}, "$.host"),
    "dispatch of an hour": ("host.dispatch..value", 4e12, "dispatch. is 4000000000000.0 ns"),
    "latency of an hour": ("host.launch_latency.value", 4e12, "launch_latency"),
    "gap of an hour": ("gaps.stream.value", 4e12, "$.gaps"),
    "replay lists differ": ("host.replay_nodes", [1, 2], "equal lengths"),
    "no replay": ("host.replay_nodes", [], "equal lengths"),
    "replay of no node": ("host.replay_nodes.0", 0, "replay_nodes is not strictly ascending"),
    "half a node": ("host.replay_nodes.0", 0.5, "$.host.replay_nodes[0]"),
    "replay of an hour": ("host.replay.0.value", 4e12, "replay[0]"),
    "unknown op": ("curves.0.key.op", "conv", "$.curves[0].key.op"),
    "descending": ("curves.0.x", [16, 1, 64], "x is not strictly ascending - at `$.curves[0]`"),
    "repeated": ("curves.0.x", [1, 16, 16], "x is not strictly ascending"),
    "x of zero": ("curves.0.x", [0, 16, 64], "x[0] is 0.0"),
    "too short": ("curves.0.ns", [1, 2], "ns has 2 entries, not 3 - at `$.curves[0]`"),
    "too long": ("curves.3.spread_ns", [1] * 7, "spread_ns has 7 entries, not 6"),
    "empty curve": ("curves.0.x", [], "ns has 3 entries, not 0"),
    "zero time": ("curves.2.ns.1", 0, "ns[1] is 0.0"),
    "zero spread": ("curves.2.spread_ns.1", 0, "spread_ns[1] is 0.0"),
    "y of a product": ("curves.0.y", [1.0], "attention curves"),
    "attention without y": ("curves.3.y", [], "entries"),
    "empty source of a curve": ("curves.1.source", "", "source is empty - at `$.curves[1]`"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_each_fault_is_named_in_one_line(name: str) -> None:
    """The line names the file and the field, and says what is wrong with it."""
    path, value, says = BAD[name]
    line = read(changed(path, value))
    assert isinstance(line, str)
    assert says in line


def test_attention_needs_two_points_a_side_and_keys_must_differ() -> None:
    """A plane of one point has no slope, and of two curves of one kernel neither is right."""
    short = changed("curves.3.x", [16.0])
    short["curves"][3].update(ns=[1.0] * 3, spread_ns=[1.0] * 3)
    assert "two entries or more in x and in y" in str(read(short))
    twice = copy.deepcopy(VALID)
    twice["curves"].append(twice["curves"][0])
    assert "curves[4] has the key of curves[0]" in str(read(twice))


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity", "1e999", "01", "0x10", "1,5"])
def test_numbers_that_json_does_not_have_are_refused(word: str) -> None:
    """Not a number, infinities and other spellings are no JSON, so no profile."""
    text = json.dumps(VALID).replace('"value": 108', f'"value": {word}', 1)
    assert word in text
    assert isinstance(read(text.encode()), str)


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"[]", b"null", b"7", b"\xff\xfe{}", b"\x00" * 99, b"[" * 10_000, b"{" * 10_000,
     b'{"name": "\xff"}', b"\x1f\x8b\x08\x00", b"simcg", b'{"name": 1' + b"0" * 400 + b"}"],
    ids=lambda data: repr(data[:12]),
)  # fmt: skip
def test_what_is_no_profile_at_all_is_refused(data: bytes) -> None:
    """Empty, binary, compressed, of another type or absurdly nested."""
    assert isinstance(read(data), str)


@given(st.integers(0, len(json.dumps(VALID)) - 1))
def test_a_cut_file_is_refused(length: int) -> None:
    """No proper beginning of a profile is one."""
    assert isinstance(read(json.dumps(VALID).encode()[:length]), str)


def usable(profile: HardwareProfile) -> None:
    """A profile that loads can price every backend, or says in one line why it cannot."""
    for forward in FORWARDS:
        for backend in BACKENDS.values():
            try:
                times = StepCost(forward, profile, backend).times(one_request([1, 500, 8192]))
            except SimcgError:
                continue
            assert times.ns.min() >= 0
            assert times.ns.max() < 2**60


def looked_up() -> dict[str, list[dict[str, Any]]]:
    """Keys of curves that the forwards look up, by op."""
    keys: dict[str, list[dict[str, Any]]] = {"elementwise": [{"op": "elementwise", "kind": "norm"}]}
    for op in (op for forward in FORWARDS for op in forward.numbered[0]):
        if isinstance(op.shape, Attention | Gemm | GroupedGemm):
            names = ("heads", "kv_heads", "head_dim", "experts", "top_k", "k", "n")
            sizes = {f: getattr(op.shape, f) for f in names if hasattr(op.shape, f)}
            kind = {"Attention": "attention", "Gemm": "gemm", "GroupedGemm": "grouped_gemm"}
            name = kind[type(op.shape).__name__]
            keys.setdefault(name, []).append({"op": name, **sizes})
    return keys


KEYS = looked_up()
NUMBERS = st.sampled_from([0, -1, 1e-300, 1e-9, 1, 2, 3, 0.5, 1e9, 1e12, 1e18, 2**63, 2**70, 1e300])
JUNK = st.sampled_from([None, True, "", "x", [], {}, [1], [1, 2, 3], {"value": 1}]) | NUMBERS


@given(st.lists(st.tuples(st.sampled_from(PATHS[1:]), JUNK | st.just(...)), min_size=1, max_size=3))
def test_a_spoiled_profile_is_refused_or_usable(
    changes: list[tuple[tuple[str | int, ...], Any]],
) -> None:
    """Any entries replaced or removed: one line of error, or a profile that prices steps."""
    out = copy.deepcopy(VALID)
    for path, value in changes:
        at: Any = out
        try:
            for key in path[:-1]:
                at = at[key]
            if value is ...:
                del at[path[-1]]
            else:
                at[path[-1]] = value
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took the place away
    result = read(out)
    if isinstance(result, HardwareProfile):
        usable(result)


FIGURES = [path for path in PATHS if path and path[-1] == "value"]
EXTREMES = st.sampled_from([0, 5e-324, 1e-300, 1e-9, 1, 1e9, 1e12, 1e18])


@given(st.dictionaries(st.sampled_from(FIGURES), EXTREMES, min_size=1, max_size=4), st.data())
def test_extreme_figures_are_refused_or_usable(
    values: dict[tuple[str | int, ...], float], data: st.DataObject
) -> None:
    """Absurdly small and large figures and curves end in a price or in one line of error."""
    out = copy.deepcopy(VALID)
    for path, value in values.items():
        at: Any = out
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = value
    curve = out["curves"][data.draw(st.integers(0, 3))]
    curve["key"] = data.draw(st.sampled_from([curve["key"], *KEYS[curve["key"]["op"]]]))
    for name in [axis for axis in ("x", "y", "ns") if axis in curve]:
        size = len(curve[name])
        numbers = st.floats(5e-324, 1e300) | st.floats(1, 1.001) | st.floats(1, 1e12)
        drawn = data.draw(st.lists(numbers, min_size=size, max_size=size))
        curve[name] = drawn if name == "ns" else sorted(drawn)
    result = read(out)
    if isinstance(result, HardwareProfile):
        usable(result)


def test_no_gap_is_shorter_than_none() -> None:
    """A gap far above those measured over rows must not make kernels end before they begin."""
    out = copy.deepcopy(VALID)
    out["gaps"]["node"]["value"] = 1e9
    result = read(out)
    assert isinstance(result, HardwareProfile)
    usable(result)


@given(st.data())
def test_spoiled_bytes_are_refused_or_usable(data: st.DataObject) -> None:
    """Bytes cut out, doubled or replaced anywhere: never another exception."""
    content = bytearray(json.dumps(VALID).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content)))
        until = data.draw(st.integers(at, min(at + 8, len(content))))
        new = st.sampled_from([b"", b"9", b"-", b".", b"e9", b'"', b"null", b"\xff", b"\n", b"}"])
        content[at:until] = data.draw(new)
    result = read(bytes(content))
    if isinstance(result, HardwareProfile):
        usable(result)


@given(st.binary(max_size=200))
def test_noise_is_refused(data: bytes) -> None:
    """No random bytes are a profile."""
    assert isinstance(read(data), str)


@pytest.mark.parametrize(("typed", "meant"), [("h20", "h200"), ("GB30", "gb300"), ("a10", "a100")])
def test_a_mistyped_name_is_answered_with_a_close_one(typed: str, meant: str) -> None:
    """The error lists the profiles and suggests one."""
    with pytest.raises(SimcgError, match=f"did you mean {meant}") as caught:
        load_profile(typed)
    assert all(name in str(caught.value) for name in profile_names())


@given(st.text(string.ascii_letters + string.digits + "-_ äß", min_size=1, max_size=12))
def test_unknown_names_are_refused(name: str) -> None:
    """A name that is no profile's is an error that lists them."""
    if name.lower() not in profile_names():
        with pytest.raises(SimcgError, match="a profile file or one of a100, "):
            load_profile(name)


def test_profiles_are_read_from_files() -> None:
    """Anything with a dot or a slash is a file, named in its errors; a folder is none."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "mine.json"
        path.write_text(json.dumps(VALID))
        assert load_profile(str(path)) == curve_profile()
        broken = Path(folder) / "broken.json"
        broken.write_text(json.dumps(VALID)[:-1])
        with pytest.raises(SimcgError, match=r"broken\.json: Input data was truncated"):
            load_profile(str(broken))
        for missing in (str(Path(folder) / "none.json"), folder):
            with pytest.raises(SimcgError, match="expected a readable profile file"):
                load_profile(missing)


def test_a_prediction_is_as_good_as_its_weakest_figure() -> None:
    """Weakest of all; errors grow from strong to weak; nothing at all is no reason for doubt."""
    errors = [RELATIVE_ERROR[one] for one in ORDER]
    assert errors == sorted(errors)
    assert set(RELATIVE_ERROR) == set(ORDER)
    assert weakest([]) == "measured"
    given_order: list[Provenance] = ["measured", "datasheet", "fitted"]
    assert weakest(given_order) == "datasheet"
    assert weakest(reversed(given_order)) == "datasheet"
