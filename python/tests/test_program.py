"""Whole models on NumPy arrays: made by the server, saved, and run again without one."""

import os
import pathlib
import subprocess
import sys
import threading

import numpy
import pytest

import stitch
from stitch import _native, _nvidia, _programs

HLO = """HloModule two_layers

ENTRY main {
  x = f32[8,16] parameter(0)
  w = f32[16,24] parameter(1)
  b = f32[24] parameter(2)
  y = f32[8,24] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  wide = f32[8,24] broadcast(b), dimensions={1}
  z = f32[8,24] add(y, wide)
  t = f32[8,24] tanh(z)
  ROOT r = (f32[8,24], f32[8,24]) tuple(t, z)
}
"""


def arrays():
    random = numpy.random.default_rng(3)
    return [random.standard_normal(shape, "float32") for shape in ((8, 16), (16, 24), (24,))]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "two_layers.hlo.txt"
    path.write_text(HLO)
    return stitch.program(path, improve=False, deadline_ms=600_000)


def check(results):
    x, w, b = (array.astype("float64") for array in arrays())
    z = x @ w + b
    numpy.testing.assert_allclose(results[0], numpy.tanh(z), rtol=1e-5, atol=1e-5)
    numpy.testing.assert_allclose(results[1], z, rtol=1e-5, atol=1e-5)


def test_a_model_runs_on_arrays(program):
    check(program.run(*arrays()))
    assert [(port.name, port.dtype, port.shape) for port in program.inputs] == [
        ("x", "f32", (8, 16)),
        ("w", "f32", (16, 24)),
        ("b", "f32", (24,)),
    ]
    assert [port.shape for port in program.outputs] == [(8, 24), (8, 24)]


def test_inputs_may_be_named_and_results_given(program):
    x, w, b = arrays()
    out = [numpy.empty((8, 24), "float32"), numpy.empty((8, 24), "float32")]
    program.run({"b": b, "x": numpy.asfortranarray(x), "w": w}, out=out)
    check(out)


def test_it_tells_what_it_is(program):
    info = program.info
    assert info["steps"] == {"library": 1, "fragment": 1} and info["launches"] == 1, info
    assert "OpenBLAS" in info["library"] and info["fallbacks"] == []
    assert info["arena_bytes"] >= info["lower_bound_bytes"]


@pytest.mark.parametrize(
    "given, message",
    [
        (lambda x, w, b: (x, w), "the program has 3 inputs, 2 arrays were given"),
        (lambda x, w, b: (x, w.T, b), r"input 1: f32\[16,24\] is wanted, the array is 16 in dimension 1"),
        (lambda x, w, b: ({"x": x, "w": w, "c": b},), "no input 'c'; it has x, w, b"),
        (lambda x, w, b: ({"x": x, "w": w},), "no array was given for b"),
        (lambda x, w, b: (x.astype("float64"), w, b), "of another element type"),
    ],
)
def test_wrong_arrays_are_named(program, given, message):
    with pytest.raises(stitch.InvalidArgument, match=message):
        program.run(*given(*arrays()))


def test_threads_share_one_program(program):
    results = [None] * 4

    def run(i):
        x, w, b = arrays()
        results[i] = program.run(x * i, w, b)[1]

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    x, w, b = arrays()
    for i, result in enumerate(results):
        numpy.testing.assert_allclose(result, (x * i) @ w + b, rtol=1e-4, atol=1e-4)


def test_a_saved_program_needs_no_server(program, tmp_path):
    program.save(tmp_path / "model.stitch")
    arguments = tmp_path / "arguments.npz"
    numpy.savez(arguments, *arrays())
    code = (
        "import numpy, stitch\n"
        f"data = numpy.load({str(arguments)!r})\n"
        f"program = stitch.program({str(tmp_path / 'model.stitch')!r})\n"
        f"numpy.savez({str(tmp_path / 'results.npz')!r}, *program.run(*[data[name] for name in data.files]))\n"
    )
    environment = dict(os.environ, STITCH_SERVER="unix:///nowhere/stitchd.sock")
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=120)
    data = numpy.load(tmp_path / "results.npz")
    check([data[name] for name in data.files])


def replaced(data: bytes, before: bytes, after: bytes) -> bytes:
    assert data.count(before) == 1
    return data.replace(before, after)


def of_another_version(data: bytes) -> bytes:
    """A program's document, as a Stitch writes it whose format is another."""
    return replaced(data, b"gversion\x03", b"gversion\x17")


def with_other_code(data: bytes) -> bytes:
    return data.replace(b".address_size 64", b".address_size 65")


REFUSED = {
    "stale": (of_another_version, stitch.CompatibilityError, "of version 23 of the format; this Stitch reads 1 to 3"),
    "truncated": (lambda data: data[:-100], stitch.ParseError, "CBOR"),
    "truncated in its midst": (lambda data: data[: len(data) // 2], stitch.ParseError, "CBOR"),
    "tampered with": (lambda data: data.replace(b"level 1", b"level 9"), stitch.CorruptError, "program's contents"),
    "in a plan": (lambda data: data.replace(b"fblocks\x01", b"fblocks\x02"), stitch.CorruptError, "plans_hash"),
    "in its code": (with_other_code, stitch.CorruptError, "is not the hash of its bytes"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_program_that_must_not_run_is_refused_with_the_reason(what, program, tmp_path):
    change, error, said = REFUSED[what]
    wrong = change(program.to_bytes())
    assert wrong != program.to_bytes()
    (tmp_path / "wrong.stitch").write_bytes(wrong)
    for source in (wrong, tmp_path / "wrong.stitch"):
        with pytest.raises(error, match=said):
            stitch.program(source)


def test_what_is_no_program_is_refused_with_the_reason(tmp_path):
    (tmp_path / "foreign.stitch").write_bytes(b"PK\x03\x04, and no program")
    with pytest.raises(stitch.Unsupported, match="neither HLO text nor ONNX nor a fragment"):
        stitch.program(tmp_path / "foreign.stitch")
    with pytest.raises(stitch.InvalidArgument, match="No such file"):
        stitch.program(tmp_path / "nothing.onnx")


def test_of_any_bit_that_is_another_the_program_is_refused_or_the_same(program):
    """What no hash covers are names for people."""
    right, refused = program.to_bytes(), 0
    random = numpy.random.default_rng(27)
    for _ in range(100):
        wrong = bytearray(right)
        wrong[random.integers(len(wrong))] ^= 1 << random.integers(8)
        try:
            opened = stitch.program(bytes(wrong))
        except stitch.Error as error:
            assert str(error)
            refused += 1
            continue
        assert opened.info["id"] == program.info["id"]
        check(opened.run(*arrays()))
    assert refused > 90


def test_an_operator_that_nobody_computes_is_named(tmp_path):
    path = tmp_path / "sorted.hlo.txt"
    path.write_text(
        """HloModule sorted
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}
ENTRY main {
  x = f32[2,9000] parameter(0)
  ROOT s = f32[2,9000] sort(x), dimensions={1}, to_apply=less
}
"""
    )
    with pytest.raises(stitch.Unsupported, match="sort"):
        stitch.program(path)


def test_types_that_numpy_has_not(tmp_path):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    path = tmp_path / "half.hlo.txt"
    path.write_text("HloModule half\nENTRY main {\n  x = bf16[8,64] parameter(0)\n  ROOT y = bf16[8,64] negate(x)\n}\n")
    program = stitch.program(path, improve=False, deadline_ms=600_000)
    x = numpy.random.default_rng(4).standard_normal((8, 64)).astype(ml_dtypes.bfloat16)
    y = program.run(x)
    assert y.dtype == ml_dtypes.bfloat16
    numpy.testing.assert_array_equal(y, -x)


ON_A_STREAM = """
import ctypes, sys
import numpy, stitch

def call(name, *arguments):
    assert getattr(cuda, name)(*arguments) == 0, name

path, server = sys.argv[1:]
random = numpy.random.default_rng(3)
arrays = [random.standard_normal(shape, "float32") for shape in ((8, 16), (16, 24), (24,))]
program = stitch.program(path, device="cuda", improve=False, deadline_ms=600_000, server=server, products="library")
assert program.info["can_launch"] and program.info["library"].startswith("cuBLASLt"), program.info
z = arrays[0].astype("f8") @ arrays[1].astype("f8") + arrays[2]
by_host = program.run(*arrays)
numpy.testing.assert_allclose(by_host[0], numpy.tanh(z), rtol=1e-5, atol=1e-5)

cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
addresses = []
for array in [*arrays, *by_host]:
    address = ctypes.c_uint64()
    call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(array.nbytes))
    call("cuMemcpyHtoD_v2", address, ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes))
    addresses.append(address.value)
call("cuMemsetD8_v2", ctypes.c_uint64(addresses[-1]), ctypes.c_ubyte(7), ctypes.c_size_t(4))
program.launch(addresses[:3], addresses[3:])
call("cuCtxSynchronize")
for address, expected in zip(addresses[3:], by_host):
    found = numpy.empty_like(expected)
    call("cuMemcpyDtoH_v2", ctypes.c_void_p(found.ctypes.data), ctypes.c_uint64(address), ctypes.c_size_t(found.nbytes))
    numpy.testing.assert_array_equal(found, expected)

# A plan by itself, on the same memory.
fragment = {"format": "stitch-graph", "version": 1, "name": "exp", "nodes": [
    {"op": "parameter", "attributes": {"type": "f32[24]"}}, {"op": "exp", "operands": [0]}], "results": [1]}
plan = stitch.plan(fragment, device="cuda", improve=False, deadline_ms=600_000, server=server)
plan.launch([addresses[2]], [addresses[1]])
call("cuCtxSynchronize")
found = numpy.empty(24, "float32")
call("cuMemcpyDtoH_v2", ctypes.c_void_p(found.ctypes.data), ctypes.c_uint64(addresses[1]), ctypes.c_size_t(found.nbytes))
numpy.testing.assert_allclose(found, numpy.exp(arrays[2].astype("f8")), rtol=1e-5)

# Kernels of ours in the library's place.
own = stitch.program(path, device="cuda", improve=False, deadline_ms=600_000, server=server, products="ours")
assert own.info["can_launch"] and own.info["library"] == "no library calls" and "library" not in own.info["steps"]
numpy.testing.assert_allclose(own.run(*arrays)[1], z, rtol=1e-5, atol=1e-5)
print("launched")
"""


def test_a_program_runs_on_a_stream(program, tmp_path):
    """On the emulated driver, chosen as its users choose it."""
    emulated = pathlib.Path(stitch.__file__).parent.joinpath("bin").resolve().parent / "lib" / "emulated"
    if not (emulated / "libcuda.so.1").exists():
        pytest.skip("the emulated driver was not built")
    model = tmp_path / "two_layers.hlo.txt"
    model.write_text(HLO)
    environment = {**os.environ, "LD_LIBRARY_PATH": str(emulated), "STITCH_EMULATED_QUIET": "1"}
    server = f"unix://{_native.default_socket_path()}"
    done = subprocess.run(
        [sys.executable, "-c", ON_A_STREAM, model, server], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and "launched" in done.stdout, done.stderr


def test_a_lock_is_kept_to(program, tmp_path):
    lock, file = tmp_path / "two_layers.lock", tmp_path / "two_layers.program"
    lock.write_text(program.lock())
    assert program.lock().startswith("stitch-lock 1\nprogram ") and program.info["id"] in program.lock()
    program.save(file)
    assert stitch.program(file, lock=lock).lock() == program.lock()
    plan = program.lock().split("plan ")[1].split()[0]
    lock.write_text(program.lock().replace(plan, "0" * len(plan)))
    with pytest.raises(stitch.ConstraintError, match=plan):
        stitch.program(file, lock=lock)


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """For two classes of GPUs, as the command line makes it."""
    folder = tmp_path_factory.mktemp("package")
    (folder / "two_layers.hlo.txt").write_text(HLO)
    command = [_programs.find("stitch"), "package", "two_layers.hlo.txt", "--targets", "a100,l4", "--predict"]
    command += ["--output", "two_layers.package"]
    subprocess.run(command, cwd=folder, env=_programs.environment(), check=True, capture_output=True, timeout=600)
    return folder / "two_layers.package"


@pytest.mark.parametrize(
    "device, fitness, target, reason",
    [
        ("a100", "optimal", "a100", "a100"),
        ("L4", "optimal", "l4", "l4"),
        ("l40s", "runs", "l4", "l4"),
        ("v100", "refused", None, "7.0"),
    ],
)
def test_how_a_package_goes_with_a_gpu_is_told(device, fitness, target, reason, package):
    for source in (package, str(package), package.read_bytes()):
        found = stitch.compatibility(source, device)
        assert (found.device, found.fitness, found.target) == (device.lower(), fitness, target), found
        assert reason in found.reason


def test_how_a_program_goes_with_a_gpu_is_told(program, tmp_path):
    made_for = program.info["device"]
    program.save(tmp_path / "two_layers.stitch")
    for source in (program, program.to_bytes(), tmp_path / "two_layers.stitch"):
        assert stitch.compatibility(source, made_for).fitness == "optimal"
        refused = stitch.compatibility(source, "l4")
        assert refused.fitness == "refused" and refused.target is None and "compute capability" in refused.reason


def test_what_compatibility_cannot_tell_is_an_error(program, tmp_path):
    with pytest.raises(stitch.InvalidArgument, match="h1000.*h100"):
        stitch.compatibility(program, "h1000")
    with pytest.raises(stitch.DeviceUnavailable, match="GPU|libcuda"):
        stitch.compatibility(program, ordinal=977)
    for no_program in ({"format": "stitch-graph"}, HLO.encode()):
        with pytest.raises(stitch.InvalidArgument, match="neither a program nor a package"):
            stitch.compatibility(no_program, "h100")
    with pytest.raises(stitch.InvalidArgument, match="No such file"):
        stitch.compatibility(tmp_path / "nothing.package", "h100")
    with pytest.raises(stitch.CorruptError, match="plans_hash"):
        stitch.compatibility(program.to_bytes().replace(b"fblocks\x01", b"fblocks\x02"), "h100")


def test_the_emulated_device_has_no_addresses(program):
    with pytest.raises(stitch.Unsupported, match="no addresses to launch with"):
        program.launch([16, 16, 16], [16, 16])


@pytest.mark.parametrize(
    ("library", "variable"), [("cublas", "STITCH_CUBLAS_LT"), ("cudnn", "STITCH_CUDNN")], ids=["cublas", "cudnn"]
)
def test_a_library_of_a_python_package_is_found(library, variable, monkeypatch):
    packaged = _nvidia._of_packages(library)
    if not packaged:
        pytest.skip(f"no package with {library} is installed")
    assert all(pathlib.Path(file).name in _nvidia._NAMES[library] for file in packaged)
    monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(_nvidia, "_of_packages", lambda _: packaged)
    monkeypatch.setitem(_nvidia._NAMES, library, ("libnvidia.so.of-no-loader",))
    assert _nvidia.find.__wrapped__(library) == packaged[0]
    monkeypatch.setattr(_nvidia, "_of_packages", lambda _: [])
    assert _nvidia.find.__wrapped__(library) is None
    monkeypatch.setenv(variable, "libmine.so")
    assert _nvidia.find.__wrapped__(library) == "libmine.so"
