"""Plans that outlive the process: in torch.compiler's caches, and in what torch.compile(…).aot_compile saves.

An artifact is a plan as a program of one step with its code inside (`stitch.Plan.to_bytes`), or a program of several
where products are ours, behind a line of JSON that says what it is. Nothing is pickled of it, and what was tampered with
is not opened. It is found by what the plan is for: operators with extents and types, constraints, and the kind of the
device, whatever its number.
"""

import dataclasses
import hashlib
import json
import os
import pickle
import threading

import torch
from torch._dynamo.aot_compile_types import GraphModuleSerializableCallable, SerializableCallable
from torch.compiler._cache import CacheArtifact, CacheArtifactFactory, CacheArtifactManager

from .. import _native, errors
from . import _locks, _report

KIND = "stitch"

_loaded: dict = {}
_lock = threading.Lock()


@CacheArtifactFactory.register
class PlanArtifact(CacheArtifact):
    """A plan in torch.compiler.save_cache_artifacts and load_cache_artifacts; `stitch.torch` must be imported before
    either."""

    def populate_cache(self) -> None:
        _loaded[self.key] = self.content

    @staticmethod
    def type() -> str:
        return KIND


# What is said of a plan beside its code.
_SAID = {
    "id": str, "fragment": str, "label": str, "launches": int, "bytes": int, "predicted_us": float,
    "workspace_bytes": int,
}  # fmt: skip


def key_of(document: str, target: str, constraints: str) -> str:
    return hashlib.sha256(json.dumps([document, target, constraints]).encode()).hexdigest()


def content_of(plan) -> bytes:
    """What is saved of a plan. Errors: where its code cannot be had."""
    named = {name: plan.info[name] for name in _SAID}
    return json.dumps(named).encode() + b"\n" + plan.to_program()


def _said_of(program) -> dict:
    """The same of a program of several steps, summed over the plans of its fragments."""
    info = program.info
    said = {name: info[name] for name in ("id", "launches", "bytes", "predicted_us")}
    said |= {"fragment": info["id"], "label": ",".join(sorted(info["labels"])) or "library"}
    return said | {"workspace_bytes": info["workspace_bytes"] + info["arena_bytes"]}


class SavedPlan:
    """A plan that was saved: it runs without server and compiler, and no better one takes its place."""

    def __init__(self, content: bytes, device: str, ordinal: int):
        self.content = content
        head, _, document = content.partition(b"\n")
        try:
            said = json.loads(head)
            self.info = {name: kind(said[name]) for name, kind in _SAID.items()}
        except (ValueError, TypeError, KeyError) as error:
            raise errors.CorruptError("a saved plan does not say what it is") from error
        self._open(_native.Program(document, device, ordinal))

    @classmethod
    def of_program(cls, document: bytes, device: str, ordinal: int) -> "SavedPlan":
        """A program of several steps, as it is saved."""
        made = cls.__new__(cls)
        program = _native.Program(document, device, ordinal)
        made.info = _said_of(program)
        made.content = json.dumps(made.info).encode() + b"\n" + document
        made._open(program)
        return made

    def _open(self, program) -> None:
        self._program = program
        self.info["in_place"] = program.info["in_place"]
        self.run, self.launch = program.run, program.launch

    def lock(self) -> str:
        """Id and hashes of code, as a lock has them."""
        return _locks.text_of(self._program)


def find(key: str, place: tuple, max_workspace_bytes: int | None) -> SavedPlan | None:
    """The plan that was loaded under a key; None where there is none that runs here, and it is said why."""
    content = _loaded.get(key)
    if content is None:
        return None
    try:
        plan = SavedPlan(content, *place)
    except errors.Error as error:
        _report.refused(str(error))
        _loaded.pop(key, None)  # which another thread may have done
        return None
    needs = plan.info["workspace_bytes"]
    return plan if max_workspace_bytes is None or needs <= max_workspace_bytes else None


def take(plans: dict) -> None:
    """Saved plans, by their keys, that pieces which are compiled from now on find."""
    _loaded.update(plans)


def are_any() -> bool:
    """Whether there are saved plans."""
    return bool(_loaded)


def record(key: str, content: bytes) -> None:
    """Gives a plan to torch.compiler.save_cache_artifacts. Autograd's threads run pieces as well."""
    try:
        with _lock:
            CacheArtifactManager.record_artifact(KIND, key, content)
    except Exception as error:  # no reason for a call of the user's to fail
        _report.log.info("a plan is not saved: %s", error)


def is_ahead() -> bool:
    """Whether torch.compile(…).aot_compile has called the back end, which then wants what can be saved."""
    return getattr(torch._functorch.config, "force_autograd_cache", False)


def as_pytorch_runs_it(graph_module: torch.fx.GraphModule):
    """What the back end returns where PyTorch runs everything."""
    return GraphModuleSerializableCallable(graph_module) if is_ahead() else graph_module


class AheadOfTime(SerializableCallable):
    """A graph that is saved with its plans: Dynamo's graph, the options, and an artifact per plan.

    AOTAutograd's own result cannot be saved unless Inductor makes it, so that whoever loads this has AOTAutograd trace
    the graph again, when it is first called with inputs of these kinds; plans are found among those that were saved.
    """

    def __init__(self, graph_module: torch.fx.GraphModule, settings, compiled=None, slots=(), is_dynamic=False):
        self._graph, self._settings, self._slots, self._is_dynamic = graph_module, settings, list(slots), is_dynamic
        self._first, self._by_kind = compiled, {}

    def __call__(self, *args):
        if self._first is not None:
            return self._first(*args)
        kind = (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), *map(_kind_of, args))
        if kind not in self._by_kind:
            from . import compiled  # which imports this module

            self._by_kind[kind] = compiled(self._graph, list(args), self._settings)
        return self._by_kind[kind](*args)

    @classmethod
    def serialize_compile_artifacts(cls, fn: "AheadOfTime") -> bytes:
        from torch.fx._graph_pickler import GraphPickler, Options

        if fn._is_dynamic:
            what = "a graph with dynamic shapes is not saved: give dynamic=False, and compile each shape"
            raise errors.Unsupported(what)
        plans = {}
        for slot in fn._slots:
            slot.done.wait()
            if slot.content is not None:
                plans[slot.key] = slot.content
        copy = torch.fx.GraphModule(fn._graph, fn._graph.graph.__class__())
        values: dict = {}
        output = copy.graph.graph_copy(fn._graph.graph, values)
        copy.graph.output(output)
        for node in copy.graph.nodes:
            node.meta = {}
        copy.recompile()
        graph = GraphPickler.dumps(copy, Options(ops_filter=None))
        return pickle.dumps({"graph": graph, "settings": dataclasses.asdict(fn._settings), "plans": plans})

    @classmethod
    def deserialize_compile_artifacts(cls, data: bytes) -> "AheadOfTime":
        from torch._subclasses import FakeTensorMode
        from torch.fx._graph_pickler import GraphPickler
        from torch.fx.experimental.symbolic_shapes import ShapeEnv

        from ._options import Settings

        state = pickle.loads(data)  # PyTorch's file is pickled as a whole
        take(state["plans"])
        if lock := state["settings"]["lock"]:
            state["settings"]["lock"] = _locks.Lock(**lock)
        graph = GraphPickler.loads(state["graph"], FakeTensorMode(shape_env=ShapeEnv()))
        graph.recompile()
        return cls(graph, Settings(**state["settings"]))


def _in_child() -> None:
    global _lock
    _lock = threading.Lock()  # a thread that is not there may hold the parent's


os.register_at_fork(after_in_child=_in_child)


def _kind_of(argument):
    """What AOTAutograd compiles an argument for."""
    if not isinstance(argument, torch.Tensor):
        return argument
    strides = argument.stride() if argument.layout == torch.strided else argument.layout
    return argument.shape, strides, argument.dtype, argument.device, argument.requires_grad
