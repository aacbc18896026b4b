"""Whole models on arrays."""

import dataclasses
import os
import pathlib
import threading
import typing
import weakref

from . import _native, _nvidia, _plan, _server, _tuning, errors

_FORMAT = b"stitch-program"

_open: weakref.WeakSet = weakref.WeakSet()
_lock = threading.Lock()


@dataclasses.dataclass(frozen=True)
class Port:
    """An input or output of a program: `dtype` as the fragment format has it ("f32"), `shape` its extents."""

    name: str
    dtype: str
    shape: tuple[int, ...]


def _ports(native) -> list[Port]:
    return [Port(name, dtype, tuple(shape)) for name, (dtype, shape) in native]


class Program:
    """A whole model, loaded on a device.

    Fragments run by our kernels, products and convolutions by ours, cuBLASLt, cuDNN or the host's library. Made by
    `stitch.program`. Nothing of it is made, loaded or swapped later. Safe to use from several threads; runs follow one
    another.
    """

    def __init__(self, document: bytes, device: str = "emulated", ordinal: int = 0):
        self._document = document
        if device == "cuda":
            _nvidia.find("cublas")
            _nvidia.find("cudnn")
        self._native = _native.Program(document, device, ordinal)
        self.inputs = _ports(self._native.inputs)
        self.outputs = _ports(self._native.outputs)
        with _lock:
            _open.add(self)

    @property
    def info(self) -> dict[str, typing.Any]:
        """What it is: id, steps by kind, launches, labels of plans, bytes that these move and the time that they are
        predicted to take (library calls apart), bytes of its arena, and what the float64 reference evaluator computes
        for want of anything else (`fallbacks`: step and reason)."""
        return self._native.info

    def lock(self) -> str:
        """The ids of its plans and the hashes of their code as text for version control, without times: equal plans,
        equal text. What `stitch run --write-lock` writes; `stitch.program(lock=)` accepts nothing else."""
        return self._native.lock

    def run(self, *arrays: typing.Any, out: _plan.Arrays | None = None) -> typing.Any:
        """Runs on arrays of the host and waits.

        `arrays`: one per input in their order, or one mapping by their names; NumPy's, or anything with `__dlpack__`.
        bfloat16 and the 8-bit floats are arrays of ml_dtypes, or of unsigned integers that hold their bits. Results are
        new NumPy arrays, or `out`; one is returned as such, several as a tuple. Errors: InvalidArgument, KernelError.
        """
        if len(arrays) == 1 and isinstance(arrays[0], dict):
            arrays = self._by_name(arrays[0])
        results = [_plan._empty(port.dtype, port.shape) for port in self.outputs] if out is None else list(out)
        self._native.run(
            [_plan._dense(_plan._bits(array)) for array in arrays], [_plan._bits(result) for result in results]
        )
        return results[0] if len(results) == 1 else tuple(results)

    def launch(self, inputs: _plan.Arrays, outputs: _plan.Arrays, stream: typing.Any = 0) -> None:
        """Enqueues it on a stream of a GPU and does not wait.

        `inputs`, `outputs`: one per port, in their order (inputs also as one mapping by their names). Each is an array
        of the GPU with `__dlpack__` or `__cuda_array_interface__`, of the port's type and shape, dense and row-major,
        in memory of the device, managed or pinned, and not read-only if it is an output; or one-dimensional bytes of
        the port's size (a Buffer of cuda.core); or an address (an int), which nobody looks into. All start at multiples
        of 16 bytes. `stream`: a CUstream's handle, or what has `__cuda_stream__` or `cuda_stream`, such as
        `torch.cuda.current_stream()` and cuda.core's streams and graph builders; who gives arrays by DLPack is told.
        Nothing is allocated or waited for, so that it may be captured into a CUDA graph; memory must stay until it has
        run, the program for as long as such graphs, and runs must be ordered on the device. Errors: Unsupported (the
        emulated device; a step that needs the host, which the message names), InvalidArgument (which names the port),
        KernelError.
        """
        if isinstance(inputs, dict):
            inputs = self._by_name(inputs)
        self._native.launch(inputs, outputs, _plan._handle(stream))

    def _by_name(self, given: dict) -> list:
        names = [port.name for port in self.inputs]
        for name in given:
            if name not in names:
                raise errors.InvalidArgument(f"the program has no input '{name}'; it has {', '.join(names)}")
        missing = [name for name in names if name not in given]
        if missing:
            raise errors.InvalidArgument(f"no array was given for {', '.join(missing)}")
        return [given[name] for name in names]

    def to_bytes(self) -> bytes:
        """The program with its code inside (docs/program-format.md): `stitch.program` opens it without a server."""
        return self._document

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes `to_bytes` to a file, which `stitch run` runs, too."""
        _plan._write(path, self._document)


def opened() -> list[Program]:
    """The programs that the process has."""
    with _lock:
        return list(_open)


def _read(source) -> bytes | None:
    """The document of a program, where the source is one."""
    if isinstance(source, (str, os.PathLike)) and not str(source).lstrip().startswith("{"):
        try:
            source = pathlib.Path(source).read_bytes()
        except OSError as error:
            raise errors.InvalidArgument(f"{source}: {error.strerror}") from error
    if not isinstance(source, (bytes, bytearray, memoryview)):
        return None
    data = bytes(source)
    # CBOR's maps begin so; no ONNX file does.
    return data if data[:1] and data[0] >> 5 == 5 and _FORMAT in data else None


def program(
    source: _plan.Source,
    *,
    device: str = "emulated",
    ordinal: int = 0,
    deadline_ms: int = 60_000,
    improve: bool = True,
    server: str | None = None,
    products: str | None = None,
    constraints: str = "",
    predict: bool = True,
    lock: str | os.PathLike[str] | None = None,
    max_workspace_bytes: int | None = None,
) -> Program:
    """A whole model, on host memory or on a GPU.

    `device`: "emulated" (host memory; checks every access) or "cuda". `products`: who multiplies matrices:
    "library", "ours" (kernels of ours wherever there are any), "faster" (where ours are predicted to be), or
    "stream" (the same, and ours where a stream of a GPU has no library's call; the default on a GPU). `source`: a
    model as `stitch.fragment` takes it (ONNX, HLO text, a graph), or a program's file or bytes (`Program.save`,
    `stitch run --program`), which needs no server. Weights are inputs. Waits up to `deadline_ms` for plans; with
    `improve` the server tunes in the background what it had to predict. Errors: Unavailable (no server), Timeout,
    Unsupported (an operator that nobody here computes; the message names it). `constraints` and `predict` are as of
    `stitch.plan`: where nothing may be predicted, a fragment without a plan is PlanMissing. `lock`: a file that
    `Program.lock` was written to; of a model the server is asked for these plans by their ids, also where it has better
    ones by now. Plans that it does not have, and a file of other plans, are a ConstraintError, which names the first;
    so is a program that needs more memory beside inputs and results (arena and workspaces) than `max_workspace_bytes`.
    """
    most = _plan._most_workspace(max_workspace_bytes)
    document = _read(source)
    locked = "" if lock is None else pathlib.Path(lock).read_text(encoding="utf-8")
    if document is None:
        products = products or default_products(device)
        fragment = _plan.fragment(source)
        settings = {
            "products": products,
            "device": device,
            "ordinal": ordinal,
            "constraints": constraints,
            "predict": predict,
            "lock": locked,
        }
        document = make(fragment, deadline_ms=deadline_ms, improve=improve, server=server, **settings)
    program = Program(document, device, ordinal)
    if lock is not None:
        program._native.check_lock(locked)
    check_workspace(program, most)
    return program


@dataclasses.dataclass(frozen=True)
class Compatibility:
    """How a program or package goes with a GPU, as `compatibility` finds it."""

    device: str
    """The GPU's class ("h100")."""
    fitness: typing.Literal["optimal", "runs", "refused"]
    """"optimal": plans for this very class are inside; "runs": those of another class run on it; "refused": none does."""
    reason: str
    """Why, for people."""
    target: str | None
    """The class whose program would run; None where it is refused."""


def compatibility(
    source: Program | bytes | str | os.PathLike[str], device: str | None = None, *, ordinal: int = 0
) -> Compatibility:
    """How a program, or a package of several (`stitch package`), goes with a GPU, before anything is loaded.

    `source`: a program, its file or bytes, or a package's. `device`: a class of GPUs ("h100", "l4", …, as `stitch
    --target` has them), which need not be here; without it the GPU that CUDA numbers `ordinal` here. Architectures,
    threads, shared memory, clusters and what a grid barrier needs resident are looked at (docs/cli.md#package). Errors:
    InvalidArgument (no such class or file; the source is a model), Unavailable (no such GPU here), and those of a
    document that must not run: ParseError, CompatibilityError, CorruptError.
    """
    document = source.to_bytes() if isinstance(source, Program) else _read(source)
    if document is None:
        raise errors.InvalidArgument("neither a program nor a package: `stitch package` and Program.save write these")
    found, fitness, reason, target = _native.compatibility(document, device or "", ordinal)
    return Compatibility(found, fitness, reason, target or None)


def check_workspace(program: Program, most: int | None) -> None:
    """Errors: ConstraintError where a program needs more memory of its own than `most` bytes (None: any)."""
    needs = program.info["arena_bytes"] + program.info["workspace_bytes"]
    if most is not None and needs > most:
        raise errors.ConstraintError(
            f"the program needs {needs:,} bytes beside its inputs and results (arena and workspaces), and"
            f" max_workspace_bytes is {most:,}"
        )


def default_products(device: str) -> str:
    """Who multiplies matrices where nobody says it: on a GPU what its streams take, which without cuBLASLt are kernels
    of ours alone; else as the server has it."""
    if device != "cuda":
        return ""
    return "stream" if _nvidia.find("cublas") else "ours"


def _in_child() -> None:
    global _lock
    _lock = threading.Lock()  # a thread that is not there may hold the parent's


os.register_at_fork(after_in_child=_in_child)


def make(fragment, *, deadline_ms: int, improve: bool, server: str | None, **settings) -> bytes:
    """The document of a graph's program, by a server. `settings`: products, device and ordinal, as of `program`."""
    check_boundaries(fragment)
    return _server.shared(server).make_program(fragment, deadline_ms, improve, **settings)


def tune_later(program: Program, fragment, wish: _tuning.Wish, server: str | None, constraints: str) -> None:
    """Has the server tune what a program was made of, where that is to be more, or to end, than a look-up begins."""
    if wish.is_asked_for:
        fragments = program.info["steps"].get("fragment", 0)
        client = _server.shared(server)
        _tuning.begin_model(client, fragment, fragments, constraints, wish.effort, wish.budget_seconds)


def check_boundaries(fragment) -> None:
    """Errors: Unsupported where a graph has operators that nobody here computes; it names them."""
    if fragment.boundaries:
        listed = "; ".join(f"{op} ({place}): {reason}" for op, place, reason in fragment.boundaries)
        raise errors.Unsupported(f"operators that nobody here computes: {listed}")
