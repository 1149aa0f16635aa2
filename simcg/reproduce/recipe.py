"""How a server of a measured deployment was set, as far as its time depends on it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Recipe:
    """Limits and habits of one server under a closed loop of clients.

    ``mixes``: decodes share steps with prefills; else what waits is prefilled in steps of its own.
    ``step_tokens``: most tokens of a step with prefills. ``splits``: a prompt may be prefilled
    over several steps. ``reserves``: a request is admitted with room for all its output; else the
    newest leaves when the KV cache is full. ``running``: most requests at once. ``lag_steps``: the
    next step is decided when the current one starts, so that what arrives meanwhile runs a step
    later. ``poll_steps``: decode steps between two looks at what has arrived.
    ``wait_share``, ``wait_steps``: a step below that share of ``step_tokens`` leaves its prefills
    out, so many times in a row. ``kv_bytes``: of a value in the KV cache. ``memory``: share of the
    GPU for weights, workspace and cache; ``of_free``: share of what the weights leave.
    ``shortest``: lengths are uniform from this share of the longest. ``prompts``: requests sent a
    client. ``graph_top``: most tokens that a graph of mixed steps holds, 0 for none.
    """

    mixes: bool
    step_tokens: int
    running: int
    splits: bool = True
    reserves: bool = False
    lag_steps: int = 1
    poll_steps: int = 0
    wait_share: float = 0.0
    wait_steps: int = 0
    kv_bytes: int = 2
    memory: float = 0.9
    of_free: bool = False
    shortest: float = 1.0
    prompts: int = 10
    graph_top: int = 0
