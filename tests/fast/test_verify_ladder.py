"""``simcg verify --ladder``: its ranges are what dispatch is defined to do, batch by batch."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from simcg.engines.sglang import SGLang
from simcg.engines.sizes import tensorrt_llm_unpadded_decode_sizes
from simcg.engines.vllm import VLLM
from simcg.errors import SimcgError
from simcg.formal.ladder_check.check import LadderReport, check_ladder
from simcg.formal.ladder_check.proof import cross_check, prove_ranges
from simcg.formal.ladder_check.question import LadderQuestion, default_requests, sorted_ladder
from simcg.formal.ladder_check.ranges import Range, ranges
from simcg.formal.ladder_check.read import read_question
from simcg.ladder import EAGER_INDEX, AdmissionRule, Ladder, fallback_reason
from tests.ladders import defined_choice, plain_ladders, rules, slotted_ladders
from tests.studies import run_cli

MOST = 24

questions = st.builds(
    LadderQuestion,
    (plain_ladders(MOST) | slotted_ladders(MOST)).filter(len),
    rules(MOST),
    st.integers(1, MOST + 6),
    st.integers(1, 10),
)


def batches_of(question: LadderQuestion) -> list[tuple[int, int]]:
    return [
        (n, m)
        for n in range(1, question.max_tokens + 1)
        for m in range(1, min(n, question.max_requests) + 1)
    ]


def holds(r: Range, n: int, m: int) -> bool:
    return r.first_n <= n <= r.last_n and r.first_m <= m <= r.last_m


@given(questions)
def test_every_batch_is_in_one_range_and_gets_what_dispatch_is_defined_to_give(
    question: LadderQuestion,
) -> None:
    """And where it runs eager, the reason is that of the one place that knows reasons."""
    found, ladder, rule = ranges(question), question.ladder, question.rule
    for n, m in batches_of(question):
        (r,) = (r for r in found if holds(r, n, m))
        assert r.index == defined_choice(ladder, rule, n, m)
        assert r.bucket == (None if r.index == EAGER_INDEX else ladder.buckets[r.index])
        assert r.reason == fallback_reason(ladder, rule, n, m)


@given(questions)
def test_a_range_is_a_hole_where_batches_run_eager_unasked(question: LadderQuestion) -> None:
    """Above the ceiling, without slots, or refused by a guard that lets a smaller batch replay."""
    found = ranges(question)
    batches = batches_of(question)
    replayed = [(n, m) for n, m in batches if any(holds(r, n, m) and r.bucket for r in found)]
    for r in found:
        mine = [(n, m) for n, m in batches if holds(r, n, m)]
        assert mine, "a range without a batch"
        refused_above = r.reason == "guard" and any(
            a < r.first_n and any(m == b for _, m in mine) for a, b in replayed
        )
        assert r.hole == (r.reason in ("above the ceiling", "too many requests") or refused_above)


@given(questions)
def test_the_worst_padding_is_that_of_some_batch_and_of_none_more(question: LadderQuestion) -> None:
    batches = batches_of(question)
    for r in (r for r in ranges(question) if r.bucket is not None):
        padded = [r.bucket.num_tokens - n for n, m in batches if holds(r, n, m) and r.bucket]
        assert r.worst_rows == max(padded)


@settings(max_examples=40)
@given(questions)
def test_both_proofs_accept_the_ranges(question: LadderQuestion) -> None:
    report = check_ladder(question)
    assert report.proof.holds, report.proof
    assert report.cross.wrong is None
    assert 1 <= report.cross.batches <= len(batches_of(question))


@settings(max_examples=40)
@given(questions, st.data())
def test_neither_proof_accepts_a_wrong_range(question: LadderQuestion, data: st.DataObject) -> None:
    """With another bucket, or without its last n."""
    found = list(ranges(question))
    at = data.draw(st.integers(0, len(found) - 1))
    r = found[at]
    found[at] = data.draw(
        st.sampled_from([replace(r, index=r.index + 1), replace(r, last_n=r.last_n - 1)])
    )
    assert not prove_ranges(question, tuple(found)).holds
    assert cross_check(question, tuple(found)).wrong is not None


@settings(max_examples=40)
@given(questions, st.data())
def test_a_range_that_is_left_out_is_missed_by_z3(
    question: LadderQuestion, data: st.DataObject
) -> None:
    found = list(ranges(question))
    del found[data.draw(st.integers(0, len(found) - 1))]
    assert not prove_ranges(question, tuple(found)).holds


def shuffled(sizes: list[int]) -> st.SearchStrategy[list[int]]:
    return st.permutations(sizes + sizes[:1])


@given(st.sets(st.integers(1, 64), min_size=1, max_size=8).map(sorted).flatmap(shuffled))
def test_order_and_repeats_change_a_note_and_no_range(sizes: list[int]) -> None:
    path = "-"
    document = {"sizes": sizes, "max_tokens": 70}
    ran = run_cli("verify", "--ladder", path, "--json", stdin=json.dumps(document).encode())
    clean = {"sizes": sorted(set(sizes)), "max_tokens": 70}
    other = run_cli("verify", "--ladder", path, "--json", stdin=json.dumps(clean).encode())
    one, two = json.loads(ran.out), json.loads(other.out)
    assert one["ranges"] == two["ranges"]
    assert [x for x in one["notes"] if "more than once" not in x] == two["notes"]
    assert len(one["notes"]) == len(two["notes"]) + 1


def checked(sizes: list[int], max_tokens: int, rule: AdmissionRule | None = None) -> LadderReport:
    ladder, repeated = sorted_ladder(Ladder.of(sizes).buckets)
    question = LadderQuestion(
        ladder, rule or AdmissionRule(), max_tokens, default_requests(ladder, max_tokens)
    )
    return check_ladder(replace(question, repeated=repeated))


@pytest.mark.parametrize("most", [9, 15, 17, 100, 255])
def test_the_public_rule_with_a_guard_of_its_own_has_a_hole(most: int) -> None:
    """[1, 2, 4, 8] + range(16, max + 1, 16) beside n <= max, where 16 does not divide max."""
    report = checked([1, 2, 4, 8, *range(16, most + 1, 16)], most)
    (hole,) = report.holes
    assert (hole.reason, hole.last_n) == ("above the ceiling", most)
    assert not report.good


def test_a_hundred_sequences_and_multiples_of_eight_miss_97_to_100() -> None:
    (hole,) = checked(list(range(8, 101, 8)), 100).holes
    assert (hole.first_n, hole.last_n) == (97, 100)


@pytest.mark.parametrize("chunk", [512, 2048, 8192])
def test_the_default_ladder_of_sglang_has_no_hole_up_to_a_chunk_of_its_grid(chunk: int) -> None:
    """Below half of its first size the guard refuses n = 1, which is no hole."""
    engine = SGLang()
    report = checked(list(engine.default_ladder(chunk).sizes), chunk, engine.admission)
    assert report.good
    assert [(r.first_n, r.last_n) for r in report.ranges if r.bucket is None] == [(1, 1)]


def test_the_default_ladder_of_vllm_does_not_cover_a_long_chunk() -> None:
    (hole,) = checked(list(VLLM().default_ladder(8192).sizes), 8192).holes
    assert (hole.first_n, hole.last_n) == (513, 8192)


def test_an_unpadded_ladder_has_holes_at_every_size_that_is_not_in_it() -> None:
    sizes = tensorrt_llm_unpadded_decode_sizes(64)
    holes = checked(list(sizes), 64, AdmissionRule(Fraction(1))).holes
    assert {n for r in holes for n in range(r.first_n, r.last_n + 1)} == {*range(1, 65)} - {*sizes}


@given(plain_ladders(MOST).filter(len), st.sampled_from([Fraction(3, 2), Fraction(2), Fraction(3)]))
def test_a_guard_leaves_holes_exactly_where_the_lemma_says(ladder: Ladder, ratio: Fraction) -> None:
    """Below the ceiling there is one if and only if some T_{k+1} > r (T_k + 1)."""
    sizes = ladder.sizes
    holes = checked(list(sizes), ladder.ceiling, AdmissionRule(ratio)).holes
    wide = any(b > ratio * (a + 1) for a, b in pairwise(sizes))
    assert bool(holes) == wide


NOTES: list[tuple[dict[str, Any], str]] = [
    ({"sizes": [8, 8, 16]}, "listed more than once: 8"),
    ({"sizes": [8, 16], "max_tokens": 8}, "no batch within the limits ever replays in 16"),
    ({"sizes": [8, 12, 20], "align": 8}, "no multiple of 8 rows: 12, 20"),
    ({"sizes": [3, 4, 8], "query_len": 3},
     "no multiple of the query length 3, so a decode batch leaves the last rows empty: 4, 8"),
    ({"sizes": [2, 3, 6], "query_len": 3}, "below the query length 3, so no decode batch fits: 2"),
    ({"buckets": [[4, 8], [8, 8]]},
     "more request slots than tokens, of which a request has one: (4, 8)"),
]  # fmt: skip


@pytest.mark.parametrize(("document", "note"), NOTES, ids=[note[:20] for _, note in NOTES])
def test_what_else_a_user_should_know_is_a_note_and_no_failure(
    document: dict[str, Any], note: str
) -> None:
    top = max(document.get("sizes") or [tokens for tokens, _ in document["buckets"]])
    asked = {"max_tokens": top, "max_requests": 8} | document
    ran = run_cli("verify", "--ladder", "-", "--json", stdin=json.dumps(asked).encode())
    assert ran.code == 0
    assert json.loads(ran.out)["notes"] == [note]


def ladder_json(document: dict[str, Any], code: int) -> dict[str, Any]:
    ran = run_cli("verify", "--ladder", "-", "--json", stdin=json.dumps(document).encode())
    assert ran.code == code, ran.err
    said: dict[str, Any] = json.loads(ran.out)
    return said


@given(st.permutations([[1, 2], [5, 5], [9, 12]]))
def test_the_order_of_eager_ranges_says_nothing(ranges: list[list[int]]) -> None:
    document = {"sizes": [4, 16], "rule": {"eager_ranges": ranges}}
    asked = [r["tokens"] for r in ladder_json(document, 0)["ranges"] if r["reason"] == "range"]
    assert asked == [[1, 2], [5, 5], [9, 12]]


@pytest.mark.parametrize(("limit", "top"), [("max_tokens", 16), ("max_requests", 4)])
def test_a_limit_that_is_not_given_is_said_to_be_the_ladder_s_own(limit: str, top: int) -> None:
    """For nothing above it was looked at."""
    full = {"buckets": [[8, 2], [16, 4]], "max_tokens": 16, "max_requests": 4}
    without = {name: value for name, value in full.items() if name != limit}
    said = f"{limit} is not given, and taken to be {top}: what lies above is not looked at"
    one, other = ladder_json(full, 0), ladder_json(without, 0)
    assert other["notes"] == [*one["notes"], said]
    assert other["ranges"] == one["ranges"]


def test_a_ladder_below_the_query_length_leaves_every_decode_batch_eager() -> None:
    """The least that a user asks for is a decode step of one request."""
    said = ladder_json({"sizes": [8, 16], "query_len": 32}, 1)
    assert said["verdict"] == "1 hole: batches of 17..32 tokens run eager, unasked"
    assert "below the query length 32, so no decode batch fits: 8, 16" in said["notes"]


def test_holes_of_a_ladder_with_slots_are_told_with_their_requests() -> None:
    """Not all batches of so many tokens run eager: those of few requests replay."""
    document = {"buckets": [[8, 1], [8, 4], [16, 2]], "max_tokens": 16, "max_requests": 8}
    said = ladder_json(document, 1)
    assert said["verdict"] == (
        "2 holes: batches of 1..8 tokens with 5..8 requests, 9..16 tokens with 3..8 requests "
        "run eager, unasked"
    )


GUARD_NOTE = "what the guard refuses is a hole where smaller batches replay, else as asked for"


@pytest.mark.parametrize(
    ("sizes", "code", "noted"),
    [([64, 128, 1024], 1, True), ([64, 128], 0, True), ([1, 2], 0, False)],
)
def test_why_a_guard_s_refusal_is_a_hole_is_said_where_it_refuses(
    sizes: list[int], code: int, noted: bool
) -> None:
    rule = {"max_ratio": 2}
    document = {"sizes": sizes, "rule": rule, "max_tokens": sizes[-1]}
    assert (GUARD_NOTE in ladder_json(document, code)["notes"]) == noted
    text = run_cli("verify", "--ladder", "-", stdin=json.dumps(document).encode()).out
    assert ("and smaller batches replay" in text) == bool(code)


def test_several_ladders_are_all_checked_and_the_worst_decides(tmp_path: Path) -> None:
    """In any order; with a bad file among them nothing is said of the others."""
    good, bad, broken = (tmp_path / name for name in ("good.json", "bad.json", "broken.json"))
    good.write_text('{"sizes": [8], "max_tokens": 8}')
    bad.write_text('{"sizes": [8], "max_tokens": 9}')
    broken.write_text('{"sizes": [')
    for order in ([good, bad], [bad, good]):
        asked = [word for file in order for word in ("--ladder", str(file))]
        ran = run_cli("verify", *asked)
        assert ran.code == 1
        assert [ran.out.count(f"{file}: ") for file in order] == [1, 1]
        shown = json.loads(run_cli("verify", *asked, "--json").out)
        assert [one["covered"] for one in shown] == [file is good for file in order]
        ran = run_cli("verify", *asked, "--ladder", str(broken))
        assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert run_cli("verify", "--ladder", str(good), "--ladder", str(good)).code == 0


def test_one_is_singular_in_what_is_said_of_a_ladder() -> None:
    ran = run_cli("verify", "--ladder", "-", stdin=b'{"sizes": [1], "max_tokens": 2}')
    assert "standard input: 1 bucket, no guard; batches of 1..2 tokens and 1..2 requests" in ran.out
    assert ran.out.splitlines()[-1] == "1 hole: batches of 2 tokens run eager, unasked"
    ran = run_cli("verify", "--ladder", "-", stdin=b'{"sizes": [1]}')
    assert "batches of 1 token and 1 request" in ran.out


def test_the_table_tells_holes_first_within_100_columns(tmp_path: Path) -> None:
    file = tmp_path / "ladder.json"
    rule = {"max_ratio": 2, "eager_ranges": [[40, 44]]}
    document = {"sizes": [4, 64, 512], "rule": rule, "max_tokens": 600, "align": 8}
    file.write_text(json.dumps(document))
    ran = run_cli("verify", "--ladder", str(file))
    assert (ran.code, ran.err) == (1, "")
    lines = [line.split() for line in ran.out.splitlines()]
    assert [line[0] for line in lines[2:11]] == [
        "5..31", "65..255", "513..600", "1", "2..4", "32..39", "40..44", "45..64", "256..512",
    ]  # fmt: skip
    assert all("HOLE:" in line for line in lines[2:5])
    assert max(map(len, ran.out.splitlines()[1:])) <= 100
    assert ran.out.splitlines()[-1].startswith("3 holes: batches of 5..31, 65..255, 513..600")


def test_json_says_what_the_table_says(tmp_path: Path) -> None:
    file = tmp_path / "ladder.json"
    file.write_text('{"sizes": [8, 16], "max_tokens": 17}')
    ran = run_cli("verify", "--ladder", str(file), "--json")
    said = json.loads(ran.out)
    assert ran.code == 1
    assert said["covered"] is False
    assert [hole["tokens"] for hole in said["holes"]] == [[17, 17]]
    assert said["proof"]["holds"] is True
    assert said["dispatched"] > 17
    assert said["ranges"][0]["worst_padding"] == 7.0


REFUSED: list[tuple[str, str]] = [
    ("", 'an empty file, expected a ladder such as {"sizes": [8, 16]}'),
    ("{", "truncated"),
    ("[1, 2]", "Expected `object`"),
    ("{}", "give either sizes or buckets"),
    ('{"sizes": [8], "buckets": [[8, 1]]}', "give either sizes or buckets"),
    ('{"sizes": []}', "length >= 1"),
    ('{"sizes": [0]}', ">= 1"),
    ('{"sizes": [8.5]}', "Expected `int`"),
    ('{"sizes": [1000000001]}', "<= 1000000000"),
    ('{"sizes": [8], "rules": {}}', "unknown field `rules`"),
    ('{"sizes": [8], "rule": {"max_ratio": 0.5}}', "a ratio >= 1"),
    ('{"sizes": [8], "rule": {"max_ratio": "1/0"}}', "a ratio >= 1"),
    ('{"sizes": [8], "rule": {"max_ratio": 1e400}}', "out of range"),
    ('{"sizes": [8], "rule": {"eager_ranges": [[5, 4]]}}', "eager_ranges"),
    (
        '{"sizes": [8], "rule": {"eager_ranges": [[5, 3]]}}',
        "standard input, rule, eager_ranges: got [5, 3], expected [low, high] with low <= high",
    ),
    (
        '{"sizes": [8], "rule": {"eager_ranges": [[4, 5], [1, 4]]}}',
        "standard input, rule, eager_ranges: got [1, 4] and [4, 5], expected ranges that have no",
    ),
    ('{"sizes": [8], "query_len": 9, "max_tokens": 8}', "standard input, query_len: got 9"),
    ('{"sizes": [8], "sizes": [9]}', "standard input, sizes: got two values"),
    ('{"sizes": [8], "rule": {"max_ratio": 2, "max_ratio": 3}}', "max_ratio: got two values"),
    ('{"buckets": [[8, 1]], "max_tokens": 4, "max_tokens": 8}', "max_tokens: got two values"),
    ('{"sizes": [8], "max_tokens": 0}', ">= 1"),
    (json.dumps({"buckets": [[i, i] for i in range(1, 100)]}), "different slot counts"),
]


@pytest.mark.parametrize(("text", "said"), REFUSED, ids=[text[:40] for text, _ in REFUSED])
def test_what_is_no_ladder_is_refused_in_one_line(text: str, said: str) -> None:
    ran = run_cli("verify", "--ladder", "-", stdin=text.encode())
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.count("\n") == 1
    assert said in ran.err


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    ran = run_cli("verify", "--ladder", str(tmp_path / "none.json"))
    assert (ran.code, ran.out) == (2, "")
    assert "No such file" in ran.err


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 10**10) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)
fields = ("sizes", "buckets", "rule", "max_tokens", "max_requests", "align", "query_len", "x")


@given(st.dictionaries(st.sampled_from(fields), json_values, max_size=4))
@example({"sizes": [3], "rule": {"max_ratio": "nan"}})
@example({"sizes": [3], "rule": {"max_ratio": "\x1b"}})
def test_any_json_is_a_question_or_an_error_of_one_line(
    tmp_path_factory: pytest.TempPathFactory, document: dict[str, Any]
) -> None:
    file = tmp_path_factory.mktemp("fuzz") / "ladder.json"
    file.write_text(json.dumps(document))
    with suppress(SimcgError):
        read_question(str(file))
    assert run_cli("verify", "--ladder", str(file), "--json").err.count("\n") <= 1


def test_without_z3_the_command_says_what_to_install() -> None:
    """In a fresh interpreter, as modules that were imported stay."""
    code = (
        "import sys; sys.modules['z3'] = None; sys.argv = ['simcg', 'verify', '--ladder', '-']; "
        "from simcg.cli import main; main()"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.count("\n") == 1
    assert "pip install 'simcg[verify]'" in ran.stderr
