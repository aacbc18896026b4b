"""CUTLASS's and CuTe's kernels for Hopper: tensor maps, asynchronous pipelines, wgmma, clusters. Their parameters are structures
with tensor maps inside, __grid_constant__, which CUTLASS makes on the host; a program built with the kernels makes them here,
with an encoder of tensor maps that notes what it was given instead of asking a driver."""
import json
import os
import re
import subprocess
import tempfile

import numpy as np

from nvcc import CUDA, Data, Out, Random, add

HEADERS = """#include <cstdio>
#include <cstring>
#include "cutlass/cutlass.h"
#include "cutlass/gemm/kernel/gemm_universal.hpp"
#include "cutlass/gemm/collective/collective_builder.hpp"
#include "cutlass/epilogue/collective/collective_builder.hpp"
#include "cute/tensor.hpp"
#include "cutlass/util/packed_stride.hpp"
using namespace cute;
"""

# Stands in for the driver's: a map's first bytes say which one it is, and what it was given is printed.
ENCODER = """
static int maps = 0;
extern "C" CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
    const cuuint64_t* sizes, const cuuint64_t* strides, const cuuint32_t* box, const cuuint32_t* steps, CUtensorMapInterleave,
    CUtensorMapSwizzle swizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill fill) {
  std::memset(map, 0, sizeof(*map));
  unsigned long long mark[2] = {0x53544954434d4150ULL, (unsigned long long)maps++};
  std::memcpy(map, mark, sizeof(mark));
  auto list = [&](const char* name, auto const* values, int count) {
    std::printf("\\"%s\\": [", name);
    for (int i = 0; i < count; ++i) std::printf("%s%llu", i ? ", " : "", (unsigned long long)values[i]);
    std::printf("], ");
  };
  std::printf("{\\"map\\": %d, \\"type\\": %d, \\"address\\": %llu, \\"swizzle\\": %d, \\"fill\\": %d, ", maps - 1, int(type),
              (unsigned long long)address, int(swizzle), int(fill));
  list("sizes", sizes, rank), list("strides", strides, rank - 1), list("box", box, rank), list("steps", steps, rank);
  std::printf("\\"end\\": 0}\\n");
  return CUDA_SUCCESS;
}
template <class... Arguments>
void say(dim3 grid, dim3 block, dim3 cluster, int shared, Arguments const&... arguments) {
  std::printf("{\\"shared\\": %d, \\"block\\": %u, \\"grid\\": [%u, %u, %u], \\"cluster\\": [%u, %u, %u], \\"arguments\\": [",
              shared, block.x, grid.x, grid.y, grid.z, cluster.x, cluster.y, cluster.z);
  auto bytes = [](auto const& argument) {
    std::printf("\\"");
    for (size_t i = 0; i < sizeof(argument); ++i) std::printf("%02x", reinterpret_cast<unsigned char const*>(&argument)[i]);
    std::printf("\\", ");
  };
  (bytes(arguments), ...);
  std::printf("\\"\\"]}\\n");
}
template <class Kernel>
void describe(typename Kernel::Arguments const& arguments) {
  auto params = Kernel::to_underlying_arguments(arguments, nullptr);
  dim3 grid = Kernel::get_grid_shape(params), block = Kernel::get_block_shape();
  typename Kernel::ClusterShape cluster;
  say(grid, block, dim3(size<0>(cluster), size<1>(cluster), size<2>(cluster)), Kernel::SharedStorageSize, params);
}
"""

FIRST, APART = 0x7a0000000000, 1 << 32  # addresses that stand for A, B, C and D until there are buffers
# cuda.h's CUtensorMapDataType.
MAP_TYPES = ["u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16", "f32_ftz", "tf32", "tf32_ftz"]
MARK = (0x53544954434D4150).to_bytes(8, "little")

HALF, BFLOAT, E4M3, TF32 = "cutlass::half_t", "cutlass::bfloat16_t", "cutlass::float_e4m3_t", "cutlass::tfloat32_t"
BITS = {HALF: 16, BFLOAT: 16, E4M3: 8, TF32: 32, "int8_t": 8, "float": 32, "int32_t": 32}


class Hopper:
    """D = A B of one tile, cluster and schedule; layouts as "tn": A rows of K, B columns of K."""

    def __init__(self, name, element, result, accumulator, layouts, tile, cluster, schedule, size, epilogue="EpilogueScheduleAuto"):
        self.name, self.element, self.result, self.accumulator, self.layouts = name, element, result, accumulator, layouts
        self.tile, self.cluster, self.schedule, self.size, self.epilogue = tile, cluster, schedule, size, epilogue

    def source(self, i):
        shape = lambda x: f"Shape<_{x[0]}, _{x[1]}, _{x[2]}>"
        row = {"t": "cutlass::layout::RowMajor", "n": "cutlass::layout::ColumnMajor"}
        a, b = row[self.layouts[0]], row[self.layouts[1]]
        align = lambda element: 128 // BITS[element]
        m, n, k = self.size
        return f"""namespace n{i} {{
using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp,
    {shape(self.tile)}, {shape(self.cluster)}, cutlass::epilogue::collective::EpilogueTileAuto, {self.accumulator},
    {self.accumulator},
    {self.result}, cutlass::layout::RowMajor, {align(self.result)}, {self.result}, cutlass::layout::RowMajor, {align(self.result)},
    {"cutlass::epilogue::collective::" if "Auto" in self.epilogue else "cutlass::epilogue::"}{self.epilogue}>::CollectiveOp;
using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp,
    {self.element}, {a}, {align(self.element)}, {self.element}, {b}, {align(self.element)}, {self.accumulator},
    {shape(self.tile)}, {shape(self.cluster)}, cutlass::gemm::collective::StageCount<3>,
    cutlass::gemm::{self.schedule}>::CollectiveOp;
using Kernel = cutlass::gemm::kernel::GemmUniversal<Shape<int, int, int, int>, Mainloop, Epilogue>;
void tell() {{
  auto pointer = [](int which) {{ return {FIRST}ULL + which * {APART}ULL; }};
  auto da = cutlass::make_cute_packed_stride(typename Kernel::StrideA{{}}, make_shape({m}, {k}, 1));
  auto db = cutlass::make_cute_packed_stride(typename Kernel::StrideB{{}}, make_shape({n}, {k}, 1));
  auto dd = cutlass::make_cute_packed_stride(typename Kernel::StrideD{{}}, make_shape({m}, {n}, 1));
  cutlass::KernelHardwareInfo hardware;
  hardware.sm_count = 4;
  typename Kernel::Arguments arguments{{cutlass::gemm::GemmUniversalMode::kGemm, {{{m}, {n}, {k}, 1}},
      {{reinterpret_cast<{self.element} const*>(pointer(0)), da, reinterpret_cast<{self.element} const*>(pointer(1)), db}},
      {{{{}}, reinterpret_cast<{self.result} const*>(pointer(2)), dd, reinterpret_cast<{self.result}*>(pointer(3)), dd}}, hardware}};
  arguments.epilogue.thread.alpha = 1;
  arguments.epilogue.thread.beta = 1;
  describe<Kernel>(arguments);
}}
}}
extern "C" __global__ void __launch_bounds__(n{i}::Kernel::MaxThreadsPerBlock, 1)
k{i}(CUTLASS_GRID_CONSTANT n{i}::Kernel::Params const params, {self.element} const*, {self.element} const*, {self.result} const*,
     {self.result}*) {{
  extern __shared__ __align__(1024) char shared[];
  n{i}::Kernel kernel;
  kernel(params, shared);
}}
"""

    def operands(self, i):
        """A, B and C as the corpus has them, and as matrices of numbers."""
        m, n, k = self.size
        matrices = []
        for count, seed in ((m * k, 300 + 3 * i), (n * k, 301 + 3 * i), (m * n, 302 + 3 * i)):
            element = self.element if len(matrices) < 2 else self.result
            matrices.append(operand(element, count, seed))
        (a, a_values), (b, b_values), (c, c_values) = matrices
        left = a_values.reshape(m, k) if self.layouts[0] == "t" else a_values.reshape(k, m).T
        right = b_values.reshape(k, n) if self.layouts[1] == "t" else b_values.reshape(n, k).T
        return (a, b, c), left @ right + c_values.reshape(m, n)

    def add_to(self, corpus, ptx, i, made, maps):
        (a, b, c), product = self.operands(i)
        kinds = {HALF: ("f16", 4e-3, 2e-3), BFLOAT: ("bf16", 3e-2, 1e-2), "float": ("f32", 1e-4, 2e-5), "int32_t": ("s32", 0, 0)}
        kind, relative, absolute = kinds[self.result]
        if self.element == TF32:
            relative, absolute = 5e-3, 4e-3
        if kind == "bf16":
            bits = product.astype(np.float32).view(np.uint32)
            stored = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
        else:
            stored = product.astype({"f16": np.float16, "f32": np.float32, "s32": np.int32}[kind])
        out = Out(stored.reshape(-1), relative, float(absolute * np.abs(product).max()), kind=kind)
        add(corpus, self.name, ptx, f"k{i}", made["grid"], made["block"], [patched(made["arguments"][0], maps), a, b, c, out],
            shared=made["shared"], cluster=made["cluster"])


def operand(element, count, seed):
    if element in ("int8_t", "int32_t"):
        given = Random(count, seed, np.dtype(element.removesuffix("_t")), -8, 8)
        return given, given.array.astype(np.float64)
    if element == HALF:
        given = Random(count, seed, np.float16)
        return given, given.array.astype(np.float64)
    given = Random(count, seed, np.float32)
    if element == TF32 or element == "float":
        return given, given.array.astype(np.float64)
    if element == BFLOAT:
        bits = given.array.view(np.uint32)
        kept = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint32) << 16
        given.spec = given.spec.replace("random:f32", "random:bf16")
        return given, kept.view(np.float32).astype(np.float64)
    # e4m3: whole numbers up to 8 are exact.
    whole = np.rint(given.array * 4)
    codes = np.array([e4m3(x) for x in whole], dtype=np.uint8)
    return Data(codes, "u8"), whole.astype(np.float64)


def e4m3(value):
    """The code of a whole number of at most 4 bits."""
    sign, value = (128 if value < 0 else 0), abs(int(value))
    if value == 0:
        return sign
    exponent = value.bit_length() - 1
    return sign | (exponent + 7) << 3 | ((value << 3 >> exponent) & 7)


def place(address, names):
    which, offset = divmod(address - FIRST, APART)
    return f"{names[which]}+{offset}" if offset else names[which]


def patched(digits, maps, names=("1", "2", "3", "4")):
    """The structure's bytes, with what has to be put in: tensor maps and addresses (`names`: A, B, C and D)."""
    data, patches = bytearray.fromhex(digits), []
    for at in range(0, len(data) - 7, 8):
        word = bytes(data[at:at + 8])
        if word == MARK:
            m = maps[int.from_bytes(data[at + 8:at + 16], "little")]
            join = lambda key: ",".join(map(str, m[key]))
            text = f"map:{MAP_TYPES[m['type']]}[{join('sizes')}]:at={place(m['address'], names)}:box={join('box')}"
            text += f":strides={join('strides')}" if m["strides"] else ""
            text += f":element_strides={join('steps')}" if set(m["steps"]) != {1} else ""
            text += f":swizzle={16 << m['swizzle']}" if m["swizzle"] else ""
            patches.append(f"@{at}={text}")
            data[at:at + 16] = bytes(16)
        elif FIRST <= int.from_bytes(word, "little") < FIRST + 4 * APART:
            patches.append(f"@{at}=&{place(int.from_bytes(word, 'little'), names)}")
            data[at:at + 8] = bytes(8)
    return ";".join(["bytes=" + data.hex(), *patches])


# Its results are right, but the emulator finds a race between a block's next copy and what the other block's wgmma read, and it
# is open whether CUTLASS's one arrival for four warps or the emulator's clocks are at fault.
LEFT_OUT = ("hopper.bf16.cooperative.cluster",)


def rows():
    one, two = (1, 1, 1), (2, 1, 1)
    specialised = "KernelTmaWarpSpecialized"
    return [
        Hopper("hopper.f16.tma", HALF, HALF, "float", "tn", (64, 64, 64), one, "KernelTma", (120, 72, 136)),
        Hopper("hopper.f16.warp_specialized", HALF, "float", "float", "tn", (64, 128, 64), one, specialised, (72, 136, 200)),
        Hopper("hopper.f16.nt", HALF, HALF, "float", "nt", (64, 64, 64), one, specialised, (120, 72, 136)),
        Hopper("hopper.f16.pingpong", HALF, HALF, "float", "tn", (64, 64, 64), one, specialised + "Pingpong", (200, 136, 72),
               "TmaWarpSpecialized"),
        Hopper("hopper.bf16.cooperative.cluster", BFLOAT, BFLOAT, "float", "tn", (128, 64, 64), two, specialised + "Cooperative",
               (264, 72, 136), "TmaWarpSpecializedCooperative"),
        Hopper("hopper.tf32.warp_specialized", TF32, "float", "float", "tn", (64, 64, 32), one, specialised, (72, 72, 100)),
        Hopper("hopper.e4m3.warp_specialized", E4M3, "float", "float", "tn", (64, 64, 128), one, specialised + "FP8FastAccum",
               (72, 72, 272)),
        Hopper("hopper.s8.cluster", "int8_t", "int32_t", "int32_t", "tn", (64, 64, 128), (1, 2, 1), specialised, (72, 136, 272)),
    ]


def build(source, includes):
    """PTX, and what the program says of its kernels."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "hopper.cu")
        with open(path, "w") as file:
            file.write(source)
        command = [f"{CUDA}/bin/nvcc", "-gencode", "arch=compute_90a,code=compute_90a", "-std=c++17", "-O2", "-w", "--keep",
                   "--keep-dir", folder, "--expt-relaxed-constexpr", "-DCUTLASS_ENABLE_DIRECT_CUDA_DRIVER_CALL=1",
                   *[f"-I{i}" for i in includes], path, "-o", os.path.join(folder, "hopper")]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr[:3000])
        said = subprocess.run([os.path.join(folder, "hopper")], capture_output=True, text=True, check=True).stdout
        name = next(f for f in sorted(os.listdir(folder)) if f.endswith(".ptx"))
        with open(os.path.join(folder, name)) as file:
            return file.read(), [json.loads(line) for line in said.splitlines()]


# In the place of the tutorial's launch, and of what asks a device.
NOTED = """
#undef CUTE_CHECK_ERROR
#undef CUTE_CHECK_LAST
#define CUTE_CHECK_ERROR(x)
#define CUTE_CHECK_LAST()
#define launch_kernel_on_cluster noted_launch
namespace cutlass {
template <class... Arguments>
Status noted_launch(ClusterLaunchParams how, void const*, Arguments const&... arguments) {
  say(how.grid_dims, how.block_dims, how.cluster_dims, how.smem_size_in_bytes, arguments...);
  return Status::kSuccess;
}
}
"""


def tutorial(corpus, folder, includes, layouts):
    """CuTe's wgmma_tma_sm90, as its gemm_nt or gemm_tn launches it: C = A Bᵀ in f16, C's columns contiguous."""
    m, n, k = 256, 128, 192
    with open(f"{folder}/examples/cute/tutorial/hopper/wgmma_tma_sm90.cu") as file:
        text = file.read()
    text = text[:text.index("int main(")].replace("using namespace cute;\n", "using namespace cute;\n" + ENCODER + NOTED, 1)
    pointer = lambda which: f"reinterpret_cast<half_t*>({FIRST + which * APART}ULL)"
    leading = (m, n) if layouts == "nt" else (k, k)
    call = (f"gemm_{layouts}<half_t, half_t, half_t>({m}, {n}, {k}, half_t(1), {pointer(0)}, {leading[0]}, {pointer(1)}, "
            f"{leading[1]}, half_t(0), {pointer(2)}, {m});")
    ptx, said = build("#include <cstring>\n#include <iostream>\n" + text + f"int main() {{ {call} }}\n", includes)
    maps = {line["map"]: line for line in said if "map" in line}
    made = next(line for line in said if "grid" in line)
    (a, a_values), (b, b_values) = (operand(HALF, x * k, 400 + i) for i, x in enumerate((m, n)))
    shaped = lambda values, count: values.reshape(k, count).T if layouts == "nt" else values.reshape(count, k)
    product = (shaped(a_values, m) @ shaped(b_values, n).T).T.astype(np.float16)
    # Sums of f16 in f16.
    out = Out(product.reshape(-1), 2e-2, float(1e-2 * np.abs(product).max()), start="zero")
    value = lambda digits: int.from_bytes(bytes.fromhex(digits), "little") - FIRST
    is_buffer = lambda digits: len(digits) == 16 and 0 <= value(digits) < 3 * APART
    parameters = made["arguments"][:-1]
    buffers = [a, b, out]
    positions = [str(i) for i, digits in enumerate(parameters) if is_buffer(digits)]  # A's, B's, C's
    arguments = [buffers[value(digits) // APART] if is_buffer(digits) else patched(digits, maps, positions)
                 for digits in parameters]
    # Thrust, which the tutorial includes, adds an empty kernel.
    entry = re.search(r"\.entry (_Z11gemm_device\w+)\(", ptx).group(1)
    add(corpus, f"cute.wgmma_tma_sm90.{layouts}", ptx, entry, made["grid"], made["block"], arguments, shared=made["shared"],
        cluster=made["cluster"])


def add_all(corpus, folder, includes, wanted=()):
    for layouts in ("nt", "tn"):
        if not wanted or any(w in f"cute.wgmma_tma_sm90.{layouts}" for w in wanted):
            tutorial(corpus, folder, includes, layouts)
    for i, row in enumerate(rows()):
        if not any(w in row.name for w in wanted) if wanted else row.name in LEFT_OUT:
            continue
        source = HEADERS + ENCODER + row.source(i) + f"int main() {{ n{i}::tell(); }}\n"
        ptx, said = build(source, includes)
        maps = {line["map"]: line for line in said if "map" in line}
        row.add_to(corpus, ptx, i, next(line for line in said if "grid" in line), maps)
