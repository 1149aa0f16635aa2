"""Engines by name and version: rules, backends, slots, and flags that read back."""

from __future__ import annotations

import json
import shlex
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcg.backend import (
    BACKENDS,
    BREAKABLE,
    COMPILED,
    EAGER,
    FULL,
    TC_PIECEWISE,
    CaptureBackend,
)
from simcg.engines import Deployment, Engine, engine_named
from simcg.errors import InputError
from simcg.ladder import Bucket, Ladder

SGLANG_RELEASES = [f"0.5.{patch}" for patch in range(11, 24)]
NAMES = [f"sglang=={release}" for release in SGLANG_RELEASES] + ["vllm==0.33"]


def read_flags(text: str) -> tuple[str | None, Ladder]:
    """The backend (None where the flags name none) and ladder that a command line asks for."""
    words = shlex.split(text)
    options: dict[str, list[str]] = {}
    for word in words:
        if word.startswith("--"):
            options[word] = []
        else:
            options[list(options)[-1]].append(word)
    if "--cuda-graph-config" in options:
        prefill = json.loads(options["--cuda-graph-config"][0])["prefill"]
        assert prefill.keys() == {"backend", "bs", "full_prefill_max_req"}
        return prefill["backend"], Ladder.of(prefill["bs"], prefill["full_prefill_max_req"])
    backend = options.pop("--cuda-graph-backend-prefill", [None])[0]
    (sizes,) = options.values()
    return backend, Ladder.of(map(int, sizes))


def ladders() -> st.SearchStrategy[Ladder]:
    return st.sets(st.integers(1, 16384), min_size=1, max_size=64).map(Ladder.of)


@given(st.sampled_from(NAMES), st.data())
def test_flags_read_back_as_the_same_ladder(name: str, data: st.DataObject) -> None:
    """What an engine is told is the ladder that was chosen, in every version and backend."""
    engine = engine_named(name)
    backend = data.draw(st.sampled_from(engine.backends))
    ladder = data.draw(ladders())
    named, read = read_flags(engine.flags(ladder, backend))
    assert read == ladder
    assert named in (backend.name, None)


@given(ladders(), st.integers(1, 64))
def test_slots_read_back_too(ladder: Ladder, slots: int) -> None:
    """One slot count for all buckets goes through the JSON form."""
    slotted = Ladder.of(ladder.sizes, slots)
    assert read_flags(engine_named("sglang").flags(slotted, FULL)) == ("full", slotted)


SMALL = Ladder.of([64, 128, 256])


@pytest.mark.parametrize(
    ("name", "ladder", "backend", "flags"),
    [
        (
            "sglang",
            SMALL,
            BREAKABLE,
            "--cuda-graph-backend-prefill breakable --cuda-graph-bs-prefill 64 128 256",
        ),
        (
            "sglang",
            Ladder.of([128, 512], slots=16),
            FULL,
            "--cuda-graph-config "
            """'{"prefill":{"backend":"full","bs":[128,512],"full_prefill_max_req":16}}'""",
        ),
        (
            "sglang==0.5.11",
            Ladder.of([64, 256]),
            TC_PIECEWISE,
            "--piecewise-cuda-graph-tokens 64 256",
        ),
        ("sglang", Ladder(()), BREAKABLE, "--cuda-graph-backend-prefill disabled"),
        ("sglang==0.5.11", Ladder(()), TC_PIECEWISE, "--disable-piecewise-cuda-graph"),
        ("vllm", Ladder.of([1, 2, 4, 8]), TC_PIECEWISE, "--cudagraph-capture-sizes 1 2 4 8"),
        (
            "vllm",
            Ladder(()),
            TC_PIECEWISE,
            """--compilation-config '{"cudagraph_mode":"NONE"}'""",
        ),
    ],
)
def test_flags_have_the_engines_form(
    name: str, ladder: Ladder, backend: CaptureBackend, flags: str
) -> None:
    """The text is what the engine's own documentation shows."""
    assert engine_named(name).flags(ladder, backend) == flags


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("backend", BACKENDS.values(), ids=lambda backend: backend.name)
def test_flags_refuse_what_the_version_cannot_select(name: str, backend: CaptureBackend) -> None:
    """A backend has flags if and only if the version lists it; the error names the choices."""
    engine = engine_named(name)
    if backend in engine.backends:
        assert engine.flags(SMALL, backend)
    else:
        with pytest.raises(InputError, match=f"one of {engine.backends[0].name}"):
            engine.flags(SMALL, backend)


def test_slots_that_the_flags_cannot_express_are_refused() -> None:
    """Several slot counts, slots without full, slots in vLLM."""
    sglang, vllm = engine_named("sglang"), engine_named("vllm")
    with pytest.raises(InputError, match="one slot count for all buckets"):
        sglang.flags(Ladder((Bucket(8, 1), Bucket(8, 2))), FULL)
    with pytest.raises(InputError, match="no slots, or backend full"):
        sglang.flags(Ladder.of([8], slots=1), BREAKABLE)
    with pytest.raises(InputError, match="a ladder without slots"):
        vllm.flags(Ladder.of([8], slots=1), TC_PIECEWISE)


@pytest.mark.parametrize("release", SGLANG_RELEASES)
def test_sglang_rules_by_version(release: str) -> None:
    """Guard from after 0.5.15, tc_piecewise to 0.5.21, unread versions say what is assumed."""
    engine = engine_named("sglang", release)
    patch = int(release.rpartition(".")[2])
    assert engine.version == release
    assert engine.admission.max_ratio == (None if patch <= 15 else Fraction(2))
    assert (TC_PIECEWISE in engine.backends) == (patch <= 21)
    assert (BREAKABLE in engine.backends) == (patch >= 12)
    assert bool(engine.assumptions) == (patch < 15 or patch in {16, 17})
    assert engine.default_backend == (BREAKABLE if patch >= 12 else TC_PIECEWISE)
    assert engine.fallback_backend == EAGER


def test_sglang_ceiling_of_mla_models_and_of_attention_data_parallelism() -> None:
    """MLA stops at 2048, from 0.5.23 at 8192; the maximum is shared by the attention ranks."""
    mla = Deployment(is_mla=True)
    assert engine_named("sglang==0.5.22").default_ladder(16384, mla).ceiling == 2048
    assert engine_named("sglang==0.5.23").default_ladder(16384, mla).ceiling == 8192
    assert engine_named("sglang==0.5.23").default_ladder(4096, mla).ceiling == 4096
    assert engine_named("sglang").default_ladder(16384).ceiling == 16384
    split = Deployment(attention_dp_size=8)
    assert engine_named("sglang").default_ladder(16384, split).ceiling == 2048
    assert not engine_named("sglang").default_ladder(3).buckets


def test_default_slots() -> None:
    """SGLang: one slot per 512 tokens of the chunk, at least one; vLLM has none."""
    sglang = engine_named("sglang")
    assert [sglang.default_slots(chunk) for chunk in (100, 512, 8192)] == [1, 1, 16]
    assert engine_named("sglang==0.5.11").default_slots(8192) is None
    assert engine_named("vllm").default_slots(8192) is None


def test_allowed_sizes() -> None:
    """Any positive integer; in vLLM with speculative decoding, multiples of the query length."""
    mask = engine_named("sglang").allowed_sizes(10)
    assert mask.tolist() == [False] + [True] * 10
    spec = engine_named("vllm").allowed_sizes(10, Deployment(query_len=4))
    assert spec.nonzero()[0].tolist() == [4, 8]


@given(st.integers(1, 8192), st.integers(1, 300), st.integers(1, 6))
def test_default_ladders_are_expressible(chunk: int, max_num_seqs: int, query_len: int) -> None:
    """Every default size is one that the flags could have asked for."""
    deployment = Deployment(max_num_seqs=max_num_seqs, query_len=query_len)
    for name in ("sglang", "vllm"):
        engine = engine_named(name)
        mask = engine.allowed_sizes(chunk, deployment)
        assert all(mask[size] for size in engine.default_ladder(chunk, deployment).sizes)


def test_memory_reserve() -> None:
    """SGLang sets 8 MB a bucket aside, 1.5 GB in all for MLA; vLLM estimates by itself."""
    sglang = engine_named("sglang")
    ladder = sglang.default_ladder(8192)
    assert sglang.reserve_bytes(ladder) == 58 * 8 * 2**20
    assert sglang.reserve_bytes(ladder, Deployment(is_mla=True)) == 1536 * 2**20
    assert sglang.reserve_bytes(Ladder(())) == 0
    assert engine_named("vllm").reserve_bytes(ladder) is None


def test_vllm_falls_back_to_compiled_code() -> None:
    """Above its top size vLLM runs compiled code without a graph, and it has no guard."""
    vllm: Engine = engine_named("vllm")
    assert (vllm.name, vllm.version) == ("vllm", "0.33.0")
    assert vllm.fallback_backend == COMPILED
    assert vllm.default_backend == TC_PIECEWISE
    assert vllm.admission.max_ratio is None
    assert vllm.assumptions == ()


@pytest.mark.parametrize("name", ["SGLang", " sglang ", "sglang==0.5.23", "sglang==v0.5.23.post1"])
def test_names_are_read_kindly(name: str) -> None:
    """Case, blanks, a leading v and a post-release change nothing."""
    assert engine_named(name) == engine_named("sglang", "0.5.23")


@pytest.mark.parametrize(
    ("name", "version", "expected"),
    [
        ("sglagn", None, "sglang or vllm"),
        ("", None, "sglang or vllm"),
        ("sglang==", None, "a release such as"),
        ("sglang", "newest", r"a release such as 0\.5\.23$"),
        ("vllm==99", None, r"a release such as 0\.33\.0$"),
        ("sglang", "0.5.23rc1", "a release such as"),
        ("sglang", "0.5.10", r"0\.5\.11\.\.0\.5\.23"),
        ("sglang", "0.5.24", r"0\.5\.11\.\.0\.5\.23"),
        ("vllm", "0.32.1", r"0\.33\.\*"),
        ("vllm", "1.33.0", r"0\.33\.\*"),
        ("sglang==0.5.15", "0.5.16", "the same version"),
    ],
)
def test_unusable_names_and_versions(name: str, version: str | None, expected: str) -> None:
    """The error says what was given and what is supported."""
    with pytest.raises(InputError, match=expected):
        engine_named(name, version)


@pytest.mark.parametrize("field", ["max_num_seqs", "query_len", "attention_dp_size"])
def test_a_deployment_counts_from_one(field: str) -> None:
    """Zero of anything is refused by name."""
    with pytest.raises(InputError, match=f"{field}: got 0"):
        Deployment(**{field: 0})  # type: ignore[arg-type]  # the field's name is the parameter
