"""Whatever the options and the file, the command line answers or refuses in one line."""

from __future__ import annotations

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.studies import Ran, run_cli
from tests.workload_files import valid_files

NUMBERS = st.sampled_from(["-1", "0", "1", "2", "7", "64", "300", "1e3", "nan", "", "9" * 25, "٣"])
OPTIONS: dict[str, st.SearchStrategy[str]] = {
    "--max-chunk": st.sampled_from(["1", "16", "500", "0", "99999999999", "x"]),
    "--model": st.sampled_from(["gpt-oss-20b", "Qwen/Qwen3-8B", "llama-3.1-8b", "", "q", "a/b"]),
    "--hardware": st.sampled_from(["b200", "H100", "a100", "", "h", "./h200", "\x00"]),
    "--tp": st.sampled_from(["1", "2", "3", "8", "0", "64"]),
    "--dtype": st.sampled_from(["fp8", "nvfp4", "mxfp4", "FP8"]),
    "--engine": st.sampled_from(["vllm", "sglang==0.5.15", "sglang==0.5.11", "sglang==", "=="]),
    "--backend": st.sampled_from(["full", "breakable", "tc_piecewise", "eager", ""]),
    "--slots": NUMBERS,
    "--rate": st.sampled_from(["0.5", "4", "0", "nan", "inf", "-inf", "1e300", "1e-300", "1_0"]),
    "--max-requests": NUMBERS,
    "--buckets": NUMBERS,
    "--ceiling": NUMBERS,
    "--include": st.lists(NUMBERS, max_size=3).map(",".join),
    "--align": NUMBERS,
    "--max-memory": st.sampled_from(["0", "1", "90MB", "1GiB", "1e9", "-1MB", "9" * 30, "inf"]),
    "--max-startup": st.sampled_from(["0", "0.5", "100", "nan", "inf", "-1", "1e400"]),
    "--columns": st.sampled_from(
        ["prompt=input_tokens", "prompt=prompt", "=", "arrival=x", "arrival=-", ""]
    ),
    "--cache-tokens": NUMBERS,
    "--workload": st.sampled_from(["uniform", "sharegpt", ""]),
    "--requests": st.sampled_from(["1", "2", "30", "0", "-5"]),
}


@st.composite
def arguments(draw: st.DrawFn) -> list[str]:
    """Up to four options, each with a value that may be impossible."""
    names = draw(st.lists(st.sampled_from(sorted(OPTIONS)), max_size=4, unique=True))
    flags = draw(st.lists(st.sampled_from(["--explain", "--json"]), unique=True))
    return [f"{name}={draw(OPTIONS[name])}" for name in names] + flags


def check_contract(ran: Ran) -> None:
    """An answer and no error, or exit code 2, nothing on standard output and one line of error."""
    assert ran.code in (0, 2), ran
    if ran.code == 0:
        assert ran.out
        assert ran.err == ""
    else:
        assert ran.out == ""
        assert ran.err.startswith("simcg: error: ")
        assert ran.err.count("\n") == 1
        assert ran.err[:-1].isprintable()
        assert "Traceback" not in ran.err


def check(command: list[str], content: bytes | None, options: list[str]) -> None:
    """The contract, with or without a file; nothing is left in the folder."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "input"
        if content is not None:
            file.write_bytes(content)
        traffic = [] if content is None else [str(file)]
        ran = run_cli(*command, *traffic, "--max-chunk=600", *options)
        check_contract(ran)
        if ran.code == 0 and "--json" in options:
            assert json.loads(ran.out)
        assert os.listdir(folder) == ([] if content is None else ["input"])  # noqa: PTH208  # names


@settings(max_examples=50)
@given(arguments())
def test_options(options: list[str]) -> None:
    """On a built-in workload, any options are answered or refused."""
    drawn = [] if any("--requests" in option for option in options) else ["--requests=20"]
    check(["optimize"], None, [*drawn, *options])


@settings(max_examples=40)
@given(valid_files(), arguments(), st.sampled_from(["optimize", "workload"]))
def test_valid_files(file: tuple[bytes, int, int], options: list[str], command: str) -> None:
    """On a small valid file of any format, any options are answered or refused."""
    if command == "workload":
        known = ("--max-chunk", "--model", "--tp", "--engine", "--rate", "--columns", "--json")
        options = [option for option in options if option.startswith(known)]
    check([command], file[0], options)


@settings(max_examples=60)
@given(st.binary(max_size=40) | st.text("0123456789,\n-.tokenscuput_\"'{}[]:", max_size=60))
def test_any_bytes(content: bytes | str) -> None:
    """Bytes or text of any kind are traffic or refused."""
    check(["optimize"], content.encode() if isinstance(content, str) else content, [])


LADDERS = st.sampled_from(["64, 128", "vllm", "mine=7", "1 2 3", "a=sglang-decode"]) | st.text(
    "0123456789,=av l-", max_size=12
)


@settings(max_examples=40)
@given(st.lists(LADDERS, min_size=1, max_size=3))
def test_any_ladders(ladders: list[str]) -> None:
    """Whatever is typed as a ladder is compared or refused."""
    given_ladders = [f"--ladder={text}" for text in ladders]
    check(["compare"], b"tokens,count\n10,1\n500,2\n", given_ladders)
