"""What the published curves say by their shape, and whether the simulation says so too."""

from __future__ import annotations

from dataclasses import dataclass

from simcg.backend import BREAKABLE, EAGER, FULL, TC_PIECEWISE
from simcg.hardware.catalog import load_profile
from simcg.reproduce.cases import GPT_OSS, R1_DECODE, V32_DECODE
from simcg.reproduce.outcome import Reproduction
from simcg.reproduce.simulator import TTFT_LENGTHS, Simulator

BACKENDS = (EAGER, TC_PIECEWISE, BREAKABLE, FULL)
FLAT = 1.25
"""A curve counts as flat over 32 times the prompt if its TTFTs differ by less than this factor:
the draft chart's do (its noisiest, eager, by 1.25)."""
LARGE_LADDER = 259
MEMORY_FRACTION = 0.9
"""Of the GPU for weights, graphs and KV cache: assumed, as the source does not say."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A published observation, the simulated figures for it, and whether they agree."""

    claim: str
    simulated: str
    holds: bool


def facts(reproduction: Reproduction) -> tuple[Fact, ...]:
    """The verdicts."""
    simulator = Simulator(reproduction.fit.parameters)
    return (
        _flat(simulator),
        _ordered(simulator),
        *_memory(reproduction),
        _compile_share(reproduction),
        _kv_lost(simulator),
    )


def _flat(simulator: Simulator) -> Fact:
    """Launch-bound under eager; under graphs most of the time lies outside the forward."""
    growth = {}
    for backend in BACKENDS:
        ttft = simulator.ttft_ms(GPT_OSS, backend)
        growth[backend.name] = max(ttft) / min(ttft)
    outside = simulator.parameters.outside_ns / 1e6
    eager = simulator.steps(GPT_OSS, EAGER, TTFT_LENGTHS)
    full = simulator.steps(GPT_OSS, FULL, TTFT_LENGTHS)
    spans = ", ".join(f"{name} x{factor:.3f}" for name, factor in growth.items())
    why = (
        f"eager: the host issues for {eager.host_ns / 1e6:.1f} ms whatever the GPU needs "
        f"({eager.device_ns.min() / 1e6:.1f}-{eager.device_ns.max() / 1e6:.1f} ms); full: "
        f"{outside:.1f} ms lie outside a step of {full.ns.min() / 1e6:.1f}-"
        f"{full.ns.max() / 1e6:.1f} ms"
    )
    flat = all(factor < FLAT for factor in growth.values())
    return Fact("TTFT is flat from 64 to 2,048 tokens", f"longest/shortest {spans}; {why}", flat)


def _ordered(simulator: Simulator) -> Fact:
    means = [sum(simulator.ttft_ms(GPT_OSS, b)) / len(TTFT_LENGTHS) for b in BACKENDS]
    shown = " > ".join(f"{b.name} {ms:.1f}" for b, ms in zip(BACKENDS, means, strict=True))
    holds = means == sorted(means, reverse=True)
    return Fact("eager > tc_piecewise > breakable > full", f"mean TTFT in ms: {shown}", holds)


def _memory(reproduction: Reproduction) -> list[Fact]:
    """For each model whose memory is simulated at every ceiling."""
    simulated = {o.published.id: o.simulated for o in reproduction.outcomes}
    out = []
    for group, model in (("M2", "gpt-oss-120b TP2"), ("M3", "GLM-5.2 TP4")):
        none = simulated.get(f"{group}-none")
        below = [simulated.get(f"{group}-{ceiling}") for ceiling in (1024, 2048, 4096)]
        at_chunk = simulated.get(f"{group}-8192")
        if none is None or at_chunk is None or any(value is None for value in below):
            continue
        shown = ", ".join(f"{value:.3f}" for value in below if value is not None)
        out.append(
            Fact(
                f"{model}: a ceiling below the chunk costs more than none, at the chunk less",
                f"GB after a prefill of 8,192: none {none:.3f}; 1024, 2048, 4096: {shown}; "
                f"8192: {at_chunk:.3f}",
                at_chunk < none < min(value for value in below if value is not None),
            )
        )
    return out


def _compile_share(reproduction: Reproduction) -> Fact:
    shares = [
        o.simulated
        for o in reproduction.outcomes
        if o.published.id.startswith("C5-") and o.simulated is not None
    ]
    shown = ", ".join(f"{share:.1f} %" for share in shares)
    return Fact(
        "torch.compile is 78-86 % of tc_piecewise's preparation",
        f"{shown}: within a point of the range, as its ends are rounded",
        all(77 <= share <= 87 for share in shares),
    )


def _kv_lost(simulator: Simulator) -> Fact:
    """K7 by its order: the bytes are of the graphs alone, the share is of what weights leave."""
    shares, sizes = [], []
    for deployment in (R1_DECODE, V32_DECODE):
        graphs = simulator.graph_bytes(deployment, LARGE_LADDER)
        profile, architecture = load_profile(deployment.hardware), deployment.architecture
        usable = MEMORY_FRACTION * profile.gpu.memory_bytes.value
        shares.append(100 * graphs / (usable - architecture.weight_bytes(deployment.tp)))
        sizes.append(graphs / LARGE_LADDER / (1 << 20))
    return Fact(
        "259 decode graphs take more of the KV cache of DeepSeek-V3.2 than of DeepSeek-R1",
        f"{shares[1]:.1f} % against {shares[0]:.1f} % (published 17.2 and 8.6 %) of what 4-bit "
        f"weights leave of {100 * MEMORY_FRACTION:.0f} % of a GB200; {sizes[1]:.0f} and "
        f"{sizes[0]:.0f} MiB a graph",
        shares[1] > shares[0],
    )
