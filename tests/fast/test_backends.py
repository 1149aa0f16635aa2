"""The capturing backends obey their laws on the CPU device, for every small program."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install '.[gpu]'")

from hypothesis import given, settings
from hypothesis import strategies as st

from real_gpu.backends.breakable import breakable, debug_graph
from real_gpu.backends.full import full
from real_gpu.graphs.cpu import RecordingCpuDevice
from simcg.ladder import Bucket
from tests.backend_kit import Kit
from tests.backend_laws import LAWS, replays_equal_eager
from tests.programs import Step, ladders, programs


def cpu_kit() -> Kit:
    return Kit(RecordingCpuDevice(), full, breakable, debug_graph)


@pytest.mark.parametrize("law", LAWS)
def test_a_law_holds_on_the_cpu(law: str) -> None:
    LAWS[law](cpu_kit())


@settings(max_examples=60)
@given(programs, ladders, st.lists(st.integers(0, 3), max_size=6))
def test_any_program_replays_as_eager(
    program: list[Step], buckets: list[Bucket], order: list[int]
) -> None:
    """Any program, any ladder in one pool, any order of replays: equal to eager bit for bit."""
    kit = cpu_kit()
    replays_equal_eager(kit, kit.breakable, program, buckets, order)


@settings(max_examples=15)
@given(programs, ladders, st.lists(st.integers(0, 3), max_size=6))
def test_any_program_without_breaks_replays_as_eager_in_one_graph(
    program: list[Step], buckets: list[Bucket], order: list[int]
) -> None:
    kit = cpu_kit()
    steps = [step for step in program if not step[0].startswith("break")]
    replays_equal_eager(kit, kit.full, steps, buckets, order)
