"""Architectures of transformers in tiny configurations, as data: a configuration, a model, and what the model takes."""

from __future__ import annotations

from typing import Any, NamedTuple

_WORDS = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
          "intermediate_size": 64, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1,
          "eos_token_id": 2}  # fmt: skip
_ONE_KEY = {**_WORDS, "num_key_value_heads": 1, "head_dim": 16}
_STATES = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8, "pad_token_id": 0}
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
_TWO_SIDES = {
    "vocab_size": 99, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 64,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1, "use_cache": False,
}  # fmt: skip
_T5 = {"vocab_size": 99, "d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2, "use_cache": False}
_PATCHES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
            "image_size": 32, "patch_size": 8}  # fmt: skip
_STAGES = {"hidden_sizes": [8, 16, 16, 24], "depths": [1, 1, 1, 1], "num_attention_heads": [1, 2, 2, 2]}
_SOUND = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
          "conv_dim": [16, 16], "conv_stride": [5, 4], "conv_kernel": [10, 8], "num_feat_extract_layers": 2,
          "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 2, "vocab_size": 32}  # fmt: skip


class Tiny(NamedTuple):
    """The names of a configuration and a model without ``Config`` and ``Model``, settings, and the kind of inputs."""

    name: str
    settings: dict[str, Any]
    kind: str = "words"


TINY: dict[str, Tiny] = {
    # Encoders.
    "albert": Tiny("Albert", {**_WORDS, "embedding_size": 32}),
    "bert": Tiny("Bert", _WORDS),
    "camembert": Tiny("Camembert", _WORDS),
    "canine": Tiny("Canine", {**_WORDS, "num_hash_functions": 2, "num_hash_buckets": 16, "local_transformer_stride": 4,
                              "downsampling_rate": 3}),
    "convbert": Tiny("ConvBert", {**_WORDS, "embedding_size": 32, "conv_kernel_size": 3}),
    "data2vec_text": Tiny("Data2VecText", _WORDS),
    "deberta": Tiny("Deberta", _WORDS),
    "deberta_v2": Tiny("DebertaV2", _WORDS),
    "distilbert": Tiny("DistilBert", {**_WORDS, "dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 64}),
    "electra": Tiny("Electra", {**_WORDS, "embedding_size": 32}),
    "ernie": Tiny("Ernie", _WORDS),
    "esm": Tiny("Esm", {**_WORDS, "mask_token_id": 3}),
    "fnet": Tiny("FNet", _WORDS),
    "funnel": Tiny("Funnel", {"vocab_size": 99, "block_sizes": [1, 1], "d_model": 32, "n_head": 2, "d_head": 16,
                              "d_inner": 64}),
    "ibert": Tiny("IBert", _WORDS),
    "layoutlm": Tiny("LayoutLM", _WORDS),
    "longformer": Tiny("Longformer", {**_WORDS, "attention_window": 4}),
    "megatron_bert": Tiny("MegatronBert", _WORDS),
    "mobilebert": Tiny("MobileBert", {**_WORDS, "embedding_size": 16, "intra_bottleneck_size": 16,
                                      "true_hidden_size": 16}),
    "modernbert": Tiny("ModernBert", {**_WORDS, "global_attn_every_n_layers": 2, "local_attention": 4,
                                      "cls_token_id": 1, "sep_token_id": 2}),
    "mpnet": Tiny("MPNet", _WORDS),
    "nystromformer": Tiny("Nystromformer", {**_WORDS, "num_landmarks": 9, "segment_means_seq_len": 9}),
    "rembert": Tiny("RemBert", {**_WORDS, "input_embedding_size": 16}),
    "roberta": Tiny("Roberta", _WORDS),
    "roformer": Tiny("RoFormer", {**_WORDS, "embedding_size": 32}),
    "splinter": Tiny("Splinter", _WORDS),
    "squeezebert": Tiny("SqueezeBert", {**_WORDS, "embedding_size": 32}),
    "xlm_roberta": Tiny("XLMRoberta", _WORDS),
    "xlnet": Tiny("XLNet", {"vocab_size": 99, "d_model": 32, "n_layer": 2, "n_head": 2, "d_inner": 64,
                            "pad_token_id": 0}),
    # Decoders.
    "biogpt": Tiny("BioGpt", _WORDS),
    "bloom": Tiny("Bloom", {**_WORDS, "n_layer": 2, "n_head": 2}),
    "codegen": Tiny("CodeGen", {**_WORDS, "hidden_size": 64, "num_attention_heads": 4, "rotary_dim": 4}),
    "cohere": Tiny("Cohere", {**_WORDS, "num_key_value_heads": 1}),
    "deepseek_v3": Tiny("DeepseekV3", {
        **_WORDS, "num_key_value_heads": 2, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 2,
        "topk_group": 1, "moe_intermediate_size": 16, "first_k_dense_replace": 1, "q_lora_rank": 16,
        "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 16}),
    "falcon": Tiny("Falcon", _WORDS),
    "gemma": Tiny("Gemma", _ONE_KEY),
    "gemma2": Tiny("Gemma2", _ONE_KEY),
    "gemma3": Tiny("Gemma3Text", {**_ONE_KEY, "sliding_window": 4}),
    "glm": Tiny("Glm", _ONE_KEY),
    "gpt2": Tiny("GPT2", {**_WORDS, "n_embd": 32, "n_layer": 2, "n_head": 2}),
    "gpt_bigcode": Tiny("GPTBigCode", {**_WORDS, "n_embd": 32, "n_layer": 2, "n_head": 2}),
    "gpt_neo": Tiny("GPTNeo", {**_WORDS, "num_layers": 2, "num_heads": 2, "attention_types": [[["global"], 2]]}),
    "gpt_neox": Tiny("GPTNeoX", _WORDS),
    "gpt_oss": Tiny("GptOss", {**_ONE_KEY, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 4,
                               "layer_types": ["sliding_attention", "full_attention"]}),
    "gptj": Tiny("GPTJ", {**_WORDS, "n_embd": 32, "n_layer": 2, "n_head": 2, "rotary_dim": 8}),
    "granite": Tiny("Granite", {**_WORDS, "num_key_value_heads": 1}),
    "helium": Tiny("Helium", _ONE_KEY),
    "jamba": Tiny("Jamba", {**_WORDS, "num_key_value_heads": 1, "num_hidden_layers": 4, "attn_layer_offset": 1,
                            "attn_layer_period": 4, "num_experts": 4, "use_mamba_kernels": False, "mamba_d_state": 8,
                            "mamba_dt_rank": 4}),
    "lfm2": Tiny("Lfm2", {**_WORDS, "num_key_value_heads": 1, "layer_types": ["conv", "full_attention"]}),
    "llama": Tiny("Llama", {**_WORDS, "num_key_value_heads": 1}),
    "mamba": Tiny("Mamba", _STATES),
    "mamba2": Tiny("Mamba2", {**_STATES, "num_heads": 4, "head_dim": 16, "n_groups": 1, "chunk_size": 4}),
    "mistral": Tiny("Mistral", {**_WORDS, "num_key_value_heads": 1}),
    "mixtral": Tiny("Mixtral", {**_WORDS, "num_key_value_heads": 1, "num_local_experts": 4}),
    "nemotron": Tiny("Nemotron", {**_WORDS, "num_key_value_heads": 1}),
    "olmo": Tiny("Olmo", _WORDS),
    "olmo2": Tiny("Olmo2", _WORDS),
    "olmoe": Tiny("Olmoe", {**_WORDS, **_EXPERTS}),
    "opt": Tiny("OPT", {**_WORDS, "ffn_dim": 64, "word_embed_proj_dim": 32}),
    "persimmon": Tiny("Persimmon", _WORDS),
    "phi": Tiny("Phi", _WORDS),
    "phi3": Tiny("Phi3", {**_WORDS, "num_key_value_heads": 1}),
    "qwen2": Tiny("Qwen2", {**_WORDS, "num_key_value_heads": 1}),
    "qwen2_moe": Tiny("Qwen2Moe", {**_WORDS, **_EXPERTS, "num_key_value_heads": 1,
                                   "shared_expert_intermediate_size": 24}),
    "qwen3": Tiny("Qwen3", _ONE_KEY),
    "qwen3_moe": Tiny("Qwen3Moe", {**_ONE_KEY, **_EXPERTS}),
    "recurrent_gemma": Tiny("RecurrentGemma", {**_WORDS, "num_key_value_heads": 1, "lru_width": 32,
                                               "attention_window_size": 8}),
    "smollm3": Tiny("SmolLM3", {**_WORDS, "num_key_value_heads": 1}),
    "stablelm": Tiny("StableLm", {**_WORDS, "num_key_value_heads": 2}),
    "starcoder2": Tiny("Starcoder2", {**_WORDS, "num_key_value_heads": 1}),
    "xglm": Tiny("XGLM", {"vocab_size": 99, "d_model": 32, "ffn_dim": 64, "num_layers": 2, "attention_heads": 2,
                          "max_position_embeddings": 64, "pad_token_id": 0}),
    # Both.
    "bart": Tiny("Bart", _TWO_SIDES, "two"),
    "blenderbot": Tiny("Blenderbot", _TWO_SIDES, "two"),
    "led": Tiny("LED", {**_TWO_SIDES, "attention_window": 4, "max_encoder_position_embeddings": 64,
                        "max_decoder_position_embeddings": 64}, "two"),
    "m2m_100": Tiny("M2M100", _TWO_SIDES, "two"),
    "marian": Tiny("Marian", _TWO_SIDES, "two"),
    "mbart": Tiny("MBart", _TWO_SIDES, "two"),
    "mt5": Tiny("MT5", _T5, "two"),
    "pegasus": Tiny("Pegasus", _TWO_SIDES, "two"),
    "switch_transformers": Tiny("SwitchTransformers", {**_T5, "num_experts": 4, "num_sparse_encoder_layers": 1,
                                                       "num_sparse_decoder_layers": 1}, "two"),
    "t5": Tiny("T5", _T5, "two"),
    # Images.
    "beit": Tiny("Beit", _PATCHES, "image"),
    "clip_vision": Tiny("CLIPVision", {**_PATCHES, "projection_dim": 16}, "image"),
    "convnext": Tiny("ConvNext", _STAGES, "image"),
    "convnextv2": Tiny("ConvNextV2", _STAGES, "image"),
    "data2vec_vision": Tiny("Data2VecVision", _PATCHES, "image"),
    "deit": Tiny("DeiT", _PATCHES, "image"),
    "dinov2": Tiny("Dinov2", _PATCHES, "image"),
    "efficientnet": Tiny("EfficientNet", {"image_size": 32, "width_coefficient": 0.25, "depth_coefficient": 0.25,
                                          "hidden_dim": 320, "depthwise_padding": [4]}, "image"),
    "ijepa": Tiny("IJepa", _PATCHES, "image"),
    "levit": Tiny("Levit", {"image_size": 64, "hidden_sizes": [16, 24, 32], "num_attention_heads": [1, 2, 2],
                            "depths": [1, 1, 1], "key_dim": [8, 8, 8]}, "image"),
    "mobilenet_v1": Tiny("MobileNetV1", {"image_size": 32, "depth_multiplier": 0.25}, "image"),
    "mobilevit": Tiny("MobileViT", {"image_size": 64, "hidden_sizes": [16, 24, 32], "num_attention_heads": 2,
                                    "neck_hidden_sizes": [8, 8, 16, 16, 24, 24, 48]}, "image"),
    "poolformer": Tiny("PoolFormer", _STAGES, "image"),
    "pvt_v2": Tiny("PvtV2", {**_STAGES, "image_size": 32, "sr_ratios": [4, 2, 1, 1], "mlp_ratios": [2, 2, 2, 2]},
                    "image"),
    "regnet": Tiny("RegNet", {"embedding_size": 8, **_STAGES, "groups_width": 8}, "image"),
    "resnet": Tiny("ResNet", {"embedding_size": 8, "hidden_sizes": [8, 16, 16, 24], "depths": [1, 1, 1, 1]}, "image"),
    "segformer": Tiny("Segformer", {**_STAGES, "sr_ratios": [4, 2, 1, 1]}, "image"),
    "siglip_vision": Tiny("SiglipVision", _PATCHES, "image"),
    "swin": Tiny("Swin", {"image_size": 32, "patch_size": 4, "embed_dim": 8, "depths": [2, 2], "num_heads": [2, 2],
                          "window_size": 4}, "image"),
    "swinv2": Tiny("Swinv2", {"image_size": 32, "patch_size": 4, "embed_dim": 8, "depths": [2, 2],
                              "num_heads": [2, 2], "window_size": 4}, "image"),
    "vit": Tiny("ViT", _PATCHES, "image"),
    "vit_det": Tiny("VitDet", {
        "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 32,
        "pretrain_image_size": 32, "patch_size": 8, "window_block_indices": [0], "window_size": 3}, "image"),
    "vit_msn": Tiny("ViTMSN", _PATCHES, "image"),
    # Sound.
    "ast": Tiny("AST", {**_PATCHES, "max_length": 24, "num_mel_bins": 16, "frequency_stride": 4, "time_stride": 4},
                "spectrum"),
    "hubert": Tiny("Hubert", _SOUND, "wave"),
    "sew": Tiny("SEW", {**_SOUND, "squeeze_factor": 2}, "wave"),
    "unispeech": Tiny("UniSpeech", _SOUND, "wave"),
    "wav2vec2": Tiny("Wav2Vec2", _SOUND, "wave"),
    "wavlm": Tiny("WavLM", _SOUND, "wave"),
    "whisper": Tiny("Whisper", {**_TWO_SIDES, "num_mel_bins": 8, "max_source_positions": 10,
                                "max_target_positions": 20}, "speech"),
}  # fmt: skip
_KEYS = {
    "words": ("input_ids",),
    "two": ("input_ids", "decoder_input_ids"),
    "image": ("pixel_values",),
    "spectrum": ("input_values",),
    "wave": ("input_values",),
    "speech": ("input_features", "decoder_input_ids"),
}


def tiny(name: str, attention: str = "eager") -> tuple[Any, list]:
    """A model that gives the states of its last layer, and its inputs. ``attention`` is the implementation of attention
    that transformers uses."""
    import torch

    from tests.relay.frontend.pytorch.vision import torchvision

    torchvision()
    import transformers

    row = TINY[name]
    config = getattr(transformers, f"{row.name}Config")(**row.settings)
    if row.kind == "words":
        config.use_cache = False
    config._attn_implementation = attention
    model = getattr(transformers, f"{row.name}Model")(config)
    keys = _KEYS[row.kind]

    class States(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *values):
            return self.model(**dict(zip(keys, values)), return_dict=False)[0]

    return States(), _inputs(row.kind, row.settings.get("image_size", 32))


def _inputs(kind: str, size: int) -> list:
    import torch

    words = [torch.randint(3, 99, (2, 9))]
    return {
        "words": words,
        "two": [*words, torch.randint(3, 99, (2, 5))],
        "image": [torch.randn(1, 3, size, size)],
        "spectrum": [torch.randn(1, 24, 16)],
        "wave": [torch.randn(1, 400)],
        "speech": [torch.randn(1, 8, 20), torch.randint(3, 99, (1, 5))],
    }[kind]
