"""Liger-Kernel's Triton kernels, launched by its own PyTorch functions, forward and backward."""
import sys
import traceback

import torch
import torch.nn.functional as F

import corpus as corpora
import triton_record as record
from triton_record import random, recording

record.install()
HALVES = (torch.float32, torch.float16, torch.bfloat16)
SHORT = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}
CASES = []


def case(function):
    CASES.append(function)
    return function


def leaf(shape, seed, dtype=torch.float32, low=-2.0, high=2.0):
    return random(shape, seed, dtype, low, high).requires_grad_()


def labels(count, seed, high, ignored=()):
    tensor = random(count, seed, torch.int64, 0, high)
    for i in ignored:
        tensor[i] = -100
    return tensor


def close(found, wanted, dtype=torch.float32, scale=1.0):
    """The interpreter's result against PyTorch's own operators, so that both would have to be wrong alike."""
    tolerance = {torch.float32: 2e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2, torch.float64: 1e-9}[dtype] * scale
    worst = (found.double() - wanted.double()).abs().max().item()
    limit = tolerance * max(1.0, wanted.double().abs().max().item())
    if not worst <= limit:
        raise AssertionError(f"the interpreter differs from PyTorch by {worst:.3g}, allowed {limit:.3g}")


def backward(result, seed):
    result.backward(random(result.shape, seed, result.dtype).to(result.dtype))


@case
def rms_norm(corpus):
    from liger_kernel.ops.rms_norm import LigerRMSNormFunction
    for dtype in HALVES:
        for mode in ("llama", "gemma", "none"):
            if mode == "none" and dtype == torch.bfloat16:
                continue  # sums in bf16, which the interpreter cannot form
            x, w = leaf((6, 320), 1, dtype), leaf(320, 2, dtype)
            with recording(corpus, f"rms_norm.{mode}.{SHORT[dtype]}"):
                y = LigerRMSNormFunction.apply(x, w, 1e-6, 0.0, mode, False)
                close(y, x.float() * torch.rsqrt((x.float() ** 2).mean(-1, keepdim=True) + 1e-6) * w.float(), dtype)
                backward(y, 3)
    x, w = leaf((40, 96), 4), leaf(96, 5)
    with recording(corpus, "rms_norm.rows"):
        backward(LigerRMSNormFunction.apply(x, w, 1e-6, 1.0, "gemma", False, False), 6)
    x = leaf((5, 96), 7)
    with recording(corpus, "rms_norm.unweighted"):
        backward(LigerRMSNormFunction.apply(x, None, 1e-6, 0.0, "llama", False), 8)


@case
def fused_add_rms_norm(corpus):
    from liger_kernel.ops.fused_add_rms_norm import LigerFusedAddRMSNormFunction
    for dtype in HALVES:
        x, r, w = leaf((6, 256), 1, dtype), leaf((6, 256), 2, dtype), leaf(256, 3, dtype)
        with recording(corpus, f"fused_add_rms_norm.{SHORT[dtype]}"):
            y, s = LigerFusedAddRMSNormFunction.apply(x, r, w, 1e-6)
            close(s, x.float() + r.float(), dtype)
            (y.float().sum() * 0.25 + s.float().sum()).backward()


@case
def modulated_rms_norm(corpus):
    from liger_kernel.ops.modulated_rms_norm import LigerModulatedRMSNormFunction
    x, w, scale, shift = leaf((2, 4, 128), 1), leaf(128, 2), leaf((2, 128), 3), leaf((2, 128), 4)
    with recording(corpus, "modulated_rms_norm"):
        backward(LigerModulatedRMSNormFunction.apply(x, w, scale, shift, 1e-6, 0.0, "llama", False), 5)


@case
def layer_norm(corpus):
    from liger_kernel.ops.layer_norm import LigerLayerNormFunction
    for dtype in HALVES:
        x, w, b = leaf((6, 200), 1, dtype), leaf(200, 2, dtype), leaf(200, 3, dtype)
        with recording(corpus, f"layer_norm.{SHORT[dtype]}"):
            y = LigerLayerNormFunction.apply(x, w, b, 1e-5)
            close(y, F.layer_norm(x.float(), (200,), w.float(), b.float(), 1e-5), dtype)
            backward(y, 4)


@case
def group_norm(corpus):
    from liger_kernel.ops.group_norm import LigerGroupNormFunction
    x, w, b = leaf((3, 8, 50), 1), leaf(8, 2), leaf(8, 3)
    with recording(corpus, "group_norm"):
        y = LigerGroupNormFunction.apply(x, w, b, 8, 4, 1e-5)
        close(y, F.group_norm(x, 4, w, b, 1e-5))
        backward(y, 4)


@case
def poly_norm(corpus):
    from liger_kernel.ops.poly_norm import LigerPolyNormFunction
    for dtype in (torch.float32, torch.bfloat16):
        x, w, b = leaf((5, 192), 1, dtype), leaf(3, 2, dtype), random(1, 3, dtype)[0].clone().requires_grad_()
        with recording(corpus, f"poly_norm.{SHORT[dtype]}"):
            backward(LigerPolyNormFunction.apply(x, w, b, 1e-6, False), 4)


@case
def dyt(corpus):
    from liger_kernel.ops import dyt as module
    from liger_kernel.ops.dyt import LigerDyTFunction
    module.infer_device = lambda: "cuda"  # the only branch that counts multiprocessors
    for dtype in (torch.float32, torch.bfloat16):
        x, alpha, gamma, beta = leaf((7, 160), 1, dtype), leaf(1, 2, dtype), leaf(160, 3, dtype), leaf(160, 4, dtype)
        with recording(corpus, f"dyt.{SHORT[dtype]}"):
            y = LigerDyTFunction.apply(x, alpha, gamma, beta)
            close(y, torch.tanh(x.float() * alpha.float()) * gamma.float() + beta.float(), dtype)
            backward(y, 5)


@case
def swiglu(corpus):
    from liger_kernel.ops.swiglu import LigerSiLUMulFunction
    for dtype in HALVES:
        a, b = leaf((5, 300), 1, dtype), leaf((5, 300), 2, dtype)
        with recording(corpus, f"swiglu.{SHORT[dtype]}"):
            y = LigerSiLUMulFunction.apply(a, b)
            close(y, F.silu(a.float()) * b.float(), dtype)
            backward(y, 3)
    a, b = leaf((4, 128), 4), leaf((4, 128), 5)
    with recording(corpus, "swiglu.multipliers"):
        backward(LigerSiLUMulFunction.apply(a, b, 1.5, 0.5), 6)


@case
def swiglu_fused(corpus):
    from liger_kernel.ops import swiglu as module
    for name in dir(module):
        if name.startswith("Liger") and "Gate" in name or name in ("LigerFusedGateUpSiLUMulFunction",):
            y = leaf((4, 256), 1)
            with recording(corpus, "swiglu_gate_up"):
                backward(getattr(module, name).apply(y), 2)


@case
def geglu(corpus):
    from liger_kernel.ops.geglu import LigerGELUMulFunction
    for dtype in HALVES:
        a, b = leaf((5, 300), 1, dtype), leaf((5, 300), 2, dtype)
        with recording(corpus, f"geglu.{SHORT[dtype]}"):
            y = LigerGELUMulFunction.apply(a, b)
            close(y, F.gelu(a.float(), approximate="tanh") * b.float(), dtype)
            backward(y, 3)


@case
def relu_squared(corpus):
    from liger_kernel.ops import relu_squared as module
    function = next(getattr(module, n) for n in dir(module) if n.endswith("Function"))
    for dtype in HALVES:
        x = leaf((5, 300), 1, dtype)
        with recording(corpus, f"relu_squared.{SHORT[dtype]}"):
            y = function.apply(x)
            close(y, F.relu(x.float()) ** 2, dtype)
            backward(y, 2)


@case
def softmax(corpus):
    from liger_kernel.ops import softmax as module
    for dtype in HALVES:
        x = leaf((5, 250), 1, dtype)
        with recording(corpus, f"softmax.{SHORT[dtype]}"):
            y = module.LigerSoftmaxFunction.apply(x)
            close(y, torch.softmax(x.float(), -1), dtype)
            backward(y, 2)


@case
def sparsemax(corpus):
    from liger_kernel.ops.sparsemax import LigerSparsemaxFunction
    x = leaf((5, 100), 1)
    with recording(corpus, "sparsemax"):
        y = LigerSparsemaxFunction.apply(x, -1)
        close(y.sum(-1), torch.ones(5))
        backward(y, 2)


@case
def cross_entropy(corpus):
    from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction
    plain = (None, -100, 0.0, 0.0, "mean", None, False)
    for dtype in HALVES:
        x = leaf((8, 500), 1, dtype)
        target = labels(8, 2, 500, (3,))
        wanted = F.cross_entropy(x.detach().float(), target)
        with recording(corpus, f"cross_entropy.{SHORT[dtype]}"):
            loss = LigerCrossEntropyFunction.apply(x.clone(), target, *plain)[0]
            close(loss, wanted, dtype)
    smooth = (None, -100, 1e-3, 0.1, "sum", 30.0, True)
    x, target = leaf((6, 300), 3), labels(6, 4, 300)
    with recording(corpus, "cross_entropy.smooth_softcap_z"):
        loss = LigerCrossEntropyFunction.apply(x.clone(), target, *smooth)[0]
        (loss * 0.5).backward()
    weight = random(300, 5, low=0.1, high=2.0)
    x, target = leaf((6, 300), 6), labels(6, 7, 300, (0,))
    wanted = F.cross_entropy(x.detach(), target, weight)
    with recording(corpus, "cross_entropy.weighted"):
        loss = LigerCrossEntropyFunction.apply(x.clone(), target, weight, -100, 0.0, 0.0, "mean", None, False)[0]
        close(loss, wanted)


@case
def fused_linear_cross_entropy(corpus):
    from liger_kernel.ops.fused_linear_cross_entropy import LigerFusedLinearCrossEntropyFunction
    x, w, target = leaf((8, 32), 1), leaf((96, 32), 2), labels(8, 3, 96)
    with recording(corpus, "fused_linear_cross_entropy"):
        loss = LigerFusedLinearCrossEntropyFunction.apply(x, w, target)[0]
        close(loss, F.cross_entropy(x @ w.t(), target))
        (loss * 2).backward()


@case
def kl_div(corpus):
    from liger_kernel.ops.kl_div import LigerKLDivLossFunction
    for reduction in ("batchmean", "none", "sum", "mean"):
        x = leaf((4, 300), 1)
        target = torch.softmax(random((4, 300), 2), -1)
        with recording(corpus, f"kl_div.{reduction}"):
            y = LigerKLDivLossFunction.apply(torch.log_softmax(x, -1), target, reduction, False)
            (y.sum() * 0.5).backward()
    x, target = leaf((4, 300), 3), torch.log_softmax(random((4, 300), 4), -1)
    with recording(corpus, "kl_div.log_target"):
        LigerKLDivLossFunction.apply(torch.log_softmax(x, -1), target, "batchmean", True).backward()


@case
def jsd(corpus):
    from liger_kernel.ops.jsd import LigerJSDFunction
    for beta in (0.0, 0.5, 1.0):
        x = leaf((5, 200), 1)
        target = torch.log_softmax(random((5, 200), 2), -1)
        with recording(corpus, f"jsd.beta{beta:g}"):
            LigerJSDFunction.apply(torch.log_softmax(x, -1), target, labels(5, 3, 200, (1,)), beta, -100).backward()


@case
def fused_linear_jsd(corpus):
    from liger_kernel.ops.fused_linear_jsd import LigerFusedLinearJSDFunction
    s, sw, t, tw = leaf((4, 16), 1), leaf((64, 16), 2), random((4, 32), 3), random((64, 32), 4)
    with recording(corpus, "fused_linear_jsd"):
        LigerFusedLinearJSDFunction.apply(s, sw, t, tw).backward(torch.tensor(2.0))


@case
def fused_linear_kl_div(corpus):
    from liger_kernel.ops.fused_linear_kl_div import LigerFusedLinearKLDivFunction
    s, sw = leaf((4, 16), 1), leaf((64, 16), 2)
    target = torch.softmax(random((4, 64), 3), -1)
    with recording(corpus, "fused_linear_kl_div"):
        LigerFusedLinearKLDivFunction.apply(s, sw, target).backward(torch.tensor(2.0))


@case
def tvd(corpus):
    from liger_kernel.ops.tvd import LigerTVDLossFunction
    for reduction in ("batchmean", "none", "sum"):
        p = leaf((5, 200), 1)
        q = torch.softmax(random((5, 200), 2), -1)
        with recording(corpus, f"tvd.{reduction}"):
            y = LigerTVDLossFunction.apply(torch.softmax(p, -1), q, None, reduction)
            if reduction == "sum":
                close(y, 0.5 * (torch.softmax(p, -1) - q).abs().sum())
            (y.sum() * 3).backward()


@case
def fused_ce_tvd(corpus):
    from liger_kernel.ops.fused_ce_tvd import LigerFusedCETVDFunction
    s, t = leaf((6, 128), 1), random((6, 128), 2)
    with recording(corpus, "fused_ce_tvd"):
        parts = LigerFusedCETVDFunction.apply(s, t, labels(6, 3, 128, (2,)))
        sum(p.sum() for p in (parts if isinstance(parts, tuple) else (parts,))).backward()


@case
def rope(corpus):
    from liger_kernel.ops.rope import LigerRopeFunction
    for dtype in HALVES:
        q, k = leaf((2, 4, 6, 32), 1, dtype), leaf((2, 2, 6, 32), 2, dtype)
        angle = random((1, 6, 16), 3)
        cos, sin = (torch.cat([f(angle)] * 2, -1).to(dtype) for f in (torch.cos, torch.sin))
        # Liger rotates in place, in the layout that its models have: (batch, length, heads, width).
        q, k = (x.detach().transpose(1, 2).contiguous().transpose(1, 2).requires_grad_() for x in (q, k))
        with recording(corpus, f"rope.{SHORT[dtype]}"):
            a, b = LigerRopeFunction.apply(q.clone(memory_format=torch.preserve_format),
                                           k.clone(memory_format=torch.preserve_format), cos, sin)
            (a.float().sum() + (b.float() ** 2).sum()).backward()


@case
def llama4_rope(corpus):
    from liger_kernel.ops.llama4_rope import LigerLlama4RopeFunction
    q, k = leaf((1, 6, 4, 32), 1), leaf((1, 6, 2, 32), 2)
    angle = random((6, 16), 3)
    freqs = torch.complex(torch.cos(angle), torch.sin(angle))
    with recording(corpus, "llama4_rope"):
        a, b = LigerLlama4RopeFunction.apply(q, k, freqs)
        (a.sum() + (b * b).sum()).backward()


@case
def qwen2vl_mrope(corpus):
    from liger_kernel.ops.qwen2vl_mrope import LigerQwen2VLMRopeFunction
    q, k = leaf((1, 4, 6, 32), 1), leaf((1, 2, 6, 32), 2)
    angle = random((3, 1, 6, 16), 3)
    cos, sin = (torch.cat([f(angle)] * 2, -1) for f in (torch.cos, torch.sin))
    with recording(corpus, "qwen2vl_mrope"):
        a, b = LigerQwen2VLMRopeFunction.apply(q.clone(), k.clone(), cos, sin, [4, 6, 6])
        (a.sum() + (b * b).sum()).backward()


@case
def grpo_loss(corpus):
    from liger_kernel.ops.grpo_loss import GrpoLossFunction
    for kind in ("grpo", "dapo", "bnpo"):
        logits = leaf((2, 5, 120), 1)
        ids = random((2, 4), 2, torch.int64, 0, 120)
        with recording(corpus, f"grpo_loss.{kind}"):
            out = GrpoLossFunction.apply(logits, random((2, 4), 3, low=-4, high=-1), random((2, 4), 4, low=-4, high=-1),
                                         ids, random(2, 5), torch.ones(2, 4), 0.9, 0.04, 0.2, 0.4, False, kind)
            out[0].sum().backward()


@case
def element_mul(corpus):
    from liger_kernel.ops.utils import element_mul_kernel
    x = random((4, 200), 1)
    with recording(corpus, "element_mul"):
        element_mul_kernel[(4,)](x, 200, torch.tensor(1.5), 200, BLOCK_SIZE=128)


@case
def attn_res(corpus):
    from liger_kernel.ops.attn_res import LigerAttnResFunction
    v, q, n = leaf((4, 2, 3, 64), 1), leaf(64, 2), leaf(64, 3)
    with recording(corpus, "attn_res"):
        y = LigerAttnResFunction.apply(v, q, n, 1e-6)
        (y[0] if isinstance(y, tuple) else y).sum().backward()


@case
def multi_token_attention(corpus):
    from liger_kernel.ops.multi_token_attention import LigerMultiTokenAttentionFunction
    s, w, b = leaf((1, 2, 16, 16), 1), leaf((2, 2, 3, 3), 2), leaf(2, 3)
    with recording(corpus, "multi_token_attention"):
        backward(LigerMultiTokenAttentionFunction.apply(s, w, b, 1, 1, 1, 1, False), 4)


@case
def neighborhood_attention(corpus):
    from liger_kernel.ops.fused_neighborhood_attention import LigerFusedNeighborhoodAttentionFunction
    q, k, v = (leaf((1, 2, 32, 16), seed) for seed in (1, 2, 3))
    with recording(corpus, "neighborhood_attention", tolerance=(2e-2, 5e-3)):
        backward(LigerFusedNeighborhoodAttentionFunction.apply(q, k, v, 7, 1, None), 4)


@case
def embedding(corpus):
    from liger_kernel.ops.experimental.embedding import LigerEmbeddingFunction
    table = leaf((40, 64), 1)
    with recording(corpus, "embedding"):
        y = LigerEmbeddingFunction.apply(table, random((3, 5), 2, torch.int64, 0, 40))
        backward(y, 3)


@case
def mm_int8int2(corpus):
    from liger_kernel.ops.experimental import mm_int8int2 as module
    weight = random((64, 32), 1, torch.int8, -1, 2)
    packed = module.pack_weights(weight, bits=2)
    x = random((32, packed.shape[0] * 4), 2, torch.int8, -100, 100)
    with recording(corpus, "mm_int8int2"):
        module.matmul(x, packed)


@case
def fused_moe(corpus):
    from liger_kernel.ops.fused_moe import LigerFusedMoEFunction
    for dtype in (torch.float32, torch.bfloat16):
        x, up, down = leaf((8, 64), 1, dtype), leaf((4, 64, 64), 2, dtype, -0.5, 0.5), leaf((4, 64, 32), 3, dtype, -0.5, 0.5)
        chosen = torch.stack([torch.tensor([i % 4, (i + 1 + i // 4) % 4]) for i in range(8)]).int()
        weights = random((8, 2), 4, dtype, 0.1, 0.9).requires_grad_()
        with recording(corpus, f"fused_moe.{SHORT[dtype]}", tolerance=(3e-2, 1e-2)):
            backward(LigerFusedMoEFunction.apply(x, up, down, chosen, weights), 5)


@case
def mhc(corpus):
    from liger_kernel.ops import mhc as module
    names = [n for n in dir(module) if n.endswith("Function")]
    hc, width = 4, 32
    x, phi, b = leaf((6, hc, width), 1), leaf((hc * width, hc * hc + 2 * hc), 2, low=-0.2, high=0.2), leaf(hc * hc + 2 * hc, 3)
    alphas = [torch.tensor(v, requires_grad=True) for v in (0.5, 0.6, 0.7)]
    with recording(corpus, "mhc", tolerance=(2e-2, 5e-3), smallest=1e-3):
        pre, post, res = module.LigerMHCCoeffsFunction.apply(x, phi, b, *alphas, True, 20, 1e-6, 0.0, 1e-6, 2.0)
        h_in = module.LigerMHCPreFunction.apply(x, pre)
        y = module.LigerMHCPostResFunction.apply(x, h_in, post, res)
        y.sum().backward()


def main(path, wanted):
    import liger_kernel  # noqa: F401
    from importlib.metadata import version
    corpus = corpora.Corpus("Liger-Kernel", f"PyPI liger-kernel {version('liger-kernel')}, compiled by triton "
                            f"{version('triton')} for sm_90", "BSD-2-Clause")
    for function in CASES:
        if wanted and function.__name__ not in wanted:
            continue
        record.Recorder.keep.clear()
        record.Recorder.seeds.clear()
        try:
            function(corpus)
        except Exception as error:  # one operator's kernels that cannot be recorded cost no other's
            print(f"{function.__name__}: {type(error).__name__}: {str(error)[:300]}")
            if wanted:
                traceback.print_exc()
    corpus.write(path)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
