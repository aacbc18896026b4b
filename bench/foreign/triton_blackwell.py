"""Triton's products compiled for sm_100: tl.dot becomes tcgen05.mma, with accumulators and softmaxes in tensor memory."""
import sys
import traceback
from importlib.metadata import version

from triton.backends.compiler import GPUTarget

import corpus as corpora
import triton_record as record
from triton_record import random, recording

record.TARGET = GPUTarget("cuda", 100, 32)

import triton_tutorials as tutorials
from triton_tutorials import BF16, F16, F32, empty


def products(corpus):
    for name, dtype, out in (("f16", F16, F16), ("bf16", BF16, F32), ("f32", F32, F32)):
        for m, n, k, block, warps in ((100, 70, 90, (64, 32, 32), 4), (128, 128, 64, (128, 64, 32), 4),
                                      (128, 160, 64, (128, 128, 64), 8)):
            with recording(corpus, f"03.{name}", tolerance=None if dtype == BF16 else (5e-3, 4e-3)):
                a, b, c = random((m, k), 4, dtype), random((k, n), 5, dtype), empty((m, n), out)
                grid = (-(-m // block[0]) * -(-n // block[1]),)
                tutorials.matmul_kernel[grid](a, b, c, m, n, k, k, 1, n, 1, n, 1, *block, 8, "", record.tl.float32, num_warps=warps)
    for dtype, name in ((F16, "f16"), (BF16, "bf16")):
        for causal in (False, True):
            with recording(corpus, f"06.{name}.{'causal' if causal else 'full'}", tolerance=(2e-2, 1e-2)):
                heads, length, dim = 2, 128, 64
                q, k, v = (random((heads, length, dim), s, dtype, -1, 1) for s in (11, 12, 13))
                m, out = empty((heads, length)), empty((heads, length, dim), dtype)
                tutorials.attention_fwd[(1, heads)](q, k, v, 0.3, m, out, length * dim, length, dim, 128, 64, causal)
    with recording(corpus, "08", tolerance=(5e-3, 4e-3)):
        a, b, c = random((128, 64), 16, F16), random((64, 128), 17, F16), empty((128, 128), F16)
        tutorials.persistent_matmul[(3,)](a, b, c, 128, 128, 64, 3, 64, 64, 32)
    with recording(corpus, "09", tolerance=(5e-3, 4e-3)):
        for block in ((64, 64, 64), (128, 64, 32)):
            a, b, c = random((128, 128), 18, F16), random((128, 128), 19, F16), empty((128, 128), F16)
            tutorials.matmul_descriptors[(128 // block[0], 128 // block[1])](a, b, c, 128, 128, 128, *block)


def main(path):
    corpus = corpora.Corpus("Triton (Blackwell)", f"the products among Triton's tutorials; PyPI triton {version('triton')}, for sm_100", "MIT")
    try:
        products(corpus)
    except Exception:
        traceback.print_exc()
    corpus.write(path)


if __name__ == "__main__":
    main(sys.argv[1])
