"""What the command line prints: text that fits, JSON that says the same, help that is true."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from simcg.cli.app import COMMANDS, app
from simcg.report.units import ms, percent, seconds, size
from simcg.reproduce import silicon
from tests.example_files import write_example_files
from tests.studies import run_cli

WIDTH = 100

SETTINGS = [
    "--requests 300",
    "--requests 300 --explain",
    "--requests 300 --workload azure-code --engine vllm --model gpt-oss-120b --hardware gb300"
    " --tp 4 --dtype mxfp4 --explain",
    "--requests 200 --workload mooncake-conversation --model llama-3.1-70b --hardware b200 --tp 8"
    " --max-chunk 16384 --rate 9 --buckets 40",
    "--requests 100 --workload uniform --engine sglang==0.5.11 --max-chunk 1000 --ceiling 900"
    " --include 7,13 --align 8 --max-memory 300MB --max-startup 100",
    "--requests 100 --backend full --slots 3 --max-requests 2",
    "--requests 100 --buckets 0",
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with the files that examples name."""
    write_example_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def words_of(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("setting", SETTINGS)
def test_text_fits_and_json_agrees(setting: str) -> None:
    """Lines have at most 100 columns, the flags excepted, and text and JSON say the same."""
    plain = run_cli("optimize", *setting.split())
    machine = run_cli("optimize", "--json", *setting.split())
    assert (plain.code, plain.err, machine.code, machine.err) == (0, "", 0, "")
    value = json.loads(machine.out)
    lines = plain.out.splitlines()
    pasted = [line for line in lines if line in (value["flags"], value["flags_fewest"])]
    assert pasted == to_paste(value)
    assert max(len(line) for line in lines if line not in pasted) <= WIDTH
    text = words_of(plain.out)
    for sentence in (
        *value["verdict"], "regime: " + value["regime"], "proof: " + value["proof"],
        *value["notes"], *("note: " + warning for warning in value["warnings"]),
        value["traffic"]["source"],
    ):  # fmt: skip
        assert words_of(sentence) in text
    sizes = value["answer"]["sizes"]
    assert re.search(rf"ladder[a-z ]*, {len(sizes)} graphs", text)
    assert f": {' '.join(map(str, sizes)) or 'none'} " in text
    check_table(lines, value)
    if "--explain" in setting:
        for use in value["buckets"]:
            assert re.search(rf"\b{use['bucket']} +\S+ +{use['steps']:,} ", plain.out)


def to_paste(value: dict[str, Any]) -> list[str]:
    """The lines of flags in their order: what is recommended first, nothing twice, and none for
    fewer graphs where JSON says why not.
    """
    assert (value["flags_fewest"] is None) == (value["flags_fewest_withheld"] is not None)
    both = [value["flags"], *([value["flags_fewest"]] if value["flags_fewest"] else [])]
    return list(dict.fromkeys(both[::-1] if value["decision"] == "keep_default" else both))


def check_table(lines: list[str], value: dict[str, Any]) -> None:
    """The rows of the table are the JSON figures of default, answer, half the default, fewest and
    no graphs, and steps without a graph are called what the engine runs them as.
    """
    ladders = [value[name] for name in ("default", "answer", "half", "no_loss", "no_graphs")]
    ladders = [ladder for ladder in ladders if ladder is not None]
    fallback = "compiled" if value["engine"].startswith("vllm") else "eager"
    expected = {
        "graphs": [str(len(one["sizes"])) for one in ladders],
        "mean step (ms)": [ms(one["mean_step_ns"]) for one in ladders],
        "padded tokens": [percent(one["padded_share"]) for one in ladders],
        f"steps that run {fallback}": [percent(one["eager_share"]) for one in ladders],
        "graph memory, live": [size(one["memory_bytes"]["live"]) for one in ladders],
        "graph memory, device": [size(one["memory_bytes"]["device"]) for one in ladders],
        f"peak with {fallback} steps": [size(one["memory_bytes"]["peak"]) for one in ladders],
        "start-up": [seconds(one["startup_ns"]["total"]) for one in ladders],
    }
    for title, figures in expected.items():
        row = next(line for line in lines if re.match(re.escape(title) + " {2,}", line))
        shown = re.split(r" {2,}", row.strip())[1:]
        assert shown[: len(figures)] == figures


def test_the_help_says_each_command_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """On 80 columns no description is cut off or wrapped, and all commands have one."""
    monkeypatch.setenv("COLUMNS", "80")
    lines = [line.strip() for line in run_cli("--help").out.splitlines()]
    for name, does in COMMANDS.items():
        assert f"{name:<10} {does}" in lines
        assert does.endswith(".")
        assert "..." not in does


def test_what_engines_compile_is_not_called_eager() -> None:
    """vLLM runs compiled code without graphs, and no sentence of its answer says eager."""
    text = run_cli("optimize", "--requests", "200", "--engine", "vllm").out
    said = text.partition("\nproof: ")[0]
    assert "compiled" in said
    assert "eager" not in said


@pytest.mark.usefixtures("folder")
def test_json_is_exact() -> None:
    """JSON holds integers for bytes and ns, and the figures of the model's limits."""
    value = json.loads(run_cli("optimize", "trace.csv", "--json", "--max-chunk", "1024").out)
    answer = value["answer"]
    assert all(isinstance(n, int) for n in answer["memory_bytes"].values())
    assert all(isinstance(n, int) for n in answer["startup_ns"].values())
    assert isinstance(answer["cost_ns"], int)
    assert value["gain"]["low"] <= value["gain"]["share"] <= value["gain"]["high"]
    assert value["traffic"]["steps"] == 60
    mean = answer["mean_step_ns"] / value["default"]["mean_step_ns"]
    assert value["gain"]["share"] == pytest.approx(1 - mean)


@pytest.mark.parametrize(
    "line",
    [
        "compare --requests 99 --ladder mine=64,128,4096 --ladder tokenspeed-prefill"
        " --ladder a=1 --ladder b=2 --ladder c=3 --ladder d=8196",
        "workload --requests 99 --workload azure-code --rate 3",
        "workload --workload uniform --requests 99",
        "ladder sglang", "ladder vllm", "ladder sglang==0.5.15 --max-chunk 1000",
        "ladder sglang-decode --max-chunk 300", "ladder tensorrt-llm-decode --max-chunk 128",
        "model qwen3-8b", "model gpt-oss-120b --tp 4", "model qwen3-235b-a22b --tp 8 --dtype fp8",
    ],
)  # fmt: skip
def test_other_commands_fit_and_have_json(line: str) -> None:
    """Every other command prints lines of at most 100 columns, and one JSON document."""
    plain, machine = run_cli(*line.split()), run_cli(*line.split(), "--json")
    assert (plain.code, plain.err, machine.code, machine.err) == (0, "", 0, "")
    assert max(map(len, plain.out.splitlines())) <= WIDTH
    assert json.loads(machine.out)


@pytest.mark.parametrize(
    ("said", "most"), [("60", 60), ("1", 40), ("0", 40), ("500", 100), ("wide", 100), ("", 100)]
)
def test_columns_are_honoured_where_output_is_piped(
    said: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to 100 and down to what tables need; what is no number says nothing."""
    monkeypatch.setenv("COLUMNS", said)
    ran = run_cli("profile", "show", "b200")
    assert ran.code == 0
    assert max(map(len, ran.out.splitlines())) in range(most - 20, most + 1)


def test_compare_scores_like_optimize() -> None:
    """The ladder that optimize chooses, given to compare, has the same cost of the same steps."""
    setting = ["--workload", "uniform", "--requests", "99", "--max-chunk", "2048"]
    best = json.loads(run_cli("optimize", "--json", *setting).out)
    given = "best=" + ",".join(map(str, best["answer"]["sizes"]))
    scores = json.loads(run_cli("compare", "--json", "--ladder", given, *setting).out)
    assert scores["best"]["mean_step_ns"] == best["answer"]["mean_step_ns"]
    assert scores["default"] == best["default"]


@pytest.mark.parametrize("engine", ["sglang", "sglang==0.5.11", "vllm"])
@pytest.mark.parametrize("backend", ["", "--backend full --slots 5"])
def test_flags_read_back(engine: str, backend: str) -> None:
    """The sizes in the flags are the answer's, and so are backend and slots."""
    if backend and engine != "sglang":
        pytest.skip("only newer SGLang has backend full")
    setting = ["--requests", "150", "--engine", engine, *backend.split()]
    value = json.loads(run_cli("optimize", "--json", "--include", "512", *setting).out)
    flags = value["flags"]
    if backend:
        config = json.loads(re.fullmatch(r"--cuda-graph-config '(.*)'", flags)[1])["prefill"]  # type: ignore[index]  # a mismatch fails here
        assert config["bs"] == value["answer"]["sizes"]
        assert (config["backend"], config["full_prefill_max_req"]) == ("full", 5)
        return
    *_, name = re.findall(r"--[a-z-]+", flags)
    assert [int(n) for n in flags.split(name)[1].split()] == value["answer"]["sizes"]


def test_vllm_has_its_own_default() -> None:
    """vLLM: 51 default sizes up to 512, no guard, and compiled code above them."""
    value = json.loads(run_cli("optimize", "--json", "--engine", "vllm", "--requests", "99").out)
    sizes = value["default"]["sizes"]
    assert (len(sizes), sizes[0], sizes[-1]) == (51, 1, 512)
    shown = json.loads(run_cli("ladder", "vllm", "--json").out)
    assert (shown["sizes"], shown["max_ratio"], shown["fallback"]) == (sizes, None, "compiled")
    assert any("run compiled" in note for note in value["warnings"]) or 8192 in sizes


def examples() -> list[str]:
    """The command lines in all help texts, continued ones joined, but for those that need a GPU."""
    commands = [import_module(f"simcg.cli.{name}").command for name in COMMANDS]
    joined = [re.sub(r"\\\n\s*", " ", str(command.help)) for command in (app, *commands)]
    lines = [one for text in joined for one in re.findall(r"^\s*simcg ([a-z]+ .*)$", text, re.M)]
    return [line.strip() for line in lines if not line.startswith(("calibrate", "measure"))]


def test_the_help_has_examples() -> None:
    """All commands but two show how they are used, as --help prints it."""
    shown = words_of(run_cli("--help").out + "".join(run_cli(n, "-h").out for n in COMMANDS))
    assert all(words_of(f"simcg {line}") in shown.replace(" \\ ", " ") for line in examples())
    assert len({line.split()[0] for line in examples()}) == len(COMMANDS) - 2


@pytest.mark.parametrize("line", examples())
def test_examples_of_the_help_run(line: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each example printed by --help runs as it stands, but for those that measure a GPU.

    ``reproduce silicon``, which takes minutes, is given every 250th of the points.
    """
    points = silicon.claimed_points()[::250]
    monkeypatch.setattr(silicon, "claimed_points", lambda: points)
    ran = run_cli(*shlex.split(line))
    missed = line.startswith("validate")  # the committed runs miss some stated limits
    assert (ran.code, ran.err) == (int(missed), "")
    assert ran.out
    for name in re.findall(r"\S+\.png", line):
        assert (folder / name).stat().st_size > 10_000


def test_standard_input_is_traffic(folder: Path) -> None:
    """``-`` reads what a file would."""
    data = (folder / "trace.csv").read_bytes()
    piped = json.loads(run_cli("optimize", "-", "--json", stdin=data).out)
    named = json.loads(run_cli("optimize", "trace.csv", "--json").out)
    assert piped["answer"] == named["answer"]


def modules_after(*args: str) -> set[str]:
    """The top-level modules that a process has imported when the command is over."""
    code = (
        "import sys\nsys.argv = ['simcg'] + sys.argv[1:]\nfrom simcg.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        "sys.stderr.write(' '.join({name.split('.')[0] for name in sys.modules}))\n"
    )
    line = [sys.executable, "-c", code, *args]
    ran = subprocess.run(line, check=True, capture_output=True, text=True)
    return set(ran.stderr.split())


def test_heavy_imports_stay_away() -> None:
    """No command and no help imports scipy, torch or, without a picture, matplotlib."""
    heavy = {"torch", "scipy", "matplotlib"}
    assert not modules_after("--help") & heavy
    assert not modules_after("optimize", "--help") & heavy
    assert not modules_after("optimize", "--requests", "50") & heavy


@pytest.mark.parametrize("setting", [[], ["--json"]])
def test_reader_that_stops_early(setting: list[str]) -> None:
    """When the reader closes the pipe, as head does, there is no traceback."""
    line = [sys.executable, "-m", "simcg", "model", "gpt-oss-120b", *setting]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
    assert said == b""


def test_ascii_output_is_no_error() -> None:
    """Where standard output is ASCII, other characters are replaced."""
    line = [sys.executable, "-m", "simcg", "optimize", "--requests", "50"]
    environment = {"PYTHONIOENCODING": "ascii", "PATH": ""}
    ran = subprocess.run(line, check=False, capture_output=True, env=environment)
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert b"?" in ran.stdout
