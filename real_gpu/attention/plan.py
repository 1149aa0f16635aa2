"""Plans a step outside any graph: a batch becomes metadata at fixed addresses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import index

import numpy as np
import torch

from real_gpu.attention.cache import SINK, KvCache
from real_gpu.attention.metadata import AttentionMetadata, LaunchBounds
from simcg.arrays import Ints
from simcg.batch import Batch
from simcg.errors import require

ALIGNED_WORDS = 16
"""Sections begin at multiples of 128 bytes: kernels are compiled for aligned pointers."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the metadata of (tokens, requests) lies in one buffer of 8-byte words."""

    tokens: int
    requests: int

    @property
    def sections(self) -> tuple[int, ...]:
        """First words of slots, positions, query ends, key starts, key lengths; all words."""
        row, request = _aligned(self.tokens), _aligned(-(-(self.requests + 1) // 2))
        return (0, row, *(2 * row + i * request for i in range(4)))

    @property
    def words(self) -> int:
        """Words of the whole."""
        return self.sections[-1]

    def views(self, words: torch.Tensor) -> AttentionMetadata:
        """The sections of an int64 buffer."""
        slots, positions, ends, starts, lengths, _ = self.sections
        halves = words.view(torch.int32)
        return AttentionMetadata(
            query_ends=halves[2 * ends :][: self.requests + 1],
            key_starts=halves[2 * starts :][: self.requests + 1],
            key_lengths=halves[2 * lengths :][: self.requests],
            slots=words[slots:][: self.tokens],
            positions=words[positions:][: self.tokens],
        )


def _aligned(words: int) -> int:
    return -(-words // ALIGNED_WORDS) * ALIGNED_WORDS


class Planner:
    """Writes the metadata of each step with one copy to the device.

    All shapes lie over each other in one buffer that holds up to ``tokens`` rows and
    ``requests`` requests: the metadata of one shape is always at the same addresses, and
    planning another shape overwrites it. ``write`` comes after the last launch that reads the
    previous step's metadata, on the stream that launches.
    """

    def __init__(self, cache: KvCache, tokens: int, requests: int) -> None:
        self._cache = cache
        self.tokens, self.requests = tokens, requests
        device = cache.keys[0].device
        words = Layout(tokens, requests).words
        self._words = torch.zeros(words, dtype=torch.int64, device=device)
        self._staging = [Staging(words, device) for _ in range(2)]

    def metadata(self, tokens: int, requests: int) -> AttentionMetadata:
        """The buffers of that shape; ``InputError`` when it is larger than the planner's."""
        self._check("tokens", tokens, self.tokens)
        self._check("requests", requests, self.requests)
        return Layout(tokens, requests).views(self._words)

    def write(
        self, batch: Batch, starts: Sequence[int], tokens: int, requests: int
    ) -> LaunchBounds:
        """Plans ``batch``, padded to (tokens, requests), and gives its own bounds.

        ``starts``: the first slot of each request. Raises ``InputError`` for a batch that the
        shape or the cache cannot hold; nothing is written then.
        """
        query = np.array(batch.query_tokens, dtype=np.int64)
        length = query + np.array(batch.context_tokens, dtype=np.int64)
        first = np.array([index(start) for start in starts], dtype=np.int64)
        n, m = batch.num_tokens, batch.num_requests
        require(len(first) == m, "Planner", "starts", len(first), f"one for each of {m} requests")
        self._check("tokens", tokens, self.tokens, at_least=n)
        self._check("requests", requests, self.requests, at_least=m)
        self._cache.check(first, length)
        layout = Layout(tokens, requests)
        self._staging.reverse()
        staging = self._staging[0]
        _fill(staging.begin(layout), query, length, first)
        staging.send(self._words, layout.words)
        return LaunchBounds(n, m, int(query.max()), int(length.max()))

    def write_idle(self, tokens: int, requests: int) -> LaunchBounds:
        """Plans one request of ``tokens`` rows that writes nothing but the sink: for warm-ups.

        It reads whatever the first slots of the cache hold, and its results are nobody's.
        """
        self._check("tokens", tokens, self.tokens)
        self._check("requests", requests, self.requests)
        layout = Layout(tokens, requests)
        length = min(tokens, self._cache.longest)
        self._staging.reverse()
        staging = self._staging[0]
        host = staging.begin(layout)
        _fill(host, *(np.array([value], dtype=np.int64) for value in (tokens, length, SINK)))
        host.slots.fill_(SINK)
        host.positions.clamp_(min=0)
        staging.send(self._words, layout.words)
        return LaunchBounds(tokens, 1, tokens, length)

    def baked_bounds(
        self, tokens: int, requests: int, longest_query: int | None = None
    ) -> LaunchBounds:
        """Bounds that hold for every batch in that shape, so that a graph may bake them in."""
        longest = self._cache.longest
        query = min(tokens, longest) if longest_query is None else longest_query
        return LaunchBounds(tokens, requests, query, longest)

    @staticmethod
    def _check(what: str, value: int, most: int, at_least: int = 1) -> None:
        good = at_least <= value <= most
        require(good, "Planner", what, value, f"{at_least} to {most}")


class Staging:
    """A pinned host buffer of one step, free again once its copy is done."""

    def __init__(self, words: int, device: torch.device) -> None:
        cuda = device.type == "cuda"
        self._host = torch.zeros(words, dtype=torch.int64, pin_memory=cuda)
        self._sent = torch.cuda.Event() if cuda else None

    def begin(self, layout: Layout) -> AttentionMetadata:
        """Wait for the copy of two steps ago, then: host views to write."""
        if self._sent is not None:
            self._sent.synchronize()
        return layout.views(self._host)

    def send(self, target: torch.Tensor, words: int) -> None:
        """Copy the first words to the device, in the order of the current stream."""
        target[:words].copy_(self._host[:words], non_blocking=True)
        if self._sent is not None:
            self._sent.record()


def _fill(host: AttentionMetadata, query: Ints, length: Ints, first: Ints) -> None:
    ends = np.cumsum(query)
    n, m = int(ends[-1]), len(query)
    query_ends, key_starts, key_lengths, slots, positions = (
        part.numpy()
        for part in (
            host.query_ends, host.key_starts, host.key_lengths, host.slots, host.positions
        )
    )  # fmt: skip
    query_ends[0] = 0
    query_ends[1 : m + 1], query_ends[m + 1 :] = ends, n
    key_starts[:m], key_starts[m:] = first, 0
    key_lengths[:m], key_lengths[m:] = length, 0
    positions[:n] = np.arange(n) + np.repeat(length - ends, query)
    positions[n:] = 0
    slots[:n] = positions[:n] + np.repeat(first, query)
    slots[n:] = SINK
