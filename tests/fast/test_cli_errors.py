"""What cannot be used is refused in one line that names the place, the value and what was expected:
exit code 2, nothing on standard output, no file left behind.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from tests.studies import run_cli

GOOD = "arrival_s,input_tokens\n1,100\n2,300\n"
FILES: dict[str, bytes] = {
    "good.csv": GOOD.encode(),
    "hist.csv": b"tokens,count\n100,3\n300,5\n",
    "empty.csv": b"",
    "wrong.csv": b"a,b\n1,2\n",
    "negative.csv": (GOOD + "3,-4\n").encode(),
    "fraction.csv": (GOOD + "3,1.5\n").encode(),
    "mixed.csv": (GOOD + "noon,10\n").encode(),
    "long.csv": b"input_tokens\n10\n50000\n",
    "binary.csv": bytes(range(128, 256)) * 9,
    "cut.csv.gz": gzip.compress(GOOD.encode(), mtime=0)[:-9],
    "large.csv": b"tokens,count\n8193,1\n",
    "countless.csv": b"tokens,count\n100,1099511627776\n",
    "notes.json": b"not json",
    "model.json": b'{"model_type": "gpt_neo"}',
}

CASES: list[tuple[str, tuple[str, ...]]] = [
    ("optimize none.csv", ("none.csv", "No such file")),
    ("optimize empty.csv", ("empty.csv", "an empty file")),
    ("optimize .", (".", "Is a directory")),
    ("optimize -", ("standard input: got an empty file",)),
    ("optimize wrong.csv", ("wrong.csv, header", "['a', 'b']", "--columns prompt=NAME")),
    ("optimize negative.csv", ("negative.csv, line 4, input_tokens", "'-4'", "an integer from 1")),
    ("optimize fraction.csv", ("fraction.csv, line 4, input_tokens", "'1.5'")),
    ("optimize mixed.csv", ("mixed.csv, line 4, arrival_s", "'noon'", "--skip-invalid")),
    ("optimize long.csv", ("long.csv, line 3, input_tokens", "'50000'", "40960, the model's")),
    ("optimize binary.csv", ("binary.csv, line 1", "UTF-8")),
    ("optimize cut.csv.gz", ("cut.csv.gz", "gzip cut short")),
    ("optimize large.csv", ("large.csv, tokens", "8193", "8192")),
    ("optimize countless.csv", ("total cost", "2**59")),
    ("optimize good.csv second.csv", ("unexpected extra argument", "second.csv")),
    ("optimize good.csv --model qwen3-8", ("model: got 'qwen3-8'", "did you mean qwen3-8b?")),
    ("optimize good.csv --model a/b-7b", ("model: got 'a/b-7b'", "its config.json, downloaded")),
    ("optimize good.csv --model none.json", ("none.json", "No such file")),
    ("optimize good.csv --model notes.json", ("notes.json",)),
    ("optimize good.csv --model model.json", ("model.json",)),
    ("optimize good.csv --hardware h20", ("hardware: got 'h20'", "did you mean h200?")),
    ("optimize good.csv --hardware none.json", ("none.json", "No such file")),
    ("optimize good.csv --hardware notes.json", ("notes.json", "hardware profile")),
    ("optimize good.csv --hardware .", ("Is a directory",)),
    ("optimize good.csv --engine sglan", ("engine: got 'sglan'", "sglang or vllm")),
    ("optimize good.csv --engine sglang==0.4.9", ("'0.4.9'", "0.5.11..0.5.23")),
    ("optimize good.csv --engine vllm==next", ("vllm version: got 'next'", "a release such as")),
    ("optimize good.csv --backend ful", ("--backend", "'ful'", "did you mean full?")),
    ("optimize good.csv --engine vllm --backend full", ("--backend with vllm", "tc_piecewise")),
    ("optimize good.csv --slots 4", ("--slots: got 4", "breakable has no slots")),
    ("optimize good.csv --slots 0 --backend full", ("--slots", "0", "x>=1")),
    ("optimize good.csv --tp 3", ("tp: got 3", "a divisor of 32")),
    ("optimize good.csv --tp 0", ("--tp", "0", "1<=x<=1024")),
    (f"optimize good.csv --backend full --slots {10**25}", ("--slots", "131072")),
    (f"simulate good.csv --max-num-seqs {10**25}", ("--max-num-seqs", "131072")),
    ("optimize good.csv --dtype int3", ("--dtype", "'int3'", "mxfp4")),
    ("optimize good.csv --max-chunk 0", ("--max-chunk: got 0", "from 1 to 131072")),
    ("optimize good.csv --max-chunk 1000000000", ("--max-chunk: got 1000000000", "131072")),
    ("optimize good.csv --max-chunk 8k", ("--max-chunk", "'8k'", "integer")),
    ("optimize good.csv --rate 0", ("--rate: got 0.0", "> 0")),
    ("optimize good.csv --rate=-2", ("--rate: got -2.0", "> 0")),
    ("optimize good.csv --rate nan", ("--rate: got nan", "> 0")),
    ("optimize good.csv --rate inf", ("--rate: got inf", "> 0")),
    ("optimize good.csv --rate 1e-300", ("rate: got 1e-300", "146 years")),
    ("optimize hist.csv --rate 2", ("--rate: got 2.0", "hist.csv has no times")),
    ("optimize --workload azure-cod", ("--workload", "did you mean azure-code?", "uniform")),
    ("optimize good.csv --workload azure-code", ("--workload", "no traffic file beside it")),
    ("optimize good.csv --requests 5", ("--requests: got 5", "no traffic file beside it")),
    ("optimize --requests 0", ("--requests", "0", "1<=x<=10000000")),
    ("optimize --columns prompt=a", ("--columns", "a file that it describes")),
    ("optimize --cache-tokens 5", ("--cache-tokens", "a file that it describes")),
    ("optimize --skip-invalid", ("--skip-invalid", "a file that it describes")),
    ("optimize good.csv --columns prompt", ("--columns", "'prompt'", "ROLE=NAME")),
    ("optimize good.csv --columns prompt=x", (", --columns prompt", "'x'", "'input_tokens'")),
    ("optimize good.csv --columns word=input_tokens", ("--columns, word", "a role")),
    ("optimize good.csv --columns prompt=a,prompt=b", ("--columns", "names a role twice")),
    ("optimize hist.csv --cache-tokens 5", ("hist.csv, cache_tokens", "no requests")),
    ("optimize good.csv --buckets -1", ("--buckets", "-1")),
    ("optimize good.csv --buckets 5000", ("--buckets", "5000", "512")),
    ("optimize good.csv --include 1,x", ("--include", "'1,x'", "integers >= 1")),
    ("optimize good.csv --include ,", ("--include", "','", "integers >= 1")),
    ("optimize good.csv --include 9000", ("--include: got 9000", "--max-chunk 8192")),
    ("optimize good.csv --ceiling 9000", ("--ceiling: got 9000", "--max-chunk 8192")),
    ("optimize good.csv --include 512 --ceiling 256", ("--ceiling 256", "--include 512")),
    ("optimize good.csv --include 1,2,3 --buckets 2", ("--buckets 2", "3 sizes are needed")),
    ("optimize good.csv --align 9000", ("--align: got 9000", "--max-chunk 8192")),
    ("optimize good.csv --max-memory 9", ("--max-memory: got 9", "at least", "--buckets 0")),
    ("optimize good.csv --max-memory 1TB", ("--max-memory", "'1TB'", "800MB")),
    ("optimize good.csv --max-memory -1", ("--max-memory", "'-1'")),
    ("optimize good.csv --max-startup nan", ("--max-startup", "'nan'", "seconds")),
    ("optimize good.csv --max-startup 1e300", ("--max-startup", "'1e300'", "seconds")),
    ("optimize good.csv --max-startup 0 --include 8", ("--max-startup: got 0.0", "seconds")),
    ("optimize good.csv --plot no/where/x.png", ("--plot", "no/where/x.png", "folder that exists")),
    ("optimize good.csv --plot x.jpg", ("--plot", "x.jpg", "png, svg, pdf")),
    ("optimize good.csv --plot picture", ("--plot", "picture", "png, svg, pdf")),
    ("optimize good.csv --plot .", ("--plot", "directory")),
    ("optimize good.csv --plot /proc/x.png", ("--plot", "/proc/x.png")),
    ("optimize good.csv --frobnicate", ("No such option", "--frobnicate")),
    ("optimise good.csv", ("No such command", "optimise")),
    ("compare good.csv", ("--ladder",)),
    ("compare good.csv --ladder fast", ("--ladder: got 'fast'", "sglang-prefill")),
    ("compare good.csv --ladder vlm", ("--ladder: got 'vlm'", "did you mean vllm?")),
    ("compare good.csv --ladder 0", ("--ladder: got '0'", "sizes >= 1")),
    ("compare good.csv --ladder 64,-1", ("--ladder: got '64,-1'", "sizes such as")),
    ("compare good.csv --ladder =64", ("--ladder: got '=64'", "a name")),
    ("compare good.csv --ladder a=64 --ladder a=65", ("--ladder: got 'a=65'", "no other ladder")),
    ("compare good.csv --ladder default=64", ("--ladder: got 'default=64'", "no other ladder")),
    ("ladder sglong", ("engine: got 'sglong'",)),
    ("ladder vllm==0.1", ("vllm version: got '0.1.0'", "0.33")),
    ("ladder sglang --max-chunk 0", ("--max-chunk: got 0",)),
    ("ladder tokenspeed-prefill --max-chunk 99999999", ("--max-chunk: got 99999999",)),
    ("model gpt-oss-12b", ("model: got 'gpt-oss-12b'", "did you mean gpt-oss-120b?")),
    ("model gpt-oss-120b --tp 7", ("tp: got 7", "a divisor of 64")),
    ("workload large.csv", ("large.csv, tokens", "8193")),
    ("workload good.csv --rate nan", ("--rate: got nan",)),
]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with the files of FILES."""
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check_refusal(ran: Any, says: tuple[str, ...]) -> None:
    assert ran.code == 2, ran
    assert ran.out == ""
    assert ran.err.startswith("simcg: error: ")
    assert ran.err.count("\n") == 1
    assert ran.err[:-1].isprintable()
    for part in says:
        assert part in ran.err


@pytest.mark.parametrize(("line", "says"), CASES, ids=[line for line, _ in CASES])
def test_refusals(folder: Path, line: str, says: tuple[str, ...]) -> None:
    """One line on standard error says what is wrong; nothing else is printed or written."""
    check_refusal(run_cli(*line.split()), says)
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command", ["optimize", "compare --ladder 64", "workload"])
def test_bad_traffic_is_refused_alike(command: str) -> None:
    """Every command that reads traffic refuses it at the same place."""
    name, *rest = command.split()
    place = ("negative.csv, line 4, input_tokens: got '-4', expected an integer from 1",)
    check_refusal(run_cli(name, "negative.csv", *rest), place)


@pytest.mark.usefixtures("folder")
def test_bad_standard_input_is_refused() -> None:
    """Standard input is read like a file, and called so in the error."""
    check_refusal(
        run_cli("optimize", "-", stdin=FILES["negative.csv"]), ("standard input, line 4", "'-4'")
    )


def spoiled(path: str, value: Any) -> bytes:
    """A built-in profile with the entry at the dotted path replaced, or deleted for ``...``."""
    text = (files("simcg.hardware") / "data" / "h200.json").read_text(encoding="utf-8")
    profile = json.loads(text)
    *way, last = path.split(".")
    place: Any = profile
    for key in way:
        place = place[int(key) if isinstance(place, list) else key]
    at = int(last) if isinstance(place, list) else last
    if value is ...:
        del place[at]
    else:
        place[at] = value
    return json.dumps(profile).encode()


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("curves.3.ns.2", float("nan"), ()),
        ("curves.3.ns.2", None, ("$.curves[3].ns[2]", "null")),
        ("curves.3.ns.2", -5.0, ("curves[3]", "ns[2]", "-5.0")),
        ("curves.3.ns.2", "fast", ("curves[3]", "ns[2]")),
        ("curves.3.ns.2", ..., ("curves[3]", "ns has")),
        ("curves.3.ns", ..., ("curves[3]", "ns")),
        ("curves.3.spread_ns.1", 0.0, ("curves[3]", "spread_ns[1]")),
        ("curves.3.spread_ns.1", -1.0, ("curves[3]", "spread_ns[1]")),
        ("curves.3.x.1", 0.0, ("curves[3]", "x")),
        ("curves.3.key.op", "conv", ("curves[3]", "conv")),
        ("host.launch_latency", ..., ("host", "launch_latency")),
        ("host.launch_latency.value", -1.0, ("launch_latency",)),
        ("gpu.memory_bandwidth.value", 0.0, ("gpu", "memory_bandwidth")),
        ("gpu.sms.value", 0.0, ("gpu", "sms")),
        ("name", 5, ("name",)),
        ("name", "", ("name ''",)),
        ("extra", 5, ("extra",)),
    ],
)
def test_spoiled_profiles_are_refused(
    folder: Path, path: str, value: Any, says: tuple[str, ...]
) -> None:
    """A profile with a missing, impossible or unknown entry is refused, naming file and field."""
    (folder / "gpu.json").write_bytes(spoiled(path, value))
    check_refusal(run_cli("optimize", "good.csv", "--hardware", "gpu.json"), ("gpu.json", *says))


def test_failed_picture_leaves_nothing(folder: Path) -> None:
    """Where the picture cannot be written there is no file, no part of one, and no answer."""
    (folder / "x.png.part").mkdir()  # so that writing fails for any user
    check_refusal(run_cli("optimize", "good.csv", "--plot", "x.png"), ("--plot", "x.png"))
    assert not (folder / "x.png").exists()


@pytest.mark.usefixtures("folder")
def test_a_process_is_refused_too() -> None:
    """As a process of its own: exit code 2, one line, no traceback."""
    line = [sys.executable, "-m", "simcg", "optimize", "negative.csv"]
    ran = subprocess.run(line, check=False, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("simcg: error: negative.csv, line 4, input_tokens: got '-4'")
    assert ran.stderr.count("\n") == 1
