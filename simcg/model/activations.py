"""Which activations are alive when: the eager peak, and what crosses a break."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, groupby

import numpy as np

from simcg.arrays import Ints
from simcg.errors import InputError
from simcg.model.ops import ForwardPass, Rows, Tensor


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A tensor and the indices into ``ForwardPass.ops`` that bound its life, both inclusive.

    ``written``: the op that allocates it; ``last_read``: the last op that uses it;
    ``last_held``: the last op during which it is still allocated.
    """

    tensor: Tensor
    written: int
    last_read: int
    last_held: int


def lifetimes(fp: ForwardPass) -> list[Lifetime]:
    """Every tensor that the forward allocates, in the order of allocation.

    Raises ``InputError`` if an op reads or holds a name that no earlier op wrote.
    """
    tensors: list[Tensor] = []
    written: list[int] = []
    last_read: list[int] = []
    last_held: list[int] = []
    current: dict[str, int] = {}
    for i, op in enumerate(fp.ops):
        for names, last in ((op.reads, last_read), (op.holds, last_held)):
            for name in names:
                if name not in current:
                    raise InputError(fp.name, op.name, name, "a tensor that an earlier op wrote")
                last[current[name]] = i
        for tensor in op.writes:
            current[tensor.name] = len(tensors)
            tensors.append(tensor)
            for column in (written, last_read, last_held):
                column.append(i)
    return [
        Lifetime(t, w, r, max(r, h))
        for t, w, r, h in zip(tensors, written, last_read, last_held, strict=True)
    ]


def live_row_bytes(fp: ForwardPass, rows: Rows = "tokens") -> list[int]:
    """Bytes a row that are allocated during each op, over the tensors that have such rows."""
    ops = len(fp.ops)
    change = [0] * (ops + 1)
    for life in lifetimes(fp):
        if life.tensor.rows == rows:
            change[life.written] += life.tensor.row_bytes
            change[life.last_held + 1] -= life.tensor.row_bytes
    live, out = 0, []
    for delta in change[:ops]:
        live += delta
        out.append(live)
    return out


def peak_activation_row_bytes(fp: ForwardPass, rows: Rows = "tokens") -> int:
    """The most bytes alive at once for each row of that kind in one eager forward.

    Inputs (ids, positions, metadata), workspaces and allocator rounding are not in it.
    """
    return max(live_row_bytes(fp, rows))


def peak_activation_bytes(fp: ForwardPass, tokens: int, requests: int = 1) -> int:
    """The most bytes alive at once in one eager forward of that many tokens and requests.

    What has a row for each token and key counts as for one prompt without cached context.
    """
    return int(peak_activation_curve(fp, np.array([tokens], dtype=np.int64), requests)[0])


def peak_activation_curve(fp: ForwardPass, tokens: Ints, requests: int = 1) -> Ints:
    """``peak_activation_bytes`` for each of several token counts, from one look at lifetimes."""
    kinds = (live_row_bytes(fp, rows) for rows in ("tokens", "requests", "pairs"))
    alive = set(zip(*kinds, strict=True))
    by_op = [
        tokens * (by_token + tokens * by_pair) + requests * by_request
        for by_token, by_request, by_pair in alive
    ]
    out: Ints = np.max(by_op, axis=0)
    return out


def break_peak_bytes(fp: ForwardPass, tokens: int, requests: int = 1) -> int:
    """The most bytes alive at once of what breaks allocate for themselves.

    They stay eager allocations where everything else is captured: tensors that are written and
    last used inside one run of breaks.
    """
    runs = break_runs(fp)
    change = [0] * (len(fp.ops) + 1)
    for life in lifetimes(fp):
        if any(life.written in run and life.last_held in run for run in runs):
            size = life.tensor.nbytes(tokens, requests)
            change[life.written] += size
            change[life.last_held + 1] -= size
    return max(accumulate(change))


def boundary_row_bytes(fp: ForwardPass) -> tuple[int, ...]:
    """Bytes a token row of the tensors that cross the breaks of each layer.

    Breaks that follow each other are one. A tensor crosses it if the break or anything after it
    reads what was written before, or if what the break wrote is read after it. A tensor that
    crosses several breaks (the residual) counts once in each layer that it crosses. Layers
    without a break give 0.
    """
    lives = [life for life in lifetimes(fp) if life.tensor.rows == "tokens"]
    runs, out, index = break_runs(fp), [], len(fp.head)
    for layer in fp.layers:
        own = [run for run in runs if index <= run.start < index + len(layer)]
        crossing = (life for life in lives if any(_crosses(life, run) for run in own))
        out.append(sum(life.tensor.row_bytes for life in crossing))
        index += len(layer)
    return tuple(out)


def _crosses(life: Lifetime, run: range) -> bool:
    before = life.written < run.start <= life.last_read
    return before or (life.written in run and life.last_read not in run)


def break_runs(fp: ForwardPass) -> list[range]:
    """Indices of the breaks, those that follow each other in one range."""
    runs, index = [], 0
    for is_break, group in groupby(op.is_break for op in fp.ops):
        length = len(list(group))
        if is_break:
            runs.append(range(index, index + length))
        index += length
    return runs
