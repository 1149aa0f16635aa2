"""Small config.json objects of the families with latent, sparse and linear attention."""

from __future__ import annotations

from typing import Any

DEEPSEEK: dict[str, Any] = {
    "model_type": "deepseek_v3",
    "hidden_size": 64,
    "intermediate_size": 128,
    "moe_intermediate_size": 32,
    "num_attention_heads": 4,
    "num_hidden_layers": 5,
    "first_k_dense_replace": 2,
    "n_routed_experts": 8,
    "n_shared_experts": 2,
    "num_experts_per_tok": 3,
    "topk_method": "noaux_tc",
    "q_lora_rank": 24,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4,
    "v_head_dim": 12,
    "vocab_size": 100,
    "max_position_embeddings": 512,
}
SPARSE = DEEPSEEK | {
    "model_type": "glm_moe_dsa",
    "index_n_heads": 2,
    "index_head_dim": 8,
    "index_topk": 16,
    "indexer_rope_interleave": True,
    "indexer_types": ["full", "shared", "shared", "full", "shared"],
}
HYBRID: dict[str, Any] = {
    "model_type": "qwen3_5_moe",
    "tie_word_embeddings": False,
    "text_config": {
        "model_type": "qwen3_5_moe_text",
        "hidden_size": 64,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "num_hidden_layers": 4,
        "layer_types": ["linear_attention"] * 3 + ["full_attention"],
        "attn_output_gate": True,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 16,
        "shared_expert_intermediate_size": 24,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
        "linear_conv_kernel_dim": 4,
        "vocab_size": 100,
        "max_position_embeddings": 512,
    },
}
