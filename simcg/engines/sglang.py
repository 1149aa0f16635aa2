"""SGLang 0.5.11 to 0.5.23: prefill ladder, 2x guard, slots and flags.

Source of every rule here: the public source and change log of the versions named.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction

from simcg.arrays import Bools
from simcg.backend import BREAKABLE, EAGER, FULL, TC_PIECEWISE, CaptureBackend
from simcg.engines.engine import PLAIN_DEPLOYMENT, Deployment, allowed_multiples
from simcg.engines.sizes import sglang_prefill_sizes
from simcg.engines.version import Release, show_release
from simcg.errors import InputError, require
from simcg.ladder import AdmissionRule, Ladder

OLDEST: Release = (0, 5, 11)
NEWEST: Release = (0, 5, 23)

LAST_OLD_FLAGS: Release = (0, 5, 11)  # later: one flag pair a phase, and --cuda-graph-config
LAST_WITHOUT_GUARD: Release = (0, 5, 15)  # read; 0.5.16 and 0.5.17 were not
FIRST_WITH_GUARD: Release = (0, 5, 18)  # read
LAST_TC_PIECEWISE: Release = (0, 5, 21)  # 0.5.22 rejects it
LAST_SMALL_MLA: Release = (0, 5, 22)  # 0.5.23 raises the ceiling of MLA models

TOKENS_PER_SLOT = 512
_MB = 1 << 20  # the engine's "MB"; that it means 2^20 bytes is assumed
RESERVE_PER_BUCKET_BYTES = 8 * _MB
RESERVE_MLA_BYTES = 1536 * _MB


@dataclass(frozen=True, slots=True)
class SGLang:
    """SGLang's prefill graphs in one release."""

    release: Release = NEWEST

    def __post_init__(self) -> None:
        supported = f"a release in {show_release(OLDEST)}..{show_release(NEWEST)}"
        in_range = OLDEST <= self.release <= NEWEST
        require(in_range, "sglang version", "", show_release(self.release), supported)

    @property
    def name(self) -> str:
        """The name that users type."""
        return "sglang"

    @property
    def version(self) -> str:
        """Such as "0.5.23"."""
        return show_release(self.release)

    @property
    def admission(self) -> AdmissionRule:
        """Smallest bucket >= n; eager if that is more than 2n, in versions with the guard.

        Absent in 0.5.15, present in 0.5.18.  Before 0.5.15 it is taken as absent (a later
        release introduced it), in 0.5.16 and 0.5.17 as present: both are assumptions.
        """
        if self.release <= LAST_WITHOUT_GUARD:
            return AdmissionRule()
        return AdmissionRule(max_ratio=Fraction(2))

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Whether the guard is there, for the versions nobody has read."""
        if self.release < LAST_WITHOUT_GUARD:
            return (
                f"sglang {self.version}: assumed to have no 2x guard, as 0.5.15 has none; if it "
                "has one, steps below half their bucket run eager",
            )
        if LAST_WITHOUT_GUARD < self.release < FIRST_WITH_GUARD:
            return (
                f"sglang {self.version}: assumed to have the 2x guard (absent in 0.5.15, present "
                "in 0.5.18); if it has none, steps below half their bucket replay, padded",
            )
        return ()

    @property
    def backends(self) -> tuple[CaptureBackend, ...]:
        """Up to 0.5.11 tc_piecewise alone, from 0.5.22 without it."""
        if self.release <= LAST_OLD_FLAGS:
            return (TC_PIECEWISE,)
        if self.release <= LAST_TC_PIECEWISE:
            return (BREAKABLE, FULL, TC_PIECEWISE)
        return (BREAKABLE, FULL)

    @property
    def default_backend(self) -> CaptureBackend:
        """Breakable, wherever it can be selected."""
        return self.backends[0]

    @property
    def fallback_backend(self) -> CaptureBackend:
        """Eager, above the top bucket and under the guard."""
        return EAGER

    @property
    def limits(self) -> str:
        """One slot count for all buckets; no per-bucket backend."""
        return (
            "SGLang takes any list of token counts, one backend and, for full, one slot count for "
            "all buckets; it cannot send single sizes to eager."
        )

    def default_ladder(self, max_chunk: int, deployment: Deployment = PLAIN_DEPLOYMENT) -> Ladder:
        """The step grid up to the chunk; MLA models stop at 2048 (0.5.23: 8192).

        The maximum is divided by the attention data-parallel size.
        """
        require(max_chunk >= 1, "default_ladder", "max_chunk", max_chunk, "an integer >= 1")
        top = max_chunk
        if deployment.is_mla:
            top = 2048 if self.release <= LAST_SMALL_MLA else min(8192, max_chunk)
        return Ladder.of(sglang_prefill_sizes(max(top // deployment.attention_dp_size, 1)))

    def default_slots(self, max_chunk: int) -> int | None:
        """max(chunk // 512, 1) for backend full; None where full cannot be selected."""
        require(max_chunk >= 1, "default_slots", "max_chunk", max_chunk, "an integer >= 1")
        return max(max_chunk // TOKENS_PER_SLOT, 1) if FULL in self.backends else None

    def allowed_sizes(self, max_tokens: int, deployment: Deployment = PLAIN_DEPLOYMENT) -> Bools:
        """Any positive integer."""
        del deployment  # no fact about the server restricts an explicit list
        return allowed_multiples(max_tokens, 1)

    def decode_sizes(
        self, max_chunk: int, deployment: Deployment = PLAIN_DEPLOYMENT
    ) -> tuple[int, ...]:
        """None: decode graphs have a list and a flag of their own."""
        del max_chunk, deployment
        return ()

    def reserve_bytes(
        self, ladder: Ladder, deployment: Deployment = PLAIN_DEPLOYMENT
    ) -> int | None:
        """8 MB a bucket, MLA 1.5 GB in all; only when the memory fraction is automatic.

        With a fixed memory fraction extra graphs cost head-room, not KV cache.
        """
        if not ladder.buckets:
            return 0
        return RESERVE_MLA_BYTES if deployment.is_mla else RESERVE_PER_BUCKET_BYTES * len(ladder)

    def flags(self, ladder: Ladder, backend: CaptureBackend) -> str:
        """The flags of this version; JSON where slots are given, since only it has them.

        The empty ladder disables prefill graphs.  JSON wins over the other flags.
        """
        if not ladder.buckets:
            old = "--disable-piecewise-cuda-graph"
            return old if self._has_old_flags else "--cuda-graph-backend-prefill disabled"
        names = ", ".join(b.name for b in self.backends)
        where = f"sglang {self.version} prefill backend"
        require(backend in self.backends, where, "", backend.name, f"one of {names}")
        sizes = " ".join(map(str, ladder.sizes))
        slots = _one_slot_count(ladder, backend)
        if self._has_old_flags:
            return f"--piecewise-cuda-graph-tokens {sizes}"
        if slots is None:
            return f"--cuda-graph-backend-prefill {backend.name} --cuda-graph-bs-prefill {sizes}"
        prefill = {"backend": backend.name, "bs": ladder.sizes, "full_prefill_max_req": slots}
        return f"--cuda-graph-config '{json.dumps({'prefill': prefill}, separators=(',', ':'))}'"

    @property
    def _has_old_flags(self) -> bool:
        return self.release <= LAST_OLD_FLAGS


def _one_slot_count(ladder: Ladder, backend: CaptureBackend) -> int | None:
    """The slot count that all buckets share; None for a ladder without slots."""
    counts = sorted({b.slots for b in ladder.buckets if b.slots is not None})
    if not counts:
        return None
    if not backend.uses_slots:
        raise InputError("sglang slots", backend.name, counts, "no slots, or backend full")
    if len(counts) > 1:
        raise InputError("sglang slots", "", counts, "one slot count for all buckets")
    return counts[0]
