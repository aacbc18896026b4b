"""What the tables of this folder list."""

import dataclasses
from collections.abc import Callable

import torch


@dataclasses.dataclass(frozen=True)
class Model:
    make: Callable[[], tuple[torch.nn.Module, dict]]
    """The module and its keyword arguments."""
    optimizer: str | None = None
    """Of `optimizers.OPTIMIZERS`; none where only forward is tried."""


def tokens(words: int = 64, batch: int = 2, length: int = 8) -> torch.Tensor:
    return torch.randint(3, words, (batch, length))


def image(size: int = 16, channels: int = 3, batch: int = 2) -> torch.Tensor:
    return torch.randn(batch, channels, size, size)
