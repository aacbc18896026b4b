"""The back end of torch.compile.

    import torch, stitch.torch
    step = torch.compile(model, backend="stitch", options={"device": "emulated"})
    step(x).sum().backward()
    stitch.torch.wait()          # until plans are there PyTorch runs; then our kernels do
    print(stitch.torch.report())

Memory-intensive operators run in Stitch's kernels; matrix products, convolutions and attention stay PyTorch's calls
(option `products` makes them ours), and so does all that is not supported, which is said once per reason.
docs/pytorch.md has the whole.
"""

import functools
import json
import time

import torch

from . import _release  # noqa: I001: before what older releases have not
from functorch.compile import min_cut_rematerialization_partition
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.callback import callback_handler
from torch._dynamo.symbolic_convert import InstructionTranslator
from torch._functorch.aot_autograd import make_boxed_func
from torch._logging import trace_structured
from torch.utils.checkpoint import CheckpointPolicy

from .. import _trace, errors

from . import (
    _artifacts, _decompositions, _document, _files, _fused, _inductor, _partition, _random, _report, _runtime, _updates,
)  # fmt: skip
from ._files import load, save
from ._options import Settings, list_mode_options, list_options, settings_of
from ._runtime import fingerprint, wait, write_lock

__all__ = [
    "backend", "fingerprint", "list_mode_options", "list_options", "load", "report", "reset", "save", "wait", "write_lock",
]  # fmt: skip


def report() -> dict:
    """What was compiled and run since the process began, or since `reset`.

    `operators` (without views) are `operators_library` (products, convolutions, attention; `products_ours` of them in
    programs of ours), `operators_ours` and what `fell_back` lists by operator and reason; `share` is ours of the latter
    two. `kernel_calls` and `eager_calls` count
    pieces that ran in our kernels and in PyTorch, `inductor_calls` pieces and parts that are not ours as Inductor
    compiled them, `launches` and `bytes` what the former launched and moved, `updated_bytes` what was copied back to
    inputs besides; `plans` those that are there, on their way, missing; `refused` saved plans that could not be used, by
    reason; `seconds` what compilation took by phase ("split" is in "capture (AOTAutograd)"; "import" and "fetch" are
    other threads', added up).
    """
    return {**_report.snapshot(), "plans": _runtime.counts()}


def reset() -> None:
    """Begins the report's counts anew; plans stay."""
    _report.reset()


def _options_of(compiler) -> dict | None:
    """What torch.compile was given for our back end; None where `compiler` is another's."""
    for _ in range(8):  # wrappers of Dynamo's around it
        if compiler is backend:
            return {}
        if getattr(compiler, "compiler_fn", None) is backend:
            return compiler.kwargs
        compiler = getattr(compiler, "_torchdynamo_orig_backend", None)
    return None


@torch._dynamo.assume_constant_result
def _traces_fused_step(device: str, known: bool) -> bool:
    """Asked by what Dynamo traces, once: whether it does that for us, and for tensors that have our kernels."""
    given = _options_of(InstructionTranslator.current_tx().output.compiler_fn)
    if given is None:
        return False
    settings = settings_of(given.get("mode"), given.get("options"))
    if settings.disable or device not in ("cpu", "cuda"):
        return False
    if settings.device == "auto" and device == "cpu":
        _say_that_nobody_asked()
        return False
    if not known:
        _report.failed("optimizer", "an optimizer with fused=True whose betas are tensors is not traced")
    return known


_fused.install(_traces_fused_step)


def _say_that_nobody_asked() -> None:
    _report.failed("device", 'CPU tensors have kernels only on the emulated device (options={"device": "emulated"})')


_capturing: list = []
"""When Dynamo began the compilation that is under way."""


def _note_beginning(_) -> None:
    _capturing[:] = [_trace.now()]


def _note_capture() -> None:
    """In the trace, what Dynamo took until it called the back end."""
    if _capturing:
        _trace.since("capture (Dynamo)", _capturing.pop())


def _follow_dynamo() -> None:
    """Looks after every compilation of Dynamo's; torch._dynamo.reset() forgets who wanted to."""
    if _note_beginning not in callback_handler.start_callbacks:
        callback_handler.register_start_callback(_note_beginning)


_follow_dynamo()


def _refuse(reasons: dict) -> None:
    listed = "; ".join(f"{op}: {reason}" for op, reason in sorted(reasons.items()))
    raise errors.Unsupported(f'fallback="error", and PyTorch would have to run {listed}')


def _device_of(tensors) -> torch.device | None:
    """The device that a graph with these tensors has our kernels on: a GPU where any of them is on one (the first of
    several; what is on the others stays PyTorch's), else the host if any is there."""
    devices = [value.device for value in tensors if isinstance(value, torch.Tensor)]
    for kind in ("cuda", "cpu"):
        for device in devices:
            if device.type == kind:
                return device
    return None


def _device_of_graph(graph: torch.fx.Graph, settings: Settings) -> tuple:
    """And whether what is on it is ours."""
    device = _device_of(value for node in graph.nodes for value in _document.values_of(node))
    return device, device is not None and (device.type == "cuda" or settings.device != "auto")


def _draw(graph: torch.fx.Graph, device: torch.device, settings: Settings) -> None:
    """Random numbers by kernels of ours, unless eager's are wanted, or there will be no kernels for a while."""
    nodes = _random.drawn_in(graph, device) if settings.random == "stitch" else []
    if nodes and (_artifacts.are_any() or _runtime.answers(settings.server, settings.deadline_ms / 1000)):
        _random.take_over(graph, nodes)


def _look_for_server(graph: torch.fx.Graph, settings: Settings) -> None:
    """Before a graph of Dynamo's is traced further, which takes as long as a server to start: `_draw` is to know whether
    there is one."""
    if settings.random == "stitch" and _random.may_be_in(graph) and not _artifacts.are_any():
        _runtime.look_for(settings.server)


def _compile(graph_module: torch.fx.GraphModule, settings: Settings):
    """One graph of AOTAutograd's, forward or backward, with pieces of ours in it. Called as AOTAutograd calls graphs."""
    _report.count("graphs")
    device, ours = _device_of_graph(graph_module.graph, settings)
    if not ours:
        return _without_ours(graph_module, settings, device)
    _draw(graph_module.graph, device, settings)
    _updates.write_parts(graph_module.graph)
    updates = _updates.take_out(graph_module.graph)
    modules, reasons = _partition.split(graph_module, device, settings.products != "torch")
    if reasons and settings.fallback == "error":
        _refuse(reasons)
    compiles = settings.fallback == "inductor"
    if compiles:
        _partition.give_extents(graph_module, modules)
    in_place = _updates.in_place(graph_module.graph, updates, keeps_order=not compiles)
    pieces = []
    for name, module in modules.items():
        pieces.append(_runtime.Piece(module, settings, device, in_place.get(name, ())))
        setattr(graph_module, name, pieces[-1])
    if settings.lock is not None and settings.fallback == "error":
        for piece in pieces:
            piece.check_lock()
    end = time.monotonic() + settings.deadline_ms / 1000
    for piece in pieces:
        piece.ready(max(0.0, end - time.monotonic()))
    if compiles and pieces:
        for piece in pieces:
            piece.compile_what_is_dynamic()
        _compile_rest(graph_module, device)
    _updates.put_back(graph_module.graph, updates, together=bool(pieces))
    _runtime.record()
    _write_artifacts(pieces, reasons)
    return _inductor.boxed(graph_module) if pieces else _without_ours(graph_module, settings, device)


def _stays_a_call(node) -> bool:
    """Whether there is nothing to compile in a node."""
    return not _partition.is_operator(node) or _partition.is_library(node)


def _without_ours(graph_module: torch.fx.GraphModule, settings: Settings, device: torch.device | None):
    """A graph that has nothing of ours."""
    run = _inductor.boxed(graph_module)
    nodes = graph_module.graph.nodes
    if settings.fallback != "inductor" or all(map(_stays_a_call, nodes)) or any(map(_partition.is_write, nodes)):
        return run
    whole = _inductor.Compiled(graph_module, run, device)
    whole.compile_now()
    return whole


def _compile_rest(graph_module: torch.fx.GraphModule, device: torch.device) -> None:
    """What is neither ours nor a library's, with Inductor."""
    modules = _partition.rest_of(graph_module, _inductor.Support())
    _partition.give_extents(graph_module, modules)
    for node in list(graph_module.graph.nodes):
        if node.op != "call_module" or node.target not in modules:
            continue
        operators = modules[node.target]
        compiled = _inductor.Compiled(operators, _inductor.boxed(operators), device)
        compiled.compile_now()
        setattr(graph_module, node.target, compiled)
        # As one list, of which the callee is then the only holder.
        with graph_module.graph.inserting_before(node):
            node.args = (graph_module.graph.call_function(_inductor.box, tuple(node.args)),)


def _write_artifacts(pieces: list, reasons: dict) -> None:
    """For who reads PyTorch's traces (tlparse) and logs (TORCH_LOGS="stitch.torch"): what became of a graph, and the
    process's report as it is then."""
    plans = [piece.describe() for piece in pieces]
    _report.log.info("pieces of ours in a graph: %s", plans)
    told = {"stitch_plans": lambda: {"plans": plans, "left_to_pytorch": reasons}, "stitch_report": report}
    for name, contents in told.items():
        trace_structured(
            "artifact",
            metadata_fn=lambda name=name: {"name": name, "encoding": "json"},
            payload_fn=lambda contents=contents: json.dumps(contents(), default=str),
        )


def _compiler(settings: Settings):
    def compile_graph(graph_module, example_inputs):
        try:
            # AOTAutograd goes on using the graph that it gave us.
            own = torch.fx.GraphModule(graph_module, _copied(graph_module.graph))
            with _trace.phase("split", nodes=len(own.graph.nodes)):
                return _compile(own, settings)
        except Exception as error:
            if settings.fallback == "error":
                raise
            _report.failed(f"compile: {type(error).__name__}", f"a graph could not be split ({error})")
            return make_boxed_func(graph_module)

    return compile_graph


def _copied(graph: torch.fx.Graph) -> torch.fx.Graph:
    copy = torch.fx.Graph()
    values: dict = {}
    output = copy.graph_copy(graph, values)
    copy.output(output)
    return copy


def _partition_of_both(joint, inputs, *, settings: Settings, **options):
    """Forward and backward of a joint graph, by PyTorch's cut. That knows only of some random numbers that they must not
    be drawn twice, and where it is to save memory (activation_memory_budget) would draw dropout's masks anew."""
    device, ours = _device_of_graph(joint.graph, settings)
    if ours:
        _draw(joint.graph, device, settings)
    for node in joint.graph.nodes:
        if _partition.is_random(node):
            node.meta.setdefault("recompute", CheckpointPolicy.MUST_SAVE)
    return min_cut_rematerialization_partition(joint, inputs, **options)


def compiled(graph_module, example_inputs, settings: Settings):
    """A graph of Dynamo's with pieces of ours in it, or as it was where that cannot be made, and it was said why."""
    compile_graph = _compiler(settings)
    try:
        return aot_autograd(
            fw_compiler=compile_graph,
            bw_compiler=compile_graph,
            inference_compiler=compile_graph,
            decompositions=_decompositions.table(),
            partition_fn=functools.partial(_partition_of_both, settings=settings),
            keep_inference_input_mutations=True,
        )(graph_module, example_inputs)
    except torch._dynamo.exc.TorchDynamoException:
        raise  # by which Dynamo tells itself to trace anew
    except Exception as error:
        if settings.fallback == "error":
            raise
        first_line = next(iter(str(error).strip().splitlines()), "")  # the rest is where in PyTorch, and on which machine
        _report.failed(f"trace: {type(error).__name__}", f"a graph could not be traced to core ATen ({first_line})")
        return graph_module


def _compiled_ahead(graph_module, example_inputs, settings: Settings) -> _artifacts.AheadOfTime:
    """The same for aot_compile. AOTAutograd's cache, which would save what Inductor made, is out of it."""
    own = torch.fx.GraphModule(graph_module, _copied(graph_module.graph))
    without = {"strict_autograd_cache": False, "force_autograd_cache": False, "bundled_autograd_cache": False}
    _runtime.made = slots = []
    try:
        with torch._functorch.config.patch(**without, enable_autograd_cache=False):
            run = compiled(graph_module, example_inputs, settings)
    finally:
        _runtime.made = None
    is_dynamic = any(isinstance(value, torch.SymInt) for value in example_inputs)
    return _artifacts.AheadOfTime(own, settings, run, slots, is_dynamic)


def backend(graph_module, example_inputs, *, mode=None, options=None):
    """torch.compile's back end `stitch` (entry point group torch_dynamo_backends).

    `options`: see `list_options`; an unknown one is a ValueError that names the nearest. `mode`: PyTorch's words, which
    stand for options (`list_mode_options`).
    """
    _note_capture()
    settings = settings_of(mode, options)
    _follow_dynamo()
    if settings.disable:
        return _artifacts.as_pytorch_runs_it(graph_module)
    device = _device_of([*example_inputs, *graph_module.parameters(), *graph_module.buffers()])
    if settings.device == "auto" and (device is None or device.type != "cuda"):
        _say_that_nobody_asked()
        if settings.fallback != "inductor":
            return _artifacts.as_pytorch_runs_it(graph_module)
    _look_for_server(graph_module.graph, settings)
    with _trace.phase("capture (AOTAutograd)", nodes=len(graph_module.graph.nodes)):
        if _artifacts.is_ahead():
            return _compiled_ahead(graph_module, example_inputs, settings)
        return compiled(graph_module, example_inputs, settings)
