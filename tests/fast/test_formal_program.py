"""What is a program: only a cache can be attended to, and only what was made can be read."""

from __future__ import annotations

import pytest

from simcg.errors import InputError
from simcg.formal.program import IN_PLACE, KINDS, TWO_INPUTS, Kind, Op, Program


def inputs(kind: Kind, tensor: int) -> tuple[int, ...]:
    return (tensor,) * (2 if kind in TWO_INPUTS else 1)


@pytest.mark.parametrize("kind", KINDS)
def test_only_after_a_scatter_there_is_a_cache_to_attend_to(kind: Kind) -> None:
    first = [Op("gemm", (0,))] if kind != "attend" else [Op("gemm", (0,)), Op("scatter", (1,))]
    ops = (*first, Op(kind, inputs(kind, 1)), Op("attend", (1,)))
    if kind in {"scatter", "attend"}:
        assert Program(ops).caches[-1] == 1
    else:
        with pytest.raises(InputError, match="a scatter before it"):
            Program(ops)


@pytest.mark.parametrize("kind", KINDS)
def test_an_operator_has_one_input_or_two_as_its_kind_says(kind: Kind) -> None:
    before = (Op("gemm", (0,)), Op("scatter", (1,)))
    for count in range(4):
        ops = (*before, Op(kind, (1,) * count))
        if count == len(inputs(kind, 1)):
            assert str(Program(ops).ops[2].kind) == kind
        else:
            with pytest.raises(InputError, match="tensors"):
                Program(ops)


@pytest.mark.parametrize("kind", KINDS)
def test_an_operator_reads_what_was_made_before_it(kind: Kind) -> None:
    before = (Op("gemm", (0,)), Op("scatter", (1,)), Op("accumulate", (1, 0)))
    for tensor in range(-1, 6):
        ops = (*before, Op(kind, inputs(kind, tensor)))
        if tensor == 1 or (tensor == 0 and kind not in IN_PLACE):
            assert Program(ops).output in {1, 4}
        else:
            with pytest.raises(InputError, match="inputs"):
                Program(ops)
