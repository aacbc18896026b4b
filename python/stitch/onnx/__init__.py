"""ONNX models as onnxruntime runs them.

    import numpy, stitch.onnx
    session = stitch.onnx.InferenceSession("model.onnx")
    logits, = session.run(None, {"input_ids": numpy.zeros((1, 128), "int64")})

Signatures, exceptions and configuration keys are onnxruntime's, so that `import stitch.onnx as onnxruntime` is all that
changes. Memory-intensive operators run in Stitch's kernels, products and convolutions by the host's library.
docs/onnx-python.md has the whole.
"""

from ._errors import (
    EngineError,
    EPFail,
    Fail,
    InvalidArgument,
    InvalidGraph,
    InvalidProtobuf,
    ModelLoaded,
    NoModel,
    NoSuchFile,
    NotImplemented,
    OnnxError,
    RuntimeException,
)
from ._options import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    RunOptions,
    SessionOptions,
    list_provider_options,
    list_session_config_entries,
)
from ._report import report, reset
from ._session import InferenceSession, ModelMetadata, NodeArg, get_all_providers, get_available_providers, get_device
from ._values import IOBinding, OrtValue

__all__ = [
    "EPFail",
    "EngineError",
    "ExecutionMode",
    "ExecutionOrder",
    "Fail",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "InvalidArgument",
    "InvalidGraph",
    "InvalidProtobuf",
    "ModelLoaded",
    "ModelMetadata",
    "NoModel",
    "NoSuchFile",
    "NodeArg",
    "NotImplemented",
    "OnnxError",
    "OrtValue",
    "RunOptions",
    "RuntimeException",
    "SessionOptions",
    "get_all_providers",
    "get_available_providers",
    "get_device",
    "list_provider_options",
    "list_session_config_entries",
    "report",
    "reset",
]
