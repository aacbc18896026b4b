"""Small models of PyTorch programs: real code from PyPI with random weights, at sizes that an emulated GPU can run."""

import torch


def tokens(words: int = 64, batch: int = 2, length: int = 8) -> torch.Tensor:
    return torch.randint(0, words, (batch, length))


class Perceptron(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(16, 24), torch.nn.GELU(), torch.nn.LayerNorm(24), torch.nn.Linear(24, 8)
        )

    def forward(self, x):
        return torch.softmax(self.layers(x), -1)


class Encoder(torch.nn.Module):
    """PyTorch's own transformer layer."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.TransformerEncoderLayer(
            16, 2, 32, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )

    def forward(self, x):
        return self.layer(x)


def perceptron():
    return Perceptron(), (torch.randn(4, 16),)


def encoder_layer():
    return Encoder(), (torch.randn(2, 6, 16),)


def bert():
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=64, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=16, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return BertModel(config), (tokens(),)


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=64, n_positions=16, n_embd=16, n_layer=2, n_head=2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        use_cache=False,
    )  # fmt: skip
    return GPT2LMHeadModel(config), (tokens(),)


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=16, use_cache=False,
    )  # fmt: skip
    return LlamaForCausalLM(config), (tokens(),)


def t5():
    from transformers import T5Config, T5EncoderModel

    config = T5Config(vocab_size=64, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, dropout_rate=0.0)
    return T5EncoderModel(config), (tokens(),)


def vit():
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, image_size=16, patch_size=8,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return ViTModel(config), (torch.randn(2, 3, 16, 16),)


def resnet():
    from torchvision.models.resnet import BasicBlock, ResNet

    return ResNet(BasicBlock, [1, 1, 1, 1], num_classes=8), (torch.randn(2, 3, 16, 16),)


MODELS = {
    "perceptron": perceptron,
    "encoder layer": encoder_layer,
    "BERT": bert,
    "GPT-2": gpt2,
    "Llama": llama,
    "T5 encoder": t5,
    "ViT": vit,
    "ResNet": resnet,
}
