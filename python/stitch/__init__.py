"""Stitch: tuned, fused GPU kernels from Python.

    import numpy, stitch
    plan = stitch.plan("softmax.json")          # a fragment, HLO text or an ONNX model
    y = plan.run(numpy.ones((8, 1024), "float32"))
    model = stitch.program("model.onnx")        # a whole model: our kernels, and the host's library for products
    z = model.run({"x": x, "weight": w})

`stitch.torch` is the back end of torch.compile: `torch.compile(model, backend="stitch")`;
`stitch.onnx` runs ONNX models as onnxruntime does, `stitch.jax` functions of JAX. Each is imported by its name.
"""

from ._activity import freeze
from ._native import version as __version__
from ._plan import Fragment, Plan, fragment, plan, tune, why
from ._program import Compatibility, Port, Program, compatibility, program
from ._report import report, reset
from ._server import connect
from .errors import (
    CompatibilityError,
    ConstraintError,
    CorruptError,
    DeviceUnavailable,
    Error,
    InvalidArgument,
    KernelError,
    ParseError,
    PlanMissing,
    ResourceExhausted,
    ServerUnavailable,
    Timeout,
    Unavailable,
    Unsupported,
)

__all__ = [
    "__version__",
    "Compatibility",
    "CompatibilityError",
    "ConstraintError",
    "CorruptError",
    "DeviceUnavailable",
    "Error",
    "Fragment",
    "InvalidArgument",
    "KernelError",
    "ParseError",
    "Plan",
    "PlanMissing",
    "Port",
    "Program",
    "ResourceExhausted",
    "ServerUnavailable",
    "Timeout",
    "Unavailable",
    "Unsupported",
    "compatibility",
    "connect",
    "fragment",
    "freeze",
    "plan",
    "program",
    "report",
    "reset",
    "tune",
    "why",
]
