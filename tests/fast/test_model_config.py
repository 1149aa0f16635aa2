"""Reading config.json files: what they give, and the one line that a bad one gives."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simcg.errors import InputError
from simcg.model.architecture import Architecture
from simcg.model.catalog import architecture_named, load_architecture, model_names
from simcg.model.config import FAMILIES, read_config
from simcg.model.forward import forward_pass
from tests.model_configs import DEEPSEEK, HYBRID, SPARSE

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 8,
    "num_hidden_layers": 4,
    "num_key_value_heads": 2,
    "vocab_size": 100,
    "max_position_embeddings": 512,
}
OSS: dict[str, Any] = LLAMA | {
    "model_type": "gpt_oss",
    "head_dim": 16,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "sliding_window": 32,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
    "quantization_config": {
        "quant_method": "mxfp4",
        "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router"],
    },
}
QWEN_MOE: dict[str, Any] = LLAMA | {
    "model_type": "qwen3_moe",
    "head_dim": 8,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "decoder_sparse_step": 2,
    "mlp_only_layers": [3],
}


def gptq(**changed: Any) -> dict[str, Any]:
    """A quantization_config of 4-bit integers with some fields changed."""
    usual = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True}
    return {"quantization_config": usual | changed}


def write(folder: Path, config: object) -> Path:
    file = folder / "model.json"
    file.write_text(json.dumps(config))
    return file


def read(folder: Path, config: object) -> Architecture:
    return read_config(write(folder, config))


def shared_configs() -> list[Path]:
    """Public config.json files: in SIMCG_CONFIGS or in ../shared/configs beside the checkout."""
    beside = Path(__file__).parents[3] / "shared" / "configs"
    return sorted(Path(os.environ.get("SIMCG_CONFIGS", beside)).glob("*.json"))


def test_families_differ_as_their_published_code_does(tmp_path: Path) -> None:
    """Biases, norms and tied embeddings follow from the family and its flags."""
    base = read(tmp_path, LLAMA)
    assert (base.head_dim, base.qkv_bias, base.o_bias, base.qk_norm) == (8, False, False, False)
    biased = read(tmp_path, LLAMA | {"attention_bias": True, "mlp_bias": True})
    assert biased.qkv_bias
    assert biased.o_bias
    extra = 4 * ((8 + 2 * 2) * 8 + 64 + 2 * 128 + 64)
    assert biased.total_params - base.total_params == extra
    qwen2 = read(tmp_path, LLAMA | {"model_type": "qwen2"})
    assert (qwen2.qkv_bias, qwen2.o_bias) == (True, False)
    assert read(tmp_path, LLAMA | {"model_type": "qwen3"}).qk_norm
    tied = read(tmp_path, LLAMA | {"tie_word_embeddings": True})
    assert base.total_params - tied.total_params == 100 * 64
    assert tied.active_params == base.active_params


def test_spellings_that_change_nothing(tmp_path: Path) -> None:
    """A byte-order mark, the stored type and the gate's activation leave the model as it is."""
    base = read(tmp_path, LLAMA)
    for more in ({"torch_dtype": "float16"}, {"dtype": "bfloat16", "hidden_act": "gelu_new"}):
        assert read(tmp_path, LLAMA | more) == base
    assert read(tmp_path, LLAMA | {"torch_dtype": None, "hidden_act": None}) == base
    file = write(tmp_path, LLAMA)
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    assert read_config(file) == base


def test_a_decoder_inside_is_read_as_by_itself(tmp_path: Path) -> None:
    """The Mistral of a model that takes images too is the plain one, windows and types alike."""
    for more in ({}, {"sliding_window": 64}, gptq()):
        mistral = LLAMA | {"model_type": "mistral"} | more
        around = {"model_type": "mistral3", "vision_config": {}, "text_config": mistral}
        assert read(tmp_path, around) == read(tmp_path, mistral)


def test_layer_kinds_follow_the_config(tmp_path: Path) -> None:
    """Windows and expert layers are read per layer, from new and old fields."""
    oss = read(tmp_path, OSS)
    assert [k.window for k in oss.layer_kinds] == [32, None, 32, None]
    assert read(tmp_path, OSS | {"layer_types": None}) == oss
    assert [k.moe for k in read(tmp_path, QWEN_MOE).layer_kinds] == [False, True, False, False]
    mistral = LLAMA | {"model_type": "mistral", "sliding_window": 16}
    assert {k.window for k in read(tmp_path, mistral).layer_kinds} == {16}
    qwen = LLAMA | {"model_type": "qwen2", "sliding_window": 16, "max_window_layers": 3}
    assert {k.window for k in read(tmp_path, qwen).layer_kinds} == {None}
    windowed = read(tmp_path, qwen | {"use_sliding_window": True})
    assert [k.window for k in windowed.layer_kinds] == [None, None, None, 16]


def test_quantisation_is_read_part_by_part(tmp_path: Path) -> None:
    """mxfp4 converts experts only; fp8 converts every matrix that is not excepted."""
    assert read(tmp_path, OSS).weights.attention == "bf16"
    assert read(tmp_path, OSS).weights.experts == "mxfp4"
    fp8 = {"quant_method": "fp8", "modules_to_not_convert": ["lm_head", "model.layers.0.mlp.gate"]}
    assert read(tmp_path, LLAMA | {"quantization_config": fp8}).weights.mlp == "fp8"
    kept = fp8 | {"modules_to_not_convert": ["model.layers.*.self_attn"]}
    some = read(tmp_path, LLAMA | {"quantization_config": kept}).weights
    assert (some.attention, some.mlp) == ("bf16", "fp8")


def test_awq_and_gptq_are_int4(tmp_path: Path) -> None:
    """Their checkpoints price as --dtype int4 does; modules may be excepted."""
    int4 = read(tmp_path, LLAMA).with_weights("int4")
    awq = {
        "quant_method": "awq",
        "bits": 4,
        "group_size": 64,
        "version": "gemm",
        "zero_point": True,
    }
    old = {"quant_method": "awq", "w_bit": 4, "q_group_size": 128}
    for config in (gptq(), gptq(group_size=-1), *({"quantization_config": c} for c in (awq, old))):
        assert read(tmp_path, LLAMA | config) == int4
    kept = read(tmp_path, QWEN_MOE | gptq(modules_to_not_convert=["self_attn"])).weights
    assert (kept.attention, kept.mlp, kept.experts) == ("bf16", "int4", "int4")


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (LLAMA | {"num_hidden_layers": "36"}, ["num_hidden_layers", "'36'", "an integer"]),
        (LLAMA | {"num_hidden_layers": True}, ["num_hidden_layers", "True"]),
        (LLAMA | {"num_hidden_layers": 10**9}, ["num_hidden_layers", "from 1 to 10000"]),
        (LLAMA | {"hidden_size": 0}, ["hidden_size", "got 0"]),
        (LLAMA | {"hidden_size": 63}, ["hidden_size", "a multiple of 8 heads"]),
        (LLAMA | {"num_key_value_heads": 3}, ["num_key_value_heads", "a divisor of the 8"]),
        (LLAMA | {"attention_bias": 1}, ["attention_bias", "true or false"]),
        (LLAMA | {"layer_types": ["full_attention"]}, ["layer_types", "4 of"]),
        (LLAMA | {"layer_types": "full"}, ["layer_types", "a list of strings"]),
        (OSS | {"num_experts_per_tok": 5}, ["num_experts_per_tok", "at most the 4 experts"]),
        (OSS | {"sliding_window": None}, ["sliding_window", "None"]),
        (LLAMA | {"quantization_config": []}, ["quantization_config", "an object"]),
        (
            LLAMA | {"quantization_config": {"quant_method": "bitsandbytes"}},
            ["quant_method", "'bitsandbytes'", "awq, gptq", "--dtype"],
        ),
        (LLAMA | {"quantization_config": {"quant_method": "awq"}}, ["bits", "None", "4"]),
        (LLAMA | gptq(bits=8), ["bits", "8", "--dtype"]),
        (LLAMA | gptq(group_size=100), ["group_size", "100", "32, 64, 128, -1"]),
        (LLAMA | gptq(dynamic={"-:.*down.*": {}}), ["dynamic", "single modules"]),
        (
            LLAMA
            | {
                "quantization_config": {
                    "quant_method": "fp8",
                    "modules_to_not_convert": ["model.layers.0.mlp"],
                }
            },
            ["modules_to_not_convert", "every layer"],
        ),
        (LLAMA | {"model_type": "deepseek_v4"}, ["model_type", "deepseek_v4", *FAMILIES]),
        (LLAMA | {"torch_dtype": "foo"}, ["torch_dtype", "'foo'", "bfloat16, float16, float32"]),
        (LLAMA | {"dtype": 16}, [", dtype", "16", "bfloat16, float16, float32"]),
        (LLAMA | {"hidden_act": "foo"}, ["hidden_act", "'foo'", "one of silu"]),
        (LLAMA | {"hidden_act": ["silu"]}, ["hidden_act", "['silu']", "one of silu"]),
        ({}, ["model_type", "None"]),
        ([], ["a JSON object"]),
    ],
)
def test_a_bad_config_gives_one_line_with_file_field_and_value(
    tmp_path: Path, config: object, words: list[str]
) -> None:
    """The error names the file, the field, the value and what was expected, in one line."""
    with pytest.raises(InputError) as error:
        read(tmp_path, config)
    text = str(error.value)
    assert "\n" not in text
    for word in ("model.json", *words):
        assert word in text


def test_unreadable_files_give_the_same_kind_of_error(tmp_path: Path) -> None:
    """A missing file, a folder without one and broken JSON are user errors too."""
    broken = tmp_path / "broken.json"
    for content in (b"", b"{", b"\xff\xfe", b"[" * 100_000):
        broken.write_bytes(content)
        with pytest.raises(InputError, match="JSON object"):
            read_config(broken)
    for missing in (tmp_path / "none.json", tmp_path):
        with pytest.raises(InputError, match="No such file"):
            read_config(missing)


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.sampled_from(["full_attention", "sliding_attention", "mxfp4", "fp8", *FAMILIES])
    | st.text("ab._*\n", max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["quant_method", "modules_to_not_convert", "x"]), inner)
    ),
    max_leaves=6,
)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300, deadline=None
)
@given(
    base=st.sampled_from([LLAMA, OSS, QWEN_MOE, DEEPSEEK, SPARSE, HYBRID["text_config"]]),
    changes=st.dictionaries(
        st.sampled_from(sorted(LLAMA | OSS | QWEN_MOE | SPARSE | HYBRID["text_config"])),
        JSON_VALUES | st.integers(1, 9),
        max_size=3,
    ),
    tp=st.integers(-1, 9),
)
def test_a_mutated_config_gives_a_result_or_an_input_error(
    tmp_path: Path, base: dict[str, Any], changes: dict[str, Any], tp: int
) -> None:
    """Whatever stands in a field, reading and building end in a model or in one clear line."""
    problem = ""
    try:
        arch = read(tmp_path, base | changes)
        assert arch.total_params >= arch.active_params > 0
        assert forward_pass(replace(arch, layer_kinds=arch.layer_kinds[:50]), tp=tp).ops
    except InputError as error:
        problem = str(error)
    assert "\n" not in problem


@pytest.mark.parametrize("name", model_names())
def test_names_are_found_in_any_case_and_by_repository(name: str) -> None:
    """Names and Hugging Face ids find the same architecture."""
    arch = architecture_named(name)
    assert architecture_named(name.upper()) == arch
    assert load_architecture(name) == arch
    assert arch.name == name


def test_hugging_face_ids_are_names_too() -> None:
    """Ids of the repository and of its renamed and instruction-tuned siblings are accepted."""
    assert architecture_named("Qwen/Qwen3-8B").name == "qwen3-8b"
    assert architecture_named("openai/GPT-OSS-120b").name == "gpt-oss-120b"
    for middle in ("Llama-3.1-8B", "Meta-Llama-3.1-8B", "Llama-3.1-8B-Instruct"):
        assert architecture_named(f"meta-llama/{middle}").name == "llama-3.1-8b"


def test_an_unknown_name_lists_the_names_and_the_closest() -> None:
    """The error lists every built-in name and suggests the one that was meant."""
    with pytest.raises(InputError, match=r"did you mean qwen3-8b\?") as error:
        load_architecture("Qwen/Qwen3-8B-x")
    assert all(name in str(error.value) for name in model_names())
    with pytest.raises(InputError) as far:
        load_architecture("zzz")
    assert "did you mean" not in str(far.value)


def test_a_path_is_read_as_a_config(tmp_path: Path) -> None:
    """A file, or a folder that holds config.json, loads; the folder then names the model."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA))
    assert load_architecture(folder) == load_architecture(str(folder / "config.json"))
    assert load_architecture(str(folder)).name == "tiny"


def test_built_in_facts_are_those_of_the_published_configs() -> None:
    """Each fact file states what the config.json of its repository states."""
    found = {file.stem.replace("--", "/"): file for file in shared_configs()}
    if not found:
        pytest.skip("no public config.json files: set SIMCG_CONFIGS to a folder of them")
    missing = set(model_names())
    for source, file in found.items():
        try:
            built_in = architecture_named(source)
        except InputError:
            continue
        assert replace(read_config(file), name=built_in.name) == built_in
        missing.discard(built_in.name)
    assert missing <= {"minimax-m2.5"}


def test_every_public_config_loads_or_is_refused_for_its_family() -> None:
    """Configs of other families (diffusion, other decoders) are refused by model_type."""
    files = shared_configs()
    if not files:
        pytest.skip("no public config.json files: set SIMCG_CONFIGS to a folder of them")
    for file in files:
        family = json.loads(file.read_text()).get("model_type")
        if family in FAMILIES:
            assert forward_pass(read_config(file), tp=2).ops
        else:
            with pytest.raises(InputError, match="a supported decoder"):
                read_config(file)
