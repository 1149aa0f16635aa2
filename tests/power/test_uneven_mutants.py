"""Wrong ways to price ragged batches and bursts, each told from the right one by its laws."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
import simpy

import simcg.cost.burst
import simcg.cost.ragged
import simcg.des.serving.server
from simcg.des.serving.policy import MIXED, PREFILL_FIRST
from simcg.des.serving.server import Limits
from tests.mutants import mutated
from tests.serving import PlainServer, made_clock, made_columns, parts_read


def ragged_is_a_sum_over_positions(module: ModuleType) -> None:
    """For random lengths and widths, and a token more for all of them."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        lengths = sorted(rng.integers(1, 60, rng.integers(1, 9)).tolist())
        width = int(rng.integers(256, 256 * len(lengths) + 500))  # of a padded graph too
        parts = [module.effective_parts([n + more for n in lengths], width) for more in (0, 1)]
        assert parts[0] == parts_read(lengths, width)
        assert parts[1] - parts[0] == module.growth(len(lengths), width)


def bursts_are_their_small_parts(module: ModuleType) -> None:
    """A step against a thousand small ones, and a rest against the differential equation."""
    for rest, busy in ((1.0, 0.9), (0.0, 0.1), (0.3, 0.5)):
        pace = module.Pace(1.2, 0.95, 5e7, 2e7)
        whole, after = pace.step(rest, 4e6, busy * 4e6)
        at, saved = rest, 0.0
        for _ in range(1000):
            speed = 0.95 + 0.25 * at
            saved += busy * 4e3 * (1 - 1 / speed)
            real = 4e3 - busy * 4e3 * (1 - 1 / speed)
            at += real * ((1 - busy) * (1 - at) / 2e7 - busy * at / 5e7)
        assert whole == pytest.approx(saved, rel=0.02, abs=2e3)
        assert after == pytest.approx(at, abs=0.003)
        assert pace.rested(rest, 1e4) - rest == pytest.approx(1e4 * (1 - rest) / 2e7, rel=1e-3)
        assert pace.most == pytest.approx(1 - 1 / 1.2)


def the_plain_servers_times(module: ModuleType) -> None:
    """Random traffic on clocks where the longest counts and prompts meet a clock that rests."""
    for seed in range(60):
        random = np.random.default_rng(seed)
        running, block = int(random.integers(1, 7)), int(random.choice([1, 2, 3, 5, 16]))
        chunk = int(random.integers(running, 45))
        blocks = int(random.integers(-(-80 // block), 3 * -(-80 // block)))
        limits = Limits(chunk, running, int(random.integers(1, 5)), blocks, block)
        clock = made_clock(random, chunk, running, uneven=True)
        columns, policy = made_columns(random, 30), MIXED if seed % 2 else PREFILL_FIRST
        plain = PlainServer(clock, policy, limits, columns, 30).run()
        env = simpy.Environment()
        server = module.Server(env, clock, policy, limits, columns, 30)
        env.process(server.run())
        env.run(until=2 * plain.end + 1)
        assert server.finish.tolist() == [r.finish for r in plain.requests]


LAWS = {
    "ragged": (simcg.cost.ragged, ragged_is_a_sum_over_positions),
    "burst": (simcg.cost.burst, bursts_are_their_small_parts),
    "server": (simcg.des.serving.server, the_plain_servers_times),
}
MUTANTS = {
    "the sum of keys": ("ragged", "width * longest + shorter", "PARTS * sum(ascending)"),
    "the longest alone": ("ragged", "width * longest + shorter", "width * longest"),
    "a whole width": ("ragged", "- part * ascending[count - whole - 1]", "- 0"),
    "few read no wider": ("ragged", "if whole >= count:", "if whole > count:"),
    "growth without a width": ("ragged", "max(width, PARTS * requests)", "PARTS * requests"),
    "bursts never tire": ("burst", "falls, rises = busy / self.fall_ns,", "falls, rises = 1e-30,"),
    "no rest within a step": ("burst", "(1.0 - busy) / self.rise_ns", "1e-30"),
    "the start's speed for all of it": (
        "burst", "mean = limit + (rest - limit) *", "mean = rest + 0 *",
    ),
    "all of a step follows the clock": (
        "burst", "shorter = busy * total_ns *", "shorter = total_ns *",
    ),
    "tired by the profile's time": (
        "burst", "math.exp(-rate * (total_ns - shorter))", "math.exp(-2 * rate * total_ns)",
    ),
    "rests of another constant": ("burst", "-pause_ns / self.rise_ns", "-pause_ns / self.fall_ns"),
    "most of the speed": ("burst", "return 1.0 - 1.0 / self.fresh", "return self.fresh - 1.0"),
    "lengths since the prompt": (
        "server", "insort(self.lengths, target + 1 - self.round)",
        "insort(self.lengths, target + 1)",
    ),
    "another leaves": ("server", "self._forget(keys - now)", "self.lengths and self.lengths.pop()"),
    "preempted ones stay": ("server", "            self._forget(target - self.round)\n", ""),
    "bursts from rest": (
        "server", "shorter, self.rest = pace.step(rest, total, bound)",
        "shorter, _ = pace.step(rest, total, bound)",
    ),
    "rested since the step began": (
        "server", "self.rest_at = self.now + ticks", "self.rest_at = self.now",
    ),
    "rest runs on": ("server", "(self.now - self.rest_at) / TICKS_PER_NS", "0.0"),
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
    """By a wrong time, or by stumbling over itself."""
    name, old, new = change
    module, law = LAWS[name]
    mutant = mutated(monkeypatch, module, old, new)
    with pytest.raises((AssertionError, LookupError, ValueError, ZeroDivisionError)):
        law(mutant)
