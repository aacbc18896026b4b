"""State spaces, recurrences and sound, from transformers."""

import functools

import torch

from .language import made
from .model import Model, tokens

mamba = functools.partial(
    made, "MambaConfig", "MambaForCausalLM",
    vocab_size=64, hidden_size=16, num_hidden_layers=1, state_size=4, time_step_rank=2, use_cache=False,
)  # fmt: skip
mamba2 = functools.partial(
    made, "Mamba2Config", "Mamba2ForCausalLM",
    vocab_size=64, hidden_size=16, num_hidden_layers=1, state_size=4, num_heads=4, head_dim=8, n_groups=1, expand=2,
    chunk_size=4, use_cache=False,
)  # fmt: skip
rwkv = functools.partial(
    made, "RwkvConfig", "RwkvForCausalLM", lambda: {"input_ids": tokens(length=4)},
    vocab_size=64, hidden_size=16, attention_hidden_size=16, intermediate_size=32, num_hidden_layers=2,
    context_length=16, use_cache=False,
)  # fmt: skip


def whisper():
    return made(
        "WhisperConfig", "WhisperForConditionalGeneration",
        lambda: {"input_features": torch.randn(2, 8, 16), "decoder_input_ids": tokens(length=5)},
        vocab_size=64, num_mel_bins=8, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, max_source_positions=8,
        max_target_positions=16, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
        use_cache=False,
    )  # fmt: skip


def wav2vec():
    return made(
        "Wav2Vec2Config", "Wav2Vec2Model", lambda: {"input_values": torch.randn(2, 160)},
        vocab_size=64, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        conv_dim=(8, 8), conv_stride=(5, 2), conv_kernel=(10, 3), num_feat_extract_layers=2,
        num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2, hidden_dropout=0.0, attention_dropout=0.0,
        feat_proj_dropout=0.0, layerdrop=0.0, mask_time_prob=0.0, apply_spec_augment=False,
    )  # fmt: skip


MODELS = {
    "Mamba": Model(mamba, "AdamW"),
    "Mamba 2": Model(mamba2),
    "RWKV": Model(rwkv, "Adam"),
    "Whisper": Model(whisper, "AdamW"),
    "wav2vec 2.0": Model(wav2vec),
}
