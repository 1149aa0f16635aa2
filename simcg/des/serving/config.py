"""One configuration of a server: what runs, what is captured, what it never exceeds."""

from __future__ import annotations

from dataclasses import dataclass, replace

from simcg.backend import FULL
from simcg.cost.table import ReplayModel
from simcg.des.serving.clock import MOST_CONTEXT, Captured, ServingClock, serving_clock
from simcg.des.serving.policy import PREFILL_FIRST, Policy
from simcg.des.serving.server import Limits
from simcg.errors import require
from simcg.ladder import AdmissionRule, Ladder
from simcg.model.ops import ForwardPass

LARGEST_CHUNK = 1 << 17
MOST_RUNNING = 1 << 14
"""Tables have an entry a size: far above what servers run."""


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """A server of one model on ``tp`` ranks of one profile.

    ``ladder`` under ``rule``: graphs of steps with prefills, by ``model.backend``;
    ``decode_ladder``: full graphs of decode steps by requests, which run the fallback above its
    top. ``chunk``: most tokens of a step with prefills. ``max_running``: most requests that
    decode together. ``kv_tokens``: capacity of the KV cache, in blocks of ``block_tokens``.
    ``max_requests``: most prefills of a step (None: no limit). ``step_overhead_ns``: host time of
    every step outside the forward (scheduling, sampling, detokenising), 0 unless measured;
    ``decode_overheads``: of a step of decodes alone, as (requests, ns) by ascending requests,
    lines in between and flat beyond; (): the same.
    ``decode_forward``: what a step of decodes alone runs, where it differs (latent and linear
    attention); None: the model's forward.
    """

    model: ReplayModel
    ladder: Ladder
    rule: AdmissionRule
    decode_ladder: Ladder
    chunk: int
    max_running: int
    kv_tokens: int
    policy: Policy = PREFILL_FIRST
    block_tokens: int = 16
    max_requests: int | None = None
    step_overhead_ns: int = 0
    decode_overheads: tuple[tuple[int, int], ...] = ()
    decode_forward: ForwardPass | None = None

    def __post_init__(self) -> None:
        for name, most in (
            ("chunk", LARGEST_CHUNK), ("max_running", MOST_RUNNING), ("kv_tokens", 1 << 40),
            ("block_tokens", 1 << 20),
        ):  # fmt: skip
            value = getattr(self, name)
            require(1 <= value <= most, "server", name, value, f"an integer from 1 to {most}")
        many = self.max_requests
        require(many is None or many >= 1, "server", "max_requests", many, "an integer >= 1")
        for late in (self.step_overhead_ns, *(ns for _, ns in self.decode_overheads)):
            require(0 <= late < 10**12, "server", "step_overhead_ns", late, "0 to 10**12")
        if self.policy.mixes:
            short = f"at most the chunk of {self.chunk}, as decodes share it"
            require(
                self.max_running <= self.chunk, "server", "max_running", self.max_running, short
            )

    @property
    def limits(self) -> Limits:
        """As the server takes them."""
        most = self.chunk if self.max_requests is None else self.max_requests
        blocks = self.kv_tokens // self.block_tokens
        return Limits(self.chunk, self.max_running, most, blocks, self.block_tokens)

    def priced(self, clock: ServingClock) -> ServerConfig:
        """The same with a policy that knows what steps cost, so that it cuts where that pays."""
        prices = (clock.chunked_step(n, n * (n + 1) // 2, 1) for n in range(1, self.chunk + 1))
        return replace(self, policy=replace(self.policy, prices=(0, *prices)))

    @property
    def decode_model(self) -> ReplayModel:
        """What is captured for steps of decodes alone, as full graphs."""
        forward = self.decode_forward or self.model.forward
        return replace(self.model, forward=forward, backend=FULL)

    @property
    def captured(self) -> Captured:
        """What is captured."""
        return Captured(self.ladder, self.rule, self.decode_ladder)

    def clock(self) -> ServingClock:
        """How long its steps take; about a second for 8,192 sizes."""
        return serving_clock(
            self.model,
            self.captured,
            chunk=self.chunk,
            max_running=self.max_running,
            mixes=self.policy.mixes,
            max_context=min(self.kv_tokens, MOST_CONTEXT),
            overhead_ns=self.step_overhead_ns,
            decode_overheads=self.decode_overheads,
            decode_forward=self.decode_forward,
        )
