"""Models of text, from transformers."""

import functools

import transformers

from .model import Model, tokens

# The names that most configurations share.
SIZES = {
    "vocab_size": 64,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 32,
}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def made(config: str, model: str, inputs=None, **settings):
    """A model of transformers' that reads tokens."""
    of = getattr(transformers, config)(**settings)
    return getattr(transformers, model)(of), inputs() if inputs else {"input_ids": tokens()}


def encoder(name: str, **settings):
    return functools.partial(made, f"{name}Config", f"{name}Model", **{**SIZES, **NO_DROPOUT, **settings})


def decoder(name: str, **settings):
    return functools.partial(
        made, f"{name}Config", f"{name}ForCausalLM", **{**SIZES, "use_cache": False, "pad_token_id": 0, **settings}
    )


def pairs():
    return {"input_ids": tokens(), "decoder_input_ids": tokens(length=5)}


gpt2 = functools.partial(
    made, "GPT2Config", "GPT2LMHeadModel",
    vocab_size=64, n_positions=16, n_embd=16, n_layer=2, n_head=2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    use_cache=False,
)  # fmt: skip
distilbert = functools.partial(
    made, "DistilBertConfig", "DistilBertModel",
    vocab_size=64, dim=16, n_layers=2, n_heads=2, hidden_dim=32, max_position_embeddings=32, dropout=0.0,
    attention_dropout=0.0,
)  # fmt: skip
t5 = functools.partial(
    made, "T5Config", "T5ForConditionalGeneration", pairs,
    vocab_size=64, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, dropout_rate=0.0, use_cache=False,
)  # fmt: skip
bart = functools.partial(
    made, "BartConfig", "BartForConditionalGeneration", pairs,
    vocab_size=64, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
    encoder_ffn_dim=32, decoder_ffn_dim=32, max_position_embeddings=32, dropout=0.0, use_cache=False,
)  # fmt: skip
opt = functools.partial(
    made, "OPTConfig", "OPTForCausalLM",
    vocab_size=64, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, ffn_dim=32, word_embed_proj_dim=16,
    max_position_embeddings=32, dropout=0.0, use_cache=False,
)  # fmt: skip
bloom = functools.partial(
    made, "BloomConfig", "BloomForCausalLM", vocab_size=64, hidden_size=16, n_layer=2, n_head=2, use_cache=False
)

# Grouped products, the default, are not there in float64.
mixtral = decoder(
    "Mixtral", num_key_value_heads=1, num_local_experts=4, num_experts_per_tok=2, experts_implementation="batched_mm"
)

MODELS = {
    "BERT": Model(encoder("Bert"), "AdamW"),
    "RoBERTa": Model(encoder("Roberta")),
    "DistilBERT": Model(distilbert),
    "ALBERT": Model(encoder("Albert", embedding_size=8, num_hidden_groups=1), "LAMB"),
    "ELECTRA": Model(encoder("Electra", embedding_size=8)),
    "DeBERTa": Model(encoder("DebertaV2", relative_attention=True, pos_att_type=["p2c", "c2p"])),
    "GPT-2": Model(gpt2, "AdamW"),
    "GPT-NeoX": Model(decoder("GPTNeoX")),
    "OPT": Model(opt),
    "BLOOM": Model(bloom),
    "Llama": Model(decoder("Llama", num_key_value_heads=1), "Muon"),
    "Mistral": Model(decoder("Mistral", num_key_value_heads=1, sliding_window=4)),
    "Qwen3": Model(decoder("Qwen3", num_key_value_heads=1, head_dim=8), "Lion"),
    "Gemma 2": Model(decoder("Gemma2", num_key_value_heads=1, head_dim=8)),
    "Phi": Model(decoder("Phi")),
    "Mixtral": Model(mixtral, "AdamW"),
    "T5": Model(t5, "Adafactor"),
    "BART": Model(bart),
}
