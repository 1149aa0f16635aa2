"""How long each step of a server takes, as look-ups in ticks.

A step with prefill tokens takes T(rows, x): its rows decide bucket and dense ops, x is the GPU
time of its attention, prefill and decode together, which the host may hide. A step of decodes
alone has ladder and graphs of its own and takes D(decodes, keys). Both are piecewise linear, so
a run of k decode steps of one batch has a duration in closed form.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace

import numpy as np

from simcg.arrays import Bools, Floats, Ints
from simcg.backend import FULL, CaptureBackend
from simcg.cost.kernels import Work
from simcg.cost.step import StepCost
from simcg.cost.table import ReplayModel
from simcg.des.serving.lines import TICK_BITS, Lines, lines_through, value_at
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
    """

    slot_counts: tuple[int, ...]
    chunked: tuple[tuple[Lines, ...], ...]
    prefill: tuple[Lines, ...]
    decode: tuple[Lines, ...]
    decode_attention: tuple[Lines, ...]
    provenance: Provenance

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

    def decode_run(
        self, decodes: int, keys: int, most: int, horizon: int | None
    ) -> tuple[int, int, int, int]:
        """Steps to run at once, their duration, the first one's, and by how much each next grows.

        At most ``most`` >= 1, within one line, and the fewest that take ``horizon`` >= 0 ticks or
        more, if there is one. Each step adds ``decodes`` keys.
        """
        starts, bases, slopes = self.decode[decodes]
        j = max(bisect_right(starts, keys) - 1, 0) if len(starts) > 1 else 0
        first = bases[j] + slopes[j] * keys
        growth = slopes[j] * decodes
        steps = most
        if j + 1 < len(starts):
            steps = min(steps, -((keys - starts[j + 1]) // decodes))
        if horizon is None:
            return steps, steps * first + growth * (steps * (steps - 1) // 2), first, growth
        steps = min(steps, -(-horizon // first)) or 1
        total = steps * first + growth * (steps * (steps - 1) // 2)
        while steps > 1:  # later steps are no shorter, so some may be too many
            last = first + growth * (steps - 1)
            back = (total - horizon) // last
            if back <= 0:
                break
            steps -= back
            total = steps * first + growth * (steps * (steps - 1) // 2)
        return steps, total, first, growth


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
    decode_forward: ForwardPass | None = None,
) -> ServingClock:
    """The clock of a server whose prefill steps have up to ``chunk`` tokens.

    ``mixes``: decodes share steps with prefills. ``overhead_ns``: host time of each step outside
    the forward. ``decode_forward``: of steps of decodes alone, None: the model's. Without slots,
    logits of steps with prefills are priced at one row.
    """
    octaves = max(1, (max_context // SHORTEST).bit_length())
    contexts = [0, *np.rint(SHORTEST * 2.0 ** _parts(octaves, PER_DOUBLING)).astype(int).tolist()]
    tokens = np.arange(1, (chunk + max_running if mixes else chunk) + 1, dtype=np.int64)
    slots = tuple(sorted({b.slots for b in captured.ladder.buckets if b.slots is not None}))
    tables = _Tables(model, overhead_ns, [])
    classes = (*slots, slots[-1] + 1) if slots else (1,)
    decodes = replace(tables, model=replace(model, forward=decode_forward or model.forward))
    decode, _ = decodes.decode(captured.decode_ladder, max_running, max_context)
    decode_attention: tuple[Lines, ...] = ()
    if mixes:  # such steps run the operators of prefill
        _, decode_attention = tables.decode(captured.decode_ladder, max_running, max_context)
    return ServingClock(
        slot_counts=slots,
        chunked=tuple(tables.chunked(captured, tokens, contexts, count) for count in classes),
        prefill=tables.prefill(tokens[:chunk], contexts),
        decode=decode,
        decode_attention=decode_attention,
        provenance=weakest(tables.known),
    )


@dataclass(frozen=True, slots=True)
class _Tables:
    """Builds the tables; ``known`` collects what the times rest on."""

    model: ReplayModel
    overhead_ns: int
    known: list[Provenance]

    def chunked(
        self, captured: Captured, tokens: Ints, contexts: list[int], requests: int
    ) -> tuple[Lines, ...]:
        """T for each number of rows: through steps of one prefill in each context, then longer."""
        ladder = captured.ladder
        index = dispatch(ladder, captured.rule, tokens, np.full_like(tokens, requests))
        replays = index != EAGER_INDEX
        rows = np.where(replays, np.array((*ladder.sizes, 0), dtype=np.int64)[index], tokens)
        logits = np.array([b.slots or 1 for b in ladder.buckets] + [1], dtype=np.int64)[index]
        x = [np.zeros_like(tokens)]
        ns = [self._either(replays, _without_attention(rows, logits))]
        bare = self._device(_without_attention(tokens, logits))
        for context in contexts:
            pairs = tokens * context + tokens * (tokens + 1) // 2
            x.append(self._device(Work(tokens, tokens, logits, pairs)) - bare)
            ns.append(self._either(replays, Work(rows, tokens, logits, pairs)))
        zeros, one = np.zeros_like(tokens), np.ones_like(tokens)
        for bit in range(SHORTEST.bit_length(), LONGEST_BITS):  # what decodes add to a few rows
            keys = one << bit
            x.append(self._device(Work(tokens, zeros, logits, zeros, one, keys)) - bare)
            ns.append(self._either(replays, Work(rows, zeros, logits, zeros, one, keys)))
        return _lines(np.array(x).T, np.array(ns).T + self.overhead_ns)

    def prefill(self, tokens: Ints, contexts: list[int]) -> tuple[Lines, ...]:
        """GPU time of prefill attention over its pairs, for each number of tokens."""
        ones = np.ones_like(tokens)
        bare = self._device(_without_attention(tokens, ones))
        pairs = [tokens * context + tokens * (tokens + 1) // 2 for context in contexts]
        x = [self._device(Work(tokens, tokens, ones, some)) - bare for some in pairs]
        return _lines(np.array(pairs).T, np.array(x).T)

    def decode(
        self, ladder: Ladder, max_running: int, max_context: int
    ) -> tuple[tuple[Lines, ...], tuple[Lines, ...]]:
        """D and the GPU time of decode attention over the keys, for each number of decodes."""
        m = np.arange(1, max_running + 1, dtype=np.int64)
        index = dispatch(ladder, AdmissionRule(), m, m)
        replays = index != EAGER_INDEX
        rows = np.where(replays, np.array((*ladder.sizes, 0), dtype=np.int64)[index], m)
        octaves = _parts(max_context.bit_length(), PER_OCTAVE)
        per_request = np.unique(np.rint(2.0**octaves).astype(np.int64))
        bare = self._device(_without_attention(m, m))
        keys, x, ns = [], [], []
        for each in per_request.tolist():
            zeros = np.zeros_like(m)
            keys.append(m * each)
            x.append(self._device(Work(m, zeros, m, zeros, m, keys[-1])) - bare)
            ns.append(self._either(replays, Work(rows, zeros, rows, zeros, m, keys[-1]), FULL))
        table = np.array(keys).T
        return _lines(table, np.array(ns).T + self.overhead_ns), _lines(table, np.array(x).T)

    def _either(self, replays: Bools, work: Work, backend: CaptureBackend | None = None) -> Ints:
        """Step times: replayed where ``replays``, by the fallback elsewhere."""
        eager = self.model.eager.times(work)
        if not replays.any():
            self.known.append(eager.provenance)
            return eager.ns
        cost = self.model.replay
        if backend is not None:
            cost = StepCost(self.model.forward, self.model.profile, backend)
        replay = cost.times(work)
        self.known.append(replay.provenance)
        if not replays.all():
            self.known.append(eager.provenance)
        return np.where(replays, replay.ns, eager.ns)

    def _device(self, work: Work) -> Ints:
        """GPU time of a step, gaps included."""
        return self.model.eager.times(work).device_ns


def _without_attention(rows: Ints, requests: Ints) -> Work:
    zeros = np.zeros_like(rows)
    return Work(rows, zeros, requests, zeros, zeros, zeros)


def _parts(octaves: int, each: int) -> Floats:
    """0 to ``octaves`` in equal parts, ``each`` of them an octave."""
    return np.arange(octaves * each + 1) / each


def _lines(xs: Ints, ns: Ints) -> tuple[Lines, ...]:
    """Lines for each row of points; index 0 stands for no rows.

    Most rows of a large table are one line, so only their ends are handed on.
    """
    risen = np.maximum.accumulate(ns, axis=1)
    furthest = np.argmax(xs, axis=1)
    at = np.arange(len(xs))
    run = np.maximum(xs[at, furthest] - xs[:, 0], 1)
    slope = (risen[at, furthest] - risen[:, 0]) / run
    chord = risen[:, 0, None] + slope[:, None] * (xs - xs[:, :1])
    rises = np.diff(np.maximum.accumulate(xs, axis=1), axis=1, prepend=xs[:, :1]) > 0
    straight = (~rises | (np.abs(chord - risen) <= TOLERANCE * risen)).all(axis=1).tolist()
    out = [NOTHING]
    rows = zip(xs.tolist(), ns.tolist(), furthest.tolist(), straight, strict=True)
    for x, y, last, one_line in rows:
        if one_line:
            out.append(lines_through((x[0], x[last]), (y[0], max(y[: last + 1]))))
        else:
            out.append(lines_through(x, y, TOLERANCE))
    return tuple(out)


NOTHING = Lines((0,), (0,), (0,))
