"""Wrong allocators, each caught by the checker, by the plain allocator or by what it refuses.

No mutant in the list is equivalent to the original.
"""

from __future__ import annotations

import pytest

from simcg.des.memory import allocator
from tests.memory_laws import allocations_agree
from tests.power.test_cost_mutants import holds, mutated

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


def test_the_original_keeps_its_laws() -> None:
    """So a mutant that fails does so for its change."""
    assert allocations_agree(allocator)


@pytest.mark.parametrize("change", MUTANTS.values(), ids=MUTANTS)
def test_each_mutant_breaks_a_law(monkeypatch: pytest.MonkeyPatch, change: tuple[str, str]) -> None:
    """Each wrong allocator is told from the right one."""
    assert not holds(allocations_agree, mutated(monkeypatch, allocator, *change))
