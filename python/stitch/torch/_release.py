"""Refuses, when it is imported, a PyTorch that is too old, in words of ours and not those of a name that it lacks."""

import torch

_LEAST = (2, 11)  # as in python/pyproject.toml


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split("+")[0].split(".")[: len(_LEAST)])


if _numbers(torch.__version__) < _LEAST:
    least = ".".join(map(str, _LEAST))
    raise ImportError(
        f"stitch.torch needs PyTorch {least} or later, and this is {torch.__version__}: pip install 'torch>={least}'"
    )
