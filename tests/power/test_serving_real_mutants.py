"""Wrong versions of the real server's loop and of its figures, told by tokens, steps or times."""

from __future__ import annotations

from types import ModuleType
from unittest.mock import patch

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install '.[gpu]'")

import real_gpu.measure.serving
import real_gpu.serving.policy
import real_gpu.serving.server
import simcg.runs.serving
from real_gpu.serving.policy import Limits
from simcg.hardware.catalog import load_profile
from tests.made_runs import runs_of, serving_lines
from tests.mutants import mutated
from tests.served import (
    LONGEST,
    POLICIES,
    PricedDevice,
    conserved,
    made_requests,
    same_run,
    simulated,
)
from tests.serving import made_clock


def the_simulators_steps(module: ModuleType) -> None:
    """Random requests under every policy on a device that obeys the simulator's prices."""
    for seed in range(40):
        random = np.random.default_rng(seed)
        running = int(random.integers(1, 7))
        chunk = int(random.integers(running, 45))
        asked = made_requests(random, 30, int(random.integers(2, 2500)))
        prices = made_clock(random, chunk, running)
        policy, device = POLICIES[seed % len(POLICIES)], PricedDevice(prices)
        server = module.Server(device, policy, Limits(chunk, running), LONGEST)
        served = server.serve(asked, clock=device)
        conserved(asked, served)
        same_run(served, *simulated(prices, policy, chunk, running, asked))


def choices_in_the_server(module: ModuleType) -> None:
    """The same by another choice of steps."""
    with patch.object(real_gpu.serving.server, "choose", module.choose):
        the_simulators_steps(real_gpu.serving.server)


def an_obedient_run_is_predicted(module: ModuleType) -> None:
    """A run that obeys the profile is predicted from it and from the closed run's overhead."""
    lines = serving_lines(20)
    (found,) = module.compare_serving(runs_of(lines), load_profile("h200"))
    assert found.simulated == found.run.figures
    assert [step.median for step in found.steps] == [0.0, 0.0]
    assert found.overheads == (70_000, ((2, 70_000),))


LAWS = {
    "server": (real_gpu.serving.server, the_simulators_steps),
    "policy": (real_gpu.serving.policy, choices_in_the_server),
    "figures": (simcg.runs.serving, an_obedient_run_is_predicted),
}
MUTANTS = {
    "an idle server sleeps on": ("server", "clock.wait_until(now)", "clock.wait_until(now + 5)"),
    "more requests than places": (
        "server", "placed = min(self._arrived, first + len(self._places))",
        "placed = self._arrived",
    ),
    "nobody waits for a place": ("server", "more = placed < self._arrived", "more = False"),
    "a token before the prompt is complete": ("server", "if session.left == 0:", "if True:"),
    "each token is the first": ("server", "if len(session.produced) == 1:", "if True:"),
    "places are lost": (
        "server", "            self._places.append(session.start)\n", "",
    ),
    "decodes rest while prompts are mixed in": (
        "policy", "decoding if policy.mixes or not prefill else 0",
        "decoding if not prefill else 0",
    ),
    "decodes beside every prompt": (
        "policy", "decoding if policy.mixes or not prefill else 0", "decoding",
    ),
    "edges only within a step": ("policy", "tokens < waiting or more", "tokens < waiting"),
    "edges without a queue": ("policy", "(tokens < waiting or more)", "True"),
    "decodes take no room": ("policy", "policy.room(chunk, decoding)", "chunk"),
    "overhead of the open run": ("figures", "if one.closed and", "if not one.closed or"),
    "means of overheads": ("figures", "round(median(prompts or every))", "0"),
    "decodes replay as prompts": (
        "figures", "_either(steps, work, full, model)", "_either(steps, work, model.replay, model)",
    ),
    "eager steps replay": ("figures", "np.where(bucket > 0, bucket, tokens)", "bucket"),
    "eager at the price of a replay": (
        "figures", "np.where(bucket > 0, replay.times(work).ns", "np.where(bucket >= 0, "
        "replay.times(work).ns",
    ),
    "no logits": ("figures", "(*lean.tail, replace(last, kernels=1), logits)", "lean.tail"),
    "another guard": ("figures", "rule=line.rule,", "rule=type(line.rule)(),"),
}  # fmt: skip


@pytest.mark.parametrize("name", LAWS)
def test_the_originals_keep_their_laws(name: str) -> None:
    """So a mutant that does not fails for its change."""
    module, law = LAWS[name]
    law(module)


@pytest.mark.parametrize("change", MUTANTS.values(), ids=list(MUTANTS))
def test_each_mutant_breaks_its_law(
    monkeypatch: pytest.MonkeyPatch, change: tuple[str, str, str]
) -> None:
    """By a wrong step, token or figure, or by stumbling over itself."""
    name, old, new = change
    module, law = LAWS[name]
    mutant = mutated(monkeypatch, module, old, new)
    with pytest.raises((AssertionError, ArithmeticError, LookupError, ValueError, RuntimeError)):
        law(mutant)
