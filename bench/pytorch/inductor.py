"""What Inductor would launch and move for a model on a GPU, counted without one.

Dynamo, AOTAutograd and Inductor's passes run as ever, on the host; each of their graphs is then scheduled as if its
tensors were on an H100: Inductor lowers and fuses, and is stopped before it writes code. Kernels and their bytes are those
of its scheduler's nodes (the bytes by its own estimate, each buffer that a kernel reads or writes once); products,
convolutions, attention and what else it calls by name are not among them.
"""

import contextlib
import unittest.mock

import torch
from torch._functorch.aot_autograd import make_boxed_func
from torch._guards import TracingContext, detect_fake_mode, tracing
from torch._inductor import scheduler
from torch._inductor.compile_fx import _recursive_post_grad_passes, compile_fx, view_to_reshape
from torch._inductor.debug import DebugContext
from torch._inductor.graph import GraphLowering
from torch._inductor.runtime.hints import DeviceProperties
from torch._inductor.virtualized import V
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

_CUDA = torch.device("cuda", 0)


class _H100:
    name, major, minor, gcnArchName = "NVIDIA H100", 9, 0, ""
    multi_processor_count, warp_size = 132, 32
    regs_per_multiprocessor, max_threads_per_multi_processor, max_threads_per_block = 65536, 2048, 1024
    shared_memory_per_block_optin, shared_memory_per_multiprocessor = 232448, 233472
    L2_cache_size, total_memory = 50 << 20, 80 << 30


@contextlib.contextmanager
def _as_if_there_were_a_gpu():
    """Answers of an H100's where Inductor asks what it compiles for."""
    properties = DeviceProperties(
        type="cuda", index=0, multi_processor_count=_H100.multi_processor_count, cc=90, major=9, warp_size=32,
        regs_per_multiprocessor=_H100.regs_per_multiprocessor,
        max_threads_per_multi_processor=_H100.max_threads_per_multi_processor,
        max_threads_per_block=_H100.max_threads_per_block,
    )  # fmt: skip
    answers = {
        "torch._inductor.scheduler.has_triton": lambda *_, **__: True,
        "torch._inductor.runtime.hints.DeviceProperties.create": lambda *_: properties,
        "torch.cuda.get_device_properties": lambda *_: _H100,
        "torch.cuda.get_device_capability": lambda *_: (9, 0),
        "torch.cuda.current_device": lambda: 0,
        "torch.cuda.device_count": lambda: 1,
    }
    with contextlib.ExitStack() as patches:
        for name, answer in answers.items():
            patches.enter_context(unittest.mock.patch(name, answer))
        yield


def _scheduled(graph_module: torch.fx.GraphModule, is_inference: bool) -> list:
    """The bytes of each kernel of a graph, its tensors taken for a GPU's."""
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(graph_module.graph, values := {}))
    for node in graph.nodes:
        if "device" in node.kwargs:
            node.kwargs = {**node.kwargs, "device": _CUDA}
    given = [node.meta["val"] for node in graph_module.graph.find_nodes(op="placeholder")]
    mode = detect_fake_mode(given) or detect_fake_mode([node.meta.get("val") for node in values])
    with mode:
        inputs = [
            torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=_CUDA)
            if isinstance(value, torch.Tensor)
            else value
            for value in given
        ]
    moved = torch.fx.GraphModule(graph_module, graph)
    FakeTensorProp(moved, mode).propagate_dont_convert_inputs(*inputs)
    with tracing(TracingContext(mode)), V.set_fake_mode(mode), V.set_debug_handler(DebugContext()):
        view_to_reshape(moved)
        _recursive_post_grad_passes(moved, is_inference)
        lowering = GraphLowering(moved, example_inputs=inputs, shape_env=mode.shape_env)
        with V.set_graph_handler(lowering):
            lowering.run(*inputs)
            lowering._update_scheduler()
            nodes = [node for node in lowering.scheduler.nodes if not isinstance(node, scheduler.NopKernelSchedulerNode)]
            kernels = [node for node in nodes if not isinstance(node, scheduler.ExternKernelSchedulerNode)]
            return [node.get_read_write_buffers_sizes() for node in kernels]


class Counts:
    """A back end of torch.compile that runs graphs eagerly, and counts what Inductor would launch for each."""

    def __init__(self):
        self.launches = self.bytes = 0
        self.errors = []

    def __call__(self, graph_module, example_inputs):
        return compile_fx(graph_module, example_inputs, inner_compile=self._count)

    def _count(self, graph_module, example_inputs, *, is_inference=False, **_):
        try:
            with _as_if_there_were_a_gpu():
                sizes = _scheduled(graph_module, is_inference)
            self.launches += len(sizes)
            self.bytes += sum(sizes)
        except Exception as error:
            self.errors.append(f"{type(error).__name__}: {error}".splitlines()[0][:200])
        return make_boxed_func(graph_module)
