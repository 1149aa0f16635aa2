"""Wrong versions of the scheduler and the prefix cache, each caught by the slow references.

No mutant in the list is equivalent to the original.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

import simcg.workload.prefix_cache
import simcg.workload.scheduler
from tests.mutants import mutated
from tests.workloads import batch_row, make_requests, reference_hits, reference_steps, rows

SCHEDULER_MUTANTS = {
    "arrival ignored": ("clock = max(clock, arrival_ns[head])", "clock = clock"),
    "clock jumps back": ("clock = max(clock, arrival_ns[head])", "clock = arrival_ns[head]"),
    "arrival strict": ("if arrival_ns[stop] <= clock", "if arrival_ns[stop] < clock"),
    "one request a step": ("if arrival_ns[stop] <= clock", "if False"),
    "request limit off by one": ("head + max_requests)", "head + max_requests + 1)"),
    "request limit ignored": ("head + max_requests)", "len(cached))"),
    "chunk off by one": ("end = position + max_chunk", "end = position + max_chunk + 1"),
    "pairs of the part forgotten": (
        "pairs[head] + part * cached[head] + part * (part + 1) // 2\n        duration",
        "pairs[head]\n        duration",
    ),
    "cached context not attended": (
        "part * cached[head] + part * (part + 1) // 2\n        duration",
        "part * (part + 1) // 2\n        duration",
    ),
    "context of the first part lost": (" + done_before", ""),
    "requests off by one": ("requests=last - first + 1", "requests=last - first"),
    "context of the last request lost": ("self.contexts[last + 1]", "self.contexts[last]"),
    "server always free": ("clock += duration", "clock += 0 * duration"),
}

CACHE_MUTANTS = {
    "not a leading run": ("            break\n", "            continue\n"),
    "hits do not refresh": ("last_use.get(blocks[left]) == time", "blocks[left] in last_use"),
    "head before tail": ("dict.fromkeys(hashes,", "dict.fromkeys(hashes[::-1],"),
    "first in first out": (
        "self._last_use.update(touched)",
        "self._last_use.update({h: t for h, t in touched.items() if h not in self._last_use})",
    ),
    "one block too many": (
        "while len(last_use) > capacity:",
        "while len(last_use) > capacity + 1:",
    ),
    "newest prompt first": ("self._prompts.popleft()", "self._prompts.pop()"),
    "hits alone are kept": ("self._unbounded.update(hashes[hits:])", "self._unbounded.update(())"),
}


def scheduler_agrees(module: ModuleType) -> bool:
    """Does the scheduler equal the reference on 200 random inputs?"""
    random = np.random.default_rng(11)
    for _ in range(200):
        count = int(random.integers(1, 12))
        arrivals = np.cumsum(random.integers(0, 15, count)).tolist()
        sizes, contexts = random.integers(1, 30, count), random.integers(0, 20, count)
        traffic = make_requests(arrivals, sizes.tolist(), contexts.tolist())
        chunk, limit = int(random.integers(1, 40)), int(random.integers(1, 5))

        def step_ns(n: int, pairs: int) -> int:
            return 3 + n // 4 + pairs // 16

        expected = reference_steps(traffic, chunk, limit, step_ns)
        try:
            steps = module.prefill_steps(
                traffic, max_chunk=chunk, max_requests=limit, step_ns=step_ns
            )
        except (ValueError, IndexError):
            return False
        same_rows = rows(steps) == [batch_row(batch) for _, batch in expected]
        if not same_rows or steps.start_ns.tolist() != [start for start, _ in expected]:
            return False
    return True


def cache_agrees(module: ModuleType) -> bool:
    """Does the cache equal the reference on 200 random traces?"""
    random = np.random.default_rng(12)
    for _ in range(200):
        capacity = None if random.random() < 0.2 else int(random.integers(0, 9))
        prompts = [random.integers(0, 7, random.integers(0, 7)).tolist() for _ in range(20)]
        cache = module.PrefixCache(capacity)
        try:
            found = [cache.hit_blocks(p) for p in prompts]
        except IndexError:
            return False
        if found != reference_hits(prompts, capacity):
            return False
    return True


def test_originals_agree() -> None:
    """The unchanged modules pass, so a mutant that fails does so for its change."""
    assert scheduler_agrees(simcg.workload.scheduler)
    assert cache_agrees(simcg.workload.prefix_cache)


@pytest.mark.parametrize("name", SCHEDULER_MUTANTS)
def test_scheduler_mutants_are_caught(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The reference scheduler tells every wrong scheduler from the right one."""
    mutant = mutated(monkeypatch, simcg.workload.scheduler, *SCHEDULER_MUTANTS[name])
    assert not scheduler_agrees(mutant)


@pytest.mark.parametrize("name", CACHE_MUTANTS)
def test_cache_mutants_are_caught(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The reference cache tells every wrong cache from the right one."""
    mutant = mutated(monkeypatch, simcg.workload.prefix_cache, *CACHE_MUTANTS[name])
    assert not cache_agrees(mutant)
