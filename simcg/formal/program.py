"""Programs of the formal model: what one forward does, in operators that make the bugs possible.

Tensor 0 is the static input ``ids``, one row a token. Operator k (from 0) makes tensor k + 1, of
as many rows, except ``scatter``, which writes the cache, and ``accumulate``, which writes into its
first argument. The output is the tensor of the last operator that makes or changes one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, get_args

from simcg.errors import require

Kind = Literal[
    "gemm",
    "add",
    "accumulate",
    "scatter",
    "attend",
    "causal",
    "mix",
    "mix_all",
    "state",
    "constant",
    "borrow",
    "random",
    "draw",
    "reduce",
    "launch",
    "host",
]
"""What an operator does to row i of n; s is the row's request.

========== =====================================================================================
gemm       f(x[i]): every row-local kernel
add        f(x[i], y[i])
accumulate x[i] becomes f(x[i], y[i]), in place
scatter    cache[slot[i]] becomes f(x[i])
attend     f(x[i], cache of s up to the row's position); the launch has a bound on the length
causal     f(x of s up to i): attention over the batch's own rows, by offsets
mix        f(x[i], x[0..count)): crosses rows, masked by the count on the device
mix_all    f(x[i], every row there is): crosses rows without a mask
state      h = f(h, x[i]) along s, from the state of s; the row is h, the last h is the new state
constant   f(x[i], c), c made once at capture and kept in the pool
borrow     f(x[i], c), c made once outside the pool by code that does not keep it
random     f(x[i], position): drawn by seed and position, not from a generator
draw       f(x[i], next of the generator), which every row advances
reduce     f(x[i] of every rank): a collective
launch     f(x[i], host scalar): a constant of the launch that depends on the batch
host       f(x[i], value): the host reads device metadata to launch it
========== =====================================================================================
"""
KINDS: tuple[Kind, ...] = get_args(Kind)
TWO_INPUTS = frozenset[Kind]({"add", "accumulate"})
ONLY_AS_BREAK = frozenset[Kind]({"mix_all", "draw", "host"})
"""A graph of these would not be equal to eager: outside a break, capture refuses them."""
IN_PLACE = frozenset[Kind]({"accumulate"})


@dataclass(frozen=True, slots=True)
class Op:
    """One operator. ``breaks``: marked to run eagerly between segments. ``side``: second stream.

    ``nested``: called inside the break before it.
    """

    kind: Kind
    inputs: tuple[int, ...]
    breaks: bool = False
    side: bool = False
    nested: bool = False


@dataclass(frozen=True)
class Program:
    """The operators of a forward, in order; ``InputError`` names one that cannot be."""

    ops: tuple[Op, ...]

    def __post_init__(self) -> None:
        made, cached = {0}, False
        for index, op in enumerate(self.ops):
            count = 2 if op.kind in TWO_INPUTS else 1
            where = f"ops[{index}]"
            require(op.kind in KINDS, where, "kind", op.kind, "one of " + ", ".join(KINDS))
            require(len(op.inputs) == count, where, "inputs", op.inputs, f"{count} tensors")
            known = all(i in made for i in op.inputs)
            require(known, where, "inputs", op.inputs, "tensors that operators before it made")
            if op.kind in IN_PLACE:
                writes = op.inputs[0]
                require(writes > 0, where, "inputs", op.inputs, "another tensor than the input 0")
            require(cached or op.kind != "attend", where, "kind", op.kind, "a scatter before it")
            alone = op.kind == "gemm" and not op.breaks
            require(alone or not op.side, where, "side", op.side, "a row-local kernel in a graph")
            inside = op.breaks and index > 0 and self.ops[index - 1].breaks
            require(inside or not op.nested, where, "nested", op.nested, "a break after a break")
            cached |= op.kind == "scatter"
            if makes_tensor(op):
                made.add(index + 1)
        require(len(made) > 1, "program", "ops", self.ops, "an operator that makes a tensor")

    @cached_property
    def output(self) -> int:
        """The tensor that the forward returns."""
        return next(t for op, t in reversed(list(zip(self.ops, self.targets, strict=True))) if t)

    @cached_property
    def targets(self) -> tuple[int, ...]:
        """The tensor that each operator writes; 0 for ``scatter``."""
        return tuple(
            op.inputs[0] if op.kind in IN_PLACE else index + 1 if makes_tensor(op) else 0
            for index, op in enumerate(self.ops)
        )

    @cached_property
    def last_use(self) -> tuple[int, ...]:
        """For each tensor number the last operator that touches it; len(ops) for the output."""
        last = [0] * (len(self.ops) + 1)
        for index, op in enumerate(self.ops):
            for tensor in (*op.inputs, self.targets[index]):
                last[tensor] = index
        last[self.output] = len(self.ops)
        return tuple(last)

    @cached_property
    def caches(self) -> tuple[int, ...]:
        """The ``scatter`` that each operator's cache belongs to: itself, or the latest before."""
        found, latest = [], -1
        for index, op in enumerate(self.ops):
            latest = index if op.kind == "scatter" else latest
            found.append(latest)
        return tuple(found)

    @cached_property
    def unmarked(self) -> Program:
        """The same without breaks."""
        return Program(tuple(replace(op, breaks=False, nested=False) for op in self.ops))

    def __str__(self) -> str:
        return "; ".join(self.words(index) for index in range(len(self.ops)))

    def words(self, index: int) -> str:
        """One operator as a line: ``t2 = gemm(t1) break``."""
        op, target = self.ops[index], self.targets[index]
        call = f"{op.kind}({', '.join(f't{i}' if i else 'ids' for i in op.inputs)})"
        marks = " nested" * op.nested + " break" * op.breaks + " side" * op.side
        return (f"t{target} = " if target else "") + call + marks


def makes_tensor(op: Op) -> bool:
    """Whether it has a result of its own."""
    return op.kind != "scatter" and op.kind not in IN_PLACE
