"""What every engine answers about prefill graphs: its default ladder, its rule, its flags."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from simcg.arrays import Bools
from simcg.backend import CaptureBackend
from simcg.errors import require
from simcg.ladder import AdmissionRule, Ladder


@dataclass(frozen=True, slots=True)
class Deployment:
    """The facts about a server, beside the chunk, that engines derive their ladders from.

    ``query_len``: tokens a request adds in one decode step (draft tokens + 1).
    ``is_mla``: the model uses multi-head latent attention.
    ``max_num_seqs`` None: not known, as vLLM's own default depends on the GPU; the default list is
    then that of 256 or more, and all of it may serve decode.
    """

    max_num_seqs: int | None = None
    query_len: int = 1
    attention_dp_size: int = 1
    is_mla: bool = False
    is_datacenter_blackwell: bool = False

    def __post_init__(self) -> None:
        for name in ("max_num_seqs", "query_len", "attention_dp_size"):
            value = getattr(self, name)
            require(value is None or value >= 1, "Deployment", name, value, "an integer >= 1")


PLAIN_DEPLOYMENT = Deployment()
"""One attention rank, no MLA, no speculative decoding, not Blackwell."""


class Engine(Protocol):
    """One engine in one version, as a frozen value."""

    @property
    def name(self) -> str:
        """The engine's name in lower case, as typed on the command line."""
        ...

    @property
    def version(self) -> str:
        """The release whose rules these are, such as "0.5.23"."""
        ...

    @property
    def admission(self) -> AdmissionRule:
        """When a prefill step may replay in this version."""
        ...

    @property
    def backends(self) -> tuple[CaptureBackend, ...]:
        """The capturing backends a user can select for prefill in this version."""
        ...

    @property
    def default_backend(self) -> CaptureBackend:
        """The prefill backend that runs when the user selects none."""
        ...

    @property
    def fallback_backend(self) -> CaptureBackend:
        """What runs a step that no bucket admits."""
        ...

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What is assumed about this version because no source settles it."""
        ...

    @property
    def limits(self) -> str:
        """What the flags cannot express, in one or two sentences."""
        ...

    def default_ladder(self, max_chunk: int, deployment: Deployment = ...) -> Ladder:
        """The ladder without flags, when a prefill step has at most ``max_chunk`` tokens."""
        ...

    def default_slots(self, max_chunk: int) -> int | None:
        """Request slots of backend ``full`` without flags; None if the engine has none."""
        ...

    def allowed_sizes(self, max_tokens: int, deployment: Deployment = ...) -> Bools:
        """Mask over 0..max_tokens (entry 0 False): sizes that the flags can express."""
        ...

    def decode_sizes(self, max_chunk: int, deployment: Deployment = ...) -> tuple[int, ...]:
        """Sizes that the same flag must keep for decode graphs; () where decode has its own."""
        ...

    def reserve_bytes(self, ladder: Ladder, deployment: Deployment = ...) -> int | None:
        """Bytes taken from the KV cache beforehand; None if the engine measures instead."""
        ...

    def flags(self, ladder: Ladder, backend: CaptureBackend) -> str:
        """The command-line flags that make the engine capture exactly this ladder.

        Errors: ``InputError`` for a backend or slots that this version cannot express.
        """
        ...


def allowed_multiples(max_tokens: int, step: int) -> Bools:
    """Mask over 0..max_tokens that is True at the positive multiples of ``step``."""
    require(max_tokens >= 1, "allowed_sizes", "max_tokens", max_tokens, "an integer >= 1")
    mask = np.zeros(max_tokens + 1, dtype=np.bool_)
    mask[step::step] = True
    return mask
