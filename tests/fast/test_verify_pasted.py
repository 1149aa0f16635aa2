"""A ladder may be given as the flags that an engine takes: they are read as they are written."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcg.backend import FULL
from simcg.engines.engine import Engine
from simcg.engines.sglang import LAST_OLD_FLAGS, SGLang
from simcg.engines.vllm import VLLM
from simcg.errors import SimcgError
from simcg.formal.ladder_check.question import LadderQuestion
from simcg.formal.ladder_check.read import read_question
from simcg.ladder import Ladder
from tests.ladders import plain_ladders
from tests.studies import run_cli

ENGINES: tuple[Engine, ...] = (SGLang(), SGLang(LAST_OLD_FLAGS), VLLM())


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pasted") / "flags.txt"


def asked(file: Path, text: str) -> LadderQuestion:
    file.write_text(text)
    return read_question(str(file))


@given(plain_ladders(64).filter(len), st.sampled_from(ENGINES))
def test_the_flags_that_an_engine_is_given_read_back_as_its_ladder_and_guard(
    file: Path, ladder: Ladder, engine: Engine
) -> None:
    """What ``simcg optimize`` prints can be pasted."""
    question = asked(file, engine.flags(ladder, engine.default_backend))
    assert question.ladder == ladder
    assert question.rule == engine.admission
    assert question.assumed == ("max_tokens",)


@given(plain_ladders(64).filter(len), st.integers(1, 9))
def test_slots_in_the_json_of_a_flag_are_read(file: Path, ladder: Ladder, slots: int) -> None:
    full = Ladder.of(ladder.sizes, slots)
    question = asked(file, SGLang().flags(full, FULL))
    assert question.ladder == full
    assert question.max_requests == min(slots, ladder.ceiling)


COMMAND = """\
python -m sglang.launch_server --model-path m --chunked-prefill-size 64 \\
--cuda-graph-backend-prefill breakable --cuda-graph-bs-prefill 16 32 \\
  --tp 4
"""


@pytest.mark.parametrize(
    ("text", "sizes", "max_tokens"),
    [
        (COMMAND, (16, 32), 64),
        ("vllm serve m --max-num-batched-tokens=8 --cudagraph-capture-sizes 4,2 1", (1, 2, 4), 8),
        ("--compilation-config '{\"cudagraph_capture_sizes\": [4, 2]}'", (2, 4), 4),
        ('{"cudagraph_mode": "PIECEWISE", "cudagraph_capture_sizes": [1, 2]}', (1, 2), 2),
        ('{"prefill": {"backend": "breakable", "bs": [16, 32]}}', (16, 32), 32),
        ("--cuda-graph-bs-prefill 16 --chunked-prefill-size -1", (16,), 16),
    ],
)
def test_flags_are_found_in_what_people_have(
    file: Path, text: str, sizes: tuple[int, ...], max_tokens: int
) -> None:
    """A command of several lines, one flag, or the JSON alone; the limit of a step with them."""
    question = asked(file, text)
    assert (question.ladder.sizes, question.max_tokens) == (sizes, max_tokens)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("--tp 4", "flags with no ladder, expected one list of sizes: --cuda-graph-bs-prefill"),
        ("--cudagraph-capture-sizes 1 --cuda-graph-bs-prefill 1", "flags with several ladders"),
        ("--cudagraph-capture-sizes 1 --cudagraph-capture-sizes 2", "flags with several ladders"),
        ("--cudagraph-capture-sizes", "length >= 1"),
        ("--cudagraph-capture-sizes 1 x", "Expected `int`, got `str` - at `$.sizes[1]`"),
        ("--cudagraph-capture-sizes 0", ">= 1"),
        ("--cudagraph-capture-sizes " + "9" * 5000, "Expected `int`"),
        ("--cudagraph-capture-sizes 1 --max-num-batched-tokens 8k", "at `$.max_tokens`"),
        ("--compilation-config '{", "No closing quotation"),
        ('{"cudagraph_capture_sizes": "1 2"}', "Expected `array | null`, got `str`"),
        ('{"cudagraph_capture_sizes": [1], "cudagraph_capture_sizes": [2]}', "got two values"),
        ("sizes 1 2 4", "JSON is malformed"),
    ],
)  # fmt: skip
def test_flags_without_one_good_ladder_are_refused_in_one_line(text: str, said: str) -> None:
    ran = run_cli("verify", "--ladder", "-", stdin=text.encode())
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert "standard input" in ran.err
    assert said in ran.err


WORDS = ["--cuda-graph-bs-prefill", "--cudagraph-capture-sizes", "--compilation-config", "--tp",
         "--max-num-batched-tokens", "8", "16", "-1", "x", "'", "=", '{"prefill": {"bs": 1}}',
         "'{\"cudagraph_capture_sizes\": [3]}'", "\\\n"]  # fmt: skip


@given(st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join).filter(str.strip))
def test_any_words_are_a_ladder_or_an_error(file: Path, text: str) -> None:
    with suppress(SimcgError):
        asked(file, text)


json_values = st.recursive(
    st.none() | st.integers(-2, 40) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["prefill", "bs", "cudagraph_capture_sizes", "full_prefill_max_req"]),
            inner,
            max_size=3,
        )
    ),
)


@given(json_values)
def test_any_json_of_an_engine_is_a_ladder_or_an_error(file: Path, value: Any) -> None:
    with suppress(SimcgError):
        asked(file, json.dumps(value))
