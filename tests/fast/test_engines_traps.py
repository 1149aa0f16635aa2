"""What a user is warned about, and when not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcg.engines import engine_named, warnings
from simcg.errors import InputError
from simcg.ladder import Ladder

SGLANG, UNGUARDED, VLLM = (engine_named(name) for name in ("sglang", "sglang==0.5.15", "vllm"))


@pytest.mark.parametrize("chunk", [4, 2048, 4096, 8192, 16384])
def test_an_unguarded_default_ladder_holds_no_trap(chunk: int) -> None:
    """SGLang's own ladder on a chunk of its grid needs no warning, where there is no guard."""
    assert warnings(UNGUARDED.default_ladder(chunk), UNGUARDED, chunk) == ()


def test_the_guard_refuses_one_token_under_the_default_ladder() -> None:
    """A step of one token runs eager, as its bucket 4 is more than twice as large."""
    (warning,) = warnings(SGLANG.default_ladder(8192), SGLANG, 8192)
    assert warning.startswith("steps of n = 1 run eager: their bucket has more than 2 n tokens")


def test_a_sparse_ladder_names_the_ranges_that_the_guard_refuses() -> None:
    """3072 then 8192: steps of 3073..4095 tokens run eager (a public case: 3208)."""
    ladder = Ladder.of([*range(1, 3073), 8192])
    (warning,) = warnings(ladder, SGLANG, 8192)
    assert "steps of n = 3073..4095 run eager" in warning
    assert warnings(ladder, UNGUARDED, 8192) == ()


def test_many_ranges_are_counted_and_not_listed() -> None:
    """The line stays short: four ranges, then how many more."""
    (warning,) = warnings(Ladder.of([4, 16, 64, 256, 1024, 4096]), SGLANG, 4096)
    assert "steps of n = 1, 5..7, 17..31, 65..127 and 2 more ranges" in warning


def test_a_ceiling_below_the_chunk_pays_memory_twice() -> None:
    """The line names the steps without a bucket and what they run instead."""
    (sglang,) = warnings(UNGUARDED.default_ladder(4096), UNGUARDED, 8192)
    assert "steps of 4097..8192 tokens, every full chunk among them, run eager" in sglang
    assert "memory is paid twice" in sglang
    (vllm,) = warnings(VLLM.default_ladder(8192), VLLM, 8192)
    assert "513..8192 tokens" in vllm
    assert "run compiled" in vllm


def test_an_off_grid_chunk_has_no_top_bucket() -> None:
    """SGLang's default ladder for a chunk of 8000 ends at 7680."""
    (warning,) = warnings(UNGUARDED.default_ladder(8000), UNGUARDED, 8000)
    assert "the top size 7680 is below the chunk 8000" in warning


def test_8196_for_8192_is_noticed() -> None:
    """The typo of several public recipes: the chunk is padded, and the size looks mistyped."""
    found = warnings(Ladder.of([4096, 8196]), UNGUARDED, 8192)
    assert found == (
        "the chunk 8192 is no captured size: full chunks need the 8196 bucket",
        "size 8196 is 4 above 8192, which is missing: was 8192 meant?",
    )
    assert warnings(Ladder.of([4096, 6004]), UNGUARDED, 6000)[1:] == (
        "size 6004 is 4 above 6000, which is missing: was 6000 meant?",
    )


def test_sizes_above_the_chunk_are_never_used() -> None:
    """Only the first size at or above the chunk is reached."""
    (warning,) = warnings(Ladder.of([2048, 4096, 8192, 16384]), UNGUARDED, 4096)
    assert warning == "no step of at most 4096 tokens ever replays in 8192, 16384"


def test_a_bucket_that_the_guard_never_admits_is_never_used() -> None:
    """With a chunk of 100 a bucket of 300 is out of reach, and the steps above 64 run eager."""
    found = warnings(Ladder.of([*range(1, 65), 300]), SGLANG, 100)
    assert any("steps of n = 65..100 run eager" in line for line in found)
    assert any("ever replays in 300" in line for line in found)


def test_an_unread_version_says_what_is_assumed() -> None:
    """0.5.16 may or may not have the guard; the user is told which is assumed."""
    engine = engine_named("sglang==0.5.16")
    (warning,) = warnings(Ladder.of([1, 2, 4]), engine, 4)
    assert warning.startswith("sglang 0.5.16: assumed to have the 2x guard")


@given(
    st.sets(st.integers(1, 300), max_size=10),
    st.integers(1, 300),
    st.integers(1, 8),
)
def test_slots_change_no_warning(sizes: set[int], chunk: int, slots: int) -> None:
    """These traps are about tokens: the same sizes with slots give the same lines."""
    assert warnings(Ladder.of(sizes, slots), SGLANG, chunk) == warnings(
        Ladder.of(sizes), SGLANG, chunk
    )


def test_no_graphs_no_warnings() -> None:
    """The empty ladder is a choice, not a trap."""
    assert warnings(Ladder(()), SGLANG, 8192) == ()
    with pytest.raises(InputError, match="max_chunk: got 0"):
        warnings(Ladder(()), SGLANG, 0)
