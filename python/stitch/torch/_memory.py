"""Calls in which tensors are more, or less, than their memory: PyTorch runs these, since kernels know memory alone."""

import torch
from torch._C._functorch import peek_interpreter_stack
from torch._subclasses import FakeTensor
from torch.autograd import forward_ad

from . import _report


class Absent(Exception):
    """A tensor has no memory of its own: it stands for others (traced, batched, zeros), and operators know what for."""


def address(tensor: torch.Tensor) -> int:
    """Where a tensor lies. Errors: Absent."""
    try:
        pointer = tensor.data_ptr()
    except RuntimeError as error:  # of tensors that wrap others
        raise Absent from error
    if pointer == 0 and tensor.numel() > 0:  # of fake tensors and of zeros that nobody wrote
        raise Absent
    return pointer


def is_not_all() -> bool:
    """Whether tensors may be batches (torch.vmap, is_grads_batched=True), carry tangents (forward-mode differentiation),
    or new ones have no memory (FakeTensorMode): kernels know of none of that. It is said once."""
    if forward_ad._current_level >= 0:
        _report.failed("forward mode", "kernels have no tangents for forward-mode differentiation")
        return True
    if peek_interpreter_stack() is not None:
        said_absent()
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


def said_absent() -> None:
    _report.failed("no memory", "tensors that stand for others (traced, batched) have no memory for kernels to read")
