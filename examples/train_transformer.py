"""Trains a small transformer to continue sequences, model and optimizer compiled with Stitch.

Each token of a sequence follows from the one before it, so that the loss falls from the logarithm of the number of words
to little. On a machine without a GPU kernels run on Stitch's emulated one, which is slow: hence the sizes.
"""

import time

import torch

import stitch.torch

WORDS, LENGTH, BATCH, WIDTH, HEADS, LAYERS, STEPS = 11, 12, 16, 32, 2, 2, 25
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
OPTIONS = {"device": "emulated", "deadline_ms": 60_000}  # a GPU's tensors run there whatever `device` says


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attended, self.expanded = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.qkv, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)
        self.dropout = torch.nn.Dropout(0.05)

    def forward(self, x):
        heads = self.qkv(self.attended(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        y = torch.nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.dropout(self.out(y.transpose(1, 2).flatten(2)))
        return x + self.dropout(self.down(torch.nn.functional.gelu(self.up(self.expanded(x)))))


class Transformer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = torch.nn.Embedding(WORDS, WIDTH), torch.nn.Embedding(LENGTH, WIDTH)
        self.blocks = torch.nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.head = torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, WORDS)

    def forward(self, tokens):
        x = self.words(tokens) + self.places.weight[: tokens.shape[1]]
        return self.head(self.norm(self.blocks(x)))


def sequences() -> torch.Tensor:
    tokens = [torch.randint(WORDS, (BATCH,))]
    while len(tokens) <= LENGTH:
        tokens.append((2 * tokens[-1] + 1) % WORDS)
    return torch.stack(tokens, 1).to(DEVICE)


def main() -> None:
    torch.manual_seed(0)
    model = Transformer().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    run = torch.compile(model, backend="stitch", options=OPTIONS)
    update = torch.compile(optimizer.step, backend="stitch", options=OPTIONS)
    start = time.monotonic()
    for step in range(STEPS):
        tokens = sequences()
        logits = run(tokens[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        update()
        if step % 6 == 0:
            print(f"step {step}: loss {loss.item():.3f}, {time.monotonic() - start:.1f} s")
    report = stitch.torch.report()
    print(f"{100 * report['share']:.1f} % of the operators that are not a library's ran in {report['launches']} kernels")
    for entry in report["fell_back"]:
        print(f"PyTorch ran {entry['op']}: {entry['reason']}")


if __name__ == "__main__":
    main()
