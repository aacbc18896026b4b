"""Calls in which tensors are more, or less, than their memory: PyTorch runs these, since kernels know memory alone."""

import torch
from torch._subclasses import FakeTensor
from torch.autograd import forward_ad

from . import _report


class Absent(Exception):
    """A tensor has no memory of its own: it stands for others (traced, batched, zeros), and operators know what for."""


def address(tensor: torch.Tensor) -> int:
    """Where a tensor lies. Errors: Absent."""
    try:
        pointer = tensor.data_ptr()
    except RuntimeError as error:  # of batched tensors (is_grads_batched=True), and of others that wrap some
        raise Absent from error
    if pointer == 0 and tensor.numel() > 0:  # of fake tensors and of zeros that nobody wrote
        raise Absent
    return pointer


def is_not_all() -> bool:
    """Whether tensors may carry tangents (forward-mode differentiation), or new ones have no memory (FakeTensorMode):
    kernels know of neither. It is said once."""
    if forward_ad._current_level >= 0:
        _report.failed("forward mode", "kernels have no tangents for forward-mode differentiation")
        return True
    if torch._C._len_torch_dispatch_stack() == 0:
        return False
    new = torch.empty(1, device="cpu")  # AOTAutograd has a mode of its own in first calls, which does no harm
    try:
        if not isinstance(new, FakeTensor):  # whose address is given with a warning
            address(new)
            return False
    except Absent:
        pass
    said_absent()
    return True


def is_absent(arguments: list) -> bool:
    """Whether any of a call's tensors has no memory. It is said once."""
    try:
        for value in arguments:
            if isinstance(value, torch.Tensor):
                address(value)
        return False
    except Absent:
        said_absent()
        return True


def said_absent() -> None:
    _report.failed("no memory", "tensors that stand for others (traced, batched) have no memory for kernels to read")
