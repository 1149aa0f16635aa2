"""How long each step of a server takes, as look-ups in ticks.

A step with prefill tokens takes T(rows, x): its rows decide bucket and dense ops, x is the GPU
time of its attention, prefill and decode together, which the host may hide. A step of decodes
alone has ladder and graphs of its own and takes D(decodes, keys). Both are piecewise linear, so
a run of k decode steps of one batch has a duration in closed form. Where the decode kernel reads
requests in one piece, keys are the effective ones of ``simcg.cost.ragged``.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from simcg.arrays import Bools, Floats, Ints
from simcg.backend import FULL
from simcg.cost.burst import Pace, compute_ns
from simcg.cost.kernels import Work
from simcg.cost.ragged import PARTS, effective_parts, growth, widths
from simcg.cost.step import OpTimes, StepCost
from simcg.cost.table import ReplayModel
from simcg.des.serving.lines import TICK_BITS, Lines, lines_of_rows, value_at
from simcg.ladder import EAGER_INDEX, AdmissionRule, Ladder, dispatch
from simcg.model.ops import ForwardPass
from simcg.provenance import Provenance, weakest

TOLERANCE = 0.001
"""Share of a step's time that a line may be off at the points that it was drawn through."""
PER_OCTAVE = 8
"""Points a doubling of the keys of a decode, where it may turn from host-bound to GPU-bound."""
SHORTEST, PER_DOUBLING = 128, 2
"""Contexts of prefills from so many tokens on, and how many of them a doubling."""
LONGEST_BITS = 26
"""Keys of all decodes together, up to which a mixed step's attention is followed."""
MOST_CONTEXT = 1 << 20


@dataclass(frozen=True, slots=True)
class ServingClock:
    """Tables of one server; all durations in ticks.

    ``slot_counts``: the ladder's request slots, ascending; () where they are not captured.
    ``chunked[c][rows]``: T over x in ns, for steps whose requests fit the c-th slot count (the
    last entry: more than every one). ``prefill[tokens]``: x over query-key pairs. ``decode[m]``:
    D over keys. ``decode_attention[m]``: x over keys, empty where no step holds both. Index 0 of
    each is never used.

    ``widths[m]``: of the decode kernel, in ``PARTS``; keys of D are in ``PARTS`` too then. () where
    requests are split. ``compute[c][rows]``: what of T follows the GPU's clock in ns, without
    prefill attention, where ``pace`` says how that changes.
    """

    slot_counts: tuple[int, ...]
    chunked: tuple[tuple[Lines, ...], ...]
    prefill: tuple[Lines, ...]
    decode: tuple[Lines, ...]
    decode_attention: tuple[Lines, ...]
    provenance: Provenance
    widths: tuple[int, ...] = ()
    pace: Pace | None = None
    compute: tuple[tuple[int, ...], ...] = ()

    def fits(self, requests: int) -> int:
        """Index into ``chunked`` for a step of so many requests."""
        return bisect_left(self.slot_counts, requests) if self.slot_counts else 0

    def chunked_step(
        self, tokens: int, pairs: int, requests: int, decodes: int = 0, keys: int = 0
    ) -> int:
        """Duration of a step of prefill tokens of ``requests``, with ``decodes`` or without."""
        x = value_at(self.prefill[tokens], pairs)
        if decodes:
            x += value_at(self.decode_attention[decodes], keys)
        table = self.chunked[self.fits(requests + decodes)]
        return value_at(table[tokens + decodes], x >> TICK_BITS)

    def compute_ticks(self, tokens: int, pairs: int, requests: int, decodes: int = 0) -> int:
        """What of such a step follows the GPU's clock, for clocks with a ``pace``."""
        dense = self.compute[self.fits(requests + decodes)][tokens + decodes]
        return (dense << TICK_BITS) + value_at(self.prefill[tokens], pairs)

    def keys_of(self, ascending: Sequence[int], later: int, total: int) -> int:
        """The keys of D for requests with so many keys each, ``total`` together.

        ``ascending`` may leave out ``later`` keys that all have beside.
        """
        if not self.widths:
            return total
        count = len(ascending)
        width = self.widths[count]
        return effective_parts(ascending, width) + later * growth(count, width)

    def decode_run(
        self, decodes: int, keys: int, most: int, horizon: int | None
    ) -> tuple[int, int, int, int]:
        """Steps to run at once, their duration, the first one's, and by how much each next grows.

        At most ``most`` >= 1, within one line, and the fewest that take ``horizon`` >= 0 ticks or
        more, if there is one. Each step adds a key for each of the ``decodes``.
        """
        starts, bases, slopes = self.decode[decodes]
        added = growth(decodes, self.widths[decodes]) if self.widths else decodes
        j = max(bisect_right(starts, keys) - 1, 0) if len(starts) > 1 else 0
        first = bases[j] + slopes[j] * keys
        more = slopes[j] * added
        steps = most
        if j + 1 < len(starts):
            steps = min(steps, -((keys - starts[j + 1]) // added))
        if horizon is None:
            return steps, steps * first + more * (steps * (steps - 1) // 2), first, more
        steps = min(steps, -(-horizon // first)) or 1
        total = steps * first + more * (steps * (steps - 1) // 2)
        while steps > 1:  # later steps are no shorter, so some may be too many
            last = first + more * (steps - 1)
            back = (total - horizon) // last
            if back <= 0:
                break
            steps -= back
            total = steps * first + more * (steps * (steps - 1) // 2)
        return steps, total, first, more


@dataclass(frozen=True, slots=True)
class Captured:
    """Prefill ladder under its rule, and the decode ladder of full graphs."""

    ladder: Ladder
    rule: AdmissionRule
    decode_ladder: Ladder


def serving_clock(  # noqa: PLR0913 - keyword-only; each is one limit of the server
    model: ReplayModel,
    captured: Captured,
    *,
    chunk: int,
    max_running: int,
    mixes: bool,
    max_context: int = MOST_CONTEXT,
    overhead_ns: int = 0,
    decode_overheads: Sequence[tuple[int, int]] = (),
    decode_forward: ForwardPass | None = None,
) -> ServingClock:
    """The clock of a server whose prefill steps have up to ``chunk`` tokens.

    ``mixes``: decodes share steps with prefills. ``overhead_ns``: host time of each step outside
    the forward, ``decode_overheads`` of those of decodes alone as in ``ServerConfig``.
    ``decode_forward``: of steps of decodes alone, None: the model's. Without slots, logits of
    steps with prefills are priced at one row.
    """
    octaves = max(1, (max_context // SHORTEST).bit_length())
    contexts = [0, *np.rint(SHORTEST * 2.0 ** _parts(octaves, PER_DOUBLING)).astype(int).tolist()]
    tokens = np.arange(1, (chunk + max_running if mixes else chunk) + 1, dtype=np.int64)
    slots = tuple(sorted({b.slots for b in captured.ladder.buckets if b.slots is not None}))
    tables = _Tables(model, np.array([overhead_ns]), mixes, [])
    m = np.arange(1, max_running + 1, dtype=np.int64)
    classes = (*slots, slots[-1] + 1) if slots else (1,)
    at, late = np.array(decode_overheads or [(1, overhead_ns)], dtype=np.float64).T
    each = np.rint(np.interp(m, at, late)).astype(np.int64)
    forward = decode_forward or model.forward
    decodes = replace(tables, model=replace(model, forward=forward), overhead_ns=each)
    index = dispatch(captured.decode_ladder, AdmissionRule(), m, m)
    sizes = np.array((*captured.decode_ladder.sizes, 0), dtype=np.int64)
    launched = np.where(index != EAGER_INDEX, sizes[index], m)
    wide = widths(model.profile, forward, int(launched.max()))
    pace = Pace.of(model.profile.burst)
    return ServingClock(
        slot_counts=slots,
        chunked=tuple(tables.chunked(captured, tokens, contexts, count) for count in classes),
        prefill=tables.prefill(tokens[:chunk], contexts),
        decode=decodes.decode(m, launched, index != EAGER_INDEX, max_context, bool(wide)),
        # steps that mix run the operators of prefill
        decode_attention=tables.decode_attention(m, max_context) if mixes else (),
        provenance=weakest(tables.known),
        widths=(0, *(wide[m] for m in launched.tolist())) if wide else (),
        pace=pace,
        compute=()
        if pace is None
        else tuple(tables.compute(captured, tokens, count, pace) for count in classes),
    )


@dataclass(frozen=True, slots=True)
class _Tables:
    """Builds the tables; ``known`` collects what the times rest on.

    ``overhead_ns`` [1], or for each number of decodes.
    """

    model: ReplayModel
    overhead_ns: Ints
    mixes: bool
    known: list[Provenance]

    def chunked(
        self, captured: Captured, tokens: Ints, contexts: list[int], requests: int
    ) -> tuple[Lines, ...]:
        """T for each number of rows: through steps of one prefill in each context, then longer."""
        replays, rows, logits = _dispatched(captured, tokens, requests)
        query = [0, *[1] * len(contexts)]
        keys = [0] * len(query)
        if self.mixes:  # what decodes add to a few rows
            longer = [1 << bit for bit in range(SHORTEST.bit_length(), LONGEST_BITS)]
            query, keys = query + [0] * len(longer), keys + longer
        context = np.array([0, *contexts, *[0] * (len(query) - len(contexts) - 1)])
        n = tokens[:, None] * np.array(query)
        pairs = n * context + n * (n + 1) // 2
        decodes = np.minimum(np.array(keys), 1)
        x = self._device(_grid(tokens[:, None], n, logits[:, None], pairs, decodes, keys))
        work = _grid(rows[:, None], n, logits[:, None], pairs, decodes, keys)
        ns = self._either(np.repeat(replays, len(query)), work, self.model.replay)
        x, ns = x.reshape(n.shape), ns.reshape(n.shape)
        return _lines(x - x[:, :1], ns + self.overhead_ns[:, None])

    def compute(
        self, captured: Captured, tokens: Ints, requests: int, pace: Pace
    ) -> tuple[int, ...]:
        """What follows the GPU's clock for each number of rows, without attention.

        No more than makes the step, when rested, as short as its host.
        """
        replays, rows, logits = _dispatched(captured, tokens, requests)
        work = _grid(rows, 0, logits, 0, 0, 0)
        times = OpTimes(self.model.profile, work)
        bound = compute_ns(self.model.forward, self.model.profile, times, pace)
        spare = np.zeros(len(work), dtype=np.int64)
        for which, backend in ((replays, self.model.replay), (~replays, self.model.eager)):
            step = backend.times_from(times)
            spare[which] = (step.ns - step.host_ns)[which]
        if pace.most > 0:
            bound = np.minimum(bound, (spare / pace.most).astype(np.int64))
        return (0, *bound.tolist())

    def prefill(self, tokens: Ints, contexts: list[int]) -> tuple[Lines, ...]:
        """GPU time of prefill attention over its pairs, for each number of tokens."""
        n = tokens[:, None]
        pairs = n * np.array(contexts) + n * (n + 1) // 2
        bare = self._device(_grid(n, 0, 1, 0, 0, 0))[:, None]
        x = self._device(_grid(n, n, 1, pairs, 0, 0)).reshape(pairs.shape)
        return _lines(pairs, x - bare)

    def decode(
        self, m: Ints, launched: Ints, replays: Bools, max_context: int, in_one_piece: bool
    ) -> tuple[Lines, ...]:
        """D over the keys, for each number of decodes ``m``, of graphs for ``launched`` of them.

        A kernel that reads requests in one piece is priced as it is launched.
        """
        rows = launched[:, None]
        reads = launched if in_one_piece else m
        keys = _decode_keys(reads, max_context)
        full = StepCost(self.model.forward, self.model.profile, FULL)
        work = _grid(rows, 0, rows, 0, reads[:, None], keys)
        ns = self._either(np.repeat(replays, keys.shape[1]), work, full)
        return _lines(
            keys * (PARTS if in_one_piece else 1),
            ns.reshape(keys.shape) + self.overhead_ns[:, None],
        )

    def decode_attention(self, m: Ints, max_context: int) -> tuple[Lines, ...]:
        """GPU time of decode attention over the keys, for each number of decodes ``m``."""
        keys, each = _decode_keys(m, max_context), m[:, None]
        bare = self._device(_grid(each, 0, each, 0, 0, 0))[:, None]
        x = self._device(_grid(each, 0, each, 0, each, keys)).reshape(keys.shape)
        return _lines(keys, x - bare)

    def _either(self, replays: Bools, work: Work, cost: StepCost) -> Ints:
        """Step times: by ``cost`` where ``replays``, by the fallback elsewhere."""
        out = np.zeros(len(work), dtype=np.int64)
        for which, backend in ((replays, cost), (~replays, self.model.eager)):
            if which.any():
                times = backend.times(_part(work, which))
                out[which] = times.ns
                self.known.append(times.provenance)
        return out

    def _device(self, work: Work) -> Ints:
        """GPU time of a step, gaps included."""
        return self.model.eager.times(work).device_ns


def _dispatched(captured: Captured, tokens: Ints, requests: int) -> tuple[Bools, Ints, Ints]:
    """Of steps with so many rows: whether a graph replays, the rows it runs, its logits."""
    ladder = captured.ladder
    index = dispatch(ladder, captured.rule, tokens, np.full_like(tokens, requests))
    replays = index != EAGER_INDEX
    rows = np.where(replays, np.array((*ladder.sizes, 0), dtype=np.int64)[index], tokens)
    logits = np.array([b.slots or 1 for b in ladder.buckets] + [1], dtype=np.int64)[index]
    return replays, rows, logits


def _grid(  # noqa: PLR0913, PLR0917 - the columns of a Work
    rows: Ints, tokens: Ints | int, requests: Ints | int, pairs: Ints | int,
    decodes: Ints | int, keys: Ints | list[int] | int,
) -> Work:  # fmt: skip
    """A Work of all combinations that broadcasting gives, row by row."""
    columns = np.broadcast_arrays(rows, tokens, requests, pairs, decodes, keys)
    return Work(*(column.astype(np.int64).ravel() for column in columns))


def _part(work: Work, which: Bools) -> Work:
    if work.decodes is None or work.decode_keys is None:
        raise ValueError("a grid has decodes")
    return Work(
        work.rows[which], work.tokens[which], work.requests[which], work.pairs[which],
        work.decodes[which], work.decode_keys[which],
    )  # fmt: skip


def _decode_keys(m: Ints, max_context: int) -> Ints:
    """Keys at which decodes are priced: each request has as many, to ``max_context``."""
    octaves = _parts(max_context.bit_length(), PER_OCTAVE)
    each = np.unique(np.rint(2.0**octaves).astype(np.int64))
    keys: Ints = m[:, None] * each
    return keys


def _parts(octaves: int, each: int) -> Floats:
    """0 to ``octaves`` in equal parts, ``each`` of them an octave."""
    return np.arange(octaves * each + 1) / each


def _lines(xs: Ints, ns: Ints) -> tuple[Lines, ...]:
    """Lines for each row of points; index 0 stands for no rows.

    Most rows of a large table are one line between their ends.
    """
    risen = np.maximum.accumulate(ns, axis=1)
    furthest = np.argmax(xs, axis=1)
    at = np.arange(len(xs))
    far, late = xs[at, furthest], risen[at, furthest]
    slope = (late - risen[:, 0]) / np.maximum(far - xs[:, 0], 1)
    chord = risen[:, 0, None] + slope[:, None] * (xs - xs[:, :1])
    rises = np.diff(np.maximum.accumulate(xs, axis=1), axis=1, prepend=xs[:, :1]) > 0
    one = (~rises | (np.abs(chord - risen) <= TOLERANCE * risen)).all(axis=1)
    ends = np.stack([xs[:, 0], far], axis=1), np.stack([ns[:, 0], late], axis=1)
    straight = iter(lines_of_rows(ends[0][one], ends[1][one]))
    bent = iter(lines_of_rows(xs[~one], ns[~one], TOLERANCE))
    return (NOTHING, *(next(straight if single else bent) for single in one.tolist()))


NOTHING = Lines((0,), (0,), (0,))
