"""Arrays of a GPU: what JAX lowers for CUDA, and the handlers that XLA calls there, on the emulated driver.

XLA has no GPU here and cannot use the emulated driver, whose memory it does not allocate. So the test takes XLA's place:
JAX lowers a function for CUDA, and the handlers are called as XLA would call them (xla/ffi/api/c_api.h), first to
initialize, then to execute, with addresses in managed memory, and once while the stream is captured.
"""

import pytest
from conftest import run_on_the_emulated_driver

jax = pytest.importorskip("jax", reason="jax is not installed")

from stitch import _native  # noqa: E402

if _native.xla_stream_handlers() is None:
    pytest.skip("the native module was built without XLA's headers", allow_module_level=True)

SCRIPT = r"""
import ctypes as c, json, re, sys
import numpy, jax, jax.numpy as jnp
import stitch.jax
from stitch import _native

# ---- the emulated driver
cuda = c.CDLL("libcuda.so.1")

def call(name, *arguments):
    code = getattr(cuda, name)(*arguments)
    assert code == 0, (name, code)

context, stream, room = (c.c_void_p() for _ in range(3))
call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", c.byref(context), 0)
call("cuCtxSetCurrent", context)
call("cuStreamCreate", c.byref(stream), 1)
SIZE = 1 << 24
call("cuMemAllocManaged", c.byref(room), c.c_size_t(SIZE), 1)
call("cuMemsetD8_v2", room, c.c_ubyte(0), c.c_size_t(SIZE))
call("cuCtxSynchronize")
used = 0

def empty(shape, dtype):
    global used
    size = max(1, int(numpy.prod(shape))) * numpy.dtype(dtype).itemsize
    array = numpy.frombuffer((c.c_ubyte * size).from_address(room.value + used), dtype).reshape(shape)
    used += (size + 255) // 256 * 256
    return array

# ---- XLA's part
class Version(c.Structure):
    _fields_ = [("size", c.c_size_t), ("ext", c.c_void_p), ("major", c.c_int), ("minor", c.c_int)]

class Asked(c.Structure):  # of a context: its stream, or the number of its device
    _fields_ = [("size", c.c_size_t), ("ext", c.c_void_p), ("ctx", c.c_void_p), ("answer", c.c_void_p)]

class Failure(c.Structure):
    _fields_ = [("size", c.c_size_t), ("ext", c.c_void_p), ("message", c.c_char_p), ("code", c.c_int)]

Answer = c.CFUNCTYPE(c.c_void_p, c.POINTER(Asked))
Create = c.CFUNCTYPE(c.c_void_p, c.POINTER(Failure))
said = []

@Create
def create_error(failure):
    said.append(failure.contents.message.decode())
    return 1

@Answer
def get_stream(asked):
    asked.contents.answer = stream.value
    return None

@Answer
def get_ordinal(asked):
    c.cast(c.byref(asked.contents, Asked.answer.offset), c.POINTER(c.c_int32))[0] = 0
    return None

NAMES = ("error_create error_message error_destroy register stream_get type_register context_get state_set state_get"
         " allocate free schedule threads future_create future_available future_error run_id ordinal_get").split()

class Api(c.Structure):
    _fields_ = [("size", c.c_size_t), ("ext", c.c_void_p), ("version", Version), ("internal", c.c_void_p)] + [
        (name, c.c_void_p) for name in NAMES]

api = Api(size=c.sizeof(Api), version=Version(c.sizeof(Version), None, 0, 3))
api.error_create = c.cast(create_error, c.c_void_p)
api.stream_get = c.cast(get_stream, c.c_void_p)
api.ordinal_get = c.cast(get_ordinal, c.c_void_p)

class Buffer(c.Structure):
    _fields_ = [("size", c.c_size_t), ("ext", c.c_void_p), ("dtype", c.c_int), ("data", c.c_void_p),
                ("rank", c.c_int64), ("dims", c.POINTER(c.c_int64))]

class Span(c.Structure):
    _fields_ = [("ptr", c.c_char_p), ("len", c.c_size_t)]

class Listed(c.Structure):
    _fields_ = [("size", c.c_size_t), ("ext", c.c_void_p), ("count", c.c_int64), ("types", c.POINTER(c.c_int)),
                ("values", c.POINTER(c.c_void_p))]

class Named(c.Structure):
    _fields_ = [("size", c.c_size_t), ("ext", c.c_void_p), ("count", c.c_int64), ("types", c.POINTER(c.c_int)),
                ("names", c.POINTER(c.c_void_p)), ("values", c.POINTER(c.c_void_p))]

class Frame(c.Structure):
    _fields_ = [("size", c.c_size_t), ("ext", c.c_void_p), ("api", c.POINTER(Api)), ("ctx", c.c_void_p),
                ("stage", c.c_int), ("args", Listed), ("rets", Listed), ("attrs", Named), ("future", c.c_void_p)]

DTYPES = {"float32": 11, "float64": 12, "bfloat16": 16, "int32": 4, "uint32": 8, "bool": 1}

def buffer_of(array):
    dims = (c.c_int64 * max(1, array.ndim))(*array.shape)
    return Buffer(c.sizeof(Buffer), None, DTYPES[str(array.dtype)], array.ctypes.data, array.ndim, dims)

def pointers(structures):
    return (c.c_void_p * max(1, len(structures)))(*[c.addressof(one) for one in structures])

def listed(structures, kind):
    return Listed(c.sizeof(Listed), None, len(structures), (c.c_int * max(1, len(structures)))(*[kind] * len(structures)),
                  pointers(structures))

INITIALIZE, EXECUTE = 2, 3
pointer_of = c.pythonapi.PyCapsule_GetPointer
pointer_of.restype, pointer_of.argtypes = c.c_void_p, [c.py_object, c.c_char_p]
handlers = {stage: c.CFUNCTYPE(c.c_void_p, c.POINTER(Frame))(pointer_of(capsule, b"xla._CUSTOM_CALL_TARGET"))
            for stage, capsule in _native.xla_stream_handlers().items()}

def xla_calls(stage, attributes, arguments, results):
    given, made = [buffer_of(one) for one in arguments], [buffer_of(one) for one in results]
    texts = [Span(value, len(value)) for value in attributes.values()]
    names = [Span(name.encode(), len(name)) for name in attributes]
    attrs = Named(c.sizeof(Named), None, len(texts), (c.c_int * len(texts))(*[4] * len(texts)), pointers(names),
                  pointers(texts))
    frame = Frame(Frame.future.offset, None, c.pointer(api), None, INITIALIZE if stage == "initialize" else EXECUTE,
                  listed(given, 1), listed(made, 1), attrs, None)
    said.clear()
    return handlers[stage](c.byref(frame))

# ---- functions
def norm(x, g):
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5) * g

def loss(w, x, g):
    return jnp.sum(jnp.tanh(norm(x @ w, g)) ** 2)

FUNCTIONS = {
    "softmax": (lambda x: jax.nn.softmax(x, -1), [(8, 96)]),
    "a sum of everything": (lambda x: ((x * 2).sum(), x.max()), [(300, 400)]),
    "a loss with its gradients": (jax.value_and_grad(loss, argnums=(0, 1, 2)), [(16, 32), (8, 16), (32,)]),
}
WHOLE = {"products": "faster", "fallback": "error", "improve": False, "deadline_ms": 600_000, "server": sys.argv[1]}
check = jax.export.DisabledSafetyCheck.custom_call(stitch.jax.CUSTOM_CALL)
random = numpy.random.default_rng(5)
for name, (function, shapes) in FUNCTIONS.items():
    stitch.jax.reset()
    ours = stitch.jax.jit(function, **WHOLE)
    types = [jax.ShapeDtypeStruct(shape, "float32") for shape in shapes]
    exported = jax.export.export(jax.jit(ours), platforms=["cuda"], disabled_checks=[check])(*types)
    text = exported.mlir_module()
    assert text.count("@stitch_run") == 1 and stitch.jax.report()["calls"] == 1, text[:2000]
    attributes = {key: re.search(key + r' = "([^"]*)"', text).group(1).encode() for key in ("name", "package")}

    arguments = [empty(shape, "float32") for shape in shapes]
    results = [empty(aval.shape, aval.dtype) for aval in exported.out_avals]

    def fill():
        for argument in arguments:
            argument[...] = random.standard_normal(argument.shape)
        for result in results:
            result[...] = numpy.nan

    def compare():
        call("cuCtxSynchronize")
        for one, other in zip(results, jax.tree.leaves(function(*[jnp.array(a) for a in arguments])), strict=True):
            numpy.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-4)

    assert xla_calls("initialize", attributes, [], []) is None, said
    fill()
    assert xla_calls("execute", attributes, arguments, results) is None, said
    compare()

    captured, executable = c.c_void_p(), c.c_void_p()
    call("cuStreamBeginCapture_v2", stream, 1)  # of the thread, as XLA traces command buffers
    assert xla_calls("execute", attributes, arguments, results) is None, said
    call("cuStreamEndCapture", stream, c.byref(captured))
    call("cuGraphInstantiateWithFlags", c.byref(executable), captured, c.c_uint64(0))
    fill()
    call("cuGraphLaunch", executable, stream)
    compare()

# A training step whose parameters are donated updates them where they are.
def step(w, m, x):
    m = 0.9 * m + jax.grad(lambda w: jnp.sum(jnp.tanh(x @ w) ** 2))(w)
    return w - 0.1 * m, m

ours = stitch.jax.jit(step, donate_argnums=(0, 1), **WHOLE)
shapes = [(16, 32), (16, 32), (8, 16)]
exported = jax.export.export(ours, platforms=["cuda"], disabled_checks=[check])(
    *[jax.ShapeDtypeStruct(shape, "float32") for shape in shapes])
text = exported.mlir_module()
attributes = {key: re.search(key + r' = "([^"]*)"', text).group(1).encode() for key in ("name", "package")}
aliases = re.findall(r"output_tuple_indices = \[(\d)\],\s*operand_index = (\d)", text)
assert sorted(aliases) == [("0", "0"), ("1", "1")], (aliases, text[:4000])
arguments = [empty(shape, "float32") for shape in shapes]
assert xla_calls("initialize", attributes, [], []) is None, said
for argument in arguments:
    argument[...] = random.standard_normal(argument.shape)
for _ in range(2):
    expected = step(*[jnp.array(a) for a in arguments])
    assert xla_calls("execute", attributes, arguments, arguments[:2]) is None, said
    call("cuCtxSynchronize")
    for one, other in zip(arguments, expected):
        numpy.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-4)

# Where products are XLA's, the pieces between them are calls: the test computes the products, and calls the handlers.
class XlasPart:
    def __init__(self, function, *shapes, donated=()):
        stitch.jax.reset()
        ours = stitch.jax.jit(function, donate_argnums=donated, **{**WHOLE, "products": "xla"})
        types = [jax.ShapeDtypeStruct(shape, "float32") for shape in shapes]
        exported = jax.export.export(ours, platforms=["cuda"], disabled_checks=[check])(*types)
        self.text = exported.mlir_module()
        closed = jax.make_jaxpr(function)(*types)
        aliases = _primitive._aliases(closed, donated)
        settings = _options.Settings(**{**WHOLE, "products": "xla"})
        self.closed = _pieces.split(closed, settings, "function", "cuda", aliases)
        self.calls = [eqn for eqn in self.closed.jaxpr.eqns if eqn.primitive is _pieces.call_p]
        self.arguments = [empty(shape, "float32") for shape in shapes]
        self.places = dict(zip(self.closed.jaxpr.invars, self.arguments))
        for eqn in self.calls:
            for argument, result in eqn.params["aliases"]:
                assert eqn.invars[argument] in self.places, "an argument that is not there yet is overwritten"
                self.places[eqn.outvars[result]] = self.places[eqn.invars[argument]]
        for eqn in self.closed.jaxpr.eqns:
            for var in eqn.outvars:
                self.places.setdefault(var, empty(var.aval.shape, var.aval.dtype))
        for eqn in self.calls:
            assert xla_calls("initialize", self.attributes(eqn), [], []) is None, said

    def attributes(self, eqn):
        call = eqn.params["call"]
        assert call.name in self.text and call.package in self.text
        return {"name": call.name.encode(), "package": call.package.encode()}

    def place(self, atom):
        return self.places[atom] if isinstance(atom, core.Var) else numpy.asarray(atom.val, atom.aval.dtype)

    def run(self):
        for eqn in self.closed.jaxpr.eqns:
            if eqn.primitive is _pieces.call_p:
                given, made = [self.place(atom) for atom in eqn.invars], [self.places[var] for var in eqn.outvars]
                captured, executable = c.c_void_p(), c.c_void_p()
                call("cuStreamBeginCapture_v2", stream, 1)  # as in a command buffer
                assert xla_calls("execute", self.attributes(eqn), given, made) is None, said
                call("cuStreamEndCapture", stream, c.byref(captured))
                call("cuGraphInstantiateWithFlags", c.byref(executable), captured, c.c_uint64(0))
                call("cuGraphLaunch", executable, stream)
                call("cuCtxSynchronize")
            else:
                answer = eqn.primitive.bind(*[jnp.array(self.place(atom)) for atom in eqn.invars], **eqn.params)
                for var, one in zip(eqn.outvars, answer if eqn.primitive.multiple_results else [answer]):
                    self.places[var][...] = one
        return [self.place(atom) for atom in self.closed.jaxpr.outvars]

from jax.extend import core
from stitch.jax import _options, _pieces, _primitive

parts = XlasPart(jax.value_and_grad(loss, argnums=(0, 1, 2)), (16, 32), (8, 16), (32,))
assert len(parts.calls) == parts.text.count("@stitch_run") == stitch.jax.report()["calls"] // 2 == 1, parts.text[:4000]
assert parts.text.count("stablehlo.dot_general") == 3, parts.text[:4000]
for _ in range(2):
    for argument in parts.arguments:
        argument[...] = random.standard_normal(argument.shape)
    expected = jax.tree.leaves(jax.value_and_grad(loss, argnums=(0, 1, 2))(*[jnp.array(a) for a in parts.arguments]))
    for one, other in zip(parts.run(), expected, strict=True):
        numpy.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-4)

parts = XlasPart(step, (16, 32), (16, 32), (8, 16), donated=(0, 1))
assert len(parts.calls) == parts.text.count("@stitch_run") == 2, parts.text[:4000]
aliases = re.findall(r"output_tuple_indices = \[\d*\],\s*operand_index = \d", parts.text)
assert len(aliases) == sum(len(eqn.params["aliases"]) for eqn in parts.calls) == 2, (aliases, parts.text[:4000])
for argument in parts.arguments:
    argument[...] = random.standard_normal(argument.shape)
for _ in range(2):
    expected = step(*[jnp.array(a) for a in parts.arguments])
    for one, other in zip(parts.run(), expected, strict=True):
        numpy.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-4)
    for argument, other in zip(parts.arguments, expected):
        numpy.testing.assert_allclose(argument, other, rtol=2e-4, atol=2e-4)

# A package that is damaged is an error of XLA's.
wrong = {"name": b"0" * 64, "package": attributes["package"][:-400]}
assert xla_calls("initialize", wrong, [], []) == 1 and said[0].startswith("stitch: "), said
# What the host would have to look at has no place on a stream: the loop is XLA's, and what is inside a call.
def until(x):
    return jax.lax.while_loop(lambda y: y.sum() < 1e3, lambda y: y * 2 + 1, x)

for options, calls, loops in (({}, 2, 0), ({"products": "faster"}, 0, 1)):
    stitch.jax.reset()
    options = {"improve": False, "deadline_ms": 600_000, "server": sys.argv[1], **options}
    exported = jax.export.export(jax.jit(stitch.jax.jit(until, **options)), platforms=["cuda"], disabled_checks=[check])(
        jax.ShapeDtypeStruct((8,), "float32"))
    reasons = [entry["reason"] for entry in stitch.jax.report()["fell_back"]]
    assert exported.mlir_module().count("@stitch_run") == calls, exported.mlir_module()
    assert len(reasons) == loops and all("loop" in reason for reason in reasons), reasons
print("ran on the emulated driver")
"""


def test_programs_run_on_xlas_stream(folder):
    run_on_the_emulated_driver(SCRIPT, folder)
