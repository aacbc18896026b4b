"""Tensors of a GPU without a PyTorch that has one, for programs that tests run on the emulated driver.

PyTorch's CUDA needs the CUDA runtime library, which the emulated driver does not carry, so that no tensor of it can be
on that GPU. Graphs are traced with fake tensors that are; when they run, tensors of the host take these tensors' place:
they lie in a managed Buffer of cuda.core, whose addresses are the GPU's as well. What PyTorch is asked about streams,
captures and memory (`stitch.torch._runtime.cuda`) is answered by cuda.core and the driver. What PyTorch's own kernels
would do on the stream happens at once, on the host, so that graphs here have none.
"""

import math

import numpy
import torch
from cuda.bindings import driver
from cuda.core import ManagedMemoryResource
from on_a_gpu import check, device, stream
from torch._functorch.aot_autograd import aot_function, make_boxed_func
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import stitch.torch
from stitch.torch import _decompositions, _runtime

cuda = torch.device("cuda", 0)
other_stream = device.create_stream()

_buffer = ManagedMemoryResource().allocate(1 << 24, stream=stream)
stream.sync()
_memory = torch.from_numpy(numpy.from_dlpack(_buffer)).view(torch.uint8)
_used = 0


def empty(shape, *, dtype=torch.float32, device=cuda) -> torch.Tensor:
    """As an allocator that gives nothing back: what a tensor had is nobody else's."""
    global _used
    assert device.type == "cuda"
    count = math.prod(shape)
    size = max(1, count * dtype.itemsize)
    tensor = _memory[_used : _used + size].view(dtype)[:count].view(shape)
    _used += (size + 255) // 256 * 256
    return tensor


def normal(*shape) -> torch.Tensor:
    return empty(shape).normal_()


class Stream:
    """What torch.cuda.Stream is, as far as it is used."""

    made = 0

    def __init__(self, of):
        Stream.made += 1
        self._of, self.cuda_stream = of, int(of.handle)

    def wait_event(self, event) -> None:
        self._of.wait(event)

    def record_event(self):
        return self._of.record()


_current = stream


def use(of) -> None:
    """Makes a stream of cuda.core the current one."""
    global _current
    _current = of


def _is_capturing(_) -> bool:
    status = check(driver.cuStreamIsCapturing(_current.handle))
    return status == driver.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_ACTIVE


_runtime.cuda.empty = empty
_runtime.cuda.current_stream = lambda _: Stream(_current)
_runtime.cuda.current_handle = lambda _: int(_current.handle)
_runtime.cuda.is_capturing = _is_capturing
_runtime.cuda.target = lambda _: "emulated driver"


def fakes(types) -> list:
    return [torch.empty(shape, dtype=dtype, device="cuda") for shape, dtype in types]


def compiled(function, shapes, settings, functional: bool = False):
    """A function of f32 tensors of a GPU, compiled as the back end compiles AOTAutograd's graphs."""
    traced = torch.func.functionalize(function) if functional else function
    return _compiled(traced, [(shape, torch.float32) for shape in shapes], settings)


def _compiled(function, types, settings):
    with FakeTensorMode():
        graph = make_fx(function, decomposition_table=_decompositions.table())(*fakes(types))
    made = stitch.torch._compile(graph, settings)
    assert stitch.torch.report()["failed"] == [], stitch.torch.report()
    return made


def forward_and_backward(function, shapes, differentiable, settings) -> tuple:
    """AOTAutograd's two graphs of a function, compiled: the second one's inputs are what the first one returns behind
    the function's own result, and that result's gradient. `differentiable`: which of the parameters have gradients.
    Autograd wants a GPU where tensors are on one, also of fake ones: both are made on the host, and traced anew."""
    graphs = []

    def keep(graph, inputs):
        graphs.append((graph, [(tuple(tensor.shape), tensor.dtype) for tensor in inputs]))
        return make_boxed_func(graph)

    arguments = [torch.randn(shape, requires_grad=i in differentiable) for i, shape in enumerate(shapes)]
    aot_function(function, keep, keep, decompositions=_decompositions.table())(*arguments).backward()
    forward, backward = (_compiled(graph, types, settings) for graph, types in graphs)
    return forward, backward
