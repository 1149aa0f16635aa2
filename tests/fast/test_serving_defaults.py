"""What engines take where nobody says, and whether that is what holds requests back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from simcg.des.serving import Arrivals, AtOnce, Poisson, simulate
from simcg.des.serving.defaults import default_decode_sizes, graph_top
from simcg.des.serving.memory import KvBudget
from simcg.des.serving.setup import Wanted, server_setup
from simcg.engines import Deployment, engine_named
from simcg.engines.sizes import sglang_decode_sizes
from simcg.errors import InputError
from simcg.hardware.catalog import load_profile, profile_names
from simcg.model.catalog import load_architecture
from simcg.model.forward import forward_pass
from simcg.report.links import link_note
from simcg.workload.builtin import builtin_workload
from tests.serving import small_server
from tests.studies import drawn, run_cli, scenario_of

CONV = builtin_workload("azure-conv", 300)


def running(engine: str, hardware: str, **options: Any) -> int:
    """Requests that run together, of Qwen3-8B where nothing else is said."""
    server = {"max_chunk": 8192, "engine": engine, "hardware": hardware, **options}
    scenario = scenario_of(drawn(requests=5), **server)
    arch = load_architecture(server.get("model", "qwen3-8b"))
    wanted = Wanted(arch, server.get("tp", 1), scenario.default_ladder)
    config, budget = server_setup(
        scenario.engine, scenario.model, scenario.max_chunk, scenario.deployment, wanted
    )
    assert config.kv_tokens == budget.tokens() > 0
    return config.max_running


@pytest.mark.parametrize(
    ("hardware", "most"),
    [("h100", 1024), ("h200", 1024), ("gb300", 1024), ("rtx-pro-6000", 1024), ("a100", 256)],
)
def test_vllm_runs_as_many_as_its_source_says(hardware: str, most: int) -> None:
    """1,024 from 70 GiB on, but not on an A100; no more than a step has tokens."""
    assert running("vllm", hardware) == most
    assert running("vllm", hardware, max_chunk=200) == 200


def test_sglang_runs_what_its_cache_suggests() -> None:
    """512 a context length that the cache holds, within 2,048 and 4,096."""
    assert running("sglang", "h200") == 4096  # 786,000 tokens are 19 contexts of 40,960
    assert running("sglang", "h100", model="llama-3.1-8b") == 2048  # 3 contexts of 131,072


@pytest.mark.parametrize("hardware", profile_names())
def test_decode_graphs_end_at_what_the_gpu_suggests(hardware: str) -> None:
    """256 below 160 GiB, 512 on larger GPUs or from four ranks on; never above what runs."""
    profile, engine = load_profile(hardware), engine_named("sglang")
    large = profile.gpu.memory_bytes.value / 2**30 >= 160
    assert (graph_top(profile, 1), graph_top(profile, 4)) == (512 if large else 256, 512)
    for most in (None, 7, 100):
        sizes = default_decode_sizes(
            engine, profile, 1, chunk=8192, max_running=most, deployment=Deployment()
        )
        assert sizes == sglang_decode_sizes(min(most or 512, graph_top(profile, 1)))


def test_states_of_linear_layers_leave_room_for_the_cache() -> None:
    """Of what is left they take at most SGLang's share, with three a request."""
    options = {"model": "qwen3.5-397b-a17b", "tp": 8}
    few, many = (running(engine, "b200", **options) for engine in ("sglang", "vllm"))
    assert 100 < few < many <= 1024


@pytest.mark.parametrize(
    ("cap", "kv_tokens", "cause"),
    [(4, 200_000, "cap"), (32, 8_000, "cache"), (32, 200_000, None)],
)
def test_what_holds_requests_back_is_said(cap: int, kv_tokens: int, cause: str | None) -> None:
    """The cap if no more may run, the cache if it has no room, nothing under a light load."""
    config = replace(small_server(64, 512), max_running=cap, kv_tokens=kv_tokens)
    process = Poisson(0.2) if cause is None else AtOnce()
    tally = simulate(config, Arrivals(CONV, process, 60), 1).tally
    assert (tally.held_by_cap > 0) == (cause == "cap")
    assert (tally.held_by_cache > 0) == (cause == "cache")


def test_the_output_names_the_cap() -> None:
    """Where it binds, with its flag; not elsewhere."""
    call = ("simulate", "--requests", "80", "--max-chunk", "512", "--request-rate", "inf")
    capped, free = run_cli(*call, "--max-num-seqs", "8").out, run_cli(*call).out
    assert "at most 8 requests run together (--max-num-seqs): that, not the KV cache" in capped
    assert "run together" not in free
    assert "x by the cap" in capped


@pytest.mark.parametrize("hardware", profile_names())
def test_ranks_beyond_the_links_are_noted(hardware: str) -> None:
    """Of built-in profiles: 8 GPUs of a host, 72 of a rack; nobody knows of others."""
    most = 72 if hardware.startswith("gb") else 8
    profile, arch = load_profile(hardware), load_architecture("deepseek-r1")
    few, many = (64, 128) if most == 72 else (8, 16)
    inside, beyond = (forward_pass(arch, tp=tp) for tp in (few, many))
    assert link_note(inside, profile) is None
    assert f"{many} ranks are more than the {most} GPUs" in (link_note(beyond, profile) or "")
    assert link_note(beyond, msgspec.structs.replace(profile, name="mine")) is None


@pytest.mark.parametrize("command", ["simulate", "optimize"])
def test_both_commands_print_that_note(command: str) -> None:
    """As a line of its own."""
    call = (command, "--requests", "30", "--max-chunk", "512", "--hardware", "h200-vllm")
    texts = [run_cli(*call, "--tp", tp).out for tp in ("8", "16")]
    said = [" ".join(text.split()).count("16 ranks are more than the 8") for text in texts]
    assert said == [0, 1]


def test_a_budget_that_is_short_lists_all_that_takes_memory() -> None:
    """Nothing is cut off, however large the figures."""
    budget = KvBudget(*(value << 30 for value in (2_680, 9_999, 99, 999, 888, 777, 0, 1)))
    with pytest.raises(InputError) as caught:
        budget.tokens()
    for part in ("2680.00 GiB: weights 9999.0", "graphs 1098.0", "activations 888.0", "states 777"):
        assert part in str(caught.value)
    assert "..." not in str(caught.value)
