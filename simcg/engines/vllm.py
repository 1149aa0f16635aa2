"""vLLM 0.33: one list of sizes for two modes, and compiled code above its top.

Source of every rule here: the public source of vLLM 0.33.  The list serves full graphs of
uniform decode and piecewise graphs of mixed steps; prefill steps use the piecewise ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from simcg.arrays import Bools
from simcg.backend import COMPILED, TC_PIECEWISE, CaptureBackend
from simcg.engines.engine import PLAIN_DEPLOYMENT, Deployment, allowed_multiples
from simcg.engines.sizes import vllm_sizes
from simcg.engines.version import Release, show_release
from simcg.errors import require
from simcg.ladder import AdmissionRule, Ladder

SUPPORTED: tuple[int, int] = (0, 33)
NEWEST: Release = (0, 33, 0)
ASSUMED_MAX_NUM_SEQS = 256
"""From here on the default list does not grow, but on data-centre Blackwell (512)."""


@dataclass(frozen=True, slots=True)
class VLLM:
    """vLLM's graphs of mixed and prefill steps in one release."""

    release: Release = NEWEST

    def __post_init__(self) -> None:
        supported = self.release[:2] == SUPPORTED
        require(supported, "vllm version", "", self.version, "a release in 0.33.*")

    @property
    def name(self) -> str:
        """The name that users type."""
        return "vllm"

    @property
    def version(self) -> str:
        """Such as "0.33.0"."""
        return show_release(self.release)

    @property
    def admission(self) -> AdmissionRule:
        """Smallest size >= n; no guard."""
        return AdmissionRule()

    @property
    def backends(self) -> tuple[CaptureBackend, ...]:
        """Piecewise graphs of compiled code."""
        return (TC_PIECEWISE,)

    @property
    def default_backend(self) -> CaptureBackend:
        """Piecewise graphs of compiled code."""
        return TC_PIECEWISE

    @property
    def fallback_backend(self) -> CaptureBackend:
        """Compiled code without a graph, not eager."""
        return COMPILED

    @property
    def assumptions(self) -> tuple[str, ...]:
        """None."""
        return ()

    @property
    def limits(self) -> str:
        """One list for decode and prefill; no slots; no per-size choice."""
        return (
            "vLLM takes one list for decode and mixed steps; with speculative decoding it rounds "
            "each size up to a multiple of the query length and drops it above the maximum. It "
            "has no request slots and cannot send single sizes to eager."
        )

    def default_ladder(self, max_chunk: int, deployment: Deployment = PLAIN_DEPLOYMENT) -> Ladder:
        """The default list; ``max_chunk`` is max_num_batched_tokens.

        It stops at 512 tokens (1024 on data-centre Blackwell): longer steps run compiled.
        """
        return Ladder.of(
            vllm_sizes(
                max_chunk,
                deployment.max_num_seqs or ASSUMED_MAX_NUM_SEQS,
                deployment.query_len,
                deployment.is_datacenter_blackwell,
            )
        )

    def default_slots(self, max_chunk: int) -> int | None:
        """None: a piecewise graph does not hold the number of requests."""
        del max_chunk
        return None

    def allowed_sizes(self, max_tokens: int, deployment: Deployment = PLAIN_DEPLOYMENT) -> Bools:
        """Any integer up to ``max_tokens`` (max_num_batched_tokens); else multiples of qlen."""
        return allowed_multiples(max_tokens, deployment.query_len)

    def decode_sizes(
        self, max_chunk: int, deployment: Deployment = PLAIN_DEPLOYMENT
    ) -> tuple[int, ...]:
        """The default sizes up to the tokens of a full decode batch: one list serves both modes."""
        sizes = self.default_ladder(max_chunk, deployment).sizes
        if deployment.max_num_seqs is None:
            return sizes
        full = deployment.max_num_seqs * deployment.query_len
        return tuple(n for n in sizes if n <= full)

    def reserve_bytes(
        self, ladder: Ladder, deployment: Deployment = PLAIN_DEPLOYMENT
    ) -> int | None:
        """None: the engine subtracts an estimate that it makes itself at start-up."""
        del ladder, deployment
        return None

    def flags(self, ladder: Ladder, backend: CaptureBackend) -> str:
        """``--cudagraph-capture-sizes``; the empty ladder turns graphs off, decode's as well."""
        if not ladder.buckets:
            return """--compilation-config '{"cudagraph_mode":"NONE"}'"""
        names = ", ".join(b.name for b in self.backends)
        where = f"vllm {self.version} backend"
        require(backend in self.backends, where, "", backend.name, f"one of {names}")
        slots = sorted({b.slots for b in ladder.buckets if b.slots is not None})
        require(not slots, "vllm slots", "", slots, "a ladder without slots")
        return f"--cudagraph-capture-sizes {' '.join(map(str, ladder.sizes))}"
