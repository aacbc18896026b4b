"""Records launches of Triton kernels: what the wrapper launches is compiled for sm_90 (TARGET) without a device, run by Triton's
interpreter (NumPy) for its result, and filed in a corpus with its arguments before and after.

    with recording(corpus, "rms_norm"):
        wrapper(x, w)              # ordinary PyTorch on the CPU, launching kernels as it would on a GPU
"""
import contextlib
import inspect
import math
import os
import re
import sys
import types
import warnings

import numpy as np
import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.runtime import interpreter
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

import corpus as corpora

warnings.filterwarnings("ignore")
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
TYPES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.float64: "f64", torch.int8: "s8",
         torch.uint8: "u8", torch.int16: "s16", torch.int32: "s32", torch.int64: "s64", torch.bool: "pred",
         torch.float8_e4m3fn: "f8e4m3", torch.float8_e5m2: "f8e5m2"}
SCALARS = {"i1": "pred", "i8": "s8", "i16": "s16", "i32": "s32", "i64": "s64", "u1": "pred", "u8": "u8", "u16": "u16",
           "u32": "u32", "u64": "u64", "fp16": "f16", "bf16": "bf16", "fp32": "f32", "fp64": "f64"}
# What the interpreter rounds elsewhere than the kernel does: relative to the value, and to the largest value.
TOLERANCES = {"f64": (1e-10, 1e-12), "f32": (1e-4, 2e-5), "f16": (4e-3, 2e-3), "bf16": (3e-2, 1e-2), "f8e4m3": (0.13, 0.02),
              "f8e5m2": (0.26, 0.02)}
POISON = 0xCD
TARGET = GPUTarget("cuda", 90, 32)


class Recorder:
    corpus = None
    prefix = ""
    tolerance = None
    seeds = {}     # storage address → (spec, bytes) of arrays that random() made
    keep = []      # … which must live as long as their addresses are remembered
    smallest = 1e-6   # absolute tolerances are relative to the largest value, or to this
    override = None   # what computes the result in the interpreter's place


def random(shape, seed, dtype=torch.float32, low=-2.0, high=2.0):
    """A tensor of the corpora's rule, whose recipe is kept in the place of its bytes."""
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    count = int(np.prod(shape))
    if dtype.is_floating_point:
        tensor = torch.from_numpy(corpora.random(count, seed, low, high)).to(dtype).reshape(shape)
    else:
        tensor = torch.from_numpy(corpora.random_integers(count, seed, low, high, np.int64)).to(dtype).reshape(shape)
    spec = f"random:{TYPES[dtype]}[{count}]:seed={seed}:low={low}:high={high}"
    Recorder.seeds[tensor.untyped_storage().data_ptr()] = (spec, storage_bytes(tensor))
    Recorder.keep.append(tensor)
    return tensor


def storage_bytes(tensor):
    storage = tensor.untyped_storage()
    return np.array(torch.tensor([], dtype=torch.uint8).set_(storage).numpy(), copy=True).tobytes()


def describe(tensor, data):
    """The argument's form for a storage that holds `data`."""
    kind = TYPES[tensor.dtype]
    count = len(data) // corpora.BYTES[kind]
    array = np.frombuffer(data, dtype=np.uint8)
    if len(data) and (array == POISON).all():
        return f"out:{kind}[{count}]"
    if not array.any():
        return f"zero:{kind}[{count}]"
    known = Recorder.seeds.get(tensor.untyped_storage().data_ptr())
    if known and known[1] == data:
        return known[0]
    return f"data:{kind}[{count}]:{corpora.encode(data)}"


def scalar(kind, value):
    name = SCALARS[kind]
    if name in ("f16", "bf16", "f32", "f64"):
        return f"{name}={float(value)!r}"
    return f"{name}={int(value)}"


class Launch:
    """One launch: its arguments before, and after."""

    def __init__(self, function, args, kwargs):
        signature = inspect.signature(function.fn)
        names = set(signature.parameters)
        bound = signature.bind(*args, **{k: v for k, v in kwargs.items() if k in names})
        bound.apply_defaults()
        self.values = dict(bound.arguments)
        self.before = {}
        for value in self.values.values():
            if torch.is_tensor(value):
                self.before[value.untyped_storage().data_ptr()] = (value, storage_bytes(value))

    def arguments(self, compiled, blocks):
        texts, owners = [], {}
        for name, kind in compiled.src.signature.items():
            if kind == "constexpr":
                continue
            value = self.values[name]
            if value is None:
                texts.append(f"{name}=null")
            elif torch.is_tensor(value):
                texts.append(f"{name}={self.pointer(name, value, owners)}")
            elif isinstance(kind, str) and kind in SCALARS:
                texts.append(f"{name}={scalar(kind, value)}")
            else:
                raise TypeError(f"argument {name} of type {kind}")
        # Triton's pointers to scratch memory, for each block so much, and for profiling.
        if compiled.metadata.global_scratch_size:
            texts.append(f"out:u8[{compiled.metadata.global_scratch_size * blocks}]")
        parameters = re.search(r"\.entry[^(]*\((.*?)\)", compiled.asm["ptx"], re.S).group(1).count(".param")
        texts += ["null"] * (parameters - len(texts))
        return texts, owners

    def pointer(self, name, value, owners):
        address = value.untyped_storage().data_ptr()
        offset = value.data_ptr() - address
        if address in owners:
            owner, begin = owners[address]
            if offset < begin:
                raise ValueError(f"{name} begins before {owner}, in the same storage")
            return f"&{owner}+{offset - begin}"
        owners[address] = (name, offset)
        return describe(value, self.before[address][1][offset:])

    def tolerance(self, kind):
        """That of the result, or of the coarsest type among the arguments, which the kernel may round to on its way."""
        kinds = [kind] + [TYPES[tensor.dtype] for tensor, _ in self.before.values()]
        known = [TOLERANCES[k] for k in kinds if k in TOLERANCES]
        return max(known, default=(0.0, 0.0))

    def expectations(self, owners):
        rows = []
        for address, (tensor, data) in self.before.items():
            now = storage_bytes(tensor)
            if now == data or address not in owners:
                continue
            kind = TYPES[tensor.dtype]
            relative, absolute = Recorder.tolerance or self.tolerance(kind)
            if kind in TOLERANCES:
                values = torch.tensor([], dtype=tensor.dtype).set_(tensor.untyped_storage()).double()
                values = values[torch.isfinite(values)].abs()
                values = values[values < 1e30]
                absolute *= max(float(values.max()) if values.numel() else 1.0, Recorder.smallest)
            else:
                relative = absolute = 0.0
            name, begin = owners[address]
            rows.append(corpora.expectation(name, kind, now[begin:], relative, float(f"{absolute:.3g}")))
        return rows


def widen(handle):
    """bf16, which the interpreter holds as 16-bit integers and would compute with as such, as f32."""
    if handle.dtype.scalar != tl.bfloat16:
        return handle
    data = (np.asarray(handle.data).astype(np.uint32) << np.uint32(16)).view(np.float32)
    return interpreter.TensorHandle(data, tl.float32)


def narrow(handle):
    if handle.data.dtype != np.float32:
        return handle
    bits = handle.data.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    rounded = np.where(np.isnan(handle.data), np.uint32(0x7FFF), rounded)
    return interpreter.TensorHandle(rounded.astype(np.uint16), tl.bfloat16)


def in_f32(method):
    """A method of the interpreter's builder on handles, computed in f32 and rounded where they are bf16."""
    def computed(self, *operands):
        handles = [o for o in operands if isinstance(o, interpreter.TensorHandle)]
        if not any(h.dtype.scalar == tl.bfloat16 for h in handles):
            return method(self, *operands)
        wide = [widen(o) if isinstance(o, interpreter.TensorHandle) else o for o in operands]
        return narrow(method(self, *wide))
    return computed


original_apply = interpreter.ReduceScanOpInterface.apply
original_dot = interpreter.InterpreterBuilder.create_dot


def reduce_in_f32(self, operands):
    """Reductions and scans of bf16."""
    if not isinstance(operands, tuple):
        return reduce_in_f32(self, (operands,))[0]
    halves = [isinstance(o, tl.tensor) and o.handle.dtype.scalar == tl.bfloat16 for o in operands]
    if not any(halves):
        return original_apply(self, operands)
    wide = tuple(self.to_tensor(widen(o.handle).data, tl.float32) if h else o for o, h in zip(operands, halves))
    results = original_apply(self, wide)
    return tuple(self.to_tensor(narrow(r.handle).data, tl.bfloat16) if h else r for r, h in zip(results, halves))


def dot_in_f32(self, a, b, d, precision, imprecise):
    return original_dot(self, widen(a), widen(b), d, precision, imprecise)


def erf(x):
    return np.vectorize(math.erf, otypes=[np.float64])(x)


# libdevice's functions, which the interpreter does not know.
LIBDEVICE = {"rsqrt": lambda x: 1 / np.sqrt(x), "tanh": np.tanh, "erf": erf, "exp": np.exp, "exp2": np.exp2, "log": np.log,
             "log2": np.log2, "log1p": np.log1p, "expm1": np.expm1, "sqrt": np.sqrt, "pow": np.power, "floor": np.floor,
             "ceil": np.ceil, "asin": np.arcsin, "rint": np.rint, "sin": np.sin, "cos": np.cos, "atan2": np.arctan2}


def from_numpy(function):
    def computed(*operands):
        first = operands[0]
        values = [widen(o.handle).data.astype(np.float64) if isinstance(o, tl.tensor) else o for o in operands]
        with np.errstate(all="ignore"):
            result = np.asarray(function(*values))
        if first.handle.dtype.scalar == tl.bfloat16:
            return tl.tensor(narrow(interpreter.TensorHandle(result.astype(np.float32), tl.float32)), first.type)
        return tl.tensor(interpreter.TensorHandle(result.astype(first.handle.data.dtype), first.handle.dtype), first.type)
    return computed


@contextlib.contextmanager
def libdevice_by_numpy(names):
    """libdevice's functions compute with NumPy, in its modules and in `names`, the globals of a kernel's module."""
    saved = []
    for module in [m for n, m in sys.modules.items() if n.startswith("triton.language.extra") and "libdevice" in n]:
        saved += [(vars(module), key, vars(module)[key]) for key in LIBDEVICE
                  if getattr(vars(module).get(key), "__name__", "") == key]
    for key, value in names.items():
        if "libdevice" in str(getattr(value, "__module__", "")) and getattr(value, "__name__", "") in LIBDEVICE:
            saved.append((names, key, value))
    for holder, key, value in saved:
        holder[key] = from_numpy(LIBDEVICE[value.__name__])
    try:
        yield
    finally:
        for holder, key, value in saved:
            holder[key] = value


def interpret(function, args, kwargs, grid):
    interpreted = interpreter.InterpretedFunction(function.fn)
    names = set(inspect.signature(function.fn).parameters)
    with libdevice_by_numpy(function.fn.__globals__):
        interpreted.run(*args, grid=grid, warmup=False, **{k: v for k, v in kwargs.items() if k in names})


def record_run(function, *args, grid, warmup, **kwargs):
    if Recorder.corpus is None:
        raise RuntimeError("a launch outside of recording()")
    launch = Launch(function, args, kwargs)
    compiled = compile_kernel(function, args, kwargs)
    shape = grid(dict(launch.values)) if callable(grid) else grid
    shape = tuple(int(n) for n in shape) + (1,) * (3 - len(shape))
    if Recorder.override:
        Recorder.override(launch.values)
    else:
        interpret(function, args, kwargs, grid)
    try:
        texts, owners = launch.arguments(compiled, shape[0] * shape[1] * shape[2])
    except (ValueError, TypeError) as error:
        print(f"  not recorded: {function.fn.__name__}: {error}")
        return compiled
    expect = launch.expectations(owners)
    if not expect:
        print(f"  not recorded: {function.fn.__name__}: it changes nothing")
        return compiled
    metadata = compiled.metadata
    name = f"{Recorder.prefix}.{function.fn.__name__.strip('_')}"
    Recorder.corpus.add(name, compiled.asm["ptx"], shape, [32 * metadata.num_warps, 1, 1], texts, expect,
                        entry=metadata.name, shared=metadata.shared, reference="PyTorch" if Recorder.override else "Triton's interpreter (NumPy)")
    return compiled


original_run = JITFunction.run
original_call = JITFunction.__call__


def compile_kernel(function, args, kwargs):
    return original_run(function, *args, grid=(1, 1, 1), warmup=True, **kwargs)


class RecordingDriver:
    """What Triton asks of a driver, for a device that is not there."""

    def get_current_target(self):
        return TARGET

    def get_current_device(self):
        return 0

    def get_current_stream(self, device=None):
        return 0

    def get_device_capability(self, device=None):
        return (9, 0)

    def get_active_torch_device(self):
        return torch.device("cpu")

    def get_benchmarker(self):
        raise RuntimeError("there is nothing to measure on")

    class utils:
        @staticmethod
        def get_device_properties(device):
            return {"max_shared_mem": 232448, "multiprocessor_count": 4, "max_num_regs": 65536, "warpSize": 32}


def first_config(tuner, *args, **kwargs):
    """Autotuners take their first configuration: what is fastest is not the question here."""
    config = tuner.configs[0]
    tuner.best_config = config
    return tuner.fn.run(*args, **{**kwargs, **config.all_kwargs()})


def interpret_call(function, *args, **kwargs):
    """A call of one kernel function by another while it is interpreted; leaves Triton's language as it was."""
    scope = interpreter._patch_lang(function.fn)
    try:
        with libdevice_by_numpy(function.fn.__globals__):
            return interpreter.InterpretedFunction(function.fn).rewrite()(*args, **kwargs)
    finally:
        scope.restore()


original_convert = interpreter._implicit_cvt


def convert_argument(value):
    """Scalars of Python are f32 to a kernel, whose code asks them for what tensors have; the interpreter leaves them."""
    if isinstance(value, float):
        return tl.tensor(interpreter.TensorHandle(np.array([value], dtype=np.float32), tl.float32), tl.float32)
    return original_convert(value)


def install():
    interpreter._implicit_cvt = convert_argument
    builder = interpreter.InterpreterBuilder
    for name in ("binary_op", "ternary_op", "unary_op"):
        setattr(builder, name, in_f32(getattr(builder, name)))
    builder.create_dot = dot_in_f32
    interpreter.ReduceScanOpInterface.apply = reduce_in_f32
    triton.runtime.driver.set_active(RecordingDriver())
    JITFunction.run = record_run
    JITFunction.__call__ = interpret_call
    Autotuner.run = first_config
    properties = types.SimpleNamespace(multi_processor_count=4, major=9, minor=0, name="a GPU that is not there")
    torch.cuda.get_device_properties = lambda device=None: properties
    poison_empty()


def poison_empty():
    """Memory that PyTorch leaves uninitialised gets a pattern, so that the corpus can say so."""
    def poisoned(make):
        def made(*args, **kwargs):
            tensor = make(*args, **kwargs)
            if tensor.device.type == "cpu" and tensor.numel():
                torch.tensor([], dtype=torch.uint8).set_(tensor.untyped_storage()).fill_(POISON)
            return tensor
        return made

    for holder, name in ((torch, "empty"), (torch, "empty_like"), (torch, "empty_strided"), (torch.Tensor, "new_empty")):
        setattr(holder, name, poisoned(getattr(holder, name)))


@contextlib.contextmanager
def recording(corpus, prefix, tolerance=None, smallest=1e-6, override=None):
    Recorder.corpus, Recorder.prefix, Recorder.tolerance = corpus, prefix, tolerance
    Recorder.smallest, Recorder.override = smallest, override
    try:
        yield
    finally:
        Recorder.corpus = None
