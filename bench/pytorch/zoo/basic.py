"""PyTorch's own layers."""

import torch

from .model import Model, tokens


class Perceptron(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(16, 24), torch.nn.GELU(), torch.nn.LayerNorm(24), torch.nn.Linear(24, 8)
        )

    def forward(self, x):
        return torch.softmax(self.layers(x), -1)


class Recommender(torch.nn.Module):
    """Bags of embeddings, their products in pairs, and a perceptron (DLRM: Naumov et al., 2019)."""

    def __init__(self):
        super().__init__()
        self.tables = torch.nn.ModuleList(torch.nn.Embedding(32, 8) for _ in range(3))
        self.bottom, self.top = torch.nn.Linear(4, 8), torch.nn.Linear(14, 1)

    def forward(self, dense, categories):
        rows = [table(categories[:, i]).sum(1) for i, table in enumerate(self.tables)]
        x = torch.stack([torch.relu(self.bottom(dense)), *rows], 1)
        i, j = torch.tril_indices(4, 4, -1)
        pairs = torch.bmm(x, x.transpose(1, 2))[:, i, j]
        return torch.sigmoid(self.top(torch.cat([x[:, 0], pairs], 1)))


class Recurrent(torch.nn.Module):
    """A gated unit, step by step."""

    def __init__(self):
        super().__init__()
        self.cell, self.head = torch.nn.GRUCell(8, 16), torch.nn.Linear(16, 4)

    def forward(self, x):
        state = x.new_zeros(x.shape[0], 16)
        for t in range(x.shape[1]):
            state = self.cell(x[:, t], state)
        return self.head(state)


def perceptron():
    return Perceptron(), {"x": torch.randn(4, 16)}


def encoder_layer():
    layer = torch.nn.TransformerEncoderLayer(
        16, 2, 32, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    )
    return layer, {"src": torch.randn(2, 6, 16)}


def recommender():
    return Recommender(), {"dense": torch.randn(4, 4), "categories": tokens(32, 4, 6).view(4, 3, 2)}


def gated_unit():
    return Recurrent(), {"x": torch.randn(2, 3, 8)}


MODELS = {
    "perceptron": Model(perceptron, "AdamW"),
    "encoder layer": Model(encoder_layer, "AdamW"),
    "DLRM": Model(recommender, "Adagrad"),
    "GRU": Model(gated_unit, "RMSprop"),
}
