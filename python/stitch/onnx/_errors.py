"""Exceptions of the names that onnxruntime's have; each is a `stitch.Error`, too."""

import contextlib

from .. import errors


class OnnxError(errors.Error):
    """Base of the exceptions of `stitch.onnx`. `code` is onnxruntime's number of the status."""

    code = 1
    word = "FAIL"

    def __init__(self, message: str):
        self.reason = message
        super().__init__(f"[StitchError] : {self.code} : {self.word} : {message}")


class Fail(OnnxError):
    """What has no class of its own: a plan that does not come, a run that was told to end."""


class PlanMissing(Fail, errors.PlanMissing):
    """No plan is stored, and none may be made: STITCH_MODE=replay, or `stitch.freeze`."""


class InvalidArgument(OnnxError, ValueError):
    """A name, shape, type or option that the model, or the session, has not."""

    code, word, kind = 2, "INVALID_ARGUMENT", "invalid_argument"


class NoSuchFile(OnnxError, FileNotFoundError):
    """A model, or a file with its weights, that is not there."""

    code, word, kind = 3, "NO_SUCHFILE", "not_found"


class NoModel(OnnxError):
    """Nothing to run."""

    code, word = 4, "NO_MODEL"


class EngineError(OnnxError):
    """No server, no device."""

    code, word, kind = 5, "ENGINE_ERROR", "unavailable"


class RuntimeException(OnnxError):
    """A kernel faulted while it ran."""

    code, word, kind = 6, "RUNTIME_EXCEPTION", "runtime"


class InvalidProtobuf(OnnxError):
    """Bytes that are no ONNX model; the message has the byte."""

    code, word, kind = 7, "INVALID_PROTOBUF", "parse"


class ModelLoaded(OnnxError):
    """A model is there already."""

    code, word = 8, "MODEL_LOADED"


class NotImplemented(OnnxError, NotImplementedError):
    """An operator, type or option that nobody here computes; the message names it and its place."""

    code, word, kind = 9, "NOT_IMPLEMENTED", "unsupported"


class InvalidGraph(OnnxError):
    """A model that contradicts itself; the message has the node."""

    code, word = 10, "INVALID_GRAPH"


class EPFail(OnnxError):
    """A provider could not take the model, and falling back is forbidden."""

    code, word = 11, "EP_FAIL"


_RUN = {
    errors.InvalidArgument: InvalidArgument,
    errors.ParseError: InvalidProtobuf,
    errors.Unsupported: NotImplemented,
    errors.PlanMissing: PlanMissing,
    errors.KernelError: RuntimeException,
    errors.Unavailable: EngineError,
}


@contextlib.contextmanager
def translated(reading: bool = False, making: bool = False):
    """Errors of libstitch as onnxruntime names them; `reading`: what is wrong, is so with the model; `making`: a program,
    and what cannot be read is not the model."""
    try:
        yield
    except OnnxError:
        raise
    except errors.Error as error:
        kind = next((ours for of, ours in _RUN.items() if isinstance(error, of)), Fail)
        if reading and kind is InvalidArgument:
            kind = InvalidGraph
        if making and kind is InvalidProtobuf:
            kind = Fail
        raise kind(str(error)) from error
