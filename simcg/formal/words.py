"""The words of a counterexample: counts, buckets, operators and tags as a person reads them.

``#k`` is operator k of the program, counted from 1, so that ``gemm#2`` makes tensor t2; ``s0[3]``
is the token of sequence 0 at position 3.
"""

from __future__ import annotations

from simcg.formal.launch import Key
from simcg.formal.memory import UNWRITTEN, Tag
from simcg.formal.program import Program
from simcg.ladder import Ladder

DISPATCH = "the choice of a bucket"
VIEW = "the view of the output"
OUTPUT_COPY = "the copy to the output"


def counted(number: int, noun: str) -> str:
    """``1 token``, ``2 tokens``."""
    return f"{number:,} {noun}" + "s" * (number != 1)


def said_bucket(ladder: Ladder, key: Key) -> str:
    """The key of a capture: ``(3 tokens, 2 slots)``; eager has none."""
    if not key:
        return "eager"
    bucket = ladder.buckets[key[0]]
    parts = [counted(bucket.num_tokens, "token")]
    parts += [counted(bucket.slots, "slot")] if bucket.slots else []
    parts += [f"host scalar {scalar}" for scalar in key[1:]]
    return f"({', '.join(parts)})"


def operator(program: Program, index: int) -> str:
    """An operator as the program's text has it; behind the last is the copy to the output."""
    return OUTPUT_COPY if index >= len(program.ops) else program.words(index)


def writer(program: Program, tag: Tag) -> str:
    """The operator that wrote a cell of this tag; "" where the host or nobody did."""
    numbers = [part for part in tag[:2] if isinstance(part, int)]
    by_operator = isinstance(tag[0], int) or tag[0] == "padding"
    return operator(program, numbers[0] - 1) if by_operator else ""


def said(program: Program, tag: Tag) -> str:
    """What a cell of this tag holds."""
    match tag:
        case (int(), tuple(), int() as epoch):
            return f"what ({writer(program, tag)}) wrote in {_when(epoch)}"
        case ("padding", int(), tuple(), int() as epoch):
            return f"a row of padding that ({writer(program, tag)}) wrote in {_when(epoch)}"
        case ("weight", int() as op):
            return f"the tensor that was made for ({operator(program, op)})"
        case (str() as name, int() as epoch):
            return f"{name} of {_when(epoch)}"
        case _:
            return "nothing" if tag == UNWRITTEN else f"the data of {tag[0]}"


def _when(epoch: int) -> str:
    return f"step {epoch}" if epoch >= 0 else "a warm-up"
