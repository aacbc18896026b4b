"""CUDA tensors: graphs that PyTorch traced for a GPU, on the emulated driver.

PyTorch itself has no GPU here and cannot use the emulated driver, whose memory it does not allocate. So tensors of the
host take the place of a GPU's: they lie in managed memory, whose addresses are the device's as well. What PyTorch's own
kernels would do on the stream happens at once, so that results that need them (strides other than dense ones) are not
here.
"""

import pytest
from conftest import run_on_the_emulated_driver

torch = pytest.importorskip("torch")

SCRIPT = r"""
import ctypes, math, sys
import torch
import stitch.torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from stitch.torch import _decompositions, _runtime
from stitch.torch._options import Settings

cuda = ctypes.CDLL("libcuda.so.1")

def call(name, *arguments):
    code = getattr(cuda, name)(*arguments)
    assert code == 0, (name, code)

context, stream, other, room = (ctypes.c_void_p() for _ in range(4))
call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
call("cuStreamCreate", ctypes.byref(stream), 1)
call("cuStreamCreate", ctypes.byref(other), 1)
SIZE = 1 << 24
call("cuMemAllocManaged", ctypes.byref(room), ctypes.c_size_t(SIZE), 1)
call("cuMemsetD8_v2", room, ctypes.c_ubyte(0), ctypes.c_size_t(SIZE))
call("cuCtxSynchronize")
memory = torch.frombuffer((ctypes.c_ubyte * SIZE).from_address(room.value), dtype=torch.uint8)
used = 0

def empty(shape, *, dtype, device):
    global used
    assert device.type == "cuda"
    size = max(1, math.prod(shape) * dtype.itemsize)
    tensor = memory[used : used + size].view(dtype)[: math.prod(shape)].view(shape)
    used += (size + 255) // 256 * 256
    return tensor

class Stream:
    def __init__(self, handle):
        self.cuda_stream = handle.value
    def wait_event(self, event):
        call("cuStreamWaitEvent", ctypes.c_void_p(self.cuda_stream), event, 0)
    def record_event(self):
        event = ctypes.c_void_p()
        call("cuEventCreate", ctypes.byref(event), 2)
        call("cuEventRecord", event, ctypes.c_void_p(self.cuda_stream))
        return event

current, capturing, streams = Stream(stream), False, 0

def current_stream(device):
    global streams
    streams += 1
    return current

_runtime.cuda.empty = empty
_runtime.cuda.current_stream = current_stream
_runtime.cuda.current_handle = lambda device: current.cuda_stream
_runtime.cuda.is_capturing = lambda device: capturing
_runtime.cuda.target = lambda device: "emulated driver"

FUNCTIONS = {
    "softmax": (lambda x, g: (torch.softmax(x * g, -1), (x + g).t().contiguous()), [(8, 96), (96,)]),
    "a sum of everything": (lambda x: (x * 2).sum() + x.amax(), [(300, 400)]),
    "views": (lambda x: (x.t().contiguous() * 2, x[:, ::2].exp()), [(16, 32)]),
}
settings = Settings(deadline_ms=300_000, improve=False, fallback="error", server=sys.argv[1])
workspaces = 0
for name, (function, shapes) in FUNCTIONS.items():
    with FakeTensorMode():
        fakes = [torch.empty(shape, device="cuda") for shape in shapes]
        graph = make_fx(function, decomposition_table=_decompositions.table())(*fakes)
    compiled = stitch.torch._compile(graph, settings)
    assert stitch.torch.report()["failed"] == [], stitch.torch.report()
    device = torch.device("cuda", 0)
    inputs = [empty(shape, dtype=torch.float32, device=device).normal_() for shape in shapes]
    expected = function(*[tensor.clone() for tensor in inputs])

    def check(found):
        call("cuCtxSynchronize")
        for ours, theirs in zip(*(x if isinstance(x, tuple) else (x,) for x in (found, expected)), strict=True):
            torch.testing.assert_close(ours, theirs, check_stride=True, rtol=1e-5, atol=1e-4)

    before = stitch.torch.report()["kernel_calls"]
    check(compiled(list(inputs)))
    assert stitch.torch.report()["kernel_calls"] > before and stitch.torch.report()["eager_calls"] == 0
    workspaces += sum(slot.plan.info["workspace_bytes"] > 0 for slot in _runtime._slots.values())
    # On another stream, and without a word to the driver in between, as a training loop with several would.
    first = compiled(list(inputs))
    made = streams
    current = Stream(other)
    check(compiled(list(inputs)))
    assert streams > made, "nobody asked whose stream it is"
    made, current = streams, Stream(other)
    check(compiled(list(inputs)))
    assert streams == made, "a stream's object is made although the stream is the last one"
    current = Stream(stream)

    capturing = True
    captured, executable = ctypes.c_void_p(), ctypes.c_void_p()
    call("cuStreamBeginCapture_v2", stream, 0)  # in the global mode
    found = compiled(list(inputs))
    call("cuStreamEndCapture", stream, ctypes.byref(captured))
    capturing = False
    call("cuGraphInstantiateWithFlags", ctypes.byref(executable), captured, ctypes.c_uint64(0))
    inputs[0].mul_(-0.5)
    expected = function(*[tensor.clone() for tensor in inputs])
    call("cuGraphLaunch", executable, stream)
    check(found)
assert workspaces > 0, "no plan shares anything between its runs"

def step(p, g, m):
    m.mul_(0.9).add_(g, alpha=0.1)
    p.sub_(m * 0.01)
    return (g * 2,)

# Updates in the memory of the inputs: kernels write where they have read, in a replayed capture as well.
with FakeTensorMode():
    fakes = [torch.empty(40, 30, device="cuda") for _ in range(3)]
    graph = make_fx(torch.func.functionalize(step), decomposition_table=_decompositions.table())(*fakes)
stitch.torch.reset()
compiled = stitch.torch._compile(graph, settings)
inputs = [empty((40, 30), dtype=torch.float32, device=device).normal_() for _ in range(3)]
expected = [tensor.clone() for tensor in inputs]
compiled(list(inputs))
capturing = True
captured, executable = ctypes.c_void_p(), ctypes.c_void_p()
call("cuStreamBeginCapture_v2", stream, 0)
compiled(list(inputs))
call("cuStreamEndCapture", stream, ctypes.byref(captured))
capturing = False
call("cuGraphInstantiateWithFlags", ctypes.byref(executable), captured, ctypes.c_uint64(0))
for _ in range(2):
    call("cuGraphLaunch", executable, stream)
call("cuCtxSynchronize")
for _ in range(3):
    step(*expected)
torch.testing.assert_close(inputs, expected, rtol=1e-5, atol=1e-6)
report = stitch.torch.report()
assert report["updated_bytes"] == 0 and report["eager_calls"] == 0 and report["failed"] == [], report
print("ran on the emulated driver")
"""


def test_graphs_of_cuda_tensors_run_on_their_stream(folder):
    run_on_the_emulated_driver(SCRIPT, folder)


def test_whether_a_stream_captures_is_asked_without_a_context_where_its_gpu_is_the_current_one(monkeypatch):
    from stitch.torch import _runtime

    entered = []

    class Context:
        def __init__(self, device):
            entered.append(device)

        __enter__ = __exit__ = lambda *_: None

    monkeypatch.setattr(torch.cuda, "device", Context)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    assert _runtime.cuda.is_capturing(torch.device("cuda", 1)) and entered == []
    assert _runtime.cuda.is_capturing(torch.device("cuda", 0)) and entered == [torch.device("cuda", 0)]
