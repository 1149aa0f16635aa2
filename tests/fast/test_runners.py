"""A step through a runner is the step run eagerly, whatever was replayed before it."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch", reason="torch is not installed: pip install '.[gpu]'")

import torch

from real_gpu.attention.cache import KvCache
from real_gpu.attention.plan import Planner
from real_gpu.backends.backend import Backend, CaptureFigures
from real_gpu.backends.breakable import breakable, debug_graph
from real_gpu.backends.eager import Eager
from real_gpu.backends.full import full
from real_gpu.backends.tc_piecewise import TcPiecewise
from real_gpu.graphs.cpu import RecordingCpuDevice
from real_gpu.graphs.device import CaptureError
from real_gpu.models.decoder import Decoder
from real_gpu.runners.decode import DecodeRunner
from real_gpu.runners.prefill import PrefillRunner
from real_gpu.runners.runner import Runner
from simcg.backend import FULL, CaptureBackend
from simcg.batch import Batch
from simcg.errors import InputError
from simcg.ladder import AdmissionRule, Bucket, Ladder
from simcg.model.architecture import Architecture
from tests.decoders import CPU, LLAMA, NAN, QWEN3_MOE, random_ids

torch.set_num_threads(1)
SIZES, SLOTS, REQUESTS = (4, 8, 16), 97, 4
NO_RULE = AdmissionRule()


class EagerWhole(Eager):
    """Runs the padded forward as a full graph's capture sees it, its bounds included."""

    @property
    def kind(self) -> CaptureBackend:
        return FULL


MAKERS: dict[str, Callable[[], Backend]] = {
    "eager": Eager,
    "full": lambda: full(RecordingCpuDevice()),
    "breakable": lambda: breakable(RecordingCpuDevice()),
    "debug_graph": lambda: debug_graph(RecordingCpuDevice()),
    "tc_piecewise": lambda: TcPiecewise(RecordingCpuDevice()),
}


def runner_of(
    make: Callable[[], Backend], arch: Architecture = LLAMA, sizes: tuple[int, ...] = SIZES
) -> Runner:
    """A captured runner of an fp64 decoder over a small cache; equal archs, equal weights."""
    decoder = Decoder(arch, CPU, torch.float64, seed=5)
    cache = KvCache.allocate(decoder.arch, SLOTS, CPU, torch.float64)
    decoder.bind(cache)
    backend = make()
    slots = REQUESTS if backend.kind.uses_slots else None
    planner = Planner(cache, tokens=24, requests=REQUESTS)
    runner = Runner(decoder, planner, backend, Ladder.of(sizes, slots))
    runner.capture()
    return runner


@pytest.fixture(scope="module")
def runners() -> dict[str, Runner]:
    return {name: runner_of(make) for name, make in (*MAKERS.items(), ("whole", EagerWhole))}


def bucket_of(runner: Runner, tokens: int) -> Bucket | None:
    """The smallest that holds so many tokens, as there is no rule."""
    return next((b for b in runner.ladder.buckets if b.num_tokens >= tokens), None)


@st.composite
def steps(draw: st.DrawFn) -> tuple[Batch, list[int]]:
    """A batch of up to 20 tokens with cached context, each request in its own stretch."""
    count = draw(st.integers(1, REQUESTS))
    query = draw(st.lists(st.integers(1, 5), min_size=count, max_size=count))
    context = draw(st.lists(st.integers(0, 12), min_size=count, max_size=count))
    order = draw(st.permutations(range(REQUESTS)))
    return Batch(tuple(query), tuple(context)), [1 + 24 * order[i] for i in range(count)]


def poisoned_step(
    runner: Runner, batch: Batch, starts: list[int], seed: int, bucket: Bucket | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Hidden states and cache after a step on a random cache, with NaN in the old output."""
    generator = torch.Generator().manual_seed(seed)
    cache = runner._decoder.cache
    for part in (*cache.keys, *cache.values):
        part.copy_(torch.randn(part.shape, generator=generator, dtype=part.dtype))
    ids = random_ids(batch.num_tokens, seed, runner._decoder.arch)
    runner._out.fill_(NAN)
    hidden = runner.run(runner.plan(batch, ids, starts, bucket)).clone()
    written = torch.stack([part[1:] for part in (*cache.keys, *cache.values)])
    return hidden, written


@pytest.mark.parametrize("name", MAKERS)
@settings(max_examples=12, deadline=None)
@given(run=st.lists(steps(), min_size=2, max_size=4), seed=st.integers(0, 99))
def test_a_replay_equals_eager_bit_for_bit_at_the_same_size(
    name: str, run: list[tuple[Batch, list[int]]], seed: int, runners: dict[str, Runner]
) -> None:
    """Also the cache, in any order of buckets; and eager at the batch's own size to rounding."""
    tested, truth = runners[name], runners["whole" if name == "full" else "eager"]
    for batch, starts in run:
        got, padded = (
            poisoned_step(runner, batch, starts, seed, bucket_of(runner, batch.num_tokens))
            for runner in (tested, truth)
        )
        own = poisoned_step(runners["eager"], batch, starts, seed, None)
        for mine, at_size, at_own in zip(got, padded, own, strict=True):
            assert torch.equal(mine, at_size)
            assert torch.allclose(mine, at_own, rtol=0, atol=1e-11)


def test_experts_replay_like_eager() -> None:
    """The router sees rows of padding, and no real row notices."""
    batch, starts = Batch((3, 2), (0, 4)), [1, 40]

    def hidden(make: Callable[[], Backend]) -> torch.Tensor:
        runner = runner_of(make, QWEN3_MOE, (8,))
        return poisoned_step(runner, batch, starts, 3, runner.ladder.buckets[0])[0]

    assert torch.equal(hidden(MAKERS["full"]), hidden(EagerWhole))
    for name in ("breakable", "tc_piecewise"):
        assert torch.equal(hidden(MAKERS[name]), hidden(Eager)), name


def test_capture_leaves_the_cache_alone() -> None:
    """Warm-ups and breaks at capture write nothing but the sink."""
    for make in MAKERS.values():
        decoder = runner_of(make, sizes=(8,))._decoder
        assert not any(part[1:].any() for part in (*decoder.cache.keys, *decoder.cache.values))


def test_admission_counts_replays_and_reasons(runners: dict[str, Runner]) -> None:
    runner = PrefillRunner(runners["breakable"], AdmissionRule(Fraction(2)))
    ids = random_ids(20, 1, LLAMA)
    seen = [runner.step(Batch((n,), (0,)), ids[:n], [1]) for n in (1, 3, 4, 5, 16, 17)]
    assert [s.bucket.num_tokens if s.bucket else s.reason for s in seen] == [
        "guard", 4, 4, 8, 16, "above the ceiling",
    ]  # fmt: skip
    assert runner.admission.fallbacks == {"guard": 1, "above the ceiling": 1}
    assert runner.admission.replays == {Bucket(4): 2, Bucket(8): 1, Bucket(16): 1}


def test_a_bucket_whose_capture_failed_runs_eager_and_says_so() -> None:
    """Buckets captured before it still replay."""
    small = runner_of(MAKERS["breakable"], sizes=())
    small.ladder = Ladder.of(SIZES)
    real = small.backend.capture_one

    def short_of_memory(key: Bucket, forward: Callable[[], torch.Tensor]) -> CaptureFigures:
        if key.num_tokens < 16:
            raise CaptureError("out of memory")
        return real(key, forward)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(small.backend, "capture_one", short_of_memory)
        with pytest.raises(CaptureError, match="out of memory"):
            small.capture()
    runner = PrefillRunner(small, NO_RULE)
    ids = random_ids(9, 1, LLAMA)
    assert runner.step(Batch((9,), (0,)), ids, [1]).bucket == Bucket(16)
    assert runner.step(Batch((5,), (0,)), ids[:5], [1]).reason == "not captured"
    assert runner.admission.fallbacks == {"not captured": 1}


def test_decode_is_prefill_of_one_token_a_request() -> None:
    decoder = Decoder(LLAMA, CPU, torch.float64, seed=5)
    cache = KvCache.allocate(decoder.arch, SLOTS, CPU, torch.float64)
    decoder.bind(cache)
    planner = Planner(cache, tokens=8, requests=8)
    decode = DecodeRunner(decoder, planner, full(RecordingCpuDevice()), (2, 4, 8), NO_RULE)
    decode.runner.capture()
    prompt, new = random_ids(9, 2, LLAMA), random_ids(3, 4, LLAMA)
    starts = [1, 30, 60]
    prefill = Runner(decoder, Planner(cache, 9, 1), Eager(), Ladder(()))
    for start in starts:
        prefill.run(prefill.plan(Batch((9,), (0,)), prompt, [start], None))
    step = decode.step((9, 9, 9), new, starts)
    assert step.bucket == Bucket(4, 4)
    for row, token in enumerate(new):
        whole = runner_of(Eager)
        ids = torch.cat([prompt, token[None]])
        hidden = whole.run(whole.plan(Batch((10,), (0,)), ids, [1], None))
        assert torch.allclose(step.hidden[row], hidden[9], rtol=0, atol=1e-11)


def test_what_does_not_fit_is_refused_by_name(runners: dict[str, Runner]) -> None:
    runner = runners["breakable"]
    ids = random_ids(20, 1, LLAMA)
    with pytest.raises(InputError, match=r"ids, rows: got 3, expected the batch's 4 tokens"):
        runner.plan(Batch((4,), (0,)), ids[:3], [1], None)
    with pytest.raises(InputError, match=r"ids, dtype: got 'torch.int32', expected torch.int64"):
        runner.plan(Batch((4,), (0,)), ids[:4].int(), [1], None)
    with pytest.raises(InputError, match=r"num_tokens: got 5, expected one of the captured sizes"):
        runner.plan(Batch((4,), (0,)), ids[:4], [1], Bucket(5))
    with pytest.raises(InputError, match="tokens: got 4, expected 5 to 24"):
        runner.plan(Batch((5,), (0,)), ids[:5], [1], Bucket(4))
    both = Batch((2, 2), (0, 0))
    with pytest.raises(InputError, match=r"start of request 1: got 2.*ends at 2"):
        runner.plan(both, ids[:4], [1, 2], None)
    with pytest.raises(TypeError):
        runner.plan(both, ids[:4], [1, 5.7], None)  # type: ignore[list-item]
    first = runner.plan(both, ids[:4], [1, 5], None)
    runner.plan(Batch((2,), (0,)), ids[:2], [1], None)
    with pytest.raises(InputError, match="expected the latest plan"):
        runner.run(first)
    with pytest.raises(InputError, match="request 0: got 98"):
        runner.plan(Batch((5,), (93,)), ids[:5], [1], None)


def test_a_ladder_that_the_backend_cannot_capture_is_refused() -> None:
    decoder = Decoder(LLAMA, CPU, torch.float64, seed=5)
    cache = KvCache.allocate(decoder.arch, SLOTS, CPU, torch.float64)
    planner = Planner(cache, tokens=8, requests=2)
    decoder.bind(cache)
    with pytest.raises(InputError, match="request slots on every bucket"):
        Runner(decoder, planner, full(RecordingCpuDevice()), Ladder.of((4,)))
    with pytest.raises(InputError, match="ceiling: got 9, expected at most 8 tokens"):
        Runner(decoder, planner, Eager(), Ladder.of((9,)))
    with pytest.raises(InputError, match="slots: got 3, expected at most 2 requests"):
        Runner(decoder, planner, Eager(), Ladder.of((4,), slots=3))
