"""Compiles public kernels for sm_90 without a device, for the shapes of tests/golden: python public.py FOLDER.

Triton's are launched by their makers' own PyTorch functions (bench/foreign/triton_record.py stands in for the driver)
and assembled by the ptxas that Triton carries; CUB's are what its dispatch instantiates for H100. FOLDER gets NAME.cubin
and public.json: NAME → file, threads of a block, dynamic shared memory, entry, origin.
"""
import json
import os
import re
import subprocess
import sys
import types

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "foreign"))
import torch  # noqa: E402

import triton_record as record  # noqa: E402

record.install()
properties = types.SimpleNamespace(multi_processor_count=132, major=9, minor=0, name="a GPU that is not there")
torch.cuda.get_device_properties = lambda device=None: properties
folder = sys.argv[1]
made, current = {}, {}


def keep(function, *args, grid, warmup, **kwargs):
    """A launch: compiled and kept, not run."""
    compiled = record.compile_kernel(function, args, kwargs)
    name = current["name"]
    if current["only"] in function.fn.__name__ and name not in made:
        with open(os.path.join(folder, name + ".cubin"), "wb") as file:
            file.write(compiled.asm["cubin"])
        made[name] = {"threads": 32 * compiled.metadata.num_warps, "shared": compiled.metadata.shared, "entry": "",
                      "origin": current["origin"], "kernel": function.fn.__name__.strip("_")}
    return compiled


record.JITFunction.run = keep


def launch(name, origin, only, run):
    current.update(name=name, origin=origin, only=only)
    run()
    if name not in made:
        raise RuntimeError(f"{name}: no launch of a kernel {only}")


def leaf(*shape, dtype=torch.float32):
    return torch.zeros(shape, dtype=dtype).requires_grad_()


def liger():
    from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction
    from liger_kernel.ops.experimental.embedding import LigerEmbeddingFunction
    from liger_kernel.ops.geglu import LigerGELUMulFunction
    from liger_kernel.ops.group_norm import LigerGroupNormFunction
    from liger_kernel.ops.layer_norm import LigerLayerNormFunction
    from liger_kernel.ops.rms_norm import LigerRMSNormFunction
    from liger_kernel.ops.rope import LigerRopeFunction
    from liger_kernel.ops.softmax import LigerSoftmaxFunction
    origin = "Liger-Kernel"
    launch("liger.softmax", origin, "softmax", lambda: LigerSoftmaxFunction.apply(leaf(4096, 1024)))
    launch("liger.softmax_long", origin, "softmax", lambda: LigerSoftmaxFunction.apply(leaf(64, 65536)))
    launch("liger.layer_norm", origin, "layer_norm_forward",
           lambda: LigerLayerNormFunction.apply(leaf(4096, 768), leaf(768), leaf(768), 1e-5))
    launch("liger.layer_norm_backward", origin, "layer_norm_backward",
           lambda: LigerLayerNormFunction.apply(leaf(4096, 768), leaf(768), leaf(768), 1e-5).sum().backward())
    launch("liger.rms_norm", origin, "rms_norm_forward",
           lambda: LigerRMSNormFunction.apply(leaf(8192, 513, dtype=torch.bfloat16), leaf(513, dtype=torch.bfloat16), 1e-6,
                                              0.0, "llama", False))
    launch("liger.cross_entropy", origin, "cross_entropy",
           lambda: LigerCrossEntropyFunction.apply(leaf(512, 32000), torch.zeros(512, dtype=torch.int64), None, -100, 0.0,
                                                   0.0, "mean", None, False))
    q = leaf(2, 16, 512, 64)
    launch("liger.rope", origin, "rope",
           lambda: LigerRopeFunction.apply(q, leaf(2, 16, 512, 64), torch.zeros(1, 512, 64), torch.zeros(1, 512, 64)))
    launch("liger.geglu_backward", origin, "geglu_tanh_backward",
           lambda: LigerGELUMulFunction.apply(leaf(2048, 3072), leaf(2048, 3072)).sum().backward())
    launch("liger.embedding", origin, "embedding_forward",
           lambda: LigerEmbeddingFunction.apply(leaf(50257, 768), torch.zeros(2048, dtype=torch.int64)))
    launch("liger.embedding_backward", origin, "embedding_backward",
           lambda: LigerEmbeddingFunction.apply(leaf(1000, 128), torch.zeros(256, dtype=torch.int64)).sum().backward())
    launch("liger.group_norm", origin, "group_norm_forward",
           lambda: LigerGroupNormFunction.apply(leaf(16, 128, 784), leaf(128), leaf(128), 128, 32, 1e-5))


def tutorials():
    import triton
    import triton_tutorials as tutorial
    record.JITFunction.run = keep
    origin = "Triton tutorial"
    x, y = torch.zeros(4096, 1024), torch.zeros(4096, 1024)
    launch("triton.add", origin + " 01", "add", lambda: tutorial.add_kernel[(4096,)](x, y, torch.zeros_like(x), x.numel(),
                                                                                   BLOCK_SIZE=1024))
    launch("triton.softmax", origin + " 02", "softmax", lambda: tutorial.softmax_kernel[(132 * 8,)](
        y, x, 1024, 1024, 4096, 1024, BLOCK_SIZE=1024, num_stages=4, num_warps=8))
    launch("triton.dropout", origin + " 04", "dropout", lambda: tutorial.seeded_dropout[(4096,)](
        x, y, x.numel(), 0.1, 123, BLOCK_SIZE=1024))
    rows = torch.zeros(4096, 768)
    one, row = torch.zeros(768), torch.zeros(4096)
    launch("triton.layer_norm", origin + " 05", "layer_norm", lambda: tutorial.layer_norm_fwd_fused[(4096,)](
        rows, rows, one, one, row, row, 768, 768, 1e-5, BLOCK_SIZE=1024, num_warps=4))
    columns = torch.zeros(4096, 512)
    launch("triton.column_sums", origin + " 05", "dwdb", lambda: tutorial.layer_norm_bwd_dwdb[
        (triton.cdiv(512, 128),)](columns, columns, torch.zeros(512), torch.zeros(512), 4096, 512, BLOCK_SIZE_M=32,
                                  BLOCK_SIZE_N=128))


CUB = """#include <cub/cub.cuh>
void reduce(const float* x, float* y, int n) { size_t b; cub::DeviceReduce::Sum(nullptr, b, x, y, n); }
void scan(const float* x, float* y, int n) { size_t b; cub::DeviceScan::InclusiveSum(nullptr, b, x, y, n); }
void rows(const float* x, float* y, int n, const int* o) {
  size_t b; cub::DeviceSegmentedReduce::Max(nullptr, b, x, y, n, o, o + 1);
}
"""
# By the policy for f32 on sm_90 (cub/device/dispatch/tuning); the kernels say how many threads they are launched with.
CUB_KERNELS = {"cub.reduce": "DeviceReduceKernel", "cub.scan": "DeviceScanKernel",
               "cub.segmented_reduce": "DeviceSegmentedReduceKernel"}


def cub():
    cuda = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    source = os.path.join(folder, "cub.cu")
    with open(source, "w") as file:
        file.write(CUB)
    subprocess.run([f"{cuda}/bin/nvcc", "-cubin", "-arch=sm_90", "-std=c++17", "-O3", source, "-o",
                    os.path.join(folder, "cub.cubin")], check=True)
    with open(os.path.join(folder, "cub.cubin"), "rb") as file:
        sections = file.read()
    for name, kernel in CUB_KERNELS.items():
        entry = re.search(rb"\.text\.(\w*" + kernel.encode() + rb"\w*)", sections).group(1).decode()
        made[name] = {"threads": 0, "shared": 0, "entry": entry, "origin": "CUB", "kernel": kernel, "file": "cub.cubin"}


for part in (liger, tutorials, cub):
    part()
with open(os.path.join(folder, "public.json"), "w") as file:
    json.dump(made, file, indent=1)
print(f"{len(made)} public kernels")
