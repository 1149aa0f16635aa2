"""Real traces through the command line: read whole, answered, and proved again from outside."""

from __future__ import annotations

import json

import pytest

from simcg.cli.setting import TrafficSource
from simcg.optimize.build import engine_problem
from simcg.optimize.certificate import check_certificate
from simcg.optimize.scenario import Limits, choices
from simcg.optimize.score import logits_rows
from simcg.optimize.solve import solve
from simcg.optimize.study import study
from simcg.workload.requests import Requests
from tests.studies import run_cli, scenario_of
from tests.traces import trace

REQUESTS = {
    "azure2023_conv.csv": 19366,
    "azure2023_code.csv.gz": 8819,
    "mooncake_conversation.jsonl.gz": 12031,
    "apex_llama_summarization_05.csv": 1302,
    "sharegpt_llmservingsim_llama-3.1-8b_300.csv": 300,
    "servegen_m-mid.csv.gz": 35986,
}
"""Rows of each file, counted by other means."""

SETTINGS = {
    "one H200": {"model": "llama-3.1-8b", "hardware": "h200", "max_chunk": 8192},
    "four GB300": {
        "model": "gpt-oss-120b", "hardware": "gb300", "tp": 4, "max_chunk": 2048, "engine": "vllm",
    },
}  # fmt: skip


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", REQUESTS)
def test_traces_end_in_a_proof(name: str, setting: str) -> None:
    """Each trace has an answer no worse than the default by the table, with a certificate that
    verifies for the problem made anew; every request of the file is in the steps.
    """
    source = TrafficSource(str(trace(name)), None, None, None, None)
    result = study(scenario_of(source, Limits(), **SETTINGS[setting]))
    traffic, steps = result.scenario.traffic, result.traffic.timed
    assert isinstance(traffic, Requests)
    assert len(traffic) == REQUESTS[name]
    assert int((steps.tokens * steps.count).sum()) == int(traffic.new_tokens.sum())
    assert result.traffic.counted.total == len(steps.tokens)
    scenario, answer = result.scenario, result.answer
    bounds = choices(scenario, logits_rows(result.traffic.counted, scenario.model))
    rule, slots = scenario.engine.admission, scenario.model.slots
    posed = engine_problem(result.table, bounds, rule, slots)
    proof = solve(posed.problem, answer.max_buckets).certificate(answer.max_buckets)
    sizes = answer.score.ladder.sizes
    check_certificate(posed.problem, sizes, answer.cost_ns - posed.constant_ns, proof)
    assert result.gain.share > -0.002
    assert abs(result.table_error) < 0.01
    assert 1 <= result.rounds <= 5


@pytest.mark.parametrize("name", REQUESTS)
def test_commands_agree_on_a_trace(name: str) -> None:
    """workload counts the file's requests, and optimize and compare score its default alike."""
    path = str(trace(name))
    setting = ["--model", "llama-3.1-8b", "--max-chunk", "4096"]
    requests, _ = json.loads(run_cli("workload", path, "--json", *setting).out)
    assert str(REQUESTS[name]) in json.dumps(requests)
    ladder = ["--ladder", "mine=64,256,1024,4096"]
    scores = json.loads(run_cli("compare", path, "--json", *ladder, *setting).out)
    assert scores["default"]["mean_step_ns"] > 0
    assert scores["mine"]["sizes"] == [64, 256, 1024, 4096]
