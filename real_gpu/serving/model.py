"""One step of a server on the device: the forward in its bucket, then a token for each request."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from real_gpu.models.decoder import Decoder
from real_gpu.runners.decode import DecodeRunner
from real_gpu.runners.prefill import PrefillRunner
from real_gpu.serving.clock import stopwatch
from simcg.arrays import Ints
from simcg.batch import Batch


@dataclass(frozen=True, slots=True)
class Part:
    """One request in a step: new ``ids`` [q] behind ``cached`` tokens, kept from slot ``start``."""

    ids: Ints
    cached: int
    start: int


@dataclass(frozen=True, slots=True)
class Ran:
    """What a step gave and took.

    ``tokens``: of each part the likeliest token behind its last. ``bucket``: the captured tokens,
    0 where it ran eager. In ns: ``plan_ns`` rewriting the static inputs, ``host_ns`` issuing all
    of it, ``device_ns`` the device's time from its start to the end of the logits.
    """

    tokens: list[int]
    bucket: int
    plan_ns: int
    host_ns: int
    device_ns: int


class StepModel(Protocol):
    """Computes steps of a server."""

    def step(self, parts: Sequence[Part], decodes_alone: bool) -> Ran:
        """One forward of all parts; with ``decodes_alone`` each has one token."""


class ServedModel:
    """A decoder behind a runner for prefill and mixed steps, and one for decode steps."""

    def __init__(self, decoder: Decoder, prefill: PrefillRunner, decode: DecodeRunner) -> None:
        self._decoder, self._prefill, self._decode = decoder, prefill, decode.steps
        self._watch = stopwatch(decoder.device)

    def step(self, parts: Sequence[Part], decodes_alone: bool) -> Ran:
        """See ``StepModel``."""
        begin = time.perf_counter_ns()
        lengths = [len(part.ids) for part in parts]
        batch = Batch(tuple(lengths), tuple(part.cached for part in parts))
        ids = torch.from_numpy(np.concatenate([part.ids for part in parts]))
        runner = self._decode if decodes_alone else self._prefill
        planned, _ = runner.plan(batch, ids, [part.start for part in parts])
        last = self._last_rows(lengths)
        start = time.perf_counter_ns()
        self._watch.begin()
        hidden = runner.runner.run(planned)
        with torch.inference_mode():
            rows = hidden if last is None else hidden.index_select(0, last)
            logits = self._decoder.logits(rows)
            self._watch.end()
            chosen = logits.argmax(1)
        issued = time.perf_counter_ns()
        tokens: list[int] = chosen.tolist()  # waits for the device
        return Ran(
            tokens=tokens,
            bucket=planned.bucket.num_tokens if planned.bucket else 0,
            plan_ns=start - begin,
            host_ns=issued - start,
            device_ns=self._watch.ns(),
        )

    def _last_rows(self, lengths: Sequence[int]) -> torch.Tensor | None:
        """The row of each part's last token on the device; None where it is every row."""
        if all(length == 1 for length in lengths):
            return None
        ends = np.cumsum(np.array(lengths, dtype=np.int64)) - 1
        return torch.from_numpy(ends).to(self._decoder.device)
