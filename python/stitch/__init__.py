"""Stitch: tuned, fused GPU kernels from Python.

    import numpy, stitch
    plan = stitch.plan("softmax.json")          # a fragment, HLO text or an ONNX model
    y = plan.run(numpy.ones((8, 1024), "float32"))

`stitch.torch` is the back end of torch.compile: `torch.compile(model, backend="stitch")`.
"""

from ._native import version as __version__
from ._plan import Fragment, Plan, fragment, plan
from ._server import connect
from .errors import (
    CompatibilityError,
    CorruptError,
    Error,
    InvalidArgument,
    KernelError,
    ParseError,
    PlanMissing,
    ResourceExhausted,
    Timeout,
    Unavailable,
    Unsupported,
)

__all__ = [
    "CompatibilityError",
    "CorruptError",
    "Error",
    "Fragment",
    "InvalidArgument",
    "KernelError",
    "ParseError",
    "Plan",
    "PlanMissing",
    "ResourceExhausted",
    "Timeout",
    "Unavailable",
    "Unsupported",
    "connect",
    "fragment",
    "plan",
]
