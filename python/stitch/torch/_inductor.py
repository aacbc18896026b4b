"""What is not ours, and pieces that have no plan, as Inductor compiles them (fallback="inductor").

Inductor gets parts of AOTAutograd's graphs, and whole graphs where nothing in them is ours. It is no more than an offer:
where it fails, the operators run eagerly.
"""

import os
from collections.abc import Callable

import torch
from torch._dynamo.convert_frame import compile_lock
from torch._guards import TracingContext, detect_fake_mode, tracing
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.fx.graph import _BoxedCodeGen
from torch.fx.passes.operator_support import OperatorSupportBase

from . import _document, _memory, _partition, _report, _shapes

# Random numbers are eager's, drawn in its order; strides are what AOTAutograd traced; nobody but the user makes CUDA graphs.
_CONFIG = {"fallback_random": True, "strict_output_strides": True, "triton.cudagraphs": False}


def _config() -> dict:
    """Of that what this release of PyTorch has: 2.11 cannot be asked for strides of views."""
    from torch._inductor import config

    return {name: value for name, value in _CONFIG.items() if name != "strict_output_strides" or hasattr(config, name)}


_used = False
_forked = False


def _in_child() -> None:
    global _forked
    _forked = _used  # neither OpenMP's threads nor those that compile are there, and both are waited for


os.register_at_fork(after_in_child=_in_child)


class Support(OperatorSupportBase):
    """Operators that Inductor may have beside pieces of ours. Products, convolutions and attention stay the library's
    calls, and random numbers are drawn in the program's order."""

    def is_node_supported(self, submodules, node) -> bool:
        if _partition.is_item(node):
            of = node.args[0]
            return of.op == "call_function" and self.is_node_supported(submodules, of)
        if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
            return False
        if _partition.is_library(node) or node.target._schema.is_mutable or _partition.is_random(node):
            return False
        results = _document.values_of(node)
        read = [value for argument in node.all_input_nodes for value in _document.values_of(argument)]
        return all(isinstance(value, torch.Tensor) for value in results) and all(map(_is_known, results + read))


def _is_known(value) -> bool:
    """Whether all of a value that is no element is known before it is computed."""
    return isinstance(value, (torch.Tensor, torch.SymInt, int)) and not free_unbacked_symbols(value)


def boxed(graph_module: torch.fx.GraphModule) -> Callable:
    """A graph as AOTAutograd calls it, with one list that the graph's code empties: the graph alone is left to hold what
    it was given, and frees it after its last use."""
    graph_module.graph.set_codegen(_BoxedCodeGen())
    graph_module.recompile()

    def run(arguments: list):
        return graph_module(arguments)

    run._boxed_call = True
    return run


def box(*values) -> list:
    return list(values)


class Compiled(torch.nn.Module):
    """Operators as Inductor compiles them; eagerly where it does not, which is said once.

    Called as AOTAutograd calls graphs, with a list that it empties. `eager`: the operators, called likewise.
    """

    _boxed_call = True

    def __init__(self, operators: torch.fx.GraphModule, eager: Callable, device: torch.device | None):
        super().__init__()
        self._eager, self._device = eager, device
        self._operators = [operators]  # in a list: no child, whose parameters PyTorch would look for
        self._run, self._gave_up, self._ran = None, False, False
        nodes = list(operators.graph.nodes)
        self._values = [node.meta.get("val") for node in nodes if node.op == "placeholder"]
        self.is_dynamic = bool(_shapes.symbols_of([node.meta.get("val") for node in nodes if node.op != "output"]))
        output = nodes[-1].args[0]
        self._single = not isinstance(output, (list, tuple))
        # What was read cannot be read again once it was written to.
        self._again = not any(node.op == "call_function" and _writes(node) for node in nodes)
        results = [output] if self._single else output
        self._traced = [_known_of(of) for of in results]

    def compile_now(self) -> None:
        """Where extents are symbols, at compilation: what Inductor takes for granted of them becomes a guard there."""
        global _used
        with compile_lock:  # one at a time, also of what others compile
            if self._run is not None or self._gave_up:
                return
            _used = True
            try:
                self._run = _compiled(self._operators[0], self._values)
            except Exception as error:
                self._give_up("does not compile", error)
            self._values = None

    def forward(self, arguments: list):
        if _memory.is_not_all() or _memory.is_absent(arguments):
            return self._eager(arguments)
        if _forked:
            _report.failed("inductor: fork", "Inductor, which the parent process has used, is not used after a fork")
            return self._eager(arguments)
        if self._run is None or not self._ran:
            if self._device is not None and self._device.type == "cuda" and self._captures():
                return self._eager(arguments)  # neither compiles nor loads anything
            if self._run is None and not self._gave_up and not self.is_dynamic:
                self.compile_now()
        if self._run is None:
            return self._eager(arguments)
        kept = list(arguments) if self._again and (self.is_dynamic or not self._ran) else None
        try:
            results = [_as_traced(*pair) for pair in zip(self._run(arguments), self._traced, strict=True)]
        except torch.OutOfMemoryError:
            raise  # which programs know how to take
        except Exception as error:
            if kept is None:
                raise
            self._run = None
            self._give_up("does not run", error)
            return self._eager(kept)
        self._ran = True
        _report.count("inductor_calls")
        return results[0] if self._single else tuple(results)

    def _captures(self) -> bool:
        from . import _runtime  # which imports this module

        return _runtime.cuda.is_capturing(self._device)

    def _give_up(self, what: str, error: Exception) -> None:
        self._gave_up = True
        first_line = next(iter(str(error).strip().splitlines()), "")
        nodes = self._operators[0].graph.nodes
        names = list(dict.fromkeys(str(n.target) for n in nodes if n.op == "call_function" and not _partition.is_view(n)))
        what = f"Inductor {what} {_report.some_of(names)} ({type(error).__name__}: {first_line})"
        _report.failed(f"inductor: {type(error).__name__}", what)


def _writes(node) -> bool:
    """Whether an operator may write to what it is given."""
    if isinstance(node.target, torch._ops.OpOverload):
        return node.target._schema.is_mutable
    return node.target is torch.ops.higher_order.triton_kernel_wrapper_mutation


def _known_of(result) -> tuple | None:
    """Type, shape and strides that a result was traced with; None where there are none, or only the call tells."""
    traced = result.meta.get("val") if isinstance(result, torch.fx.Node) else None
    known = isinstance(traced, torch.Tensor) and not _shapes.symbols_of(traced)
    return (traced.dtype, tuple(traced.shape), tuple(traced.stride())) if known else None


def _as_traced(result, traced: tuple | None):
    """A result with the strides that AOTAutograd counts on. Errors: it is another one than was traced."""
    if traced is None:
        return result
    dtype, shape, strides = traced
    if not isinstance(result, torch.Tensor) or result.dtype != dtype or result.shape != shape:
        found = f"{result.dtype}{list(result.shape)}" if isinstance(result, torch.Tensor) else type(result).__name__
        raise TypeError(f"{dtype}{list(shape)} was traced, and {found} is the result")
    if result.stride() == strides:
        return result
    if all(size == 1 or a == b for size, a, b in zip(result.shape, result.stride(), strides, strict=True)):
        return result
    copy = torch.empty_strided(result.shape, strides, dtype=result.dtype, device=result.device)
    return copy.copy_(result)


def _compiled(operators: torch.fx.GraphModule, values: list) -> Callable:
    """Inductor's code for a graph with inputs as they were traced; called with a list that it empties."""
    if operators.graph.find_nodes(op="call_function", target=torch.ops.higher_order.with_effects):
        raise NotImplementedError("operators with effects, whose order tokens keep that Inductor does not hand on")
    from torch._inductor import config
    from torch._inductor.compile_fx import compile_fx_inner, select_decomp_table
    from torch._inductor.utils import BoxedBool

    mode = detect_fake_mode(values) or torch._subclasses.FakeTensorMode()
    # A context of its own: what Inductor reports to the compilation that is under way is about whole graphs.
    with (
        torch._C.DisableTorchFunction(),
        torch._C._DisableAutocast(),
        torch.inference_mode(False),
        torch.no_grad(),
        tracing(TracingContext(mode)),
        config.patch(_config()),
    ):
        graph = _decomposed(operators, values, mode, select_decomp_table())
        return compile_fx_inner(graph, values, cudagraphs=BoxedBool(False))


def _decomposed(operators, values: list, mode, table: dict) -> torch.fx.GraphModule:
    """The graph in the operators that Inductor has rules for, with what it must know of the results."""
    output = next(iter(reversed(operators.graph.nodes)))
    results = output.args[0] if isinstance(output.args[0], (list, tuple)) else [output.args[0]]

    def run(*arguments):
        found = torch.fx.Interpreter(operators).run(*arguments)
        return tuple(found) if isinstance(found, (list, tuple)) else (found,)

    with mode, torch._dispatch.python.enable_python_dispatcher():
        graph = make_fx(run, decomposition_table=table)(*values)
    end = next(iter(reversed(graph.graph.nodes)))
    traced = [of.meta.get("val") if isinstance(of, torch.fx.Node) else None for of in results]
    end.meta["user_visible_output_idxs"] = [i for i, of in enumerate(end.args[0]) if isinstance(of, torch.fx.Node)]
    end.meta["original_output_strides"] = [of.stride() if isinstance(of, torch.Tensor) else None for of in traced]
    return graph
