"""CUTLASS's and CuTe's kernels: GEMMs of its device API, whose kernels are called with parameters made on the device,
CuTe's tutorials, and those for Hopper (cutlass_hopper.py); compiled by nvcc for the architecture that they are written for."""
import importlib.metadata
import math
import re
import sys

import numpy as np

import corpus as corpora
import cutlass_hopper
from nvcc import Data, Out, Random, add, compile_ptx

HEADERS = """#include "cutlass/gemm/device/gemm.h"
#include "cutlass/gemm/device/gemm_batched.h"
#include "cutlass/gemm/device/gemm_sparse.h"
#include "cutlass/epilogue/thread/linear_combination_relu.h"
#include "cutlass/epilogue/thread/linear_combination_gelu.h"
#include "cutlass/epilogue/thread/linear_combination_sigmoid.h"
#include "cutlass/epilogue/thread/linear_combination_clamp.h"
"""

NUMPY = {"float": np.float32, "double": np.float64, "cutlass::half_t": np.float16, "int8_t": np.int8, "uint8_t": np.uint8,
         "int32_t": np.int32}
KIND = {"cutlass::bfloat16_t": "bf16"}


def folder():
    """The headers that PyPI's nvidia-cutlass carries."""
    for file in importlib.metadata.files("nvidia-cutlass"):
        if str(file).endswith("source/include/cutlass/cutlass.h"):
            return str(file.locate()).removesuffix("/include/cutlass/cutlass.h")
    raise RuntimeError("nvidia-cutlass has no headers")


def to_bf16(x):
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


class Matrix:
    """An operand: as the corpus has it, and as numbers (`values`, rows × columns)."""

    def __init__(self, element, rows, columns, row_major, seed):
        count = rows * columns
        whole = np.dtype(NUMPY.get(element, np.float32)).kind != "f"
        if element in ("cutlass::int4b_t", "cutlass::uint4b_t"):
            low = -8 if element == "cutlass::int4b_t" else 0
            flat = corpora.random_integers(count, seed, low, low + 16, np.int32)
            packed = (flat[0::2] & 15 | (flat[1::2] & 15) << 4).astype(np.uint8)
            self.argument = Data(packed)
        elif element == "cutlass::uint1b_t":
            flat = corpora.random_integers(count, seed, 0, 2, np.int32)
            self.argument = Data(np.packbits(flat.astype(np.uint8), bitorder="little"))
        elif element == "cutlass::bfloat16_t":
            f32 = corpora.random(count, seed)
            flat = from_bf16(to_bf16(f32))
            self.argument = f"random:bf16[{count}]:seed={seed}:low=-2.0:high=2.0"
        elif whole:
            low = 0 if element == "uint8_t" else -100
            self.argument = Random(count, seed, NUMPY[element], low, 100)
            flat = self.argument.array
        else:
            self.argument = Random(count, seed, NUMPY[element])
            flat = self.argument.array
        self.values = flat.astype(np.float64).reshape((rows, columns) if row_major else (columns, rows))
        if not row_major:
            self.values = self.values.T
        self.leading = columns if row_major else rows


TENSOR, SIMT = "cutlass::arch::OpClassTensorOp", "cutlass::arch::OpClassSimt"
HALF, BFLOAT = "cutlass::half_t", "cutlass::bfloat16_t"


class Gemm:
    """A row of the table: types, layouts ("r", "c"), tiles of block, warp and instruction, stages."""

    def __init__(self, name, a, b, c, accumulator, layouts, block, warp, instruction, stages, size, arch="Sm80", kind=TENSOR,
                 operator="cutlass::arch::OpMultiplyAdd", epilogue="LinearCombination", scale=(1.0, 0.0), sparse=False):
        self.__dict__.update(locals())

    def source(self, i):
        layout = {"r": "cutlass::layout::RowMajor", "c": "cutlass::layout::ColumnMajor"}
        shape = lambda s: f"cutlass::gemm::GemmShape<{s[0]}, {s[1]}, {s[2]}>"
        bits = {"float": 32, "double": 64, HALF: 16, BFLOAT: 16, "int8_t": 8, "int32_t": 32}[self.c]
        width = 1 if self.kind == SIMT else min(128 // bits, 128 // 32 if self.accumulator == "int32_t" else 128 // bits)
        compute = "float" if self.c == "int8_t" else self.accumulator
        epilogue = f"cutlass::epilogue::thread::{self.epilogue}<{self.c}, {width}, {self.accumulator}, {compute}>"
        api = "SparseGemm" if self.sparse else "Gemm"
        align = ""
        if not self.sparse:
            sizes = {"float": 32, "double": 64, HALF: 16, BFLOAT: 16, "int8_t": 8, "uint8_t": 8, "cutlass::int4b_t": 4,
                     "cutlass::uint4b_t": 4, "cutlass::uint1b_t": 1}
            at = lambda e: 1 if self.kind == SIMT or (sizes[e] == 64) else 128 // sizes[e]
            align = f", {at(self.a)}, {at(self.b)}, false, {self.operator}"
        return f"""namespace n{i} {{
using Swizzle = cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<>;
using Device = cutlass::gemm::device::{api}<{self.a}, {layout[self.layouts[0]]}, {self.b}, {layout[self.layouts[1]]}, {self.c},
    {layout[self.layouts[2]]}, {self.accumulator}, {self.kind}, cutlass::arch::{self.arch}, {shape(self.block)},
    {shape(self.warp)}, {shape(self.instruction)}, {epilogue}, Swizzle, {self.stages}{align}>;
using Kernel = Device::GemmKernel;
}}
extern "C" __device__ unsigned k{i}_shared = sizeof(n{i}::Kernel::SharedStorage);
extern "C" __device__ unsigned k{i}_threads = n{i}::Kernel::kThreadCount;
extern "C" __global__ void __launch_bounds__(n{i}::Kernel::kThreadCount) k{i}(int m, int n, int k, {self.a} const* a, int lda,
    {self.b} const* b, int ldb, {self.c}* c, int ldc, float alpha, float beta{", void* e" if self.sparse else ""}) {{
  using namespace n{i};
  extern __shared__ __align__(16) unsigned char shared[];
  cutlass::gemm::GemmCoord size(m, n, k);
  auto tiles = Swizzle().get_tiled_shape(size, {{{self.block[0]}, {self.block[1]}, {self.block[2]}}}, 1);
  Kernel::Params parameters(size, tiles, {{const_cast<{self.a}*>(a), lda}}, {{const_cast<{self.b}*>(b), ldb}}, {{c, ldc}}, {{c, ldc}},
      {"{static_cast<Device::ElementE*>(e), Device::LayoutE::packed({m, k / 2 / Device::kElementsPerElementE})}," if self.sparse
       else ""}
      {{typename Device::EpilogueOutputOp::ElementCompute(alpha), typename Device::EpilogueOutputOp::ElementCompute(beta)}});
  Kernel()(parameters, *reinterpret_cast<Kernel::SharedStorage*>(shared));
}}
"""


    def kept(self, values, i):
        """Of a sparse A: the whole matrix that `values`, what is kept of it, stand for, and its metadata as the kernel wants
        them (cutlass/util/host_uncompress.h, host_reorder.h)."""
        rows, count = values.shape
        wide = {"float": (2, 16), "int8_t": (4, 32), "cutlass::int4b_t": (8, 32)}.get(self.a, (4, 16))
        chunk, bits = wide
        meanings = np.array([4, 14] if chunk == 2 else [4, 8, 9, 12, 13, 14])
        nibbles = meanings[corpora.random_integers(rows * count * 2 // chunk, 70 + i, 0, len(meanings))].reshape(rows, -1)
        whole = np.zeros((rows, 2 * count))
        run = 2 if chunk == 8 else 1
        for r in range(rows):
            for c in range(nibbles.shape[1]):
                places = [(nibbles[r, c] & 3) // 2] if chunk == 2 else [nibbles[r, c] & 3, nibbles[r, c] >> 2]
                for j, place in enumerate(places):
                    to, at = chunk * c + run * place, chunk // 2 * c + run * j
                    whole[r, to:to + run] = values[r, at:at + run]
        per = bits // 4
        words = (nibbles.reshape(rows, -1, per) << (4 * np.arange(per))).sum(2)
        group, weave = (32, 4) if bits == 16 else (16, 2)
        placed = np.zeros_like(words)
        for m in range(rows):
            for k in range(words.shape[1]):
                row, column = m // group * group + m % 8 * weave + m % group // 8, k
                if row % 2 == 0 and column % 2 == 1:
                    row, column = row + 1, column - 1
                elif row % 2 == 1 and column % 2 == 0:
                    row, column = row - 1, column + 1
                placed[row, column] = words[m, k]
        interleaved = placed.reshape(rows, -1, 2).transpose(1, 0, 2)
        return whole, Data(np.ascontiguousarray(interleaved).astype(np.uint16 if bits == 16 else np.uint32))

    def add_to(self, corpus, ptx, i):
        m, n, k = self.size
        a = Matrix(self.a, m, k // 2 if self.sparse else k, self.layouts[0] == "r", 2 * i)
        b = Matrix(self.b, k, n, self.layouts[1] == "r", 2 * i + 1)
        more = []
        values = a.values
        if self.sparse:
            values, metadata = self.kept(values, i)
            more = [metadata]
        if "OpXorPopc" in self.operator:
            product = (values[:, :, None] != b.values[None]).sum(1).astype(np.float64)
        else:
            product = values @ b.values
        alpha, beta = self.scale
        start = Matrix(self.c, m, n, True, 50 + i) if beta else None
        result = alpha * product + (beta * start.values if beta else 0)
        if self.epilogue.endswith("Relu"):
            result = np.maximum(result, 0)
        elif self.epilogue.endswith("GELU"):
            result = np.array([0.5 * x * (1 + math.erf(x / math.sqrt(2))) for x in result.reshape(-1)]).reshape(result.shape)
        elif self.epilogue.endswith("Sigmoid"):
            result = 1 / (1 + np.exp(-result))
        whole = np.dtype(NUMPY.get(self.c, np.float32)).kind != "f"
        if self.c == "int8_t":
            result = np.clip(np.rint(result), -128, 127)
        least = {"double": (1e-10, 1e-12), "float": (1e-4, 2e-5), HALF: (4e-3, 2e-3), BFLOAT: (3e-2, 1e-2)}
        relative, absolute = (0, 0) if whole else least[self.c]
        if self.name.startswith(("gemm.tf32", "gemm.f32_by", "gemm.sparse.tf32")) and "x3" not in self.name:
            relative, absolute = (3e-2, 1e-2) if "bf16" in self.name else (5e-3, 4e-3)
        if self.accumulator == HALF:
            relative, absolute = 2e-2, 1e-2
        result = result.astype(NUMPY[self.c])
        out = Out(result.reshape(-1), relative, float(absolute * np.abs(result).max()), start=start.argument if beta else None)
        tiles = [-(-m // self.block[0]), -(-n // self.block[1]), 1]
        numbers = {name: int(re.search(rf"k{i}_{name} = (\d+)", ptx).group(1)) for name in ("shared", "threads")}
        add(corpus, self.name, ptx, f"k{i}", tiles, numbers["threads"],
            [f"i32={m}", f"i32={n}", f"i32={k}", a.argument, f"i32={a.leading}", b.argument, f"i32={b.leading}", out, f"i32={n}",
             f"f32={alpha}", f"f32={beta}", *more], shared=numbers["shared"])


def gemms():
    rows = []
    for layouts in ("rrr", "crr", "rcr", "ccr"):
        rows.append(Gemm(f"gemm.simt.f32.{layouts[:2]}", "float", "float", "float", "float", layouts, (64, 64, 8), (32, 32, 8),
                         (1, 1, 1), 2, (70, 45, 37), "Sm50", SIMT))
    rows.append(Gemm("gemm.simt.f32.multistage", "float", "float", "float", "float", "rcr", (64, 64, 8), (32, 32, 8), (1, 1, 1), 4,
                     (70, 45, 37), "Sm80", SIMT, scale=(1.5, 0.5)))
    rows.append(Gemm("gemm.simt.f64", "double", "double", "double", "double", "rcr", (64, 32, 8), (32, 16, 8), (1, 1, 1), 2,
                     (70, 45, 37), "Sm50", SIMT))
    rows.append(Gemm("gemm.simt.s8.dp4a", "int8_t", "int8_t", "int32_t", "int32_t", "rcr", (64, 64, 32), (32, 32, 32), (1, 1, 4), 2,
                     (68, 48, 64), "Sm61", SIMT))
    for layouts in ("rcr", "rrr", "crr", "ccr"):
        rows.append(Gemm(f"gemm.f16.{layouts[:2]}", HALF, HALF, HALF, "float", layouts, (64, 64, 32), (32, 32, 32), (16, 8, 16), 3,
                         (72, 88, 104)))
    rows.append(Gemm("gemm.f16.accumulator_f16", HALF, HALF, HALF, HALF, "rcr", (64, 64, 32), (32, 32, 32), (16, 8, 16), 4,
                     (72, 88, 104)))
    rows.append(Gemm("gemm.f16.128x128.beta", HALF, HALF, "float", "float", "rcr", (128, 128, 32), (64, 64, 32), (16, 8, 16), 3,
                     (136, 120, 72), scale=(0.5, 2.0)))
    rows.append(Gemm("gemm.f16.m16n8k8.sm75", HALF, HALF, HALF, "float", "rcr", (64, 64, 32), (32, 32, 32), (16, 8, 8), 2,
                     (72, 88, 104), "Sm75"))
    for epilogue in ("Relu", "GELU", "Sigmoid"):
        rows.append(Gemm(f"gemm.f16.{epilogue.lower()}", HALF, HALF, HALF, "float", "rcr", (64, 64, 32), (32, 32, 32), (16, 8, 16),
                         3, (72, 88, 40), epilogue=f"LinearCombination{epilogue}", scale=(0.25, 0.5)))
    rows.append(Gemm("gemm.bf16", BFLOAT, BFLOAT, "float", "float", "rcr", (64, 64, 32), (32, 32, 32), (16, 8, 16), 3, (72, 88, 104)))
    rows.append(Gemm("gemm.tf32", "float", "float", "float", "float", "rcr", (64, 64, 16), (32, 32, 16), (16, 8, 8), 3,
                     (72, 88, 44)))
    rows.append(Gemm("gemm.tf32x3", "float", "float", "float", "float", "rcr", (64, 64, 16), (32, 32, 16), (16, 8, 8), 3,
                     (72, 88, 44), operator="cutlass::arch::OpMultiplyAddFastF32"))
    rows.append(Gemm("gemm.f32_by_bf16", "float", "float", "float", "float", "rcr", (64, 64, 32), (32, 32, 32), (16, 8, 8), 3,
                     (72, 88, 44), operator="cutlass::arch::OpMultiplyAddFastBF16"))
    rows.append(Gemm("gemm.f64", "double", "double", "double", "double", "rcr", (64, 64, 16), (32, 32, 16), (8, 8, 4), 3,
                     (70, 46, 37)))
    rows.append(Gemm("gemm.f64.m16n8k4", "double", "double", "double", "double", "rcr", (64, 64, 16), (32, 32, 16), (16, 8, 4), 3,
                     (70, 46, 37), "Sm90"))
    for a, b in (("int8_t", "int8_t"), ("uint8_t", "uint8_t"), ("int8_t", "uint8_t")):
        rows.append(Gemm(f"gemm.{'u' if a[0] == 'u' else 's'}8.{'u' if b[0] == 'u' else 's'}8", a, b, "int32_t", "int32_t", "rcr",
                         (64, 64, 64), (32, 32, 64), (16, 8, 32), 3, (72, 88, 112), operator="cutlass::arch::OpMultiplyAddSaturate"))
    rows.append(Gemm("gemm.s8.m8n8k16.sm75", "int8_t", "int8_t", "int32_t", "int32_t", "rcr", (64, 64, 64), (32, 32, 64), (8, 8, 16),
                     2, (72, 88, 112), "Sm75", operator="cutlass::arch::OpMultiplyAddSaturate"))
    rows.append(Gemm("gemm.s8.to_s8.clamp", "int8_t", "int8_t", "int8_t", "int32_t", "rcr", (64, 64, 64), (32, 32, 64), (16, 8, 32),
                     3, (72, 96, 112), operator="cutlass::arch::OpMultiplyAddSaturate", epilogue="LinearCombinationClamp",
                     scale=(0.001, 0.0)))
    rows.append(Gemm("gemm.s4", "cutlass::int4b_t", "cutlass::int4b_t", "int32_t", "int32_t", "rcr", (64, 64, 128), (32, 32, 128),
                     (16, 8, 64), 3, (72, 88, 160), operator="cutlass::arch::OpMultiplyAddSaturate"))
    rows.append(Gemm("gemm.u4.s4", "cutlass::uint4b_t", "cutlass::int4b_t", "int32_t", "int32_t", "rcr", (64, 64, 128), (32, 32, 128),
                     (16, 8, 64), 3, (72, 88, 160), operator="cutlass::arch::OpMultiplyAddSaturate"))
    rows.append(Gemm("gemm.b1.xor", "cutlass::uint1b_t", "cutlass::uint1b_t", "int32_t", "int32_t", "rcr", (64, 64, 512),
                     (32, 32, 512), (16, 8, 256), 3, (72, 88, 640), operator="cutlass::arch::OpXorPopc"))
    rows.append(Gemm("gemm.b1.and", "cutlass::uint1b_t", "cutlass::uint1b_t", "int32_t", "int32_t", "rcr", (64, 64, 512),
                     (32, 32, 512), (16, 8, 256), 3, (72, 88, 640), operator="cutlass::arch::OpAndPopc"))
    sparse = lambda name, a, c, accumulator, block, warp, instruction, size, **more: rows.append(
        Gemm(f"gemm.sparse.{name}", a, a, c, accumulator, "rcr", block, warp, instruction, 3, size, sparse=True, **more))
    sparse("f16", HALF, HALF, "float", (64, 64, 64), (32, 32, 64), (16, 8, 32), (64, 72, 128))
    sparse("f16.f16", HALF, HALF, HALF, (128, 64, 64), (64, 32, 64), (16, 8, 32), (128, 72, 128))
    sparse("bf16", BFLOAT, "float", "float", (64, 64, 64), (32, 32, 64), (16, 8, 32), (64, 72, 128))
    sparse("tf32", "float", "float", "float", (64, 64, 32), (32, 32, 32), (16, 8, 16), (64, 72, 128))
    sparse("s8", "int8_t", "int32_t", "int32_t", (64, 64, 128), (32, 32, 128), (16, 8, 64), (64, 72, 256))
    sparse("s4", "cutlass::int4b_t", "int32_t", "int32_t", (64, 64, 256), (32, 32, 256), (16, 8, 128), (64, 72, 512))
    return rows


# CuTe's tutorials that multiply matrices without tensor maps: tile's depth, dynamic shared memory.
TUTORIALS = {"sgemm_1": ("sm_80", 8, 0), "sgemm_2": ("sm_80", 8, 0), "sgemm_sm80": ("sm_80", 64, 98304)}


def tutorials(corpus, source, includes):
    """Instances of the tutorials' gemm_device(shape, tiler, A, dA, …, B, dB, …, C, dC, …, alpha, beta): layouts known when it
    is compiled are parameters of no contents."""
    for name, (arch, depth, shared) in TUTORIALS.items():
        with open(f"{source}/examples/cute/tutorial/{name}.cu") as file:
            ptx = compile_ptx(file.read(), arch, includes, ["-w"])
        kernels = re.findall(r"\.entry (_Z11gemm_device\w+)\((.*?)\n\)(.*?)\n\{", ptx, re.S)
        for number, (entry, parameters, rest) in enumerate(kernels):
            half = "half_t" in entry
            m, n, k = 256, 128, depth * (4 if half else 5)
            # dA = (1, ld) or (ld, 1), spelled right behind A's type.
            rows_contiguous = re.search(r"(?:half_tE|EEEf)NS1_IJ(NS3_ILi1EEEi|iNS3_ILi1EEE)E", entry).group(1).startswith("NS3")
            a, b = (Random(x * k, 90 + i, np.float16 if half else np.float32) for i, x in enumerate((m, n)))
            shape = lambda x, count: (x.array.astype(np.float64).reshape(k, count).T if rows_contiguous
                                      else x.array.astype(np.float64).reshape(count, k))
            result = (shape(a, m) @ shape(b, n).T).T.astype(np.float16 if half else np.float32)
            tolerance = (2e-2, 1e-2) if half else (1e-4, 2e-5)
            out = Out(result.reshape(-1), tolerance[0], float(tolerance[1] * np.abs(result).max()), start="zero")
            pointers, leading = iter((a, b, out)), iter((m, n, m) if rows_contiguous else (k, k, m))
            word = lambda *numbers: "bytes=" + b"".join(x.to_bytes(4, "little") for x in numbers).hex()
            scales, arguments = iter(("003c", "0000")), []
            for kind, size in re.findall(r"\.param (?:\.align \d+ )?\.(\w+) \w+?_param_\d+(?:\[(\d+)\])?", parameters):
                arguments.append(next(pointers) if kind == "u64" else f"f32={1.0 if 'f32=1.0' not in arguments else 0.0}"
                                 if kind == "f32" else word(m, n, k) if size == "12" else word(next(leading)) if size == "4"
                                 else "bytes=" + next(scales) if size == "2"
                                 # A TiledMMA that adds to its accumulators.
                                 else word(1, 1) if size == "8" else "bytes=00")
            threads = int(re.search(r"ntid (\d+)", rest).group(1))
            add(corpus, f"cute.{name.split('/')[-1]}.{'nt' if rows_contiguous else 'tn'}", ptx, entry, [m // 128, n // 128, 1],
                threads, arguments, shared=shared)


def main(path, wanted):
    source = folder()
    version = importlib.metadata.version("nvidia-cutlass")
    corpus = corpora.Corpus("CUTLASS", f"CUTLASS and CuTe of PyPI's nvidia-cutlass {version}; nvcc 13.0 for sm_80, sm_90a",
                            "BSD-3-Clause")
    includes = [f"{source}/include", f"{source}/tools/util/include"]
    for i, row in enumerate(gemms()):
        if not wanted or any(w in row.name for w in wanted):
            arch = "sm_90a" if row.arch == "Sm90" else "sm_80"
            row.add_to(corpus, compile_ptx(HEADERS + row.source(i), arch, includes), i)
    if not wanted:
        tutorials(corpus, source, includes)
    cutlass_hopper.add_all(corpus, source, includes, wanted)
    corpus.write(path)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
