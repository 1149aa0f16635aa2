"""Wrong versions of the real backends, runners and planner, each by one exchanged function.

Names are those of the model's mutants where they stand for the same class. Imports torch: test
modules import this after ``pytest.importorskip("torch")``. ``python -m tests.conformance_mutants
NAME...`` looks for a case that kills a mutant, makes it small and saves it in the corpus.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch

from real_gpu.attention import plan
from real_gpu.attention.metadata import LaunchBounds
from real_gpu.attention.plan import Planner
from real_gpu.backends import boundary, breakable, capture, tc_piecewise
from real_gpu.backends.boundary import Boundary
from real_gpu.backends.capture import GraphBackend
from real_gpu.backends.piecewise.split import Break
from real_gpu.conformance import check
from real_gpu.conformance.executor import Executor, Statics
from real_gpu.conformance.extras import Extras
from real_gpu.conformance.forward import Forward, Live
from real_gpu.conformance.generate import case_of
from real_gpu.conformance.run import disagreement, save
from real_gpu.conformance.shrink import smallest
from real_gpu.graphs import recorder
from real_gpu.graphs.cpu import RecordingCpuDevice, arena_of
from real_gpu.graphs.device import GraphDevice
from real_gpu.runners import admission
from real_gpu.runners.inputs import StaticInput
from simcg.ladder import AdmissionRule

CORPUS = Path(__file__).parent / "corpus" / "conformance"
Patch = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Mutant:
    """``backend``: where it shows. ``metadata``: no result shows it, as only padding differs.

    ``on_gpu``: it is killed on a GPU too, and not by chance.
    """

    patch: Patch
    backend: str = "breakable"
    metadata: bool = False
    on_gpu: bool = True


def exchanged(owner: Any, name: str, wrong: Callable[..., Any]) -> Patch:
    """``owner``'s function replaced; ``wrong`` is given the right one before its arguments."""
    right = vars(owner)[name]

    def other(*args: Any, **kwargs: Any) -> Any:
        return wrong(right, *args, **kwargs)

    return lambda monkeypatch: monkeypatch.setattr(owner, name, other)


def hold_weakly(_right: Any, self: Any, leaf: Any) -> Any:
    return self._device.alias(leaf) if isinstance(leaf, torch.Tensor) else leaf


def pool_is_alive(_right: Any, device: GraphDevice, mark: Any, tensor: torch.Tensor) -> bool:
    address = tensor.untyped_storage().data_ptr()
    if isinstance(device, RecordingCpuDevice):
        return bool(arena_of(mark[0]).serial_at(address))
    return bool(mark.pool.holds(address))


def everywhere(name: str, wrong: Callable[..., Any]) -> Patch:
    """Exchange a method of whichever graph device there is."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        from real_gpu.graphs.cuda import CudaGraphDevice  # noqa: PLC0415 - beside the CPU device

        for owner in (RecordingCpuDevice, CudaGraphDevice):
            exchanged(owner, name, wrong)(monkeypatch)

    return patch


def rebinds(right: Any, buffer: Any, new: Any) -> None:
    if not isinstance(buffer, torch.Tensor):
        right(buffer, new)


def frees_buffers(right: Any, self: Boundary, call: Any, device: GraphDevice) -> Any:
    value, refresh = right(self, call, device)
    return device.alias(value) if isinstance(value, torch.Tensor) else value, refresh


def drops_forward(right: Any, self: GraphBackend, key: Any, forward: Any) -> Any:
    figures = right(self, key, forward)
    del self._forwards[key]
    return figures


def skips_break(right: Any, self: Any, function: Any, args: Any, kwargs: Any) -> Any:
    result = right(self, function, args, kwargs)
    self._calls.pop()
    return result


def runs_break_twice(right: Any, self: Any, function: Any, args: Any, kwargs: Any) -> Any:
    result = right(self, function, args, kwargs)
    self._calls.append(self._calls[-1])
    return result


def segment_after_break(right: Any, self: Any) -> None:
    before = len(self._calls)
    right(self)
    if len(self._calls) > before:
        self._calls.insert(max(0, before - 1), self._calls.pop())


def without_last_break(right: Any, device: Any, pool: Any, program: Any, values: Any) -> Any:
    items = list(program.items)
    breaks = [i for i, item in enumerate(items) if isinstance(item, Break)]
    if breaks:
        del items[breaks[-1]]
    return right(device, pool, replace(program, items=tuple(items)), values)


def after_fill(change: Callable[[Any, int, int], None]) -> Patch:
    """The planner's metadata, changed; ``change`` is given the host's views, n and m."""

    def wrong(right: Any, host: Any, query: Any, length: Any, first: Any) -> None:
        right(host, query, length, first)
        change(host, int(query.sum()), len(query))

    return exchanged(plan, "_fill", wrong)


def real_slot(host: Any, n: int, _m: int) -> None:
    host.slots[n:] = 1


def last_slot(host: Any, n: int, _m: int) -> None:
    host.slots[n:] = 27


def ends_at_bucket(host: Any, _n: int, m: int) -> None:
    host.query_ends[m + 1 :] = len(host.slots)


def ends_at_zero(host: Any, _n: int, m: int) -> None:
    host.query_ends[m + 1 :] = 0


def long_sentinels(host: Any, _n: int, m: int) -> None:
    host.key_lengths[m:] = 1


def stale_tail(_right: Any, host: Any, query: Any, length: Any, first: Any) -> None:
    n, m = int(query.sum()), len(query)
    ends = torch.from_numpy(query.cumsum())
    host.query_ends[0], host.query_ends[1 : m + 1] = 0, ends
    host.query_ends[m + 1 :] = n
    host.key_starts[:m], host.key_lengths[:m] = torch.from_numpy(first), torch.from_numpy(length)
    rows = torch.from_numpy((length - query).repeat(query))
    local = torch.cat([torch.arange(q) for q in query])
    host.positions[:n] = rows + local
    host.slots[:n] = host.positions[:n] + torch.from_numpy(first.repeat(query))


def fills_no_tail(right: Any, self: StaticInput, values: torch.Tensor, rows: int) -> None:
    right(self, values, min(rows, int(values.shape[0])))


def smaller_bucket(right: Any, ladder: Any, rule: Any, tokens: int, requests: int) -> Any:
    bucket, reason = right(ladder, rule, tokens, requests)
    if bucket is not None and ladder.buckets.index(bucket):
        return ladder.buckets[ladder.buckets.index(bucket) - 1], None
    return bucket, reason


def no_guard(right: Any, ladder: Any, _rule: Any, tokens: int, requests: int) -> Any:
    return right(ladder, AdmissionRule(), tokens, requests)


def top_is_missing(right: Any, ladder: Any, rule: Any, tokens: int, requests: int) -> Any:
    bucket, reason = right(ladder, rule, tokens, requests)
    if bucket == ladder.buckets[-1]:
        return None, "above the ceiling"
    return bucket, reason


def bound_of_capture(_right: Any, _self: Planner, tokens: int, requests: int) -> Any:
    return LaunchBounds(tokens, requests, tokens, min(tokens, 2))


def moves_metadata(right: Any, self: Planner, *args: Any) -> Any:
    # the old place stays, as its next owner could be anything
    vars(self).setdefault("moved", []).append(self._words)
    self._words = self._words.clone()
    return right(self, *args)


def warms_on_first_slots(right: Any, self: Planner, tokens: int, requests: int) -> Any:
    bounds = right(self, tokens, requests)
    metadata = self.metadata(tokens, requests)
    metadata.slots.copy_(torch.arange(1, tokens + 1))
    return bounds


@contextlib.contextmanager
def not_kept(_right: Any, _device: torch.device) -> Iterator[None]:
    yield


def padded_count(right: Any, self: Executor, step: Any, rows: int, slots: int) -> Any:
    bounds = right(self, step, rows, slots)
    self.statics.count.buffer.fill_(rows)
    return bounds


def empty_slot_is_first(right: Any, device: Any, tokens: int, slots: int, _sink: int) -> Any:
    return right.__func__(device, tokens, slots, 0)


def breaks_at_bucket(
    right: Any, self: Live, views: Any, _rows: int, requests: int, launch: Any
) -> None:
    right(self, views, int(views.ids.shape[0]), requests, launch)


def metadata_of_capture(right: Any, self: Live, *args: Any) -> None:
    if not hasattr(self, "_views"):
        right(self, *args)


def constants_freed(right: Any, self: Any) -> None:
    right(self)
    self._made.clear()


def last_rows(right: Any, self: Executor, step: Any, poison: Any) -> Any:
    outcome = right(self, step, poison)
    if outcome.bucket is None or self.case.in_pool:
        return outcome
    end = outcome.bucket.num_tokens
    return replace(outcome, rows=self.out[end - step.tokens : end])


def second_stream_is_never_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Forward, "_join", lambda _self, unjoined, _waiting: unjoined.clear())


def one_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Executor, "_modes", (0,))


def not_random(right: Any, func: Any) -> Any:
    return replace(right(func), random=False)


def static_constructor(wrong: Callable[..., Any]) -> Patch:
    right = vars(Statics)["on"]
    other = staticmethod(lambda *args: wrong(right, *args))
    return lambda monkeypatch: monkeypatch.setattr(Statics, "on", other)


MUTANTS: dict[str, Mutant] = {
    "outside argument held weakly": Mutant(
        exchanged(breakable._Breaking, "_held", hold_weakly)
    ),
    "the pool is alive": Mutant(everywhere("born_since", pool_is_alive)),
    "break's result rebound": Mutant(exchanged(boundary, "_put", rebinds)),
    "memory freed one operator early": Mutant(
        exchanged(Boundary, "placed", frees_buffers), on_gpu=False
    ),
    "outside tensor of a graph not held": Mutant(
        exchanged(GraphBackend, "capture_one", drops_forward), "full"
    ),
    "break at capture only": Mutant(exchanged(breakable._Breaking, "_on_break", skips_break)),
    "break run twice": Mutant(exchanged(breakable._Breaking, "_on_break", runs_break_twice)),
    "segment after the break that follows it": Mutant(
        exchanged(breakable._Breaking, "_close_segment", segment_after_break)
    ),
    "last break of the pieces lost": Mutant(
        exchanged(tc_piecewise, "record", without_last_break), "tc_piecewise"
    ),
    "slot zero as the sink": Mutant(after_fill(real_slot)),
    "minus one as the sink": Mutant(after_fill(last_slot), "full"),
    "offsets of unused slots end at the bucket": Mutant(
        after_fill(ends_at_bucket), "full", metadata=True
    ),
    "offsets of unused slots are zero": Mutant(after_fill(ends_at_zero), "full"),
    "lengths of unused slots": Mutant(after_fill(long_sentinels), metadata=True),
    "stale slots in the tail": Mutant(exchanged(plan, "_fill", stale_tail)),
    # two slots then write one row of states: on a GPU either may come last
    "stale rows in the tail": Mutant(
        exchanged(StaticInput, "write", fills_no_tail), "full", on_gpu=False
    ),
    "smaller bucket": Mutant(exchanged(admission, "_answer", smaller_bucket)),
    "guard forgotten": Mutant(exchanged(admission, "_answer", no_guard)),
    "top bucket unused": Mutant(exchanged(admission, "_answer", top_is_missing)),
    "bound of the capture's batch": Mutant(
        exchanged(Planner, "baked_bounds", bound_of_capture), "full"
    ),
    "metadata rebuilt before each replay": Mutant(
        exchanged(Planner, "write", moves_metadata), "full"
    ),
    "warm-up writes real slots": Mutant(exchanged(Planner, "write_idle", warms_on_first_slots)),
    "generator not restored": Mutant(exchanged(capture, "random_state_kept", not_kept)),
    "mask made after padding": Mutant(exchanged(Executor, "write", padded_count), "full"),
    "state of an empty slot": Mutant(
        static_constructor(empty_slot_is_first), "full", on_gpu=False
    ),
    "breaks run at T rows": Mutant(exchanged(Live, "use", breaks_at_bucket)),
    "breaks look at the captured metadata": Mutant(exchanged(Live, "use", metadata_of_capture)),
    "constant freed after capture": Mutant(exchanged(Extras, "captured", constants_freed), "full"),
    "output rows shifted": Mutant(exchanged(Executor, "step", last_rows)),
    "key without a scalar": Mutant(one_key, "full"),
    "generator captured": Mutant(
        exchanged(recorder, "traits_of", not_random), "full", on_gpu=False
    ),
}  # fmt: skip


def stem(name: str) -> str:
    """A mutant's name as that of a file."""
    return name.replace(" ", "-").replace("'", "")


def case_file(name: str) -> Path:
    """Where the smallest case that kills a mutant is kept."""
    return CORPUS / (stem(name) + ".json")


def by_results_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks that do not look at the metadata, only at what comes of it."""
    monkeypatch.setattr(check._Comparison, "_compare_statics", lambda *_: None)


def hunt(name: str, device: GraphDevice) -> str:
    """Look for a case that kills the mutant, save the smallest like it, and say what it shows."""
    mutant = MUTANTS[name]
    with pytest.MonkeyPatch.context() as monkeypatch:
        if not mutant.metadata:
            by_results_alone(monkeypatch)
        mutant.patch(monkeypatch)
        cases = (case_of(seed, mutant.backend) for seed in count())
        case = next(case for case in cases if disagreement(case, device))
        small = smallest(case, lambda smaller: bool(disagreement(smaller, device)))
        why = disagreement(small, device)
    if found := disagreement(small, device):
        raise AssertionError(f"the case fails without the mutant too: {found}")
    save(small, CORPUS, stem(name), f"kills the mutant '{name}'")
    return f"{name}: seed {case.seed}, {small.setting.program}: {why}\n"


if __name__ == "__main__":
    torch.set_num_threads(1)
    for wanted in sys.argv[1:] or MUTANTS:
        sys.stdout.write(hunt(wanted, RecordingCpuDevice()))
        sys.stdout.flush()
