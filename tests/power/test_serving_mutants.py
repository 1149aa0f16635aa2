"""Wrong servers and clocks, each told from the right one by the plain server or the timeline.

No mutant in the list is equivalent to the original.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
import simpy

import simcg.des.serving.clock
import simcg.des.serving.server
import simcg.des.serving.statistics
from simcg.des.serving.lines import value_at
from simcg.des.serving.policy import MIXED, PREFILL_FIRST
from simcg.des.serving.server import Limits
from simcg.des.serving.tally import Gaps
from tests.mutants import mutated
from tests.serving import PlainServer, made_clock, made_columns

SERVER_MUTANTS = {
    "arrival strict": ("arrival[at] <= now", "arrival[at] < now"),
    "blocked for ever": (
        "        self.blocked = False\n        self.finished += 1",
        "        self.finished += 1",
    ),
    "arrivals do not end a run": (
        "None if self.blocked else self.next_arrival - self.now",
        "None",
    ),
    "a full cache ends no run": ("most = self._until_full(most)", "pass"),
    "what made room is not tried": ("            most = 1  #", "            pass  #"),
    "oldest goes first": (
        "= self.running.popitem()",
        "= (i := next(iter(self.running)), self.running.pop(i))",
    ),
    "preempted wait at the back": ("self.preempted.appendleft(", "self.preempted.append("),
    "generated tokens are kept": (
        "target = self.columns.prompt[index] + generated",
        "target = self.columns.prompt[index] + generated - (generated > 1)",
    ),
    "half a prompt keeps its blocks": (
        "            self.free += -(-done // block)\n            lost",
        "            lost",
    ),
    "request limit off by one": (
        "while room > 0 and len(chosen) < slots",
        "while room > 0 and len(chosen) <= slots",
    ),
    "running limit ignored": ("limits.max_running - self.decodes)", "limits.max_running)"),
    "decodes' blocks forgotten": (
        "            free -= self.phase[(1 - self.round) % block]\n        chosen",
        "            pass\n        chosen",
    ),
    "prefix not attended": (
        "pairs += chunk * one.done + chunk * (chunk + 1) // 2",
        "pairs += chunk * (chunk + 1) // 2",
    ),
    "first token early": (
        "self.first[index] = end >> TICK_BITS",
        "self.first[index] = self.now >> TICK_BITS",
    ),
    "one decode too many": ("- generated - 1\n", "- generated\n"),
    "keys without the new token": ("self.keys += target + 1", "self.keys += target"),
    "blocks leak at the end": (
        "columns.prompt[index] + columns.output[index] - 1\n",
        "columns.prompt[index] + columns.output[index] - 2\n",
    ),
    "phases of a long run": ("if rest > last:", "if rest > last + 1:"),
    "runs have one gap": (
        "self.tally.gaps.add_run(first + growth, growth, steps - 1, decodes)",
        "self.tally.gaps.add_run(first, 0, steps - 1, decodes)",
    ),
    "a closed loop sends late": (
        "again = moment + RETURN_NS",
        "again = moment + RETURN_NS + 1",
    ),
    "clients return before their step ends": (
        "again = moment + RETURN_NS",
        "again = moment",
    ),
}

CLOCK_MUTANTS = {
    "growth once": ("more * (steps * (steps - 1) // 2), first", "more * (steps - 1), first"),
    "a line too far": ("steps = min(steps, -((keys - starts[j + 1]) // added))", "pass"),
    "stops early": ("back = (total - horizon) // last", "back = (total - horizon) // last + 1"),
    "never takes back": ("            if back <= 0:", "            if True:"),
    "decodes not attended": ("x += value_at(self.decode_attention[decodes], keys)", "x += 0"),
    "rows without decodes": ("value_at(table[tokens + decodes], ", "value_at(table[tokens], "),
}


def server_agrees(module: ModuleType) -> bool:
    """Does the server equal the plain one on random traffic, both policies, full caches?"""
    for seed in range(150):
        random = np.random.default_rng(seed)
        running, block = int(random.integers(1, 7)), int(random.choice([1, 2, 3, 5, 16]))
        chunk = int(random.integers(running, 45))
        blocks = int(random.integers(-(-80 // block), 3 * -(-80 // block)))
        limits = Limits(chunk, running, int(random.integers(1, 5)), blocks, block)
        clock = made_clock(random, chunk, running)
        columns, sent = made_columns(random, 30, closed=4 if seed % 3 == 0 else 0), 30
        sent = 4 if seed % 3 == 0 else 30
        policy = MIXED if seed % 2 else PREFILL_FIRST
        plain = PlainServer(clock, policy, limits, columns, sent).run()
        env = simpy.Environment()
        server = module.Server(env, clock, policy, limits, columns, sent)
        env.process(server.run())
        try:
            for _ in range(3_000):
                env.step()
        except simpy.core.EmptySchedule:
            pass
        except (ValueError, IndexError, KeyError, StopIteration):
            return False
        gaps = Gaps()
        for ticks in plain.gaps:
            gaps.add(ticks, 1)
        same = [
            server.start.tolist() == [r.start for r in plain.requests],
            server.first.tolist() == [r.first for r in plain.requests],
            server.finish.tolist() == [r.finish for r in plain.requests],
            columns.arrival.tolist() == [r.arrival for r in plain.requests],
            server.tally.gaps.counts == gaps.counts,
            server.kv_peak == max(plain.used),
        ]
        if not all(same):
            return False
    return True


def clock_agrees(module: ModuleType) -> bool:
    """Are runs the sums of their steps, no longer than they must be, and rows and attention all?"""
    random = np.random.default_rng(8)
    for _ in range(300):
        made = made_clock(random, 6, 5)
        fields = (made.slot_counts, made.chunked, made.prefill, made.decode)
        clock = module.ServingClock(*fields, made.decode_attention, made.provenance)
        m, keys, most = (int(random.integers(1, top)) for top in (6, 400, 60))
        horizon = None if random.random() < 0.3 else int(random.integers(1, 1 << 32))
        steps, ticks, first, _ = clock.decode_run(m, keys, most, horizon)
        singles = [value_at(made.decode[m], keys + i * m) for i in range(max(steps, 1))]
        if (sum(singles), singles[0]) != (ticks, first):
            return False
        if horizon is not None and steps > 1 and sum(singles[:-1]) >= horizon:
            return False
        longest = next(
            (
                i
                for i in range(1, most + 1)
                if _piece(made.decode[m], keys + i * m) != _piece(made.decode[m], keys)
            ),
            most,
        )
        enough = horizon is None or ticks >= horizon
        if steps < longest and (horizon is None or not enough):
            return False
        x = value_at(made.prefill[3], 50) + value_at(made.decode_attention[m], keys)
        if clock.chunked_step(3, 50, 1, m, keys) != value_at(made.chunked[0][3 + m], x >> 20):
            return False
    return True


def _piece(lines: tuple[tuple[int, ...], ...], x: int) -> int:
    return sum(start <= x for start in lines[0][1:])


def test_originals_agree() -> None:
    """The unchanged modules pass, so a mutant that fails does so for its change."""
    assert server_agrees(simcg.des.serving.server)
    assert clock_agrees(simcg.des.serving.clock)


@pytest.mark.parametrize("name", SERVER_MUTANTS)
def test_server_mutants_are_caught(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The plain server tells every wrong server from the right one."""
    mutant = mutated(monkeypatch, simcg.des.serving.server, *SERVER_MUTANTS[name])
    assert not server_agrees(mutant)


@pytest.mark.parametrize("name", CLOCK_MUTANTS)
def test_clock_mutants_are_caught(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Steps one by one tell every wrong run from the right one."""
    mutant = mutated(monkeypatch, simcg.des.serving.clock, *CLOCK_MUTANTS[name])
    assert not clock_agrees(mutant)
