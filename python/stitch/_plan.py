"""Fragments and plans on arrays."""

import collections.abc
import json
import os
import pathlib
import typing

from . import _native, _server, _settings, _trace, _tuning, errors

_LONGEST_MS = 600_000

Fragment = _native.Fragment

Source = str | os.PathLike[str] | bytes | dict[str, typing.Any] | Fragment
"""What a fragment is read from: see `fragment`."""
Arrays = collections.abc.Sequence[typing.Any]
"""NumPy's, or anything with `__dlpack__`; for `launch` what has an address of device memory, or addresses."""

_NUMPY_NAMES = {
    "pred": "bool",
    "s8": "int8",
    "u8": "uint8",
    "s16": "int16",
    "u16": "uint16",
    "s32": "int32",
    "u32": "uint32",
    "s64": "int64",
    "u64": "uint64",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
}
_ML_NAMES = {"bf16": "bfloat16", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2"}


def fragment(source: Source) -> Fragment:
    """A fragment of a document (text, bytes or a dictionary), or of a file: a fragment, HLO text or an ONNX model."""
    if isinstance(source, Fragment):
        return source
    if isinstance(source, dict):
        source = json.dumps(source)
    if isinstance(source, (str, os.PathLike)) and not str(source).lstrip().startswith("{"):
        path = pathlib.Path(source)
        try:
            with _trace.phase("import", name=path.name):
                return _native.read_model(path.read_bytes(), path.name)
        except OSError as error:
            raise errors.InvalidArgument(f"{path}: {error.strerror}") from error
    return _native.read_model(source.encode() if isinstance(source, str) else bytes(source))


class Plan:
    """A fragment's kernels, loaded on a device. Made by `stitch.plan`."""

    def __init__(self, native, of: Fragment):
        self._native = native
        self.fragment = of

    @property
    def info(self) -> dict[str, typing.Any]:
        """What the plan is: id, label, launches, bytes, predicted and measured time, what was verified."""
        return self._native.info

    def run(self, *arrays: typing.Any, out: Arrays | None = None) -> typing.Any:
        """Runs on arrays of the host, in the fragment's order, and waits.

        Arrays are NumPy's, or anything with `__dlpack__`; those that are not dense or not aligned are copied. The
        results are new NumPy arrays, or `out` (a list, of dense arrays that may be written). One result is returned as
        such, several as a tuple. Errors: InvalidArgument, KernelError.
        """
        results = [_empty(*of) for of in self._native.results] if out is None else list(out)
        self._native.run([_dense(array) for array in arrays], results)
        return results[0] if len(results) == 1 else tuple(results)

    def launch(self, inputs: Arrays, outputs: Arrays, stream: typing.Any = 0) -> None:
        """Enqueues it on a stream of a GPU and does not wait.

        `inputs`, `outputs`, `stream`: as `stitch.Program.launch` takes them, in the fragment's order. Launches of one
        plan must be ordered on the device. A plan that takes this one's place later does nothing to CUDA graphs that
        this one was captured into. Errors: Unsupported (the emulated device), InvalidArgument, KernelError.
        """
        self._native.launch(inputs, outputs, _handle(stream))

    def to_bytes(self) -> bytes:
        """The plan in use as a program of one step with its code inside, its weights outside: `stitch.program` opens it
        without a server. Errors: Unavailable."""
        return self._native.to_program()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes `to_bytes` to a file."""
        _write(path, self.to_bytes())

    def freeze(self) -> None:
        """From now on no better plan takes this one's place (`stitch.freeze`: none of any). One that is found to be
        wrong is taken out of use all the same: then running it is Unavailable."""
        self._native.freeze()

    def check_for_update(self, wait_ms: int = 0) -> bool:
        """Swaps in a better plan if the server has one by now; whether it did."""
        return self._native.check_for_update(wait_ms)

    def watch(self) -> None:
        """From now on a thread, which all plans of the process share, looks for better plans, which take this one's
        place between two runs."""
        self._native.watch()


def plan(
    source: Source,
    *,
    device: str = "emulated",
    ordinal: int = 0,
    deadline_ms: int = 10_000,
    improve: bool = True,
    server: str | None = None,
    constraints: str = "",
    predict: bool = True,
    max_workspace_bytes: int | None = None,
) -> Plan:
    """A plan for a fragment, from a server's store or predicted.

    `source`: see `fragment`. `device`: "emulated" (host memory; checks every access) or "cuda". Waits up to
    `deadline_ms`; with `improve` the server tunes the fragment in the background where it had to predict.
    `constraints`: on results of our kernels, "deterministic" (equal inputs give equal bits), "batch_invariant" (a row's
    bits do not depend on the others), "tf32", "tf32x3" and "bf16x3" (products of float32 may be made of one of TF32,
    three of it, or three of bf16), "winograd" (convolutions of float32 may be made of fewer multiplications),
    "eager_precision" (every operator's result is rounded to its type), "in_place" (results may be written over
    parameters: the pairs for which that holds are `Plan.info["in_place"]`), with commas.
    `predict=False` takes a plan that is stored or raises PlanMissing at once; so does everything where
    STITCH_MODE=replay is set, or after `stitch.freeze`. Plans that need more memory beside parameters and results than
    `max_workspace_bytes` are not taken, nor swapped in later. Errors: Unavailable (no server), Timeout (no plan yet),
    PlanMissing, ConstraintError (too much workspace), Unsupported, InvalidArgument (a constraint that there is not).
    """
    read = fragment(source)
    client = _server.shared(server)
    most = _most_workspace(max_workspace_bytes)
    asked = {"predict": predict, "max_workspace_bytes": most}
    return Plan(client.plan(read, device, ordinal, deadline_ms, improve, constraints, **asked), read)


def why(
    source: Source, *, device: str = "emulated", ordinal: int = 0, server: str | None = None, constraints: str = ""
) -> dict[str, typing.Any]:
    """Why a server has no plan for a fragment, or which one it has; nothing is predicted or tuned for the question.

    `source` and the rest as of `plan`. `fragment` (its key), `device` (that plans are made for), `plan` (the id of the
    one that is stored, or None), `closest` (the id of the nearest one where there is none, or None where nothing is
    like it), `differs`: by field of the key (`shape`, `toolkit`, `version`, …) what is wanted and what is stored.
    Errors: Unavailable, InvalidArgument.
    """
    return _server.shared(server).why(fragment(source), constraints, device, ordinal)


def tune(
    source: Source,
    *,
    effort: str = "quick",
    budget_seconds: int = 0,
    device: str = "emulated",
    ordinal: int = 0,
    server: str | None = None,
    constraints: str = "",
    max_workspace_bytes: int | None = None,
) -> Plan:
    """Has the server tune a fragment, waits for that, and returns the best plan by then.

    `effort`: "quick" (verified, and the first few candidates measured, where the server measures), "full" (a hundred
    more), or "none" (as `plan`). `budget_seconds`: when they are over the work is ended, unless others wait for it,
    too, and the best plan so far is what is returned; 0: for as long as it takes. The rest is as of `plan`, its errors
    included.
    """
    if effort not in _settings.EFFORTS:
        near = _settings.nearest(str(effort), _settings.EFFORTS)
        raise errors.InvalidArgument(f"effort {effort!r} is none of {', '.join(_settings.EFFORTS)}{near}")
    try:
        seconds = _settings.checked_number("budget_seconds", budget_seconds, "budget_seconds")
    except ValueError as error:
        raise errors.InvalidArgument(str(error)) from None
    read = fragment(source)
    client = _server.shared(server)
    job = _tuning.begin(client, read, constraints, effort, seconds)
    if job is not None:
        _tuning.wait(client, job, seconds)
    return plan(
        read,
        device=device,
        ordinal=ordinal,
        deadline_ms=_LONGEST_MS,
        improve=False,
        server=server,
        constraints=constraints,
        max_workspace_bytes=max_workspace_bytes,
    )


def _most_workspace(value) -> int | None:
    try:
        return None if value is None else _settings.checked_number("max_workspace_bytes", value, "max_workspace_bytes")
    except ValueError as error:
        raise errors.InvalidArgument(str(error)) from None


def _write(path, document: bytes) -> None:
    path = pathlib.Path(path)
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    new.write_bytes(document)
    new.replace(path)


def _handle(stream) -> int:
    """The handle of a stream: its own number, or of what has `__cuda_stream__` (cuda.core's streams and graph builders,
    PyTorch's) or `cuda_stream`."""
    if isinstance(stream, int):
        return stream
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        version, handle = protocol()
        if version != 0:
            raise errors.Unsupported(f"{type(stream).__name__} has version {version} of __cuda_stream__, 0 is known")
        return int(handle)
    handle = getattr(stream, "cuda_stream", stream)
    try:
        return int(handle)
    except (TypeError, ValueError):
        raise errors.InvalidArgument(f"{type(stream).__name__} is no stream") from None


def _aligned(numpy, shape, dtype):
    """An array without contents whose memory is aligned as kernels want it."""
    dtype = numpy.dtype(dtype)
    size = int(numpy.prod(shape)) * dtype.itemsize
    alignment = _native.buffer_alignment
    memory = numpy.empty(size + alignment, numpy.uint8)
    start = -memory.ctypes.data % alignment
    return memory[start : start + size].view(dtype).reshape(shape)


def _empty(dtype: str, shape):
    import numpy

    if dtype in _NUMPY_NAMES:
        return _aligned(numpy, tuple(shape), _NUMPY_NAMES[dtype])
    try:
        import ml_dtypes
    except ImportError:
        raise errors.Unsupported(f"NumPy has no {dtype}: install ml_dtypes, or give arrays (out=)") from None
    return _aligned(numpy, tuple(shape), getattr(ml_dtypes, _ML_NAMES[dtype]))


def _bits(array):
    """An array of a type that DLPack does not take from NumPy (those of ml_dtypes) as unsigned integers."""
    import numpy

    if isinstance(array, (numpy.ndarray, numpy.generic)) and array.dtype.name in _ML_NAMES.values():
        return numpy.asarray(array).view(f"uint{8 * array.dtype.itemsize}")
    return array


def _dense(array):
    import numpy

    if not isinstance(array, (numpy.ndarray, numpy.generic)):
        return array
    dense = numpy.ascontiguousarray(array).reshape(numpy.shape(array))
    if dense.ctypes.data % _native.buffer_alignment:
        copy = _aligned(numpy, dense.shape, dense.dtype)
        copy[...] = dense
        dense = copy
    return dense
