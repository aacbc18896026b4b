"""Models whose forward passes and training steps are compared: random weights, configurations instead of downloads."""

import dataclasses
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F


@dataclasses.dataclass(frozen=True)
class Case:
    """`make(tiny)`: the model. `inputs(tiny, device)`: keyword arguments, drawn anew with every call.
    `results(output)`: the tensors that are compared; of a case that trains the first is the loss."""

    name: str
    make: Callable
    inputs: Callable
    results: Callable
    dtype: torch.dtype = torch.float32
    autocast: torch.dtype | None = None
    trains: bool = False
    optimizer: bool = False  # what is compiled is the optimizer's step, for gradients that are there


class Block(nn.Module):
    """Residual, RMSNorm and SwiGLU, as between the attentions of a Llama."""

    def __init__(self, width: int, inner: int):
        super().__init__()
        self.norm = nn.RMSNorm(width)
        self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        y = self.norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Blocks(nn.Module):
    def __init__(self, layers: int, width: int, inner: int):
        super().__init__()
        self.blocks, self.norm = nn.ModuleList(Block(width, inner) for _ in range(layers)), nn.RMSNorm(width)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


class Head(nn.Module):
    """The end of a language model in training: norm, scores of a vocabulary, cross-entropy."""

    def __init__(self, width: int, words: int):
        super().__init__()
        self.norm, self.scores = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, x, labels):
        scores = self.scores(self.norm(x)).float() if x.dtype != torch.float64 else self.scores(self.norm(x))
        return F.cross_entropy(scores, labels)


def _blocks(tiny):
    return Blocks(2, 32, 64) if tiny else Blocks(8, 1024, 2816)


def _blocks_inputs(tiny, device):
    return {"x": torch.randn(*((2, 4, 32) if tiny else (4, 2048, 1024)), device=device)}


def _head(tiny):
    return Head(32, 64) if tiny else Head(1024, 32_000)


def _head_inputs(tiny, device):
    rows, width, words = (8, 32, 64) if tiny else (4096, 1024, 32_000)
    return {"x": torch.randn(rows, width, device=device), "labels": torch.randint(words, (rows,), device=device)}


def _vit(tiny):
    import timm

    sizes = {"img_size": 32, "embed_dim": 32, "depth": 2, "num_heads": 2} if tiny else {}
    return timm.create_model("vit_base_patch16_224", pretrained=False, **sizes)


def _vit_inputs(tiny, device):
    return {"x": torch.randn(*((2, 3, 32, 32) if tiny else (64, 3, 224, 224)), device=device)}


def _llama(tiny):
    import transformers

    width, layers, heads = (32, 2, 4) if tiny else (1024, 4, 16)
    return transformers.LlamaModel(
        transformers.LlamaConfig(
            vocab_size=64 if tiny else 32_000, hidden_size=width, intermediate_size=2 * width if tiny else 2816,
            num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=heads // 2,
            max_position_embeddings=2048, use_cache=False,
        )
    )  # fmt: skip


def _llama_inputs(tiny, device):
    shape, words = ((2, 8), 64) if tiny else ((4, 2048), 32_000)
    return {"input_ids": torch.randint(words, shape, device=device)}


def _bert(tiny):
    import transformers

    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    return transformers.BertModel(transformers.BertConfig(**(small if tiny else {})), add_pooling_layer=False)


def _bert_inputs(tiny, device):
    shape = (2, 8) if tiny else (32, 384)
    mask = torch.ones(shape, dtype=torch.int64, device=device)
    mask[1::2, shape[1] // 2 :] = 0
    return {"input_ids": torch.randint(30_000, shape, device=device), "attention_mask": mask}


def _gpt2(tiny):
    import transformers

    small = {"n_embd": 32, "n_layer": 2, "n_head": 2, "vocab_size": 64, "n_positions": 64}
    none = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "use_cache": False}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**none, **(small if tiny else {})))


def _gpt2_inputs(tiny, device):
    shape, words = ((2, 8), 64) if tiny else ((4, 512), 50_257)
    tokens = torch.randint(words, shape, device=device)
    return {"input_ids": tokens, "labels": tokens}


CASES = (
    Case("blocks_bf16", _blocks, _blocks_inputs, lambda y: [y], torch.bfloat16),
    Case("head_train", _head, _head_inputs, lambda y: [y], autocast=torch.bfloat16, trains=True),
    Case("llama4_bf16", _llama, _llama_inputs, lambda y: [y.last_hidden_state], torch.bfloat16),
    Case("vit_b16_f16", _vit, _vit_inputs, lambda y: [y], torch.float16),
    Case("bert_base_f16", _bert, _bert_inputs, lambda y: [y.last_hidden_state], torch.float16),
    Case("gpt2_train", _gpt2, _gpt2_inputs, lambda y: [y.loss], autocast=torch.bfloat16, trains=True),
    Case("gpt2_adamw", _gpt2, _gpt2_inputs, lambda y: [y.loss], optimizer=True),
)
"""From the quickest to compile to the slowest."""


def converted(value, dtype: torch.dtype):
    """An input, its floats of another type."""
    return value.to(dtype) if isinstance(value, torch.Tensor) and value.is_floating_point() else value
