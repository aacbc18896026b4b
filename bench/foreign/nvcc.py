"""CUDA C++ sources into PTX and corpus entries: compiled by nvcc for one architecture, results computed with NumPy."""
import os
import subprocess
import tempfile

import numpy as np

import corpus as corpora

CUDA = os.environ.get("CUDA_HOME", "/usr/local/cuda")
KINDS = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64", np.dtype(np.float16): "f16", np.dtype(np.int8): "s8",
         np.dtype(np.uint8): "u8", np.dtype(np.int16): "s16", np.dtype(np.uint16): "u16", np.dtype(np.int32): "s32",
         np.dtype(np.uint32): "u32", np.dtype(np.int64): "s64", np.dtype(np.uint64): "u64", np.dtype(np.bool_): "pred"}


def compile_ptx(source, arch="sm_90a", includes=(), options=()):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "kernel.cu")
        with open(path, "w") as file:
            file.write(source)
        command = [f"{CUDA}/bin/nvcc", "-ptx", f"-arch={arch}", "-std=c++17", "-O3", "-diag-suppress", "177,186,550",
                   "--expt-relaxed-constexpr", *options, *[f"-I{i}" for i in includes], path, "-o", path + ".ptx"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr[:3000] + done.stdout[:1000])
        with open(path + ".ptx") as file:
            return file.read()


class Random:
    """An input of the corpora's rule: `array` for NumPy, `spec` for the corpus."""

    def __init__(self, count, seed, dtype=np.float32, low=None, high=None):
        dtype = np.dtype(dtype)
        if dtype.kind == "f":
            low, high = -2.0 if low is None else low, 2.0 if high is None else high
            if dtype == np.float64:
                unit = (corpora.mix(seed, np.arange(count)) >> np.uint64(40)).astype(np.float64) / (1 << 24)
                self.array = low + (high - low) * unit
            else:
                self.array = corpora.random(count, seed, low, high).astype(dtype)
        else:
            low, high = 0 if low is None else low, 100 if high is None else high
            self.array = corpora.random_integers(count, seed, low, high, dtype)
        self.spec = f"random:{KINDS[dtype]}[{count}]:seed={seed}:low={low}:high={high}"


class Data:
    """An input whose bytes are kept."""

    def __init__(self, array, kind=None):
        self.array = np.ascontiguousarray(array)
        kind = kind or KINDS[self.array.dtype]
        self.spec = f"data:{kind}[{self.array.nbytes // corpora.BYTES[kind]}]:{corpora.encode(self.array.tobytes())}"


class Out:
    """A result: NumPy's, and how near it must be. `start`: what the buffer holds before, if anything."""

    def __init__(self, expected, relative=0.0, absolute=0.0, kind=None, start=None):
        self.expected = np.ascontiguousarray(expected)
        self.kind = kind or KINDS[self.expected.dtype]
        self.relative, self.absolute = relative, absolute
        size = self.expected.nbytes // corpora.BYTES[self.kind]
        self.spec = f"{start or 'out'}:{self.kind}[{size}]" if not hasattr(start, "spec") else start.spec


def add(corpus, name, ptx, entry, grid, block, arguments, shared=0, cluster=None, **more):
    specs, expect = [], []
    for i, argument in enumerate(arguments):
        specs.append(argument if isinstance(argument, str) else argument.spec)
        if isinstance(argument, Out):
            expect.append(corpora.expectation(str(i), argument.kind, argument.expected.tobytes(), argument.relative,
                                              argument.absolute))
    as_list = lambda n: list(n) if isinstance(n, (tuple, list)) else [n, 1, 1]
    corpus.add(name, ptx, as_list(grid), as_list(block), specs, expect, entry=entry, shared=shared, cluster=cluster, **more)
