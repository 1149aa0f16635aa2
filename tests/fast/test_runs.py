"""Runs are data: what is written is read back, and what is wrong with a file is one line."""

from __future__ import annotations

import gzip
from functools import cache
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcg.errors import SimcgError
from simcg.optimize.score import score
from simcg.optimize.study import scheduled
from simcg.runs.contenders import contenders
from simcg.runs.read import encode_line, read_runs
from simcg.runs.sample import stratified
from simcg.runs.schema import (
    Cell,
    EqualityCell,
    Header,
    InvarianceCell,
    LadderLine,
    Line,
    PeerCell,
)
from simcg.workload.batches import even_batch, step_batches
from simcg.workload.requests import Requests
from simcg.workload.scheduler import prefill_steps
from tests.made_runs import (
    decision_cells,
    header,
    obedient_lines,
    predictor,
    runs_of,
    serving_lines,
    step_cell,
    write,
)
from tests.studies import drawn, scenario_of
from tests.workloads import make_requests, reference_steps, requests


@cache
def every_kind() -> tuple[Line, ...]:
    """At least one line of each kind."""
    ladder = LadderLine("a", (16, 4096), (2, 1), ((3, 5),), ("b",))
    return (
        *obedient_lines(),
        ladder,
        LadderLine("b", ()),
        *decision_cells(predictor(), [ladder], 3),
        EqualityCell(
            model="qwen3-8b", backend="full", tokens=3, bucket=4, at_bucket=True, at_tokens=False,
            error=0.5, eager_error=0.25,
        ),
        InvarianceCell(4096, 6144, 9, 16, True),
        PeerCell("p", "c", (1, 2, 3), 5, 0, True),
        *serving_lines(3),
    )  # fmt: skip


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    """Every kind of line comes back equal, from a plain file and from a packed one."""
    runs = runs_of(every_kind())
    plain = write(tmp_path / "runs.jsonl", runs)
    packed = tmp_path / "runs.jsonl.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    for path in (plain, packed):
        found = read_runs(path)
        assert (found.header, found.lines) == (runs.header, runs.lines)


def _broken(data: st.DataObject, line: dict[str, object]) -> tuple[str, object]:
    """A field of the line and a value that no field takes."""
    field = data.draw(st.sampled_from(sorted(line)))
    return field, data.draw(st.sampled_from([{"x": 1}, [[]], -1.5e308]))


@given(data=st.data())
def test_a_wrong_field_is_named_with_file_and_line(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Whichever line and field is wrong, one line of error names the file, the line, the field."""
    kind = data.draw(st.sampled_from([one for one in every_kind() if type(one) is not Header]))
    line = msgspec.json.decode(encode_line(kind))
    field, value = _broken(data, line)
    text = [encode_line(one) for one in (header(), *every_kind()[:2])]
    text.append(msgspec.json.encode(line | {field: value}))
    path = tmp_path_factory.mktemp("runs") / "bad.jsonl"
    path.write_bytes(b"".join(text))
    with pytest.raises(SimcgError) as caught:
        read_runs(path)
    message = str(caught.value)
    assert "bad.jsonl, line 4" in message
    assert field in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "empty file"),
        (b"not json\n", "line 1"),
        (b'{"type":"step"}\n', "line 1"),
        (b'{"type":"header","version":99}\n', "version: got 99, expected 1"),
        (encode_line(header()) + encode_line(header()), "line 2: got a header"),
    ],
)
def test_a_file_that_is_no_runs_is_refused(tmp_path: Path, content: bytes, says: str) -> None:
    """Empty, foreign, from another version, or two files in one: one line says which."""
    path = tmp_path / "runs.jsonl"
    path.write_bytes(content)
    with pytest.raises(SimcgError, match=r"runs\.jsonl") as caught:
        read_runs(path)
    assert says in str(caught.value)


def test_a_cell_of_a_model_that_no_header_describes_is_refused(tmp_path: Path) -> None:
    """A prediction needs the architecture, so a cell without one cannot be read."""
    lines = obedient_lines()[:1]
    assert isinstance(lines[0], Cell)
    stranger = msgspec.structs.replace(lines[0], model="stranger")
    path = write(tmp_path / "runs.jsonl", runs_of([stranger]))
    with pytest.raises(SimcgError, match="line 2, model: got 'stranger'"):
        read_runs(path)


@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 200))
def test_a_sample_has_one_step_of_each_stratum(seed: int, count: int) -> None:
    """In the order of sizes, the i-th sampled step is from the i-th of equal parts of all steps."""
    rng = np.random.default_rng(seed)
    new, cached = rng.integers(1, 5000, 300), rng.integers(0, 300, 300)
    traffic = make_requests(None, new.tolist(), cached.tolist())
    steps = prefill_steps(traffic, max_chunk=2048, step_ns=_clock)
    chosen = stratified(steps, count, seed)
    total = len(steps.tokens)
    assert len(np.unique(chosen)) == len(chosen) == min(count, total)
    rank = np.empty(total, dtype=np.int64)
    rank[np.lexsort((steps.pairs, steps.tokens))] = np.arange(total)
    if count < total:
        stratum = np.sort(rank[chosen]) * count / total
        assert np.all(stratum > np.arange(count) - 1)
        assert np.all(stratum < np.arange(count) + 1)


@given(traffic=requests(), chunk=st.integers(1, 60), most=st.integers(1, 10))
def test_batches_are_those_of_the_plain_scheduler(traffic: Requests, chunk: int, most: int) -> None:
    """Each step's requests, with their tokens and context, are what a queue gives by tokens."""
    if traffic.arrival_ns is None:
        steps = prefill_steps(
            traffic, max_chunk=chunk, step_ns=_clock, max_requests=most, untimed="saturated"
        )
    else:
        steps = prefill_steps(traffic, max_chunk=chunk, step_ns=_clock, max_requests=most)
    found = step_batches(traffic, steps, np.arange(len(steps.tokens)))
    assert found == [batch for _, batch in reference_steps(traffic, chunk, most, _clock)]


def _clock(tokens: int, pairs: int) -> int:
    return tokens + pairs // 10


@given(tokens=st.integers(1, 500), requests=st.integers(1, 20), context=st.integers(0, 500))
def test_even_batches_keep_the_sums(tokens: int, requests: int, context: int) -> None:
    """Requests of equal length stand for a step whose own lengths are not known."""
    requests = min(requests, tokens)
    batch = even_batch(tokens, requests, context)
    assert (batch.num_tokens, batch.num_requests) == (tokens, requests)
    assert sum(batch.context_tokens) == context
    assert max(batch.query_tokens) - min(batch.query_tokens) <= 1


def test_each_ladder_of_ours_has_no_more_graphs_than_its_rival() -> None:
    """Equal graphs or fewer, equal memory or less, under the rival's own rule."""
    scenario = scenario_of(drawn(requests=800), max_chunk=2048)
    traffic = scheduled(scenario, scenario.default_ladder)
    by_name = {one.name: one for one in contenders(scenario, traffic)}
    assert {"sglang", "vllm", "tokenspeed", "powers-of-two", "no-graphs"} <= by_name.keys()
    ours = [one for one in by_name.values() if one.against]
    held_against = {rival for one in ours for rival in one.against}
    assert held_against == by_name.keys() - {one.name for one in ours}
    for one in ours:
        rivals = [by_name[name] for name in one.against]
        scores = [
            score(x.ladder, x.rule, traffic.counted, scenario.model, scenario.max_chunk)
            for x in (one, *rivals)
        ]
        # the cost table, which is optimised, is smoothed; the full timeline is not
        assert all(scores[0].mean_step_ns <= 1.01 * s.mean_step_ns for s in scores[1:])
        if one.name == "simcg equal memory":
            assert scores[0].memory.device <= scores[1].memory.device
        else:
            assert len(one.sizes) <= max(len(rival.sizes) for rival in rivals)
        if one.name.startswith("simcg as"):
            assert one.rule == rivals[0].rule
            assert rivals[-1].name == "no-graphs"


M40 = 2**40


@pytest.mark.parametrize(
    ("kind", "fields", "says"),
    [
        ("step", {"bucket": 8}, "bucket 8 must hold all 16 tokens"),
        ("step", {"bucket": 0}, "bucket must be 0 for eager alone"),
        ("step", {"backend": "eager"}, "bucket must be 0 for eager alone"),
        ("step", {"tokens": M40 + 1}, "`$.tokens`"),
        ("step", {"pairs": M40 + 1}, "`$.pairs`"),
        ("decision", {"query_tokens": [2**61]}, "`$.query_tokens[0]`"),
        ("decision", {"query_tokens": [2**21]}, "at most 2**40 tokens and pairs"),
    ],
)
def test_a_cell_that_no_run_can_have_is_refused(
    tmp_path: Path, kind: str, fields: dict[str, object], says: str
) -> None:
    """Buckets hold their batch, eager has none, and counts leave room for sums in 64 bits."""
    cells: dict[str, Line] = {
        "step": step_cell(predictor(), "full", "", 16),
        "decision": decision_cells(predictor(), [], 1)[0],
    }
    line = msgspec.json.decode(encode_line(cells[kind])) | fields
    path = tmp_path / "runs.jsonl"
    path.write_bytes(encode_line(header()) + msgspec.json.encode(line))
    with pytest.raises(SimcgError, match=r"runs\.jsonl, line 2") as caught:
        read_runs(path)
    assert says in str(caught.value)


def test_a_step_of_a_trace_counts_once(tmp_path: Path) -> None:
    """Its index may not come again with the same model and backend."""
    cells = decision_cells(predictor(), [], 2)
    path = write(tmp_path / "runs.jsonl", runs_of([*cells, cells[0]]))
    with pytest.raises(SimcgError, match="line 4, index: got 0, expected each step"):
        read_runs(path)
