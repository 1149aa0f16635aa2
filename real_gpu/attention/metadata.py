"""The one metadata contract of every attention: fixed buffers, rewritten before each step."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class AttentionMetadata:
    """What attention reads, at addresses that never change.

    The cache is flat: request i's keys lie in one stretch of slots. ``query_ends`` [S+1] int32:
    row of the first token of each request, then n. ``key_starts`` [S+1] int32: first slot of each
    request. ``key_lengths`` [S] int32: cached plus new tokens of each request. An unused request
    slot is a sentinel: its end is n, its start and length 0. ``slots`` [T] int64: where each row's
    key and value go; slot 0, the sink, for rows at or after n. ``positions`` [T] int64: of each
    row in its request; 0 for rows at or after n.
    """

    query_ends: torch.Tensor
    key_starts: torch.Tensor
    key_lengths: torch.Tensor
    slots: torch.Tensor
    positions: torch.Tensor

    def first(self, rows: int, requests: int) -> AttentionMetadata:
        """Views of the first so many rows and requests, at the same addresses."""
        return AttentionMetadata(
            self.query_ends.narrow(0, 0, requests + 1),
            self.key_starts.narrow(0, 0, requests + 1),
            self.key_lengths.narrow(0, 0, requests),
            self.slots.narrow(0, 0, rows),
            self.positions.narrow(0, 0, rows),
        )


@dataclass(frozen=True, slots=True)
class LaunchBounds:
    """Host numbers that a launch bakes in: sound while every step stays at or below them.

    ``rows``: rows that attention computes: n in a break, T in a graph. ``requests``: m in a
    break, S in a graph. ``longest_query``, ``longest_key``: the longest request's.
    """

    rows: int
    requests: int
    longest_query: int
    longest_key: int
