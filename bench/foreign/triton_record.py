"""Records launches of Triton kernels: what the wrapper launches is compiled for sm_90 without a device, run by Triton's
interpreter (NumPy) for its result, and filed in a corpus with its arguments before and after.

    with recording(corpus, "rms_norm"):
        wrapper(x, w)              # ordinary PyTorch on the CPU, launching kernels as it would on a GPU
"""
import contextlib
import inspect
import os
import re
import warnings

import numpy as np
import torch
import triton
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
    nested = 0


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

    def arguments(self, compiled):
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
        # Triton's scratch pointers, which these kernels do not use.
        parameters = re.search(r"\.entry[^(]*\((.*?)\)", compiled.asm["ptx"], re.S).group(1).count(".param")
        texts += ["null"] * (parameters - len(texts))
        return texts, owners

    def pointer(self, name, value, owners):
        address = value.untyped_storage().data_ptr()
        offset = value.data_ptr() - address
        if address in owners:
            return f"&{owners[address]}+{offset}"
        owners[address] = name
        if offset:
            raise ValueError(f"{name} begins inside its storage")
        return describe(value, self.before[address][1])

    def expectations(self, owners):
        rows = []
        for address, (tensor, data) in self.before.items():
            now = storage_bytes(tensor)
            if now == data or address not in owners:
                continue
            kind = TYPES[tensor.dtype]
            relative, absolute = Recorder.tolerance or TOLERANCES.get(kind, (0.0, 0.0))
            if kind in TOLERANCES:
                values = torch.tensor([], dtype=tensor.dtype).set_(tensor.untyped_storage()).double()
                values = values[torch.isfinite(values)].abs()
                values = values[values < 1e30]
                absolute *= max(float(values.max()) if values.numel() else 1.0, 1e-6)
            else:
                relative = absolute = 0.0
            rows.append(corpora.expectation(owners[address], kind, now, relative, float(f"{absolute:.3g}")))
        return rows


def interpret(function, args, kwargs, grid):
    interpreted = interpreter.InterpretedFunction(function.fn)
    names = set(inspect.signature(function.fn).parameters)
    interpreted.run(*args, grid=grid, warmup=False, **{k: v for k, v in kwargs.items() if k in names})


def record_run(function, *args, grid, warmup, **kwargs):
    if Recorder.corpus is None:
        raise RuntimeError("a launch outside of recording()")
    launch = Launch(function, args, kwargs)
    compiled = compile_kernel(function, args, kwargs)
    shape = grid(dict(launch.values)) if callable(grid) else grid
    shape = tuple(int(n) for n in shape) + (1,) * (3 - len(shape))
    interpret(function, args, kwargs, grid)
    try:
        texts, owners = launch.arguments(compiled)
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
                        entry=metadata.name, shared=metadata.shared, reference="Triton's interpreter (NumPy)")
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


def install():
    triton.runtime.driver.set_active(RecordingDriver())
    JITFunction.run = record_run
    JITFunction.__call__ = lambda self, *a, **k: interpreter.InterpretedFunction(self.fn)(*a, **k)
    Autotuner.run = first_config
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
def recording(corpus, prefix, tolerance=None):
    Recorder.corpus, Recorder.prefix, Recorder.tolerance = corpus, prefix, tolerance
    try:
        yield
    finally:
        Recorder.corpus = None
