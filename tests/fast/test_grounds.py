"""What answers say they rest on: every part is named, and the weakest is that of the answer."""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import pytest

from simcg.cli.setting import TrafficSource, scenario_from
from simcg.cli.simulate import config_from
from simcg.cli.sweep import key_of
from simcg.cost.grounds import Ground, step_grounds, weakest_first
from simcg.cost.kernels import Work
from simcg.des.serving import ServerConfig
from simcg.des.serving.grounds import server_grounds
from simcg.hardware.catalog import load_profile
from simcg.hardware.profile import Figure, HardwareProfile
from simcg.optimize.scenario import Limits
from simcg.provenance import ORDER, Provenance, weakest
from simcg.report.grounds import better_profile, grounds_lines
from tests.cost_laws import ints
from tests.studies import run_cli

SETTINGS = (
    "--max-chunk 1024",
    "--max-chunk 512 --model mixtral-8x7b",
    "--max-chunk 512 --model qwen3-30b-a3b --engine vllm",
    "--max-chunk 2048 --hardware h200-sglang --policy mixed --max-num-seqs 64",
    "--max-chunk 512 --hardware gb300 --model gpt-oss-120b --tp 4",
    "--max-chunk 256 --hardware b200 --model deepseek-r1 --tp 16",
    "--max-chunk 256 --hardware h100 --model qwen3.5-397b-a17b --tp 16 --decode-ladder none",
)


def server_of(line: str) -> ServerConfig:
    options = key_of(tuple(line.split()), {})
    scenario = scenario_from(TrafficSource.taken_from(options), options, Limits())
    return config_from(scenario, options)[0]


def with_profile(config: ServerConfig, profile: HardwareProfile) -> ServerConfig:
    return replace(config, model=replace(config.model, profile=profile))


@pytest.mark.parametrize("line", SETTINGS)
def test_the_weakest_part_of_a_server_is_what_its_clock_rests_on(line: str) -> None:
    """Clock and account are made apart and agree; no part is named twice."""
    config = server_of(line)
    found = server_grounds(config)
    assert weakest(g.provenance for g in found) == config.clock().provenance == found[0].provenance
    assert len({g.part for g in found}) == len(found)
    assert all(g.source for g in found if g.provenance != "measured")


@pytest.mark.parametrize("line", SETTINGS[:3])
def test_the_weakest_part_of_a_step_is_that_of_its_time(line: str) -> None:
    """For every backend, of prefill and of eager steps."""
    model, one = server_of(line).model, ints([1, 64, 512])
    work = Work(one, one, one, one * (one + 1) // 2)
    for cost in (model.replay, model.eager):
        grounds = step_grounds(cost, work)
        assert weakest(g.provenance for g in grounds) == cost.times(work).provenance


def test_a_guessed_host_cost_is_named_with_its_source() -> None:
    """One figure made assumed: its part turns up first, with where it is from."""
    config = server_of(SETTINGS[0])
    profile = config.model.profile
    guess = Figure(profile.host.break_body.value, "assumed", "a guess of mine")
    host = msgspec.structs.replace(profile.host, break_body=guess)
    guessed = with_profile(config, msgspec.structs.replace(profile, host=host))
    assert server_grounds(guessed)[0] == Ground("breaks", "assumed", "a guess of mine")
    assert grounds_lines(server_grounds(guessed))[0] == "assumed: breaks (a guess of mine)"


def test_a_missing_curve_names_its_kernel() -> None:
    """Without curves of decode attention that is assumed; all else is as well known as before."""
    config = server_of(SETTINGS[0])
    profile = config.model.profile
    rest = tuple(c for c in profile.curves if c.key.op != "decode_attention")
    found = server_grounds(with_profile(config, msgspec.structs.replace(profile, curves=rest)))
    before = {g.part: g.provenance for g in server_grounds(config)}
    after = {g.part: g.provenance for g in found}
    assert before.pop("decode attention") == "measured"
    assert after.pop("decode attention") == "assumed"
    assert after == before


def test_parts_keep_their_weakest_ground() -> None:
    """Weakest parts first, in any order of the input."""
    grounds = [
        Ground("gaps", "measured", "a"), Ground("gaps", "fitted", "b"),
        Ground("dispatch", "assumed", "c"), Ground("gaps", "interpolated", "d"),
    ]  # fmt: skip
    for given in (grounds, grounds[::-1]):
        assert weakest_first(given) == [grounds[2], grounds[1]]


def test_a_profile_of_the_engines_kernels_is_recommended() -> None:
    """Of the same GPU and the engine in question; where the kernels are an engine's, nothing."""
    h200 = load_profile("h200")
    for engine in ("sglang", "vllm"):
        said = better_profile(h200, engine)
        assert said is not None
        assert f"--hardware h200-{engine} " in said
    assert better_profile(h200, "trtllm") is None
    assert better_profile(load_profile("h200-sglang"), "vllm") is None
    assert better_profile(load_profile("gb300"), "sglang") is None


def test_simulate_and_optimize_say_the_same_of_the_same_steps() -> None:
    """What both price is known alike; text and JSON name every part."""
    line = "--requests 60 --max-chunk 512 --hardware b200 --model gpt-oss-20b"
    simulated = run_cli("simulate", *line.split(), "--request-rate", "4", "--num-prompts", "60")
    machine = [
        run_cli(command, *line.split(), "--json").out for command in ("simulate", "optimize")
    ]
    served, chosen = ({g["part"]: g["provenance"] for g in json.loads(m)["rests_on"]}
                      for m in machine)  # fmt: skip
    both = served.keys() & chosen.keys()
    assert {"matrix products", "expert layers", "breaks", "gaps", "launches"} <= both
    assert {part: served[part] for part in both} == {part: chosen[part] for part in both}
    assert {"decode attention"} == served.keys() - chosen.keys()
    for part, provenance in served.items():
        assert part in simulated.out
        assert f"{provenance}: " in simulated.out


@pytest.mark.parametrize("left_out", ORDER)
def test_no_provenance_stands_without_parts(left_out: Provenance) -> None:
    """A line for each provenance that parts have, the weakest first, and none for another."""
    there = [one for one in reversed(ORDER) if one != left_out]
    lines = grounds_lines([Ground(f"part {one}", one, "source") for one in ORDER if one in there])
    assert [line.partition(": ")[0] for line in lines] == there
    assert all(line.partition(": ")[2].startswith("part ") for line in lines)
