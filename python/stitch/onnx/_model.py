"""An ONNX file, and the programs that are made of it for the shapes of its inputs."""

import collections
import itertools
import os
import pathlib
import threading

import numpy

from .. import _locks, _native, _plan, _program, _server, _settings, _trace, _tuning, errors
from . import _context, _initializers, _types
from ._errors import InvalidArgument, InvalidGraph, NoSuchFile, PlanMissing, translated
from ._values import DeviceTensor, on_host

# What the importer says of an operator whose input it has to know (a shape, an axis, a limit, a scale).
_UNKNOWN = "must be known when the model is read"

# Sets of shapes of which it is remembered that they have no plan.
_MOST_MISSED = 4096

# Which inputs may be such ones, first by integers and, where these do not do, by few floats too: (kinds, dimensions,
# elements). Every set of their values has a program of its own.
_KNOWN = ((), (("iub", 32, 4096),), (("iub", 32, 4096), ("f", 1, 16)))


def unknown_only(fragment) -> bool:
    """Whether all that the graph lacks are operators that would be there if the values of inputs were known."""
    return bool(fragment.boundaries) and all(_UNKNOWN in reason for _, _, reason in fragment.boundaries)


class Prepared:
    """A program for one set of shapes, with the weights that it takes besides the feeds.

    `device_id`: of the GPU that it is enqueued on, where weights are from now on; None where it runs on the host's
    memory (the emulated device; a program with a step that needs the host).
    """

    def __init__(self, program: _program.Program, names: list[str], weights: dict, device_id: int | None = None):
        self.program = program
        self.arrays = [weights.get(i) for i in range(len(names))]
        self.names = names
        self.device_id = device_id
        if device_id is not None:
            self._held = [a if a is None else DeviceTensor.copy_of(a, device_id) for a in self.arrays]

    def launch(self, feeds: dict, results: list, stream: int) -> None:
        """Enqueues it with tensors of the GPU. Nothing is allocated, loaded or waited for."""
        held = zip(self.names, self._held, strict=True)
        tensors = [(feeds[name] if weight is None else weight).native for name, weight in held]
        with translated():
            self.program.launch(tensors, [result.native for result in results], stream)

    def run(self, feeds: dict, stream: int) -> list:
        """From tensors of host or GPU to arrays of the host."""
        if self.device_id is None:
            held = zip(self.names, self.arrays, strict=True)
            results = self.program.run(*[on_host(feeds[name]) if weight is None else weight for name, weight in held])
            return list(results) if isinstance(results, tuple) else [results]
        results = [DeviceTensor.empty(port.dtype, port.shape, self.device_id) for port in self.program.outputs]
        self.launch({name: self.on_device(array) for name, array in feeds.items()}, results, stream)
        self.synchronize(stream)
        return [result.numpy() for result in results]

    def on_device(self, array) -> DeviceTensor:
        return array if isinstance(array, DeviceTensor) else DeviceTensor.copy_of(array, self.device_id)

    def synchronize(self, stream: int) -> None:
        with translated():
            _native.synchronize(self.device_id, stream)


class Model:
    """A file's bytes and the programs made of them, the latest used ones kept. Safe to use from several threads."""

    def __init__(self, data: bytes, folder: pathlib.Path | None, options, initializers: dict):
        self.data = data
        self.folder = folder
        self._options = options
        self.device = options.device
        self._constraints = _settings.constraints_of(options)  # on results, as of stitch.program
        self._initializers = initializers
        self._level = 0  # of _KNOWN: which inputs' values the graph needs
        self._prepared: collections.OrderedDict = collections.OrderedDict()
        self._missed: dict = {}  # why there is no program where none may be made
        self._lock = threading.Lock()
        with translated():
            self.ports = _native.onnx_ports(data)
        self.context = _context.read(data, _context.reader(folder))

    def extents_of(self, feeds: dict) -> dict:
        """The extents of the open dimensions, by name. Errors: InvalidArgument (one name, two extents)."""
        extents: dict = {}
        for name, _, _, shape in self.ports["inputs"]:
            for position, declared in enumerate(shape or []):
                if isinstance(declared, int):
                    continue
                key = declared or f"{name}.{position}"
                found = feeds[name].shape[position]
                if extents.setdefault(key, found) != found:
                    raise InvalidArgument(
                        f"Got invalid dimensions for input: {name} for the following indices\n index: {position} Got:"
                        f" {found} Expected: {extents[key]} ('{key}' of an input before)"
                    )
        return extents

    def read(self, extents: dict, feeds: dict | None = None):
        """The graph for these extents; `feeds`: small inputs whose values it may depend on."""
        known = {
            name: (_types.ours_of_array(array), list(array.shape), numpy.ascontiguousarray(array).tobytes())
            for name, array in self._small(feeds or {}).items()
        }
        with translated(reading=True), _trace.phase("import", name=self.ports["graph"]):
            return _native.read_onnx(self.data, extents, known, True)

    def _small(self, feeds: dict) -> dict:
        unranked = {name for name, _, _, shape in self.ports["inputs"] if shape is None}

        def known(array) -> bool:
            return any(
                array.dtype.kind in kinds and array.ndim <= rank and array.size <= most
                for kinds, rank, most in _KNOWN[self._level]
            )

        return {name: array for name, array in feeds.items() if name in unranked or known(array)}

    def _learn(self) -> bool:
        """Takes the values of more inputs to be known; whether there are more."""
        if self._level + 1 == len(_KNOWN):
            return False
        self._level += 1
        return True

    def prepared(self, feeds: dict) -> Prepared:
        """The program for the feeds' shapes, made where there is none yet. Errors: those of `_errors.translated`; what
        is PlanMissing once stays so, and no server is asked again."""
        with self._lock:
            while True:
                extents = self.extents_of(feeds)
                values = tuple((name, array.shape, array.tobytes()) for name, array in self._small(feeds).items())
                key = (tuple(extents.items()), values)
                if key in self._prepared:
                    self._prepared.move_to_end(key)
                    return self._prepared[key]
                if key in self._missed:
                    raise PlanMissing(self._missed[key])
                try:
                    fragment = self.read(extents, feeds)
                except errors.Error as error:
                    if _UNKNOWN in str(error) and self._learn():
                        continue
                    raise
                if unknown_only(fragment) and self._learn():
                    continue
                return self._keep(key, self._made(key, fragment))

    def prepare_fixed(self, extents: dict) -> bool:
        """Makes the program ahead of the first run, where shapes are fixed and no values are needed; whether it did."""
        for name, _, _, shape in self.ports["inputs"]:
            if shape is None:
                return False
            for position, declared in enumerate(shape):
                if not isinstance(declared, int) and (declared or f"{name}.{position}") not in extents:
                    return False
        with self._lock:
            key = (tuple(self._fixed(extents).items()), ())
            if self.context is not None:
                self._keep(key, self._opened(self.context))
                return True
            try:
                fragment = self.read(extents)
            except errors.Error as error:
                if _UNKNOWN in str(error):
                    return False
                raise
            if unknown_only(fragment):
                return False
            self._keep(key, self._made(key, fragment))
        return True

    def _opened(self, context: _context.Context) -> Prepared:
        """The program that the file has."""
        with translated():
            program = self._open(context.program)
        held = {**context.initializers, **{name: numpy.asarray(of) for name, of in self._initializers.items()}}
        fed = [name for name, *_ in self.ports["inputs"]]
        weights = {}
        for i, (name, port) in enumerate(itertools.zip_longest(context.names, program.inputs)):
            if name is None or port is None or (name not in fed and name not in held):
                counts = f"the program has {len(program.inputs)} inputs, the node {len(context.names)}"
                raise InvalidGraph(f"{counts}: {name or port.name} is of one alone, or nobody gives it")
            if name not in fed:
                found = held[name]
                if _types.ours_of_array(found) != port.dtype or found.shape != port.shape:
                    raise InvalidArgument(
                        f"initializer '{name}': {port.dtype}{list(port.shape)} is wanted, not {found.dtype}"
                        f"{list(found.shape)}"
                    )
                weights[i] = _plan._dense(found)
        return self._prepared_of(program, list(context.names), weights)

    def _fixed(self, extents: dict) -> dict:
        """Of given extents those of dimensions that the inputs have, in the order of `extents_of`."""
        found: dict = {}
        for name, _, _, shape in self.ports["inputs"]:
            for position, declared in enumerate(shape):
                if not isinstance(declared, int):
                    found[declared or f"{name}.{position}"] = extents[declared or f"{name}.{position}"]
        return found

    def locks(self) -> list[str]:
        """What locks have of the programs that are kept."""
        with self._lock:
            return [prepared.program.lock() for prepared in self._prepared.values()]

    def latest(self) -> Prepared | None:
        """What was made or used last."""
        with self._lock:
            return next(reversed(self._prepared.values()), None)

    def _keep(self, key, prepared: Prepared) -> Prepared:
        self._prepared[key] = prepared
        while len(self._prepared) > self._options.programs:
            self._prepared.popitem(last=False)
        return prepared

    def _open(self, document: bytes) -> _program.Program:
        program = _program.Program(document, self._options.device, self._options.device_id)
        if self._options.lock is not None:
            self._options.lock.check(program)
        _program.check_workspace(program, self._options.max_workspace_bytes)
        return program

    def _prepared_of(self, program: _program.Program, names: list[str], weights: dict) -> Prepared:
        on_gpu = self._options.device == "cuda" and program.info["can_launch"]
        return Prepared(program, names, weights, self._options.device_id if on_gpu else None)

    def _made(self, key, fragment) -> Prepared:
        try:
            return self.prepare(fragment)
        except PlanMissing as error:
            if len(self._missed) >= _MOST_MISSED:
                self._missed.clear()
            self._missed[key] = error.reason
            raise

    def prepare(self, fragment) -> Prepared:
        options = self._options
        with translated(making=True):
            _server.look_for(options.server, options.deadline_ms)
            wish = _tuning.Wish(options.tuned, options.budget_seconds)
            document = _locks.make(
                options.lock,
                fragment,
                deadline_ms=options.deadline_ms,
                improve=wish.is_look_ups,
                server=options.server,
                products=_program.default_products(options.device),
                device=options.device,
                ordinal=options.device_id,
                constraints=self._constraints,
            )
            program = self._open(document)
            _program.tune_later(program, fragment, wish, options.server, self._constraints)
        return self._prepared_of(program, list(fragment.parameter_names), self._weights(fragment))

    def _weights(self, fragment) -> dict:
        """The contents of parameters that are initializers, by position."""
        result = {}
        for position, data, location, offset in fragment.weights:
            name = fragment.parameter_names[position]
            dtype, shape = fragment.parameters[position]
            given = self._initializers.get(name)
            if given is not None:
                given = numpy.asarray(given)
                _initializers.check(name, given, dtype, shape)
                result[position] = _plan._dense(given)
                continue
            wanted = _types.numpy_of(dtype)
            if location:
                data = self._external(name, location, offset, int(numpy.prod(shape)) * wanted.itemsize)
            # Aligned once, here, so that no run copies it.
            result[position] = _plan._dense(numpy.frombuffer(data, wanted).reshape(shape))
        return result

    def _external(self, name: str, location: str, offset: int, size: int) -> bytes:
        """`size` bytes of a file beside the model. Files elsewhere are refused: a model is what a stranger sent."""
        if self.folder is None:
            raise InvalidArgument(
                f"initializer '{name}' is in the file '{location}', and the model came as bytes: give its path,"
                " session.model_external_initializers_file_folder_path, or SessionOptions.add_external_initializers"
            )
        if os.path.isabs(location) or ".." in pathlib.PurePath(location).parts:
            raise InvalidArgument(f"initializer '{name}': the file '{location}' is not beside the model")
        path = self.folder / location
        try:
            with open(path, "rb") as file:
                file.seek(offset)
                data = file.read(size)
        except OSError as error:
            raise NoSuchFile(f"initializer '{name}': {path}: {error.strerror}") from error
        if len(data) != size:
            raise InvalidArgument(f"initializer '{name}': {path} has {len(data)} of its {size} bytes at {offset}")
        return data
