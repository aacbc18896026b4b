"""Optimizers that training steps are tried with: PyTorch's, timm's Lion and LAMB, and Muon as it is used."""

import timm.optim
import torch


class Together:
    """Muon for the matrices inside a model, AdamW for the rest, as its authors have it."""

    def __init__(self, parameters):
        matrices = [p for p in parameters if p.ndim == 2]
        others = [p for p in parameters if p.ndim != 2]
        self.parts = [torch.optim.Muon(matrices, lr=1e-3), torch.optim.AdamW(others, lr=1e-3, eps=1e-3)]

    def step(self):
        for part in self.parts:
            part.step()


# A large eps: where a gradient is nothing but rounding, Adam's first step would be a full one in a random direction.
OPTIMIZERS = {
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=1e-3, eps=1e-3),
    "Adam": lambda parameters: torch.optim.Adam(parameters, lr=1e-3, eps=1e-3, foreach=False),
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=1e-2, momentum=0.9, weight_decay=1e-4, nesterov=True),
    "RMSprop": lambda parameters: torch.optim.RMSprop(parameters, lr=1e-3, eps=1e-3, momentum=0.9),
    "Adagrad": lambda parameters: torch.optim.Adagrad(parameters, lr=1e-2),
    "Adafactor": lambda parameters: torch.optim.Adafactor(parameters, lr=1e-2),
    "Lion": lambda parameters: timm.optim.Lion(parameters, lr=1e-3, weight_decay=1e-2),
    "LAMB": lambda parameters: timm.optim.Lamb(parameters, lr=1e-3, eps=1e-3),
    "Muon": Together,
}
