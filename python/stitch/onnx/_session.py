"""InferenceSession, with onnxruntime's signatures."""

import dataclasses
import json
import os
import pathlib
import threading
import time
import typing
import warnings
from collections.abc import Sequence

import numpy

from . import _context, _initializers, _options, _report, _types
from .. import _locks
from .._settings import nearest
from ._errors import EngineError, EPFail, Fail, InvalidArgument, NoSuchFile, NotImplemented, OnnxError, PlanMissing
from ._model import _UNKNOWN, Model
from ._options import RunOptions, SessionOptions
from ._values import DeviceTensor, IOBinding, OrtValue, check_fit, on_host

_OURS, _THEIRS = "StitchExecutionProvider", "CPUExecutionProvider"
_NO_PROGRAM = (NotImplemented, Fail, EngineError)
"""Why onnxruntime may run a model."""


@dataclasses.dataclass(frozen=True)
class NodeArg:
    """An input or output: `type` as "tensor(float)"; open extents are names or None."""

    name: str
    type: str
    shape: list


@dataclasses.dataclass(frozen=True)
class ModelMetadata:
    """What a model's file says of itself."""

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: dict


def get_available_providers() -> list[str]:
    """StitchExecutionProvider, and CPUExecutionProvider where onnxruntime is installed to run what is not supported."""
    return [_OURS, _THEIRS] if _onnxruntime() else [_OURS]


get_all_providers = get_available_providers


def get_device() -> str:
    return "CPU"


def _onnxruntime():
    try:
        import onnxruntime
    except ImportError:
        return None
    return onnxruntime


class InferenceSession:
    """A model that runs on NumPy arrays.

    `path_or_bytes`, `sess_options`, `providers` and `provider_options` as onnxruntime's. The provider is
    StitchExecutionProvider, with the options that `list_provider_options` names. With CPUExecutionProvider behind it a
    model that nobody here computes, or whose program does not come (no server, no plan within the deadline, a damaged
    store), is run by onnxruntime, if that is installed, and it is said once per reason; so are runs with shapes that have
    no plan where none may be made (STITCH_MODE=replay, `stitch.freeze`). Without, or with
    session.disable_cpu_ep_fallback, that is an exception which names the operator or says why.

    Where all extents are known the program is made here; otherwise the first run with new shapes makes it. Safe to use
    from several threads. Errors: NoSuchFile, InvalidProtobuf, InvalidGraph, NotImplemented, EngineError (no server),
    Fail (no plan within the deadline).
    """

    def __init__(
        self,
        path_or_bytes: str | os.PathLike[str] | bytes,
        sess_options: SessionOptions | None = None,
        providers: Sequence[str | tuple[str, dict]] | None = None,
        provider_options: Sequence[dict] | None = None,
        **kwargs: typing.Any,
    ) -> None:
        for name in kwargs:
            if name not in ("disabled_optimizers", "enable_fallback"):
                known = ("sess_options", "providers", "provider_options", "disabled_optimizers", "enable_fallback")
                raise TypeError(f"InferenceSession has no argument '{name}'{nearest(name, known)}")
        self._sess_options = sess_options if sess_options is not None else SessionOptions()
        if not isinstance(self._sess_options, SessionOptions):
            raise TypeError(f"sess_options is a stitch.onnx.SessionOptions, not {type(sess_options).__name__}")
        data, folder = self._source(path_or_bytes)
        self._providers, self._provider_options = _providers(providers, provider_options)
        self._options = options = _options.provider_options(self._provider_options.get(_OURS, {}))
        if self._sess_options.use_deterministic_compute:
            self._options = options = dataclasses.replace(options, deterministic=True)
        self._model = Model(data, folder, options, self._sess_options._initializers)
        self._inputs = [_node(port) for port in self._model.ports["inputs"]]
        self._outputs = [_node(port) for port in self._model.ports["outputs"]]
        self._stream = options.user_compute_stream
        self._path_or_bytes = path_or_bytes
        self._theirs = None  # runs everything
        self._spare = None  # runs what has no plan
        self._events: list = []
        self._began = time.perf_counter_ns()
        self._lock = threading.Lock()
        _report.count("sessions")
        wish = _context.wish_of(self._sess_options._entries, path_or_bytes)
        self._begin()
        if wish is not None:
            self._write_context(wish)

    def _write_context(self, wish) -> None:
        """Writes the model as a file of one node, as ep.context_enable asks."""
        if self._theirs is not None or self._spare is not None:
            raise EPFail("ep.context_enable: onnxruntime runs the model, and there is no program to write")
        if self._model.context is not None:
            raise InvalidArgument("ep.context_enable: the model was compiled already")
        prepared = self._model.latest()
        if prepared is None:
            is_open = [port for port in self._inputs if not all(isinstance(extent, int) for extent in port.shape)]
            extents = [f"{port.name}{port.shape}" for port in is_open]
            listed = ", ".join(extents) or "inputs whose values the graph depends on"
            raise InvalidArgument(
                f"ep.context_enable: a program is for known extents, and these are open: {listed}; fix them"
                " (SessionOptions.add_free_dimension_override_by_name)"
            )
        _context.write(wish, self._model.ports, prepared)

    def _source(self, source) -> tuple[bytes, pathlib.Path | None]:
        folder = self._sess_options._entries.get(_options.FOLDER_KEY)
        if self._sess_options._entries.get("session.load_model_format", "ONNX") != "ONNX":
            raise NotImplemented("session.load_model_format: only ONNX files are read")
        if isinstance(source, (bytes, bytearray, memoryview)):
            return bytes(source), pathlib.Path(folder) if folder else None
        if not isinstance(source, (str, os.PathLike)):
            raise TypeError(f"Unable to load from type '{type(source)}'")
        path = pathlib.Path(source)
        try:
            return path.read_bytes(), pathlib.Path(folder) if folder else path.parent
        except OSError as error:
            raise NoSuchFile(f"Load model from {path} failed: {error.strerror}") from error

    def _begin(self) -> None:
        """Makes the program if that can be done now, and finds what nobody here computes."""
        if self._options.disable:
            onnxruntime = _onnxruntime()
            if onnxruntime is None:
                raise EPFail("disable is set (STITCH_DISABLE, STITCH_MODE=off), and onnxruntime is not installed")
            self._leave_to(onnxruntime)
            return
        try:
            for port in [*self._inputs, *self._outputs]:
                if not port.type.startswith("tensor(") and port.type:
                    raise NotImplemented(f"'{port.name}' is a {port.type}: only tensors are handled")
            fixed = self._sess_options._extents
            if not self._model.prepare_fixed(fixed):
                self._look_for_boundaries(fixed)
        except PlanMissing as error:
            self._take_spare(error)
        except _NO_PROGRAM as error:
            self._fall_back(error)

    def _look_for_boundaries(self, extents: dict) -> None:
        """Operators without a rule do not depend on extents: with any that will do, they are found before a run."""
        try:
            fragment = self._model.read(extents)
        except NotImplemented as error:
            if "there is no rule" in str(error):
                raise
            return
        except (InvalidArgument, Fail):
            return
        for op, place, reason in fragment.boundaries:
            if _UNKNOWN not in reason:
                raise NotImplemented(f"{op} ({place}): {reason}")

    def _fall_back(self, error: OnnxError) -> None:
        """From now on onnxruntime runs everything: no later run waits for what did not come. Errors: as below."""
        self._theirs = self._their_session(error)
        self._providers = [_THEIRS]

    def _take_spare(self, error: PlanMissing):
        """A session of onnxruntime's for this run and others that have no plan."""
        with self._lock:
            if self._spare is None:
                self._spare = self._their_session(error)
            return self._spare

    def _their_session(self, error: OnnxError):
        """Errors: EPFail (it is forbidden); `error` where nobody asked for onnxruntime, or where it could not run what was
        compiled for us."""
        asked = _THEIRS in self._providers and self._model.context is None
        if asked and self._sess_options._entries.get("session.disable_cpu_ep_fallback") == "1":
            raise EPFail(f"session.disable_cpu_ep_fallback is set, and {error}") from error
        onnxruntime = _onnxruntime() if asked else None
        if onnxruntime is None:
            if asked:
                raise type(error)(f"{error}; onnxruntime, which is to run it instead, is not installed") from error
            raise error
        theirs = self._session_of(onnxruntime)
        _report.fell_back(self._model.ports["graph"], str(error))
        return theirs

    def _leave_to(self, onnxruntime) -> None:
        self._theirs = self._session_of(onnxruntime)
        self._providers = [_THEIRS]

    def _session_of(self, onnxruntime):
        """A session of onnxruntime's with what this one was given, contents of initializers, too. Errors: InvalidArgument
        (contents of another type or shape)."""
        source = self._path_or_bytes
        options = self._sess_options.for_onnxruntime(onnxruntime)
        changed, external = _initializers.split(self._model.data, self._sess_options._initializers)
        if external:
            values = [_initializers.ort_value(onnxruntime, array) for array in external.values()]
            options.add_external_initializers(list(external), values)
        if changed is not None:
            if self._model.folder is not None:  # of other files that the model names, which came with its path before
                options.add_session_config_entry(_options.FOLDER_KEY, str(self._model.folder))
            source = changed
        return onnxruntime.InferenceSession(
            os.fspath(source) if isinstance(source, os.PathLike) else source, options, providers=[_THEIRS]
        )

    # ---- what the model is

    def get_inputs(self) -> list[NodeArg]:
        """Those that have to be fed."""
        return list(self._inputs)

    def get_outputs(self) -> list[NodeArg]:
        return list(self._outputs)

    def get_overridable_initializers(self) -> list[NodeArg]:
        """None: a graph may hold for the contents that its initializers have."""
        return []

    def get_modelmeta(self) -> ModelMetadata:
        ports = self._model.ports
        return ModelMetadata(
            ports["producer"],
            ports["graph"],
            ports["domain"],
            ports["description"],
            ports["graph_description"],
            ports["version"],
            ports["metadata"],
        )

    def get_providers(self) -> list[str]:
        return list(self._providers)

    def get_provider_options(self) -> dict:
        return {name: dict(self._provider_options.get(name, {})) for name in self._providers}

    def get_session_options(self) -> SessionOptions:
        return self._sess_options

    def disable_fallback(self) -> None:
        """Nothing to do: what a session falls back to is decided when it begins."""

    def enable_fallback(self) -> None:
        """Nothing to do, likewise."""

    # ---- runs

    def run(self, output_names, input_feed, run_options=None) -> list:
        """The outputs of these names (None or none: all) for the feeds, as NumPy arrays.

        `input_feed`: arrays, or OrtValues, by name. Errors: ValueError (an input without a feed), InvalidArgument (a
        name, shape or type that the model has not), NotImplemented, PlanMissing (no plan is stored, and none may be
        made), RuntimeException (a kernel faulted).
        """
        _check_run(run_options)
        feeds = self._checked(input_feed)
        wanted = [output.name for output in self._outputs]
        for name in output_names or []:
            if name not in wanted:
                raise InvalidArgument(f"Invalid output name:{name}{nearest(name, wanted)}")
        began = time.perf_counter_ns()
        results = self._results(feeds)
        if self._sess_options.enable_profiling:
            self._record("model_run", began)
        return [results[wanted.index(name)] for name in output_names] if output_names else results

    def _results(self, feeds: dict) -> list:
        if self._theirs is None:
            try:
                prepared = self._model.prepared(feeds)
            except PlanMissing as error:
                return self._take_spare(error).run(None, {name: on_host(array) for name, array in feeds.items()})
            except _NO_PROGRAM as error:
                with self._lock:
                    if self._theirs is None:
                        self._fall_back(error)
            else:
                _report.count("runs")
                return prepared.run(feeds, self._stream)
        _report.count("onnxruntime_runs")
        return self._theirs.run(None, {name: on_host(array) for name, array in feeds.items()})

    def _checked(self, input_feed) -> dict:
        names = [port.name for port in self._inputs]
        missing = [name for name in names if name not in input_feed.keys()]
        if missing:
            raise ValueError(f"Required inputs ({missing}) are missing from input feed ({list(input_feed.keys())}).")
        for name in input_feed.keys():
            if name not in names:
                raise InvalidArgument(f"Invalid input name: {name}{nearest(name, names)}")
        feeds = {}
        for port, (name, _, _, shape) in zip(self._inputs, self._model.ports["inputs"], strict=True):
            feeds[name] = _array_of(port, input_feed[name])
            if shape is not None:
                _check_shape(name, feeds[name].shape, shape)
        return feeds

    def run_with_ort_values(self, output_names, input_dict_ort_values, run_options=None) -> list[OrtValue]:
        return [OrtValue(result) for result in self.run(output_names, input_dict_ort_values, run_options)]

    def io_binding(self) -> IOBinding:
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options=None) -> None:
        iobinding._run(run_options)

    def _run_on_device(self, binding: IOBinding, run_options) -> bool:
        """Runs what is bound where a GPU has it; False, and nothing done, where the model runs on the host's memory."""
        _check_run(run_options)
        if self._theirs is not None or self._model.device != "cuda":
            return False
        feeds = self._checked(binding._inputs)
        try:
            prepared = self._model.prepared(feeds)
        except NotImplemented:  # which `run` looks after
            return False
        if prepared.device_id is None:
            return False
        ports = {node.name: port for node, port in zip(self._outputs, prepared.program.outputs, strict=True)}
        for name in binding._outputs:
            if name not in ports:
                raise InvalidArgument(f"Invalid output name:{name}{nearest(name, ports)}")
        began = time.perf_counter_ns()
        copies = []  # of results that are wanted on the host
        results = {}
        for name, port in ports.items():
            bound = binding._outputs.get(name)
            if isinstance(bound, int):
                bound = binding._device_result(name, port, bound)
            if isinstance(bound, OrtValue):
                check_fit(name, bound, _types.text_of(port.dtype), port.shape)
            if isinstance(bound, OrtValue) and isinstance(bound._array, DeviceTensor):
                results[name] = bound
            else:
                results[name] = binding._device_result(name, port, prepared.device_id)
                if name in binding._outputs:
                    copies.append((name, bound))
        feeds = {name: prepared.on_device(array) for name, array in feeds.items()}
        prepared.launch(feeds, [results[name]._array for name in ports], self._stream)
        waits = run_options is None or run_options._entries.get("disable_synchronize_execution_providers", "0") != "1"
        if waits or copies:
            prepared.synchronize(self._stream)
        for name, bound in copies:
            array = results[name].numpy()
            if bound is not None:
                bound.update_inplace(array)
            results[name] = bound if bound is not None else OrtValue(array)
        binding._results = [results[name] for name in binding._outputs]
        if self._sess_options.enable_profiling:
            self._record("model_run", began)
        return True

    def _synchronize(self) -> None:
        """Waits for the stream that runs are enqueued on."""
        prepared = self._model.latest()
        if prepared is not None and prepared.device_id is not None:
            prepared.synchronize(self._stream)

    def info(self) -> dict | None:
        """What the program used last is (`stitch.Program.info`); None before the first, or where onnxruntime runs."""
        prepared = self._model.latest()
        return None if prepared is None or self._theirs is not None else prepared.program.info

    def write_lock(self, path: str | os.PathLike[str]) -> int:
        """Writes which plans, and which code, the session's programs have: how many programs. Text for version control
        without times; what the option `lock` takes, as it takes what `stitch lock` wrote of the model."""
        return _locks.write(path, self._model.locks())

    def _record(self, name: str, began: int) -> None:
        with self._lock:
            self._events.append(
                {
                    "cat": "Session",
                    "pid": os.getpid(),
                    "tid": threading.get_native_id(),
                    "ph": "X",
                    "name": name,
                    "ts": (began - self._began) // 1000,
                    "dur": (time.perf_counter_ns() - began) // 1000,
                    "args": {},
                }
            )

    def end_profiling(self) -> str:
        """Writes the runs since the session began as a trace of Chrome's (host time, that of the emulated device
        included: no time of a GPU) and returns the file's name; "" where profiling is not enabled."""
        if not self._sess_options.enable_profiling:
            return ""
        path = f"{self._sess_options.profile_file_prefix}_{time.strftime('%Y-%m-%d_%H-%M-%S')}.json"
        with self._lock:
            pathlib.Path(path).write_text(json.dumps(self._events))
            self._events = []
        return path


def _node(port: tuple) -> NodeArg:
    name, kind, element, shape = port
    return NodeArg(name, _types.type_text(kind, element), list(shape or []))


def _providers(providers, options) -> tuple[list[str], dict]:
    """Names and their options. A provider that is not there is left out with a warning, as onnxruntime does."""
    if providers is None:
        providers = [_OURS]
    if options is not None and len(options) != len(providers):
        raise ValueError("'providers' and 'provider_options' should be the same length if both are given.")
    names, chosen = [], {}
    for i, entry in enumerate(providers):
        name, given = (entry, {}) if isinstance(entry, str) else entry
        given = dict(given, **(options[i] if options else {}))
        if name not in (_OURS, _THEIRS):
            warnings.warn(
                f"Specified provider '{name}' is not in available provider names. Available providers:"
                f" '{', '.join(get_available_providers())}'{nearest(name, (_OURS, _THEIRS))}",
                stacklevel=3,
            )
            continue
        names.append(name)
        chosen[name] = given
    if _OURS not in names:
        names.insert(0, _OURS)
    return names, chosen


def _check_run(run_options) -> None:
    if run_options is not None:
        if not isinstance(run_options, RunOptions):
            raise TypeError(f"run_options is a stitch.onnx.RunOptions, not {type(run_options).__name__}")
        if run_options.terminate:
            raise Fail("Exiting due to terminate flag being set to true.")


def _array_of(port: NodeArg, value) -> numpy.ndarray | DeviceTensor:
    if isinstance(value, OrtValue):
        value = value._array
    if not isinstance(value, (numpy.ndarray, DeviceTensor)):
        element = port.type[len("tensor(") : -1]
        ours = {theirs: ours for theirs, ours in _types._TYPES.values()}.get(element)
        if hasattr(value, "__dlpack__"):
            value = numpy.from_dlpack(value)
        else:
            value = numpy.asarray(value, _types.numpy_of(ours) if ours else None)
    actual = _types.text_of_array(value)
    if port.type and actual != port.type:
        raise InvalidArgument(f"Unexpected input data type. Actual: ({actual}) , expected: ({port.type})")
    return value


def _check_shape(name: str, found: tuple, declared: list) -> None:
    if len(found) != len(declared):
        raise InvalidArgument(
            f"Invalid rank for input: {name} Got: {len(found)} Expected: {len(declared)} Please fix either the"
            " inputs/outputs or the model."
        )
    wrong = [
        (i, found[i], extent) for i, extent in enumerate(declared) if isinstance(extent, int) and found[i] != extent
    ]
    if wrong:
        listed = "".join(f"\n index: {i} Got: {got} Expected: {extent}" for i, got, extent in wrong)
        raise InvalidArgument(
            f"Got invalid dimensions for input: {name} for the following indices{listed}\n Please fix either the"
            " inputs/outputs or the model."
        )
