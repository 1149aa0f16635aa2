"""Laws of sweeps: the same bytes on any processes, after any interruption; refusals in a line."""

from __future__ import annotations

import json
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcg.errors import InputError, SimcgError
from simcg.sweep.figures import FIGURES, MORE_IS_BETTER, best_first
from simcg.sweep.grid import combined, grid, points_in
from simcg.sweep.store import Record, Store
from simcg.sweep.workers import over_processes
from tests.studies import Ran, run_cli

SMALL = ("--requests", "60", "--max-chunk", "512", "--workload", "sharegpt")
GRID = ("--vary", "request-rate=2,8", "--vary", "ladder=default,best,64 512")


def sweep(*args: str) -> Ran:
    return run_cli("sweep", *GRID, *args, *SMALL)


def test_two_processes_write_the_bytes_of_one(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    first, second = sweep("--jobs", "1", "--out", str(one)), sweep("--jobs", "2", "--out", str(two))
    assert first.code == second.code == 0, second.err
    assert one.read_bytes() == two.read_bytes()
    assert first.out == second.out
    assert len(one.read_bytes().splitlines()) == 6


@pytest.mark.parametrize("kept", [0, 1, 400, -3, -400])
def test_a_sweep_resumed_after_any_byte_equals_a_fresh_one(tmp_path: Path, kept: int) -> None:
    fresh, resumed = tmp_path / "fresh", tmp_path / "resumed"
    done = sweep("--jobs", "1", "--out", str(fresh))
    resumed.write_bytes(fresh.read_bytes()[:kept])
    again = sweep("--jobs", "1", "--out", str(resumed))
    assert (again.code, again.out) == (0, done.out)
    assert resumed.read_bytes() == fresh.read_bytes()


def test_what_is_there_is_not_run_again(tmp_path: Path) -> None:
    """A figure changed in the file stays: its configuration is skipped."""
    out = tmp_path / "out"
    sweep("--jobs", "1", "--out", str(out))
    first, *rest = out.read_text().splitlines(keepends=True)
    changed = json.loads(first)
    changed["figures"]["p99_ttft_ms"] = 123456.0
    out.write_text(json.dumps(changed) + "\n" + "".join(rest))
    assert "123456.00" in sweep("--jobs", "1", "--out", str(out)).out


@pytest.mark.parametrize("policy", ["prefill-first", "bucket-edge"])
def test_a_sweep_gives_what_simulate_gives(policy: str) -> None:
    args = (*SMALL, "--seed", "3", "--policy", policy, "--ladder", "256")
    alone = json.loads(run_cli("simulate", *args, "--request-rate", "12", "--json").out)
    ran = run_cli("sweep", "--vary", "request-rate=12", "--json", *args)
    figures = json.loads(ran.out)[0]["figures"]
    assert {name: alone[name] for name in figures if name in alone} == {
        name: value for name, value in figures.items() if name in alone
    }
    assert len(figures) > 20


def test_the_best_ladder_is_that_of_optimize() -> None:
    found = json.loads(run_cli("optimize", *SMALL, "--json").out)
    words = " ".join(map(str, found["answer"]["sizes"]))
    ran = run_cli("sweep", "--vary", f"ladder=best,{words},default", "--json", "--jobs", "1",
                  *SMALL)  # fmt: skip
    figures = {r["key"]["ladder"]: r["figures"] for r in json.loads(ran.out)}
    assert figures["best"] == figures[words] != figures["default"]


def test_options_in_another_order_are_the_same_sweep(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert sweep("--jobs", "1", "--out", str(out)).code == 0
    before = out.read_bytes()
    pairs = [SMALL[n : n + 2] for n in range(0, len(SMALL), 2)]
    backwards = [word for pair in pairs[::-1] for word in pair]
    ran = run_cli("sweep", *backwards, *GRID, "--jobs", "1", "--out", str(out))
    assert (ran.code, out.read_bytes()) == (0, before), ran.err


def test_processes_give_results_in_the_order_of_the_items() -> None:
    assert list(over_processes(str, range(5), 2)) == list("01234")


def test_a_configuration_that_fails_is_a_record_and_not_the_end(tmp_path: Path) -> None:
    out = tmp_path / "out"
    ran = run_cli("sweep", "--vary", "tp=1,2", "--out", str(out), "--jobs", "1", *SMALL,
                  "--model", "gpt-oss-120b", "--memory-fraction", "0.4")  # fmt: skip
    assert ran.code == 0, ran.err
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert "memory of a rank" in records[0]["error"]
    assert records[1]["figures"]["p99_ttft_ms"] > 0
    assert "memory" in ran.out


def test_overload_is_said() -> None:
    ran = run_cli("sweep", "--vary", "request-rate=500", *SMALL, "--requests", "300")
    assert ran.code == 0
    assert "diverges" in ran.out


def test_the_best_comes_first_and_throughput_is_best_high() -> None:
    ran = sweep("--json", "--jobs", "1", "--sort", "request_throughput")
    found = [record["figures"]["request_throughput"] for record in json.loads(ran.out)]
    assert found == sorted(found, reverse=True)
    assert found[0] > found[-1]


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (("--vary", "rat=1"), "did you mean rate"),
        (("--vary", "request-rate="), "NAME=VALUE"),
        (("--vary", "request-rate"), "NAME=VALUE"),
        (("--vary", "seed=1", "--vary", "seed=2"), "once"),
        (("--vary", "seed=1,1"), "different"),
        (("--vary", "seed=one"), "not a valid integer"),
        (("--vary", "timeline=x"), "one of"),
        (("--vary", "seed=1", "--frob", "2"), "--frob"),
        (("--vary", "seed=1", "--sort", "p98"), "one of"),
        (("--vary", "seed=1", "--out", "/dev/null"), "regular file"),
        (("--vary", "seed=1", "--out", "/no/such/folder/f"), "folder that exists"),
        (("--configs", "/no/such/file"), "readable"),
        (("--vary", "seed=1", "--dask", "nowhere"), "running scheduler"),
        (("--vary", "seed=1", "--dask", "nowhere", "--jobs", "2"), "no --dask"),
        (("--vary", "seed=1,2", "--plot", "picture.jpg"), "png"),
        (("--vary", "seed=1,2", "--plot", "/no/such/folder/p.png"), "folder that exists"),
        (("--vary", "policy=mixed,prefill-first", "--plot", "p.png"), "over numbers"),
        (
            (
                "--vary",
                "rate=1,2",
                "--vary",
                "seed=" + ",".join("123456789"),
                "--vary",
                "tp=1,2,4",
                "--plot",
                "p.png",
            ),
            "at most 20",
        ),
        ((), "at least one"),
    ],
)
def test_a_bad_sweep_is_one_line(args: tuple[str, ...], word: str) -> None:
    ran = run_cli("sweep", *args, *SMALL)
    assert ran.code == 2
    assert word in ran.err
    assert ran.err.count("\n") == 1
    assert not ran.out


def test_a_figure_to_sort_by_is_checked_before_the_work(tmp_path: Path) -> None:
    ran = run_cli("sweep", *GRID, "--sort", "p98", "--out", str(tmp_path / "out"), *SMALL)
    assert ran.code == 2
    assert not list(tmp_path.iterdir())


def test_a_sweep_of_which_all_failed_has_exit_code_1_and_says_why(tmp_path: Path) -> None:
    """Its records stay, so that it fails again at once; one that runs makes the code 0."""
    out, picture = tmp_path / "out", tmp_path / "p.png"
    args = ("--out", str(out), "--plot", str(picture), "--jobs", "1", *SMALL)
    for _ in range(2):
        ran = run_cli("sweep", "--vary", "request-rate=0,-1", *args)
        assert ran.code == 1
        assert "all 2 configurations failed, the first: --request-rate: got 0.0" in ran.err
        assert ran.err.count("\n") == 1
        assert len(out.read_text().splitlines()) == 2
    assert not picture.exists()
    assert run_cli("sweep", "--vary", "request-rate=0,4", "--jobs", "1", *SMALL).code == 0


def test_every_number_of_a_run_can_be_sorted_by() -> None:
    ran = run_cli("sweep", "--vary", "seed=1", "--json", *SMALL)
    figures = json.loads(ran.out)[0]["figures"]
    assert list(figures) == [*FIGURES, "capacity_per_s"]
    assert set(FIGURES) > MORE_IS_BETTER


@given(st.lists(st.one_of(st.none(), st.floats(-9, 9), st.just("failed")), max_size=6))
def test_the_best_come_first_then_the_unknown_then_the_failed(values: list[Any]) -> None:
    """Least first, of throughputs most first; equals in the order of the sweep."""
    records = [{"error": "no"} if v == "failed" else {"figures": {"duration": v, "completed": v}}
               for v in values]  # fmt: skip
    for name, sign in (("duration", 1), ("completed", -1)):
        order = best_first(records, name)
        assert sorted(order) == list(range(len(values)))
        ranks = [(2, 0.0) if values[n] == "failed" else (1, 0.0) if values[n] is None else
                 (0, sign * values[n]) for n in order]  # fmt: skip
        assert ranks == sorted(ranks)
        assert all(a < b for (a, r), (b, q) in pairwise(zip(order, ranks, strict=True)) if r == q)


def test_the_file_of_another_sweep_is_refused_and_left_alone(tmp_path: Path) -> None:
    out = tmp_path / "out"
    sweep("--jobs", "1", "--out", str(out))
    before = out.read_bytes()
    ran = run_cli("sweep", "--vary", "seed=4,5", "--out", str(out), "--jobs", "1", *SMALL)
    assert ran.code == 2
    assert "this sweep's configuration" in ran.err
    assert out.read_bytes() == before
    out.write_text("notes\n")
    assert run_cli("sweep", "--vary", "seed=4,5", "--out", str(out), *SMALL).code == 2
    assert out.read_text() == "notes\n"


def test_results_of_a_file_that_changed_are_of_another_sweep(tmp_path: Path) -> None:
    trace, out = tmp_path / "t.csv", tmp_path / "out"
    columns = ("--columns", "prompt=p,output=o,arrival=a", "--format", "table")
    args = ("sweep", str(trace), *columns, "--vary", "seed=1,2", "--jobs", "1", "--out", str(out),
            "--max-chunk", "512")  # fmt: skip
    trace.write_text("p,o,a\n100,5,0\n200,6,1\n")
    assert run_cli(*args).code == 0
    before = out.read_bytes()
    trace.write_text("p,o,a\n400,50,0\n500,60,0\n")
    ran = run_cli(*args)
    assert (ran.code, out.read_bytes()) == (2, before)
    assert "this sweep's configuration" in ran.err


@pytest.mark.parametrize("traffic", ["-", "/dev/null"])
def test_traffic_that_can_be_read_only_once_is_refused(traffic: str) -> None:
    ran = run_cli("sweep", traffic, "--vary", "seed=1,2", "--max-chunk", "512")
    assert ran.code == 2
    assert "reads it anew" in ran.err


def test_what_was_varied_stands_in_the_table_beside_an_error() -> None:
    ran = run_cli("sweep", "--vary", "request-rate=0,4.125", "--jobs", "1", *SMALL)
    assert "request-rate" in ran.out
    assert "4.125" in ran.out


def test_a_store_holds_the_first_configurations_only(tmp_path: Path) -> None:
    keys: list[Record] = [{"seed": 1}, {"seed": 2}]
    with Store(tmp_path / "s", keys) as store:
        store.append({"key": {"seed": 1}, "figures": {}})
    with Store(tmp_path / "s", keys[:1]) as store:
        assert len(store.records) == 1
    with pytest.raises(InputError, match="another"), Store(tmp_path / "s", keys[::-1]):
        pass


def test_two_sweeps_do_not_write_one_file(tmp_path: Path) -> None:
    with (
        Store(tmp_path / "s", []),
        pytest.raises(InputError, match="no other simcg"),
        Store(tmp_path / "s", []),
    ):
        pass
    with Store(tmp_path / "s", []):
        pass


@pytest.mark.parametrize(
    "line",
    [b"", b"{", b"[]", b"null", b'{"key": {}}', b'{"figures": {}}', b'{"key": {}, "figures": 3}',
     b'{"key": {}, "error": null}', b"\0" * 9, b"\xff"],
)  # fmt: skip
def test_a_line_that_is_no_result_is_refused_and_kept(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "s"
    path.write_bytes(line + b"\n")
    with pytest.raises(InputError, match=r"line 1.*result of simcg sweep"), Store(path, [{}]):
        pass
    assert path.read_bytes() == line + b"\n"


def test_a_full_disk_is_one_error_and_the_file_goes_on_later(tmp_path: Path) -> None:
    """The disk takes half of the second line; what comes after replaces it."""
    resource = pytest.importorskip("resource")
    path, keys = tmp_path / "s", [{"seed": 1}, {"seed": 2}]
    records = [{"key": key, "figures": {"duration": 1.5}} for key in keys]
    with Store(path, keys) as store:
        store.append(records[0])
        size = path.stat().st_size
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, before[1]))
        try:
            with pytest.raises(InputError, match=r"--out.*can be written"):
                store.append(records[1])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert path.stat().st_size == size + 10
        assert store.records == records[:1]
    with Store(path, keys) as store:
        assert store.records == records[:1]
        store.append(records[1])
    with Store(path, keys) as store:
        assert store.records == records


def test_a_worker_that_is_killed_is_one_error() -> None:
    with pytest.raises(SimcgError, match="was killed"):
        list(over_processes(os._exit, [1, 1], 2))


def test_a_grid_is_every_combination_and_the_last_name_changes_fastest() -> None:
    points = [tuple(point.items()) for point in grid(["a=1, 2", "b=x,y,z"])]
    assert points == [(("a", a), ("b", b)) for a in "12" for b in "xyz"]
    assert grid([]) == [{}]


def test_options_are_also_spelled_as_results_spell_them(tmp_path: Path) -> None:
    """``request_rate`` of a record is ``request-rate`` of the command; both at once are one too
    many."""
    path, wanted = tmp_path / "configs", [{"request-rate": "4", "max-chunk": "512"}]
    for text in ('{"request_rate": 4, "max-chunk": 512}\n', "request-rate,max_chunk\n4,512\n"):
        path.write_text(text)
        assert points_in(path) == wanted
    assert grid(["request_rate=4", "max_chunk=512"]) == wanted
    for text in ('{"request_rate": 4, "request-rate": 5}\n', "max-chunk,max_chunk\n1,2\n"):
        path.write_text(text)
        with pytest.raises(InputError, match="name of its own"):
            points_in(path)


def test_the_line_that_is_wrong_is_named(tmp_path: Path) -> None:
    """Lines are those of an editor: blank ones count."""
    for text in ('{"seed": 1}\n\n{"seed": []}\n', "seed,rate\n\n1\n"):
        path = tmp_path / "configs"
        path.write_text(text)
        with pytest.raises(InputError, match="line 3"):
            points_in(path)


def test_a_sweep_of_more_than_can_be_run_is_refused() -> None:
    hundred = [{"seed": str(n)} for n in range(100)]
    thousand = [{"tp": str(n)} for n in range(1_001)]
    assert len(combined(hundred, thousand[:1_000], "")) == 100_000
    with pytest.raises(InputError, match="at most 100000"):
        combined(hundred, thousand, "")


def test_configurations_that_are_the_same_in_other_words_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "configs"
    path.write_text('{"rate": 1}\n{"rate": "1.0"}\n')
    ran = run_cli("sweep", "--configs", str(path), *SMALL)
    assert ran.code == 2
    assert "{'rate': '1.0'}, expected configurations that differ" in ran.err


def test_files_and_words_give_the_same_points(tmp_path: Path) -> None:
    lines, table = tmp_path / "a.jsonl", tmp_path / "a.csv"
    lines.write_text('{"seed": 1, "rate": 0.5}\n\n{"seed": 2}\n')
    table.write_text("seed,rate\n1,0.5\n2,\n")
    assert points_in(lines) == points_in(table) == [{"seed": "1", "rate": "0.5"}, {"seed": "2"}]
    crossed = combined(points_in(table), grid(["tp=1,2"]), "a.csv")
    assert [point["tp"] for point in crossed] == ["1", "2", "1", "2"]
    with pytest.raises(InputError, match="seed"):
        combined(points_in(table), grid(["seed=1"]), "a.csv")
    table.write_bytes(b"\xef\xbb\xbfseed,rate\r\n1,0.5\r\n2,\r\n")
    assert points_in(table) == points_in(lines)
    for bad in ("seed\n", "", "{\n", '{"seed": []}\n', "seed,rate\n1\n", "seed,seed\n1,2\n",
                'seed\n"1\n2\n', 'seed\n"1\n2"\n', "seed,\n1,2\n"):  # fmt: skip
        table.write_text(bad)
        with pytest.raises(InputError):
            points_in(table)
