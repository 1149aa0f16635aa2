"""Profiles from measured tables: exact where measured, filtered where the host was timed, refused
in one line where they cannot be read. The tables are written here, by known functions.
"""

from __future__ import annotations

import json
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from simcg.cost.kernels import Kernels, Work
from simcg.hardware.catalog import load_profile
from simcg.hardware.profile import CurveKey, HardwareProfile, decode_profile
from simcg.model.ops import AllReduce, Attention, Gemm
from simcg.silicon.build import Note, import_profile
from simcg.silicon.source import open_source
from simcg.silicon.write import profile_text
from tests.cost_laws import ints, op_of, rows_work
from tests.silicon_tables import (
    BATCHES,
    EAGER_US,
    STEPS,
    Edit,
    K,
    M,
    N,
    all_reduce_us,
    attention_us,
    decode_us,
    experts_us,
    gemm_us,
    write_package,
)
from tests.studies import run_cli

BASE = load_profile("h200")


def imported(folder: Path, edit: Edit | None = None) -> tuple[HardwareProfile, dict[str, Note]]:
    """The profile of a package that is written first, and its notes by table."""
    path = write_package(folder, edit=edit)
    profile, notes = import_profile(open_source(str(path)), "h100", "sglang", None, BASE)
    return profile, {f"{note.table} {note.version}": note for note in notes}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[HardwareProfile, dict[str, Note]]:
    return imported(tmp_path_factory.mktemp("whole"))


def test_products_cost_what_was_measured(whole: tuple[HardwareProfile, Any]) -> None:
    """At every size and row of the table, to a nanosecond, called measured and cited; tiles
    between rows that lie further apart cost what the first row of them did."""
    profile, _ = whole
    price = Kernels(profile)
    for k in K:
        for n in N:
            found = price.time(op_of(Gemm(k, n)), rows_work([*M, 385, 640]))
            expected = [round(1e3 * gemm_us(m, n, k)) for m in (*M, 385, 640)]
            assert found.ns.tolist() == pytest.approx(expected, abs=1)
            assert found.provenance == "measured"
            assert found.relative_spread == 0  # these tables have no noise
    grid = profile.grids[0]
    assert grid.source == "aiconfigurator-core 7.8.9: h100_sxm, sglang 0.9.1"
    assert (grid.k, grid.n) == (K, N)


def test_products_between_sizes_are_interpolated_and_say_so(
    whole: tuple[HardwareProfile, Any],
) -> None:
    """A table that is a power of k and n is met at all of them; the stated error is 0 then."""
    profile, notes = whole
    price = Kernels(profile)
    found = price.time(op_of(Gemm(1440, 2880)), rows_work([1, 128, 1024]))
    expected = [1e3 * gemm_us(m, 2880, 1440) for m in (1, 128, 1024)]
    np.testing.assert_allclose(found.ns, expected, rtol=1e-3)
    assert found.provenance == "interpolated"
    assert notes["gemm bf16 sglang 0.9.1"].remark == "held out 0.0, 0.0, 0.0 %"


def test_the_stated_error_is_that_of_held_out_sizes(tmp_path: Path) -> None:
    """Every other k slower by 20 %: sizes between their neighbours are off by that."""

    def rough(file: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        slow = K[1::2]
        if file != "gemm_perf":
            return rows
        return [{**r, "latency": r["latency"] * (1.2 if r["k"] in slow else 1)} for r in rows]

    profile, _ = imported(tmp_path, rough)
    sigma = {grid.weights: grid.sigma for grid in profile.grids}
    assert sigma["bf16"] == pytest.approx(np.log(1.2), abs=1e-3)
    found = Kernels(profile).time(op_of(Gemm(90, 512)), rows_work([1]))
    assert found.relative_spread == sigma["bf16"]


def test_noise_is_that_of_rows_that_do_equal_work(tmp_path: Path) -> None:
    """Rows of one tile off by 5 % at random: the grid says about so, and a table without 0."""
    rng = np.random.default_rng(7)

    def noisy(file: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if file != "gemm_perf":
            return rows
        return [{**r, "latency": r["latency"] * np.exp(0.05 * rng.standard_normal())} for r in rows]

    profile, _ = imported(tmp_path, noisy)
    assert profile.grids[0].noise == pytest.approx(0.05, rel=0.2)


def test_attention_costs_what_was_measured(whole: tuple[HardwareProfile, Any]) -> None:
    """Prompts at half their length in keys, decoding requests at theirs; longer contexts than
    were measured are carried on and are not called measured."""
    price = Kernels(whole[0])
    op = op_of(Attention(32, 8, 128), "attention")
    for batch, length in ((1, 16), (1, 4096), (8, 512), (256, 64), (4, 8192)):
        n = ints([batch * length])
        work = Work(n, n, ints([batch]), n * (length + 1) // 2)
        found = price.time(op, work)
        assert found.ns[0] == pytest.approx(1e3 * attention_us(batch, length), rel=0.01)
        assert found.provenance == "measured"
    n = ints([256])
    cached = price.time(op, Work(n, n, ints([1]), n * 4096))
    assert cached.provenance == "fitted"
    assert cached.ns[0] >= price.time(op, Work(n, n, ints([1]), n * 128)).ns[0]
    none = ints([0])
    for batch in BATCHES:
        for keys in (step + 1 for step in STEPS if step + 1 in (16, 128, 512, 4096, 16384)):
            m = ints([batch])
            found = price.time(op, Work(m, none, m, none, m, m * keys))
            assert found.ns[0] == pytest.approx(1e3 * decode_us(batch, keys), rel=1e-3)
            assert found.provenance == "measured"


def test_whole_layers_and_collectives(whole: tuple[HardwareProfile, Any]) -> None:
    """Expert layers by their split over ranks; all-reduces by bytes of 16-bit values, in graphs."""
    curves = {curve.key: curve for curve in whole[0].curves}
    for ranks in (1, 4):
        key = CurveKey("experts", k=2880, n=2880 // ranks, experts=128, top_k=4, weights="mxfp4")
        at = dict(zip(curves[key].x, curves[key].ns, strict=True))
        assert at[64.0] == pytest.approx(1e3 * experts_us(64) / ranks, abs=1)
    price = Kernels(whole[0])
    found = price.time(op_of(AllReduce(2048, 4), "collective"), rows_work([8])).ns[0]
    assert found == pytest.approx(1e3 * all_reduce_us(4, 8192), abs=1)


def test_dispatch_is_eager_less_graph(whole: tuple[HardwareProfile, Any]) -> None:
    """One dispatch costs what the eager collective takes more; nothing else of the host is
    called measured."""
    host = whole[0].host
    assert host.dispatch[""].value == pytest.approx(1e3 * EAGER_US, abs=1)
    assert host.dispatch[""].provenance == "measured"
    assert {host.break_body.provenance, host.piece.provenance} == {"assumed"}
    assert "as on h200" in host.break_body.source


def test_rows_that_timed_the_launch_are_dropped(tmp_path: Path) -> None:
    """A type of which no product is faster than a launch of 60 us is not taken and counted; the
    other type loses no row."""

    def launched(file: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if file != "gemm_perf":
            return rows
        return [
            {**r, "latency": max(r["latency"], 0.06)} if r["gemm_dtype"] == "fp8_block" else r
            for r in rows
        ]

    profile, notes = imported(tmp_path, launched)
    assert [grid.weights for grid in profile.grids] == ["bf16"]
    note = notes["gemm fp8_block sglang 0.9.1"]
    flat = sum(gemm_us(m, n, k) < 78 for m in M for n in N for k in K)  # 1.3 launches
    assert (note.host_bound, note.kept) == (flat, 0)
    clean = notes["gemm bf16 sglang 0.9.1"]
    assert (clean.host_bound, clean.disordered) == (0, 0)
    # another framework has timed the same kernels
    write_package(tmp_path, framework="vllm")
    source = open_source(str(tmp_path / "aiconfigurator_core"))
    second, _ = import_profile(source, "h100", "sglang", None, BASE)
    sources = {grid.weights: grid.source.split(", ")[1] for grid in second.grids}
    assert sources == {"bf16": "sglang 0.9.1", "fp8_block": "vllm 0.9.1"}


def test_rows_out_of_order_are_found_and_no_others(tmp_path: Path) -> None:
    """Forty rows twice as slow as they were, where a larger product is faster: exactly those
    count, and cost at most what the larger one does."""
    rng = np.random.default_rng(3)
    inner = [(m, n, k) for m in M[:-4] for n in N[:-1] for k in K[:-1]]
    inner = [size for size in inner if size[0] < 128]  # rows of the same tile are as fast
    planted = {inner[i] for i in rng.choice(len(inner), 40, replace=False)}

    def late(file: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if file != "gemm_perf":
            return rows
        return [
            {**r, "latency": 2 * r["latency"]} if (r["m"], r["n"], r["k"]) in planted else r
            for r in rows
        ]

    profile, notes = imported(tmp_path, late)
    assert notes["gemm bf16 sglang 0.9.1"].disordered == len(planted)
    price = Kernels(profile)
    for m, n, k in planted:
        found = int(price.time(op_of(Gemm(k, n)), rows_work([m])).ns[0])
        assert found <= 1.5 * 1e3 * gemm_us(m, n, k)


def test_a_wheel_a_folder_and_an_installed_package_are_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same tables give the same profile however they are found."""
    package = write_package(tmp_path / "site")
    wheel = shutil.make_archive(str(tmp_path / "x"), "zip", tmp_path / "site")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.delitem(sys.modules, "aiconfigurator_core", raising=False)
    texts = []
    for path in (str(package), str(package.parent), str(package / "systems"), wheel,
                 "aiconfigurator_core"):  # fmt: skip
        profile, _ = import_profile(open_source(path), "h100", "sglang", "0.9.1", BASE)
        texts.append(profile_text(profile).replace(b"of unknown version", b"7.8.9"))
    assert len(set(texts)) == 1


def test_the_command_writes_a_profile_that_reads_back(tmp_path: Path) -> None:
    """Its table and JSON name what was taken; the file is a profile that other commands take."""
    package, out = write_package(tmp_path), tmp_path / "out.json"
    line = ["profile", "import", str(package), "--system", "h100_sxm", "--framework", "sglang"]
    ran = run_cli(*line, "--out", str(out))
    assert (ran.code, ran.err) == (0, "")
    assert max(map(len, ran.out.splitlines())) <= 100
    profile = decode_profile(out.read_bytes(), "out.json")
    machine = json.loads(run_cli(*line, "--out", str(out), "--json").out)
    assert [note["table"] for note in machine["tables"]][:2] == ["gemm bf16", "gemm fp8_block"]
    assert msgspec.json.decode(msgspec.json.encode(profile)) == json.loads(out.read_bytes())
    shown = json.loads(run_cli("profile", "show", str(out), "--json").out)
    assert shown["environment"]["framework"] == "sglang 0.9.1"
    assert sorted(p.name for p in tmp_path.iterdir() if "out" in p.name) == ["out.json"]


REFUSED: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "system": ({"--system": "h10"}, ("--system: got 'h10'", "one of h100_sxm")),
    "framework": ({"--framework": "vllm"}, ("--framework: got 'vllm'", "one of sglang")),
    "version": ({"--version": "0.1"}, ("--version: got '0.1'", "one of 0.9.1")),
    "base": ({"--base": "h20"}, ("hardware: got 'h20'", "did you mean h200?")),
    "out": ({"--out": "none/x.json"}, ("none/x.json", "No such file")),
    "path": ({"PATH": "nowhere"}, ("nowhere", "a wheel, a directory or the installed")),
    "file": ({"PATH": "note.txt"}, ("note.txt", "not a wheel")),
    "folder": ({"PATH": "empty"}, ("empty: got 'no systems/data'",)),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_imported_is_refused(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line, exit code 2, nothing written."""
    changes, says = REFUSED[case]
    write_package(tmp_path)
    (tmp_path / "note.txt").write_text("no archive")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    given = {"PATH": "aiconfigurator_core", "--system": "h100", "--framework": "sglang",
             "--out": "x.json"} | changes  # fmt: skip
    path = given.pop("PATH")
    before = sorted(tmp_path.iterdir())
    ran = run_cli("profile", "import", path, *(word for pair in given.items() for word in pair))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.count("\n") == 1
    for text in says:
        assert text in ran.err
    assert sorted(tmp_path.iterdir()) == before


def test_broken_tables_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that is no Parquet, a system without its sizes, and a missing reader: one line."""
    package = write_package(tmp_path)

    def error() -> str:
        line = ("import", str(package), "--system", "h100", "--framework", "sglang")
        ran = run_cli("profile", *line, "--out", str(tmp_path / "x.json"))
        assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
        return ran.err

    with monkeypatch.context() as without:
        without.setitem(sys.modules, "pyarrow", None)
        assert "pyarrow is not installed, expected: pip install 'simcg[silicon]'" in error()
    (package / "systems" / "h100_sxm.yaml").write_text("gpu: {mem_bw: 3}")
    assert "h100_sxm.yaml: got \"no 'node'\"" in error()
    table = package / "systems/data/h100_sxm/gemm/sglang/0.9.1/gemm_perf.parquet"
    table.write_bytes(b"PAR1 nothing")
    assert "gemm_perf.parquet: got 'unreadable', expected a Parquet table" in error()


def test_missing_tables_are_noted_and_the_roofline_stands_in(tmp_path: Path) -> None:
    """Without a table of experts there is a profile, which says that it lacks them."""
    profile, notes = imported(tmp_path, lambda file, rows: [] if file == "moe_perf" else rows)
    assert notes["moe sglang"].remark == "missing"
    assert not [curve for curve in profile.curves if curve.key.op == "experts"]


@pytest.mark.skipif(find_spec("aiconfigurator_core") is None, reason="no aiconfigurator-core")
@pytest.mark.parametrize(
    ("name", "framework"), [("gb300", "sglang"), ("h200-vllm", "vllm"), ("rtx-pro-6000", "vllm")]
)
def test_built_in_profiles_are_imports_of_the_package(name: str, framework: str) -> None:
    """The committed kernels are those that the package's tables give today, figure by figure."""
    source = open_source("aiconfigurator_core")
    system = name.removesuffix(f"-{framework}")
    committed = load_profile(name)
    version = committed.environment["framework"].split()[1]
    made, _ = import_profile(source, system, framework, version, BASE)
    made = decode_profile(profile_text(made), "made")
    assert made.grids == committed.grids
    assert made.curves == committed.curves
    assert made.gpu == committed.gpu
