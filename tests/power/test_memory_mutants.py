"""Wrong allocators and wrong traces, each caught by a law that the original keeps.

No mutant in the lists is equivalent to the original.
"""

from __future__ import annotations

from types import ModuleType

import pytest

from simcg.des.memory import allocator, trace
from tests.memory_laws import allocations_agree, traces_agree
from tests.mutants import Law, holds, mutated

MUTANTS = {
    "neighbours never joined": (
        "if after is not None and after.free:",
        "if after is not None and after.free and False:",
    ),
    "only joined to the right": (
        "if before is not None and before.free:",
        "if before is not None and before.free and False:",
    ),
    "joined with a block in use": (
        "if after is not None and after.free:",
        "if after is not None:",
    ),
    "the tail begins within the block": (
        "block.address + size, rest, True",
        "block.address + size - GRANULE, rest, True",
    ),
    "the tail keeps no room for itself": (
        "block.nbytes, block.after = size, tail",
        "block.nbytes, block.after = block.nbytes, tail",
    ),
    "free blocks of any stream": (
        "self._best_fit(size, (pool, stream, small))",
        "self._best_fit(size, (pool, 0, small))",
    ),
    "free blocks of any pool": (
        "self._best_fit(size, (pool, stream, small))",
        "self._best_fit(size, (0, stream, small))",
    ),
    "small blocks in large segments": ("small = size <= SMALL\n", "small = size < SMALL\n"),
    "the largest block instead of the best": (
        "block = self._free_blocks[free[at][1]]",
        "block = self._free_blocks[free[-1][1]]",
    ),
    "a best fit that may be too small": (
        "at = bisect_left(free, (size, 0))",
        "at = max(0, bisect_left(free, (size, 0)) - 1)",
    ),
    "small blocks never split": (
        "if rest >= GRANULE if small else rest > SMALL:",
        "if rest > SMALL:",
    ),
    "large blocks split to the last granule": (
        "if rest >= GRANULE if small else rest > SMALL:",
        "if rest >= GRANULE:",
    ),
    "large blocks leave exactly a small one": (
        "else rest > SMALL:",
        "else rest >= SMALL:",
    ),
    "graph pools give memory back": (
        "if segment.pool == ORDINARY and block.nbytes == segment.nbytes:",
        "if block.nbytes == segment.nbytes:",
    ),
    "segments go with blocks in use": (
        "if segment.pool == ORDINARY and block.nbytes == segment.nbytes:",
        "if segment.pool == ORDINARY:",
    ),
    "recordings release cached memory": ("if pool == ORDINARY:", "if True:"),
    "no memory is released": ("if pool == ORDINARY:", "if False:"),
    "a segment too many fits": ("if nbytes > free:", "if nbytes > free + nbytes:"),
    "no limit": ("self.usage.reserved + nbytes > self.capacity:", "False:"),
    "freed twice": ("self._in_use.pop(address, None)", "self._in_use.get(address, None)"),
    "sizes not rounded": ("-(-nbytes // GRANULE) * GRANULE", "nbytes"),
    "middle blocks in segments of their own": (
        "if block_bytes < LARGE:",
        "if block_bytes < SMALL:",
    ),
    "large segments not rounded": ("-(-block_bytes // ROUND_LARGE) * ROUND_LARGE", "block_bytes"),
    "split bytes forgotten": ("self._count(block, split=-block.nbytes)", "pass"),
    "allocated bytes as asked": (
        "self._count(block, allocated=block.nbytes)",
        "self._count(block, allocated=nbytes)",
    ),
}


TRACE_MUTANTS = {
    "what breaks allocate is the graphs'": (
        "in_pool=not _is_a_breaks_own(life, run_of),",
        "in_pool=True,",
    ),
    "breaks return nothing": (
        "return run is not None and run_of.get(life.last_held) == run",
        "return run is not None",
    ),
    "nothing is strong": (
        'strong = self.plan.holding == "strong"',
        'strong = self.plan.holding == ""',
    ),
    "all is strong": ("and held.crosses and held.in_pool", "and held.in_pool"),
    "only arguments are strong": ("return life.written in run_of or any(read)", "return any(read)"),
    "only results are strong": (
        "return life.written in run_of or any(read)",
        "return life.written in run_of",
    ),
    "the first hidden state is the output": (
        "output = max((i for i, life",
        "output = min((i for i, life",
    ),
    "own outputs beside a shared one": ('if self.plan.outputs == "shared":', "if True:"),
    "no shared output": ('if self.plan.outputs == "shared":', "if False:"),
    "one static input": ("for _ in range(STATIC_INPUTS):", "for _ in range(1):"),
    "static inputs of one row": ("STATIC_ROW_BYTES // STATIC_INPUTS * self.ceiling", "8"),
    "the first block is kept": (
        "self._free(self._allocate(nbytes, GRAPHS, MAIN_STREAM + 1))",
        "self._allocate(nbytes, GRAPHS, MAIN_STREAM + 1)",
    ),
    "the first block on another stream": ("GRAPHS, MAIN_STREAM + 1))", "GRAPHS, MAIN_STREAM))"),
    "warm-ups in the pool": ("GRAPHS if recording and held.in_pool", "GRAPHS if held.in_pool"),
    "one warm-up": ("for _ in range(self.plan.warm_ups):", "for _ in range(1):"),
    "always largest first": ('reverse=plan.order == "largest first"', "reverse=True"),
    "one stream": ("MAIN_STREAM + 1 + number % plan.streams", "MAIN_STREAM + 1"),
    "every bucket at the ceiling": (
        "tracer.bucket(script, size,",
        "tracer.bucket(script, max(sizes),",
    ),
    "results outlive nothing": (
        "((born[index], True), (dead[index], False))",
        "((dead[index], False), (born[index], True))",
    ),
}


@pytest.mark.parametrize(
    ("module", "law"),
    [(allocator, allocations_agree), (trace, traces_agree)],
    ids=["allocator", "trace"],
)
def test_the_originals_keep_their_laws(module: ModuleType, law: Law) -> None:
    """So a mutant that fails does so for its change."""
    assert law(module)


@pytest.mark.parametrize("change", MUTANTS.values(), ids=MUTANTS)
def test_each_wrong_allocator_breaks_a_law(
    monkeypatch: pytest.MonkeyPatch, change: tuple[str, str]
) -> None:
    """Each is told from the right one."""
    assert not holds(allocations_agree, mutated(monkeypatch, allocator, *change))


@pytest.mark.parametrize("change", TRACE_MUTANTS.values(), ids=TRACE_MUTANTS)
def test_each_wrong_trace_breaks_a_law(
    monkeypatch: pytest.MonkeyPatch, change: tuple[str, str]
) -> None:
    """Each is told from the right one."""
    assert not holds(traces_agree, mutated(monkeypatch, trace, *change))
