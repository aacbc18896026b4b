"""Sessions on a GPU: tensors that stay there, bound by OrtValue, DLPack and address, and captured; on the emulated
driver."""

import pytest
from conftest import run_on_the_emulated_driver

pytest.importorskip("cuda.core", reason="cuda.core is not installed")
pytest.importorskip("onnx", reason="onnx is not installed")

SCRIPT = r"""
import sys
import numpy, onnx.parser, stitch.onnx
from on_a_gpu import *
from stitch.onnx import InferenceSession, OrtValue, RunOptions, SessionOptions

MODEL = '''<ir_version: 8, opset_import: ["": 17]>
g (float[n, 32] x) => (float[n, 24] y, float[n, 24] z) <float[32, 24] w, float[24] b> {
  p = MatMul(x, w)
  z = Add(p, b)
  y = Softmax(z)
}'''
random = numpy.random.default_rng(6)
w, b = random.standard_normal((32, 24), "float32"), random.standard_normal(24, "float32")
model = onnx.parser.parse_model(MODEL.replace("<float[32, 24] w, float[24] b>", ""))
model.graph.initializer.extend([onnx.numpy_helper.from_array(w, "w"), onnx.numpy_helper.from_array(b, "b")])
options = {"device": "cuda", "improve": "0", "deadline_ms": "600000", "server": sys.argv[1],
           "user_compute_stream": str(int(stream.handle))}
session = InferenceSession(model.SerializeToString(), provider_options=[options])

def numbers(rows=8):
    return random.standard_normal((rows, 32), "float32")

def compare(y, z, x):
    wanted = x.astype("f8") @ w + b
    numpy.testing.assert_allclose(z, wanted, rtol=1e-4, atol=1e-5)
    powers = numpy.exp(wanted - wanted.max(-1, keepdims=True))
    numpy.testing.assert_allclose(y, powers / powers.sum(-1, keepdims=True), rtol=1e-4, atol=1e-6)

# ---- from the host and back, with two shapes
for rows in (8, 3):
    x = numbers(rows)
    compare(*session.run(None, {"x": x}), x)
assert session.info()["can_launch"], session.info()
x = numbers()
compare(*session.run(["y", "z"], {"x": OrtValue.ortvalue_from_numpy(x, "cuda")}), x)

# ---- values of the GPU
value = OrtValue.ortvalue_from_numpy(x, "cuda", 0)
assert (value.device_name(), value.shape(), value.data_type()) == ("cuda", [8, 32], "tensor(float)")
numpy.testing.assert_array_equal(value.numpy(), x)
made = OrtValue.ortvalue_from_shape_and_type([8, 24], numpy.float32, "cuda")
theirs = Array(numpy.zeros((8, 24), "float32"))
shared = OrtValue.from_dlpack(theirs)
assert shared.data_ptr() == theirs.address and shared.device_name() == "cuda"
again = OrtValue.from_dlpack(shared)  # a value is an array of DLPack's itself
assert again.data_ptr() == theirs.address and again.shape() == [8, 24]
shared.update_inplace(numpy.ones((8, 24), "float32"))
assert (theirs.read() == 1).all()
flags = OrtValue.from_dlpack(Array(numpy.array([1, 0, 1], "uint8")), True)
assert flags.data_type() == "tensor(bool)" and flags.numpy().tolist() == [True, False, True]

# ---- bound in every way
def bind_values(binding):
    binding.bind_ortvalue_input("x", value)
    binding.bind_ortvalue_output("y", made)
    binding.bind_ortvalue_output("z", shared)

def bind_addresses(binding):
    binding.bind_input("x", "cuda", 0, numpy.float32, (8, 32), value.data_ptr())
    binding.bind_output("y", "cuda", 0, numpy.float32, (8, 24), made.data_ptr())
    binding.bind_output("z", "cuda", 0, onnx.TensorProto.FLOAT, (8, 24), theirs.address)

def bind_what_is_made(binding):
    binding.bind_ortvalue_input("x", value)
    binding.bind_output("y", "cuda")
    binding.bind_output("z", "cuda")

def bind_some_on_the_host(binding):
    binding.bind_cpu_input("x", x)
    binding.bind_output("y")
    binding.bind_ortvalue_output("z", made)

for bind in (bind_values, bind_addresses, bind_what_is_made, bind_some_on_the_host):
    binding = session.io_binding()
    bind(binding)
    places = None
    for _ in range(2):
        x = numbers()
        value.update_inplace(x)
        if bind is bind_some_on_the_host:
            binding.bind_cpu_input("x", x)
        session.run_with_iobinding(binding)
        compare(*binding.copy_outputs_to_cpu(), x)
        kinds = [output.device_name() for output in binding.get_outputs()]
        assert kinds == (["cpu", "cuda"] if bind is bind_some_on_the_host else ["cuda", "cuda"]), kinds
        now = [output.data_ptr() for output in binding.get_outputs() if output.device_name() == "cuda"]
        assert places in (None, now), "results move from run to run"
        places = now
# One output alone: the others are computed, too, and nobody sees them.
binding = session.io_binding()
binding.bind_ortvalue_input("x", value)
binding.bind_ortvalue_output("z", shared)
session.run_with_iobinding(binding)
numpy.testing.assert_allclose(binding.get_outputs()[0].numpy(), x.astype("f8") @ w + b, rtol=1e-4, atol=1e-5)

# ---- a run asks the driver for what the program does, and one wait, or none
binding = session.io_binding()
bind_values(binding)
session.run_with_iobinding(binding)
asynchronous = RunOptions()
asynchronous.add_run_config_entry("disable_synchronize_execution_providers", "1")
info = session.info()
own_contexts = 1 + info["steps"].get("fragment", 0)  # the program asks which one is current, and each plan
operations = info["launches"] + info["steps"].get("library", 0)
exactly = Asked(calls=own_contexts + operations, waits=0, allocations=0, images=0)
for _ in range(2):
    counts = asked(lambda: session.run_with_iobinding(binding, asynchronous))
    assert counts == exactly, (counts, exactly)
    binding.synchronize_outputs()
counts = asked(lambda: session.run_with_iobinding(binding))
assert (counts.waits, counts.allocations, counts.images) == (1, 0, 0), counts
made_by_it = session.io_binding()
bind_what_is_made(made_by_it)
session.run_with_iobinding(made_by_it)
counts = asked(lambda: session.run_with_iobinding(made_by_it, asynchronous))
assert counts == exactly, counts

# ---- captured, on the stream that the session has
check(driver.cuStreamBeginCapture(stream.handle, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL))
counts = asked(lambda: session.run_with_iobinding(binding, asynchronous))
recorded = check(driver.cuStreamEndCapture(stream.handle))
assert counts == exactly, counts
executable = check(driver.cuGraphInstantiate(recorded, 0))
session.run(None, {"x": numbers(5)})  # other shapes, and so another program, do nothing to it
for _ in range(3):
    x = numbers()
    value.update_inplace(x)
    made.update_inplace(numpy.zeros((8, 24), "float32"))
    check(driver.cuGraphLaunch(executable, stream.handle))
    stream.sync()
    compare(made.numpy(), theirs.read(), x)

# ---- what cannot be
def bound(x, y):
    def run():
        binding = session.io_binding()
        x(binding)
        y(binding)
        session.run_with_iobinding(binding)
    return run

def gives_x(of):
    return lambda binding: binding.bind_ortvalue_input("x", of)

def takes_y(of):
    return lambda binding: binding.bind_ortvalue_output("y", of)

doubles = OrtValue.ortvalue_from_shape_and_type([8, 32], numpy.float64, "cuda")
strided = StridedMemoryView.from_buffer(theirs.buffer, (24, 8), strides=(1, 24), dtype=theirs.dtype)
for run, message in {
    "type": (bound(gives_x(doubles), takes_y(made)), "Actual: (tensor(double)) , expected: (tensor(float))"),
    "rank": (bound(gives_x(OrtValue.from_dlpack(theirs.buffer)), takes_y(made)), "Unexpected input data type"),
    "extent": (bound(gives_x(made), takes_y(made)), "Got: 24 Expected: 32"),
    "output": (bound(gives_x(value), takes_y(value)), "output 'y': tensor(float) [8, 24] does not fit"),
    "name": (bound(gives_x(value), lambda b: b.bind_output("q", "cuda")), "Invalid output name:q"),
    "no shape": (lambda: session.io_binding().bind_output("y", "cuda", 0, buffer_ptr=16), "has element_type and shape"),
    "place": (lambda: OrtValue.ortvalue_from_numpy(x, "tpu"), "device 'tpu' is neither cpu nor cuda"),
    "no GPU": (lambda: OrtValue.ortvalue_from_numpy(x, "cuda", 7), "cuDeviceGet"),
    "strides": (lambda: OrtValue.from_dlpack(strided), "not dense and row-major"),
    "size": (lambda: value.update_inplace(x[:4]), "does not fit tensor(float) [8, 32]"),
}.values():
    try:
        run()
    except stitch.onnx.OnnxError as error:
        assert message in str(error), (message, str(error))
    else:
        raise AssertionError(message)

# A session of the host copies what is elsewhere.
emulated = InferenceSession(model.SerializeToString(), provider_options=[{**options, "device": "emulated"}])
x = numbers()
value.update_inplace(x)
binding = emulated.io_binding()
bind_values(binding)
emulated.run_with_iobinding(binding)
compare(made.numpy(), theirs.read(), x)
print("ran on the emulated driver")
"""


def test_tensors_stay_on_the_gpu(folder):
    run_on_the_emulated_driver(SCRIPT, folder)
