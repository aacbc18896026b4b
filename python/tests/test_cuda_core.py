"""Plans and programs on arrays of a GPU: buffers, streams and graphs of cuda.core, on the emulated driver."""

import pytest
from conftest import run_on_the_emulated_driver
from test_program import HLO

pytest.importorskip("cuda.core", reason="cuda.core is not installed")

PLAN = r"""
import json, sys
import numpy, stitch
from on_a_gpu import *

def fragment(rows):
    return {"format": "stitch-graph", "version": 1, "name": "weighted", "nodes": [
        {"op": "parameter", "attributes": {"type": f"f32[{rows},96]"}},
        {"op": "parameter", "attributes": {"type": f"f32[{rows},96]"}},
        {"op": "multiply", "operands": [0, 1]},
        {"op": "exp", "operands": [2]},
        {"op": "reduce", "operands": [3], "attributes": {"kind": "sum", "dimensions": [1]}}], "results": [3, 4]}

def expected(x, w):
    powers = numpy.exp(x.astype("f8") * w)
    return powers, powers.sum(1)

random = numpy.random.default_rng(3)

def numbers(shape=(8, 96)):
    return random.standard_normal(shape, "float32")

def compare(results, x, w):
    for found, wanted in zip(results, expected(x, w), strict=True):
        numpy.testing.assert_allclose(found.read(), wanted, rtol=1e-5)
        found.write(numpy.zeros(found.shape))

options = {"device": "cuda", "improve": False, "deadline_ms": 600_000, "server": sys.argv[1]}
"""

ARRAYS = (
    PLAN
    + r"""
from cuda.core import LegacyPinnedMemoryResource, ManagedMemoryResource

plan = stitch.plan(fragment(8), **options)
x, w = numbers(), numbers()
inputs = [Array(x), Array(w)]
results = [Array(numpy.zeros((8, 96), "float32")), Array(numpy.zeros(8, "float32"))]

# Arrays, buffers (which are bytes without a type), addresses, numbers of cuda.bindings, and all of them.
addresses = [array.address for array in [*inputs, *results]]
for given in (
    [*inputs, *results],
    tuple(array.view for array in [*inputs, *results]),
    [array.buffer for array in [*inputs, *results]],
    addresses,
    [driver.CUdeviceptr(address) for address in addresses],
    [numpy.uint64(addresses[0]), inputs[1], results[0].buffer, addresses[3]],
):
    for on in (stream, stream.handle, int(stream.handle)):
        plan.launch(given[:2], given[2:], on)
        compare(results, x, w)

# Managed and pinned memory, which are the host's as well.
for memory in (ManagedMemoryResource().allocate(3072, stream=stream), LegacyPinnedMemoryResource().allocate(3072)):
    stream.sync()
    seen = numpy.from_dlpack(memory).view("float32").reshape(8, 96)
    seen[...] = x
    plan.launch([memory, inputs[1]], results, stream)
    compare(results, x, w)

# ---- who gives arrays is told the stream
told = []

class Told(Array):
    def __dlpack__(self, **options):
        told.append(options)
        return super().__dlpack__(**options)

class Old(Told):
    "A method of before the array interface of 2023."
    def __dlpack__(self, stream=None):
        told.append(stream)
        return self.view.__dlpack__(stream=stream)

class Refusing(Told):
    def __dlpack__(self, **options):
        raise BufferError("it is on loan")

plan.launch([Told(x), Old(w)], results, stream)
compare(results, x, w)
assert told == [{"stream": int(stream.handle), "max_version": (1, 0), "copy": False}, int(stream.handle)], told
kept = Told(x)  # which is freed in the order of the other stream
plan.launch([kept, inputs[1]], results)  # on the default one
check(driver.cuCtxSynchronize())
compare(results, x, w)
assert told[-1]["stream"] == 1, told

class Interface:
    "What Numba's arrays have."
    def __init__(self, array, **changes):
        self.array = array
        self.__cuda_array_interface__ = {"shape": array.shape, "typestr": array.dtype.str, "version": 3,
                                         "data": (array.address, False), "strides": None, "stream": None, **changes}

on_stream = [Interface(inputs[0], stream=int(stream.handle)), Interface(inputs[1], strides=(384, 4))]
plan.launch(on_stream, [Interface(array) for array in results], stream)
compare(results, x, w)

# ---- what cannot be
other = Device(1)
other.set_current()
elsewhere = Array(x, on=other)
device.set_current()
square = Array(numpy.zeros((96, 8), "float32"))
turned = StridedMemoryView.from_buffer(square.buffer, (8, 96), strides=(1, 8), dtype=x.dtype)
wanted = "parameter 0: f32[8,96] is wanted, the array is "
for first, message in {
    "on another GPU": (elsewhere, wanted + "on GPU 1, and the plan on GPU 0"),
    "NumPy's": (x, "parameter 0: ndarray is in the host's memory"),
    "of doubles": (Array(x.astype("f8")), wanted + "of another element type"),
    "of integers": (Array(x.view("int32")), wanted + "of another element type"),
    "long": (Array(numbers((9, 96))), wanted + "9 in dimension 0"),
    "flat": (Array(x.reshape(-1)), wanted + "of 1 dimensions"),
    "turned": (turned, wanted + "not dense and row-major"),
    "too few bytes": (results[1].buffer, wanted + "of another element type"),
    "on loan": (Refusing(x), "parameter 0: Refusing does not give its memory: it is on loan"),
    "a list": ([1.0], "parameter 0: list has no address in device memory"),
    "a number": (1.5, "parameter 0: float has no address in device memory"),
    "negative": (-16, "parameter 0: -16 is no address"),
    "odd": (addresses[0] + 4, "aligned"),
    "an interface of doubles": (Interface(inputs[0], typestr="<f8"), wanted + "of another element type"),
    "an interface of big ends": (Interface(inputs[0], typestr=">f4"), "parameter 0: the array is of elements '>f4'"),
    "an interface's strides": (Interface(inputs[0], strides=(4, 32)), wanted + "not dense and row-major"),
    "a mask": (Interface(inputs[0], mask=inputs[0]), "parameter 0: the array is one with a mask"),
    "another stream's": (Interface(inputs[0], stream=2), "parameter 0: the array is in use on stream 0x2"),
}.values():
    try:
        plan.launch([first, inputs[1]], results, stream)
    except stitch.InvalidArgument as error:
        assert message in str(error), (message, str(error))
    else:
        raise AssertionError(message)

# What is read-only may be read.
constant = StridedMemoryView.from_buffer(inputs[0].buffer, (8, 96), dtype=x.dtype, is_readonly=True)
plan.launch([constant, inputs[1]], results, stream)
compare(results, x, w)
for given, message in (
    ([constant, results[1]], "result 0: f32[8,96] is wanted, the array is read-only"),
    ([Interface(results[0], data=(results[0].address, True)), results[1]], "the array is read-only"),
    (results[:1], "the plan has 2 results, 1 were given"),
):
    try:
        plan.launch(inputs, given, stream)
    except stitch.InvalidArgument as error:
        assert message in str(error), (message, str(error))
    else:
        raise AssertionError(message)
for on in ("stream", None, 1.5j):
    try:
        plan.launch(inputs, results, on)
    except stitch.InvalidArgument as error:
        assert "is no stream" in str(error)
    else:
        raise AssertionError(on)
print("ran on the emulated driver")
"""
)

GRAPHS = (
    PLAN
    + r"""
import os, subprocess, tempfile
from stitch import _programs

# ---- a plan
plan = stitch.plan(fragment(16), **options)
x, w = numbers((16, 96)), numbers((16, 96))
inputs = [Array(x), Array(w)]
results = [Array(numpy.zeros((16, 96), "float32")), Array(numpy.zeros(16, "float32"))]

# A launch asks the driver which context is current, and for its kernels: the first one asks for no more than others.
addresses = [array.address for array in [*inputs, *results]]
exactly = Asked(calls=1 + plan.info["launches"], waits=0, allocations=0, images=0)
for _ in range(3):
    counts = asked(lambda: plan.launch(addresses[:2], addresses[2:], stream))
    assert counts == exactly, counts
    compare(results, x, w)
counts = asked(lambda: plan.launch(inputs, results, stream))
assert counts == exactly, counts
compare(results, x, w)

graph, counts = captured(lambda builder: plan.launch(inputs, results, builder))
assert counts == exactly, counts
assert all((array.read() == 0).all() for array in results), "what is captured does not run"

def replay():
    x, w = numbers((16, 96)), numbers((16, 96))
    inputs[0].write(x)
    inputs[1].write(w)
    graph.launch(stream)
    compare(results, x, w)

replay()
replay()

# ---- a better plan takes its place, while a capture of it is there and while another one is under way
before = plan.info["id"]
path = os.path.join(tempfile.mkdtemp(), "weighted.json")
with open(path, "w") as file:
    json.dump(fragment(16), file)
# The emulated device's counts stand in for a measurement: another schedule of the kernel is found to be better.
del os.environ["LD_LIBRARY_PATH"]  # the compiler is the toolkit's own
subprocess.run([_programs.find("stitch"), "tune", path, "--db", sys.argv[2], "--device", "emulated:counts", "--target",
                "h100", "--quiet"], env=_programs.environment(), check=True, capture_output=True)

def launch_swap_launch(builder):
    plan.launch(inputs, results, builder)
    assert plan.check_for_update(60_000), "the tuner promoted no other schedule"
    assert plan.info["swaps"] == 1 and plan.info["id"] != before, plan.info
    plan.launch(inputs, [other, results[1]], builder)

other = Array(numpy.zeros((16, 96), "float32"))
both, _ = captured(launch_swap_launch)
assert asked(lambda: plan.launch(inputs, results, stream)) == exactly
stream.sync()
replay()  # what was captured before
x, w = numbers((16, 96)), numbers((16, 96))
inputs[0].write(x)
inputs[1].write(w)
both.launch(stream)
compare(results, x, w)
numpy.testing.assert_allclose(other.read(), expected(x, w)[0], rtol=1e-5)
replay()
del plan  # which waits for what it has enqueued, and for no graph: those are the caller's
stream.sync()
print("ran on the emulated driver")
"""
)

PROGRAM = r"""
import sys
import numpy, stitch
from on_a_gpu import *

program = stitch.program(sys.argv[2], device="cuda", improve=False, deadline_ms=600_000, server=sys.argv[1],
                         products="library")
assert program.info["steps"] == {"library": 1, "fragment": 1} and program.info["library"].startswith("cuBLASLt")
random = numpy.random.default_rng(4)
shapes = [port.shape for port in program.inputs]
inputs = [Array(random.standard_normal(shape, "float32")) for shape in shapes]
results = [Array(numpy.zeros(port.shape, "float32")) for port in program.outputs]

def fill():
    for array in inputs:
        array.write(random.standard_normal(array.shape, "float32"))
    for array in results:
        array.write(numpy.full(array.shape, numpy.nan))

def compare():
    x, w, b = (array.read().astype("f8") for array in inputs)
    for found, wanted in zip(results, (numpy.tanh(x @ w + b), x @ w + b), strict=True):
        numpy.testing.assert_allclose(found.read(), wanted, rtol=1e-4, atol=1e-5)

# Which context is current is asked by the program, and by each plan; the product is a call of the library's, which puts
# one operation on the stream.
exactly = Asked(calls=2 + program.info["launches"] + 1, waits=0, allocations=0, images=0)
addresses = [array.address for array in [*inputs, *results]]
for given in (addresses, [*inputs, *results], [array.buffer for array in [*inputs, *results]]):
    fill()
    counts = asked(lambda: program.launch(given[:3], given[3:], stream))
    assert counts == exactly, counts
    compare()
names = dict(zip([port.name for port in program.inputs], inputs, strict=True))
fill()
program.launch(names, results, stream)
compare()

graph, counts = captured(lambda builder: program.launch(inputs, results, builder))
assert counts == exactly, counts
for _ in range(3):
    fill()
    graph.launch(stream)
    compare()

for given, message in (
    ([numpy.zeros((8, 16), "float32"), *inputs[1:]], "input 0: ndarray is in the host's memory"),
    ([inputs[1], inputs[0], inputs[2]], "input 0: f32[8,16] is wanted, the array is 24 in dimension 1"),
    (inputs[:2], "the program has 3 inputs, 2 were given"),
    ({"x": inputs[0]}, "no array was given for w, b"),
):
    try:
        program.launch(given, results, stream)
    except stitch.InvalidArgument as error:
        assert message in str(error), (message, str(error))
    else:
        raise AssertionError(message)
print("ran on the emulated driver")
"""



def test_plans_take_whatever_lies_on_the_gpu(folder):
    run_on_the_emulated_driver(ARRAYS, folder, devices="h100,h100")


def test_captured_plans_stay_what_they_are(folder):
    run_on_the_emulated_driver(GRAPHS, folder, arguments=[folder / "cache" / "stitch.db"])


def test_programs_with_library_calls_are_captured(folder, tmp_path):
    model = tmp_path / "two_layers.hlo.txt"
    model.write_text(HLO)
    run_on_the_emulated_driver(PROGRAM, folder, arguments=[model])
