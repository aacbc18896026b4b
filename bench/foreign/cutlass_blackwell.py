"""CuTe's tutorials for Blackwell: tcgen05.mma out of shared memory that threads or tensor maps fill, accumulators in tensor
memory, multicast in clusters of 16. Their parameters hold tensors and tensor maps, as those of cutlass_hopper.py."""
import json
import os
import re
import subprocess
import sys
import tempfile
from importlib.metadata import version

import numpy as np

import corpus as corpora
from cutlass_hopper import APART, ENCODER, FIRST, HALF, NOTED, operand, patched
from cutlass_kernels import folder as headers
from nvcc import CUDA, Out, add

# 04 and 05 are left out: a block names the barrier of its pair's first block by clearing bit 24 of its own barrier's address,
# which is where the hardware has a block's rank, and not something that PTX says.
# 02 has one tile along K: with more, warps that only look on may miss a phase of the barrier that all wait for (nothing keeps the
# warp that issues from running two phases ahead), and then wait for ever.
TUTORIALS = {"01_mma_sm100": (256, 512, 128), "02_mma_tma_sm100": (256, 512, 64), "03_mma_tma_multicast_sm100": (512, 1024, 128)}


def source_of(folder, name, size):
    m, n, k = size
    with open(f"{folder}/{name}.cu") as file:
        text = file.read()
    text = text[:text.index("int main(")].replace("using namespace cute;\n", "using namespace cute;\n" + ENCODER + NOTED, 1)
    # The buffers that the tensors point into, as parameters of their own.
    text, found = re.subn(r"Alpha alpha, Beta beta\)\n\{\n  // Step 1",
                          "Alpha alpha, Beta beta, void const*, void const*, void const*, void*)\n{\n  // Step 1", text)
    assert found == 1, name
    pointer = lambda which, kind: f"reinterpret_cast<{kind}*>({FIRST + which * APART}ULL)"
    layout = lambda rows, columns: f"make_layout(make_shape({rows}, {columns}), make_stride({columns}, Int<1>{{}}))"
    half = "cutlass::half_t"
    return f"""#include <cstring>
{text}
int main() {{
  gemm_host_f16xf16_f32_f32_tnt({pointer(0, half)}, {layout(m, k)}, {pointer(1, half)}, {layout(n, k)}, {pointer(2, "float")},
                                {layout(m, n)}, {pointer(3, "float")}, {layout(m, n)}, 2.0f, 0.5f);
}}
"""


def build(source, includes):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "blackwell.cu")
        with open(path, "w") as file:
            file.write(source)
        command = [f"{CUDA}/bin/nvcc", "-gencode", "arch=compute_100a,code=compute_100a", "-std=c++17", "-O2", "-w", "--keep",
                   "--keep-dir", folder, "--expt-relaxed-constexpr", "-DCUTLASS_ENABLE_DIRECT_CUDA_DRIVER_CALL=1",
                   *[f"-I{i}" for i in includes], path, "-o", os.path.join(folder, "blackwell")]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr[:3000])
        # What the structures do not use is what lay on the stack: no name of this machine's.
        said = subprocess.run(["./blackwell"], cwd=folder, env={}, capture_output=True, text=True, check=True).stdout
        name = next(f for f in sorted(os.listdir(folder)) if f.endswith(".ptx"))
        with open(os.path.join(folder, name)) as file:
            return file.read(), [json.loads(line) for line in said.splitlines() if line.startswith("{")]


def tutorial(corpus, folder, includes, name, size):
    m, n, k = size
    ptx, said = build(source_of(folder, name, size), [*includes, folder])
    maps = {line["map"]: line for line in said if "map" in line}
    made = next(line for line in said if "grid" in line)
    (a, a_values), (b, b_values), (c, c_values) = (operand(kind, count, 500 + i) for i, (kind, count) in
                                                   enumerate(((HALF, m * k), (HALF, n * k), ("float", m * n))))
    product = 2 * (a_values.reshape(m, k) @ b_values.reshape(n, k).T) + c_values.reshape(m, n) / 2
    out = Out(product.astype(np.float32).reshape(-1), 1e-4, float(2e-5 * np.abs(product).max()))
    parameters = made["arguments"][:-1]
    names = [str(len(parameters) + i) for i in range(4)]
    arguments = [patched(digits, maps, names) for digits in parameters]
    entry = re.search(r"\.entry (_Z\w*gemm_device\w+)\(", ptx).group(1)
    add(corpus, f"cute.{name}", ptx, entry, made["grid"], made["block"], [*arguments, a, b, c, out], shared=made["shared"],
        cluster=made["cluster"])


def main(path, wanted):
    source = headers()
    corpus = corpora.Corpus("CUTLASS (Blackwell)", f"CuTe's tutorials for Blackwell of PyPI's nvidia-cutlass "
                            f"{version('nvidia-cutlass')}; nvcc 13.0 for sm_100a", "BSD-3-Clause")
    for name, size in TUTORIALS.items():
        if not wanted or any(w in name for w in wanted):
            tutorial(corpus, f"{source}/examples/cute/tutorial/blackwell", [f"{source}/include", f"{source}/tools/util/include"],
                     name, size)
    corpus.write(path)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
