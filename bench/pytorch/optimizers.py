"""Optimizers that training steps are tried with: PyTorch's, timm's Lion and LAMB, and Muon as it is used."""

from unittest import mock

import timm.optim
import torch


def orthogonal(gradient, coefficients, steps: int, eps: float):
    """Muon's iteration (Newton and Schulz's) in the gradient's own type; PyTorch's is in bf16 whatever it is given."""
    a, b, c = coefficients
    tall = gradient.shape[0] > gradient.shape[1]
    x = gradient.T if tall else gradient
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if tall else x


class Together:
    """Muon for the matrices inside a model, AdamW for the rest, as its authors have it."""

    def __init__(self, parameters):
        matrices = [p for p in parameters if p.ndim == 2]
        others = [p for p in parameters if p.ndim != 2]
        self.parts = [torch.optim.Muon(matrices, lr=1e-3), torch.optim.AdamW(others, lr=1e-3, eps=1e-3)]

    def step(self):
        for part in self.parts:
            part.step()


class TogetherExactly(Together):
    """What float64 is compared with."""

    def step(self):
        with mock.patch.object(torch.optim._muon, "_zeropower_via_newtonschulz", orthogonal):
            super().step()


def muon(parameters):
    return (TogetherExactly if parameters[0].dtype == torch.float64 else Together)(parameters)


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
    "Muon": muon,
}
