"""CUDA tensors: graphs that PyTorch traced for a GPU, on the emulated driver (torch_on_a_gpu.py says how)."""

import pytest
from conftest import run_on_the_emulated_driver

torch = pytest.importorskip("torch")
pytest.importorskip("cuda.core", reason="cuda.core is not installed")

SCRIPT = r"""
import sys
from on_a_gpu import *
from torch_on_a_gpu import *
from stitch.torch import _runtime
from stitch.torch._options import Settings

FUNCTIONS = {
    "softmax": (lambda x, g: (torch.softmax(x * g, -1), (x + g).t().contiguous()), [(8, 96), (96,)]),
    "a sum of everything": (lambda x: (x * 2).sum() + x.amax(), [(300, 400)]),
    "views": (lambda x: (x.t().contiguous() * 2, x[:, ::2].exp()), [(16, 32)]),
}
settings = Settings(deadline_ms=300_000, improve=False, fallback="error", server=sys.argv[1])
workspaces = 0
for name, (function, shapes) in FUNCTIONS.items():
    run = compiled(function, shapes, settings)
    inputs = [normal(*shape) for shape in shapes]
    expected = function(*[tensor.clone() for tensor in inputs])

    def check_results(found):
        check(driver.cuCtxSynchronize())
        for ours, theirs in zip(*(x if isinstance(x, tuple) else (x,) for x in (found, expected)), strict=True):
            torch.testing.assert_close(ours, theirs, check_stride=True, rtol=1e-5, atol=1e-4)

    before = stitch.torch.report()["kernel_calls"]
    check_results(run(list(inputs)))
    pieces = stitch.torch.report()["kernel_calls"] - before
    assert pieces > 0 and stitch.torch.report()["eager_calls"] == 0
    plans = [slot.plan.info for slot in _runtime._slots.values()]
    workspaces += sum(info["workspace_bytes"] > 0 for info in plans)

    # A call asks the driver for the kernels of its pieces, and each of these which context is current.
    launches = stitch.torch.report()["launches"]
    counts = asked(lambda: run(list(inputs)))
    launches = stitch.torch.report()["launches"] - launches
    exactly = Asked(calls=pieces + launches, waits=0, allocations=0, images=0)
    assert counts == exactly, (name, counts, exactly)

    # On another stream, and without a word to the driver in between, as a training loop with several would.
    first = run(list(inputs))
    made = Stream.made
    use(other_stream)
    check_results(run(list(inputs)))
    assert Stream.made > made, "nobody asked whose stream it is"
    made = Stream.made
    check_results(run(list(inputs)))
    assert Stream.made == made, "a stream's object is made although the stream is the last one"
    use(stream)

    found = []
    graph, counts = captured(lambda _: found.append(run(list(inputs))))
    # And here whether the stream, which is not the last one, is captured.
    assert counts == Asked(calls=2 * pieces + launches, waits=0, allocations=0, images=0), (name, counts, exactly)
    inputs[0].mul_(-0.5)
    expected = function(*[tensor.clone() for tensor in inputs])
    graph.launch(stream)
    check_results(*found)
assert workspaces > 0, "no plan shares anything between its runs"

def step(p, g, m):
    m.mul_(0.9).add_(g, alpha=0.1)
    p.sub_(m * 0.01)
    return (g * 2,)

# Updates in the memory of the inputs: kernels write where they have read, in a replayed capture as well.
stitch.torch.reset()
run = compiled(step, [(40, 30)] * 3, settings, functional=True)
inputs = [normal(40, 30) for _ in range(3)]
expected = [tensor.clone() for tensor in inputs]
run(list(inputs))
graph, _ = captured(lambda _: run(list(inputs)))
for _ in range(2):
    graph.launch(stream)
stream.sync()
for _ in range(3):
    step(*expected)
torch.testing.assert_close(inputs, expected, rtol=1e-5, atol=1e-6)
report = stitch.torch.report()
assert report["updated_bytes"] == 0 and report["eager_calls"] == 0 and report["failed"] == [], report
print("ran on the emulated driver")
"""

ACCUMULATION = r"""
import sys
from on_a_gpu import *
from torch_on_a_gpu import *
from stitch.torch._options import Settings

# Gradients that add up over several backward passes (pytorch#169545): what a pass returns becomes the parameters'
# .grad, and must be there when the next one adds to it.
settings = Settings(deadline_ms=300_000, improve=False, fallback="error", server=sys.argv[1])

def loss(w, b, x):
    return (torch.softmax(x * w, -1) + (x * b).tanh()).square().mean()

SHAPES = [(96,), (96,), (8, 96)]
forward, backward = forward_and_backward(loss, SHAPES, {0, 1}, settings)
accumulate = compiled(lambda grad, more: (grad.add_(more),)[1:], [(96,)] * 2, settings, functional=True)
w, b = normal(96), normal(96)
parameters = [w, b]

def gradients(x):
    "A micro-batch's, in memory that PyTorch's allocator gave for them: of the call, not of the graph."
    result, *saved = forward([w, b, x])
    found = backward([*saved, one])
    return [gradient for gradient in found if gradient is not None]

one = empty(()).fill_(1)

def micro_step(x, held):
    for i, gradient in enumerate(gradients(x)):
        if held[i] is None:
            held[i] = gradient  # as AccumulateGrad does it: nothing is copied
        else:
            accumulate([held[i], gradient])

def eager(batches):
    leaves = [p.clone().requires_grad_() for p in parameters]
    for x in batches:
        loss(*leaves, x.clone()).backward()
    return [leaf.grad for leaf in leaves]

def compare(found, batches):
    stream.sync()
    torch.testing.assert_close(found, eager(batches), rtol=1e-5, atol=1e-7)

# ---- without captures
batches, held = [normal(8, 96) for _ in range(5)], [None, None]
for x in batches:
    micro_step(x, held)
compare(held, batches)

# ---- a micro-batch captured once, replayed for each, into the same gradients
x, held = normal(8, 96), [empty((96,)).zero_(), empty((96,)).zero_()]
graph, counts = captured(lambda _: micro_step(x, held))
assert (counts.waits, counts.allocations, counts.images) == (0, 0, 0), counts
for _ in range(2):
    for gradient in held:
        gradient.zero_()
    for batch in batches:
        x.copy_(batch)
        graph.launch(stream)
        stream.sync()  # the host writes the next batch where this one lies
    compare(held, batches)

# ---- all of them in one graph, whose first pass makes the gradients
held = [None, None]
graph, _ = captured(lambda _: [micro_step(batch, held) for batch in batches])
for _ in range(3):
    for batch in batches:
        batch.normal_()
    w.mul_(0.9)
    graph.launch(stream)
    compare(held, batches)

# ---- two graphs of one step have gradients of their own: what the first made is there after the second
x, y, first, second = batches[0], batches[1], [None, None], [None, None]
one_graph, _ = captured(lambda _: micro_step(x, first))
another, _ = captured(lambda _: micro_step(y, second))
one_graph.launch(stream)
another.launch(stream)
compare(first, [x])
compare(second, [y])
report = stitch.torch.report()
assert report["eager_calls"] == 0 and report["failed"] == [] and report["updated_bytes"] == 0, report
print("ran on the emulated driver")
"""


def test_graphs_of_cuda_tensors_run_on_their_stream(folder):
    run_on_the_emulated_driver(SCRIPT, folder)


def test_gradients_add_up_over_replays(folder):
    run_on_the_emulated_driver(ACCUMULATION, folder)


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
