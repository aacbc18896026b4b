"""One step of fine-tuning BERT for classification (transformers; random weights, small sizes) beside the same in eager.

Dropout is on: with random="eager" both sides draw the same masks from the same seed. (Without, kernels draw their own.)
"""

import copy
import sys

import torch

import stitch.torch

try:
    import transformers
except ImportError:
    print("skipped: transformers is not installed (pip install transformers)")
    sys.exit(0)

OPTIONS = {"device": "emulated", "deadline_ms": 120_000, "improve": False, "random": "eager"}


def step(model, run, update, inputs) -> float:
    torch.manual_seed(1)
    loss = run(**inputs).loss
    loss.backward()
    update()
    return loss.item()


def main() -> None:
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, num_labels=3
    )
    ours = transformers.BertForSequenceClassification(config).train()
    eager = copy.deepcopy(ours)
    inputs = {
        "input_ids": torch.randint(100, (4, 16)),
        "attention_mask": (torch.arange(16) < torch.tensor([[16], [12], [9], [5]])).long(),
        "labels": torch.tensor([0, 2, 1, 1]),
    }
    optimizers = [torch.optim.AdamW(model.parameters(), lr=1e-3, eps=1e-4) for model in (ours, eager)]
    run = torch.compile(ours, backend="stitch", options=OPTIONS)
    update = torch.compile(optimizers[0].step, backend="stitch", options=OPTIONS)
    losses = step(ours, run, update, inputs), step(eager, eager, optimizers[1].step, inputs)
    apart = max((a - b).abs().max().item() for a, b in zip(ours.parameters(), eager.parameters(), strict=True))
    report = stitch.torch.report()
    print(f"loss {losses[0]:.6f}, eager's {losses[1]:.6f}; updated weights are {apart:.1e} apart at most")
    print(f"{100 * report['share']:.1f} % of the operators that are not a library's ran in {report['launches']} kernels")
    if abs(losses[0] - losses[1]) > 1e-4 or apart > 1e-4:
        sys.exit("that is too far")


if __name__ == "__main__":
    main()
