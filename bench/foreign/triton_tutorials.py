"""Kernels of Triton's tutorials (python/tutorials, MIT), and one kernel for each of its language's operators."""
import sys
import traceback
from importlib.metadata import version

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

import corpus as corpora
import triton_record as record
from triton_record import random, recording

record.install()
F32, F16, BF16, I32 = torch.float32, torch.float16, torch.bfloat16, torch.int32


# 01-vector-add
@triton.jit
def add_kernel(x_ptr, y_ptr, output_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(output_ptr + offsets, x + y, mask=mask)


# 02-fused-softmax
@triton.jit
def softmax_kernel(output_ptr, input_ptr, input_row_stride, output_row_stride, n_rows, n_cols, BLOCK_SIZE: tl.constexpr,
                   num_stages: tl.constexpr):
    row_start = tl.program_id(0)
    row_step = tl.num_programs(0)
    for row_idx in tl.range(row_start, n_rows, row_step, num_stages=num_stages):
        row_start_ptr = input_ptr + row_idx * input_row_stride
        col_offsets = tl.arange(0, BLOCK_SIZE)
        mask = col_offsets < n_cols
        row = tl.load(row_start_ptr + col_offsets, mask=mask, other=-float("inf"))
        row_minus_max = row - tl.max(row, axis=0)
        numerator = tl.exp(row_minus_max)
        denominator = tl.sum(numerator, axis=0)
        tl.store(output_ptr + row_idx * output_row_stride + col_offsets, numerator / denominator, mask=mask)


# 03-matrix-multiplication
@triton.jit
def leaky_relu(x):
    return tl.where(x >= 0, x, 0.01 * x)


@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
                  BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr, BLOCK_SIZE_K: tl.constexpr,
                  GROUP_SIZE_M: tl.constexpr, ACTIVATION: tl.constexpr, ACCUMULATOR: tl.constexpr):
    pid = tl.program_id(axis=0)
    num_pid_m = tl.cdiv(M, BLOCK_SIZE_M)
    num_pid_n = tl.cdiv(N, BLOCK_SIZE_N)
    num_pid_in_group = GROUP_SIZE_M * num_pid_n
    group_id = pid // num_pid_in_group
    first_pid_m = group_id * GROUP_SIZE_M
    group_size_m = min(num_pid_m - first_pid_m, GROUP_SIZE_M)
    pid_m = first_pid_m + ((pid % num_pid_in_group) % group_size_m)
    pid_n = (pid % num_pid_in_group) // group_size_m
    offs_am = (pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)) % M
    offs_bn = (pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)) % N
    offs_k = tl.arange(0, BLOCK_SIZE_K)
    a_ptrs = a_ptr + (offs_am[:, None] * stride_am + offs_k[None, :] * stride_ak)
    b_ptrs = b_ptr + (offs_k[:, None] * stride_bk + offs_bn[None, :] * stride_bn)
    accumulator = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=ACCUMULATOR)
    for k in range(0, tl.cdiv(K, BLOCK_SIZE_K)):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BLOCK_SIZE_K, other=0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BLOCK_SIZE_K, other=0)
        accumulator = tl.dot(a, b, accumulator, out_dtype=ACCUMULATOR)
        a_ptrs += BLOCK_SIZE_K * stride_ak
        b_ptrs += BLOCK_SIZE_K * stride_bk
    if ACTIVATION == "leaky_relu":
        accumulator = leaky_relu(accumulator)
    c = accumulator.to(c_ptr.dtype.element_ty)
    offs_cm = pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
    offs_cn = pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    c_ptrs = c_ptr + stride_cm * offs_cm[:, None] + stride_cn * offs_cn[None, :]
    tl.store(c_ptrs, c, mask=(offs_cm[:, None] < M) & (offs_cn[None, :] < N))


# 04-low-memory-dropout
@triton.jit
def seeded_dropout(x_ptr, output_ptr, n_elements, p, seed, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    keep = tl.rand(seed, offsets) > p
    tl.store(output_ptr + offsets, tl.where(keep, x / (1 - p), 0.0), mask=mask)


# 05-layer-norm
@triton.jit
def layer_norm_fwd_fused(X, Y, W, B, Mean, Rstd, stride, N, eps, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0)
    Y += row * stride
    X += row * stride
    _mean = tl.zeros([BLOCK_SIZE], dtype=tl.float32)
    for off in range(0, N, BLOCK_SIZE):
        cols = off + tl.arange(0, BLOCK_SIZE)
        _mean += tl.load(X + cols, mask=cols < N, other=0.).to(tl.float32)
    mean = tl.sum(_mean, axis=0) / N
    _var = tl.zeros([BLOCK_SIZE], dtype=tl.float32)
    for off in range(0, N, BLOCK_SIZE):
        cols = off + tl.arange(0, BLOCK_SIZE)
        x = tl.load(X + cols, mask=cols < N, other=0.).to(tl.float32)
        x = tl.where(cols < N, x - mean, 0.)
        _var += x * x
    var = tl.sum(_var, axis=0) / N
    rstd = 1 / tl.sqrt(var + eps)
    tl.store(Mean + row, mean)
    tl.store(Rstd + row, rstd)
    for off in range(0, N, BLOCK_SIZE):
        cols = off + tl.arange(0, BLOCK_SIZE)
        mask = cols < N
        w = tl.load(W + cols, mask=mask)
        b = tl.load(B + cols, mask=mask)
        x = tl.load(X + cols, mask=mask, other=0.).to(tl.float32)
        tl.store(Y + cols, (x - mean) * rstd * w + b, mask=mask)


@triton.jit
def layer_norm_bwd_dx_fused(DX, DY, DW, DB, X, W, Mean, Rstd, Lock, stride, N, GROUP_SIZE_M: tl.constexpr,
                            BLOCK_SIZE_N: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_SIZE_N)
    mask = cols < N
    X += row * stride
    DY += row * stride
    DX += row * stride
    lock_id = row % GROUP_SIZE_M
    Lock += lock_id
    Count = Lock + GROUP_SIZE_M
    DW = DW + lock_id * N + cols
    DB = DB + lock_id * N + cols
    x = tl.load(X + cols, mask=mask, other=0).to(tl.float32)
    dy = tl.load(DY + cols, mask=mask, other=0).to(tl.float32)
    w = tl.load(W + cols, mask=mask).to(tl.float32)
    mean = tl.load(Mean + row)
    rstd = tl.load(Rstd + row)
    xhat = (x - mean) * rstd
    wdy = w * dy
    xhat = tl.where(mask, xhat, 0.)
    wdy = tl.where(mask, wdy, 0.)
    c1 = tl.sum(xhat * wdy, axis=0) / N
    c2 = tl.sum(wdy, axis=0) / N
    tl.store(DX + cols, (wdy - (xhat * c1 + c2)) * rstd, mask=mask)
    partial_dw = (dy * xhat).to(w.dtype)
    partial_db = dy.to(w.dtype)
    while tl.atomic_cas(Lock, 0, 1) == 1:
        pass
    count = tl.load(Count)
    if count == 0:
        tl.atomic_xchg(Count, 1)
    else:
        partial_dw += tl.load(DW, mask=mask)
        partial_db += tl.load(DB, mask=mask)
    tl.store(DW, partial_dw, mask=mask)
    tl.store(DB, partial_db, mask=mask)
    tl.debug_barrier()
    tl.atomic_xchg(Lock, 0)


@triton.jit
def layer_norm_bwd_dwdb(DW, DB, FINAL_DW, FINAL_DB, M, N, BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr):
    pid = tl.program_id(0)
    cols = pid * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    dw = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    db = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    for i in range(0, M, BLOCK_SIZE_M):
        rows = i + tl.arange(0, BLOCK_SIZE_M)
        mask = (rows[:, None] < M) & (cols[None, :] < N)
        offs = rows[:, None] * N + cols[None, :]
        dw += tl.load(DW + offs, mask=mask, other=0.)
        db += tl.load(DB + offs, mask=mask, other=0.)
    tl.store(FINAL_DW + cols, tl.sum(dw, axis=0), mask=cols < N)
    tl.store(FINAL_DB + cols, tl.sum(db, axis=0), mask=cols < N)


# 06-fused-attention, with pointers
@triton.jit
def attention_fwd(Q, K, V, sm_scale, M, Out, stride_h, N_CTX, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr,
                  BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr):
    start_m = tl.program_id(0)
    off_h = tl.program_id(1)
    Q += off_h * stride_h
    K += off_h * stride_h
    V += off_h * stride_h
    Out += off_h * stride_h
    offs_m = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, HEAD_DIM)
    m_i = tl.zeros([BLOCK_M], dtype=tl.float32) - float("inf")
    l_i = tl.zeros([BLOCK_M], dtype=tl.float32) + 1.0
    acc = tl.zeros([BLOCK_M, HEAD_DIM], dtype=tl.float32)
    qk_scale = sm_scale * 1.44269504
    q = tl.load(Q + offs_m[:, None] * HEAD_DIM + offs_d[None, :])
    hi = (start_m + 1) * BLOCK_M if CAUSAL else N_CTX
    for start_n in range(0, hi, BLOCK_N):
        k = tl.load(K + (start_n + offs_n)[None, :] * HEAD_DIM + offs_d[:, None])
        qk = tl.dot(q, k) * qk_scale
        if CAUSAL:
            qk = tl.where(offs_m[:, None] >= (start_n + offs_n[None, :]), qk, -1.0e6)
        m_ij = tl.maximum(m_i, tl.max(qk, 1))
        p = tl.math.exp2(qk - m_ij[:, None])
        alpha = tl.math.exp2(m_i - m_ij)
        l_i = l_i * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        v = tl.load(V + (start_n + offs_n)[:, None] * HEAD_DIM + offs_d[None, :])
        acc = tl.dot(p.to(v.dtype), v, acc)
        m_i = m_ij
    m_i += tl.math.log2(l_i)
    acc = acc / l_i[:, None]
    tl.store(M + off_h * N_CTX + offs_m, m_i)
    tl.store(Out + offs_m[:, None] * HEAD_DIM + offs_d[None, :], acc.to(Out.dtype.element_ty))


@triton.jit
def attention_bwd_preprocess(O, DO, Delta, N_CTX, BLOCK_M: tl.constexpr, HEAD_DIM: tl.constexpr):
    off_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    off_h = tl.program_id(1)
    off_n = tl.arange(0, HEAD_DIM)
    o = tl.load(O + off_h * HEAD_DIM * N_CTX + off_m[:, None] * HEAD_DIM + off_n[None, :])
    do = tl.load(DO + off_h * HEAD_DIM * N_CTX + off_m[:, None] * HEAD_DIM + off_n[None, :]).to(tl.float32)
    tl.store(Delta + off_h * N_CTX + off_m, tl.sum(o * do, axis=1))


@triton.jit
def attention_bwd_dkdv(Q, K, V, DO, DK, DV, M, D, sm_scale, stride_h, N_CTX, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                       HEAD_DIM: tl.constexpr):
    off_h = tl.program_id(1)
    Q += off_h * stride_h
    K += off_h * stride_h
    V += off_h * stride_h
    DO += off_h * stride_h
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, HEAD_DIM)
    k = tl.load(K + offs_n[:, None] * HEAD_DIM + offs_d[None, :])
    v = tl.load(V + offs_n[:, None] * HEAD_DIM + offs_d[None, :])
    dk = tl.zeros([BLOCK_N, HEAD_DIM], dtype=tl.float32)
    dv = tl.zeros([BLOCK_N, HEAD_DIM], dtype=tl.float32)
    for start in range(0, N_CTX, BLOCK_M):
        offs_m = start + tl.arange(0, BLOCK_M)
        qT = tl.load(Q + offs_m[None, :] * HEAD_DIM + offs_d[:, None])
        m = tl.load(M + off_h * N_CTX + offs_m)
        pT = tl.math.exp2(tl.dot(k, qT) * (sm_scale * 1.44269504) - m[None, :])
        do = tl.load(DO + offs_m[:, None] * HEAD_DIM + offs_d[None, :])
        dv += tl.dot(pT.to(do.dtype), do)
        Di = tl.load(D + off_h * N_CTX + offs_m)
        dpT = tl.dot(v, tl.trans(do)).to(tl.float32)
        dsT = (pT * (dpT - Di[None, :])).to(qT.dtype)
        dk += tl.dot(dsT, tl.trans(qT))
    tl.store(DV + off_h * stride_h + offs_n[:, None] * HEAD_DIM + offs_d[None, :], dv.to(DV.dtype.element_ty))
    tl.store(DK + off_h * stride_h + offs_n[:, None] * HEAD_DIM + offs_d[None, :], (dk * sm_scale).to(DK.dtype.element_ty))


# 07-extern-functions
@triton.jit
def asin_kernel(x_ptr, y_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    tl.store(y_ptr + offsets, libdevice.asin(tl.load(x_ptr + offsets, mask=mask)), mask=mask)


# 08-grouped-gemm's scheduling, over one shape
@triton.jit
def persistent_matmul(a_ptr, b_ptr, c_ptr, M, N, K, NUM_SM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                      BLOCK_K: tl.constexpr):
    num_n = tl.cdiv(N, BLOCK_N)
    tiles = tl.cdiv(M, BLOCK_M) * num_n
    for tile in range(tl.program_id(0), tiles, NUM_SM):
        offs_m = tile // num_n * BLOCK_M + tl.arange(0, BLOCK_M)
        offs_n = tile % num_n * BLOCK_N + tl.arange(0, BLOCK_N)
        offs_k = tl.arange(0, BLOCK_K)
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(0, K, BLOCK_K):
            a = tl.load(a_ptr + offs_m[:, None] * K + k + offs_k[None, :])
            b = tl.load(b_ptr + (k + offs_k[:, None]) * N + offs_n[None, :])
            acc = tl.dot(a, b, acc)
        tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(c_ptr.dtype.element_ty))


# 09-persistent-matmul: tensor descriptors, which are tensor maps on sm_90
@triton.jit
def matmul_descriptors(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    a_desc = tl.make_tensor_descriptor(a_ptr, shape=[M, K], strides=[K, 1], block_shape=[BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b_ptr, shape=[K, N], strides=[N, 1], block_shape=[BLOCK_K, BLOCK_N])
    c_desc = tl.make_tensor_descriptor(c_ptr, shape=[M, N], strides=[N, 1], block_shape=[BLOCK_M, BLOCK_N])
    m = tl.program_id(0) * BLOCK_M
    n = tl.program_id(1) * BLOCK_N
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        acc = tl.dot(a_desc.load([m, k]), b_desc.load([k, n]), acc)
    c_desc.store([m, n], acc.to(c_ptr.dtype.element_ty))


# One kernel for each operator of the language.
@triton.jit
def unary(x_ptr, y_ptr, OP: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    if OP == "exp":
        y = tl.exp(x)
    elif OP == "log":
        y = tl.log(tl.abs(x) + 1)
    elif OP == "sin":
        y = tl.sin(x)
    elif OP == "sqrt_rn":
        y = tl.sqrt_rn(tl.abs(x))
    elif OP == "rsqrt":
        y = tl.rsqrt(tl.abs(x) + 1)
    elif OP == "erf":
        y = tl.erf(x)
    elif OP == "floor":
        y = tl.floor(x * 10)
    elif OP == "sigmoid":
        y = tl.sigmoid(x)
    else:
        y = tl.div_rn(x, x * x + 1)
    tl.store(y_ptr + i, y)


@triton.jit
def scan_kernel(x_ptr, y_ptr, OP: tl.constexpr, M: tl.constexpr, N: tl.constexpr, REVERSE: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + at)
    y = tl.cumsum(x, axis=1, reverse=REVERSE) if OP == "sum" else tl.cumprod(x, axis=0, reverse=REVERSE)
    tl.store(y_ptr + at, y)


@triton.jit
def reduce_kernel(x_ptr, y_ptr, OP: tl.constexpr, AXIS: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    if OP == "sum":
        y = tl.sum(x, axis=AXIS)
    elif OP == "max":
        y = tl.max(x, axis=AXIS)
    elif OP == "min":
        y = tl.min(x, axis=AXIS)
    elif OP == "argmax":
        y = tl.argmax(x, axis=AXIS)
    elif OP == "argmin":
        y = tl.argmin(x, axis=AXIS)
    else:
        y = tl.xor_sum(x, axis=AXIS)
    if AXIS == 0:
        tl.store(y_ptr + tl.arange(0, N), y)
    else:
        tl.store(y_ptr + tl.arange(0, M), y)


@triton.jit
def sort_kernel(x_ptr, y_ptr, M: tl.constexpr, N: tl.constexpr, DESCENDING: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(y_ptr + at, tl.sort(tl.load(x_ptr + at), descending=DESCENDING))


@triton.jit
def shapes_kernel(x_ptr, y_ptr, OP: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    if OP == "trans":
        tl.store(y_ptr + tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :], tl.trans(x))
    elif OP == "reshape":
        y = tl.reshape(x, (M // 2, N * 2))
        tl.store(y_ptr + tl.arange(0, M // 2)[:, None] * (N * 2) + tl.arange(0, N * 2)[None, :], y * 2)
    elif OP == "interleave":
        y = tl.interleave(x, x + 10)
        tl.store(y_ptr + tl.arange(0, M)[:, None] * (N * 2) + tl.arange(0, N * 2)[None, :], y)
    elif OP == "split":
        a, b = tl.split(tl.reshape(x, (M, N // 2, 2)))
        tl.store(y_ptr + tl.arange(0, M)[:, None] * (N // 2) + tl.arange(0, N // 2)[None, :], a - b)
    else:
        tl.store(y_ptr + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], tl.flip(x, 1))


@triton.jit
def histogram_kernel(x_ptr, y_ptr, N: tl.constexpr, BINS: tl.constexpr):
    h = tl.histogram(tl.load(x_ptr + tl.arange(0, N)), BINS)
    tl.store(y_ptr + tl.arange(0, BINS), h)


@triton.jit
def gather_kernel(x_ptr, i_ptr, y_ptr, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(y_ptr + at, tl.gather(tl.load(x_ptr + at), tl.load(i_ptr + at), 1))


@triton.jit
def atomics_kernel(x_ptr, y_ptr, OP: tl.constexpr, N: tl.constexpr, BINS: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    x = tl.load(x_ptr + i)
    if OP == "add":
        tl.atomic_add(y_ptr + i % BINS, x)
    elif OP == "max":
        tl.atomic_max(y_ptr + i % BINS, x)
    elif OP == "min":
        tl.atomic_min(y_ptr + i % BINS, x)
    elif OP == "or":
        tl.atomic_or(y_ptr + i % BINS, x)
    else:
        tl.atomic_xor(y_ptr + i % BINS, x)


@triton.jit
def cast_kernel(x_ptr, y_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y_ptr + i, tl.load(x_ptr + i).to(y_ptr.dtype.element_ty))


@triton.jit
def dot_kernel(a_ptr, b_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, OUT: tl.constexpr,
               PRECISION: tl.constexpr):
    a = tl.load(a_ptr + tl.arange(0, M)[:, None] * K + tl.arange(0, K)[None, :])
    b = tl.load(b_ptr + tl.arange(0, K)[:, None] * N + tl.arange(0, N)[None, :])
    c = tl.dot(a, b, out_dtype=OUT, input_precision=PRECISION)
    tl.store(c_ptr + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], c)


@triton.jit
def philox_kernel(y_ptr, seed, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y_ptr + i, tl.randint(seed, i))
    tl.store(y_ptr + N + i, (tl.rand(seed, i) * 1000000).to(tl.int32))


@triton.jit
def integers_kernel(x_ptr, z_ptr, y_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    z = tl.load(z_ptr + i)
    tl.store(y_ptr + i, x // z)
    tl.store(y_ptr + N + i, x % z)
    tl.store(y_ptr + 2 * N + i, (x << 3) ^ (z >> 1) | (x & z))
    tl.store(y_ptr + 3 * N + i, tl.umulhi(x, z))


def empty(shape, dtype=F32):
    return torch.empty(shape, dtype=dtype)


def tutorials(corpus):
    with recording(corpus, "01"):
        for dtype in (F32, F16, BF16, I32):
            x, y, out = random(1000, 1, dtype), random(1000, 2, dtype), empty(1000, dtype)
            add_kernel[(4,)](x, y, out, 1000, BLOCK_SIZE=256)
    with recording(corpus, "02"):
        for cols in (781, 128):
            out = empty((7, cols))
            x = random((7, cols), 3)
            softmax_kernel[(3,)](out, x, cols, cols, 7, cols, BLOCK_SIZE=triton.next_power_of_2(cols), num_stages=2)
            assert (out - torch.softmax(x, 1)).abs().max() < 1e-6
    for name, dtype, out, acc in (("f16", F16, F16, tl.float32), ("bf16", BF16, BF16, tl.float32),
                                  ("f32", F32, F32, tl.float32), ("s8", torch.int8, I32, tl.int32),
                                  ("f16acc", F16, F16, tl.float16)):
        for m, n, k, block, warps in ((100, 70, 90, (64, 32, 32), 4), (128, 128, 64, (128, 64, 32), 4),
                                      (48, 40, 64, (16, 16, 32), 2), (128, 160, 64, (128, 128, 64), 8)):
            tolerance = None if dtype == torch.int8 else (5e-3, 4e-3) if dtype != BF16 else None
            with recording(corpus, f"03.{name}", tolerance=tolerance):
                a, b = (random(s, i, dtype) if dtype != torch.int8 else random(s, i, dtype, -9, 9)
                        for i, s in ((4, (m, k)), (5, (k, n))))
                c = empty((m, n), out)
                grid = (triton.cdiv(m, block[0]) * triton.cdiv(n, block[1]),)
                matmul_kernel[grid](a, b, c, m, n, k, k, 1, n, 1, n, 1, *block, 8,
                                    "leaky_relu" if name == "f16" else "", acc, num_warps=warps)
    with recording(corpus, "04"):
        seeded_dropout[(4,)](random(1000, 6), empty(1000), 1000, 0.5, 123, BLOCK_SIZE=256)
    rows, cols = 6, 150
    x, w, b, dy = random((rows, cols), 7), random(cols, 8), random(cols, 9), random((rows, cols), 10)
    mean, rstd, y = empty(rows), empty(rows), empty((rows, cols))
    with recording(corpus, "05"):
        layer_norm_fwd_fused[(rows,)](x, y, w, b, mean, rstd, cols, cols, 1e-5, BLOCK_SIZE=128)
        assert (y - torch.nn.functional.layer_norm(x, (cols,), w, b)).abs().max() < 1e-4
        dw, db, dx = torch.zeros(2, cols), torch.zeros(2, cols), empty((rows, cols))
        layer_norm_bwd_dx_fused[(rows,)](dx, dy, dw, db, x, w, mean, rstd, torch.zeros(4, dtype=I32), cols, cols, 2, 256)
        layer_norm_bwd_dwdb[(2,)](dw, db, empty(cols), empty(cols), 2, cols, 32, 128)
    for dtype, name in ((F16, "f16"), (BF16, "bf16")):
        for causal in (False, True):
            for dim in (32, 64):
                with recording(corpus, f"06.{name}.{'causal' if causal else 'full'}.{dim}", tolerance=(2e-2, 1e-2)):
                    heads, length = 2, 128
                    q, k, v, do = (random((heads, length, dim), s, dtype, -1, 1) for s in (11, 12, 13, 14))
                    m, out = empty((heads, length)), empty((heads, length, dim), dtype)
                    attention_fwd[(2, heads)](q, k, v, 0.3, m, out, length * dim, length, dim, 64, 32, causal)
                    if causal:
                        continue
                    delta, dk, dv = empty((heads, length)), empty((heads, length, dim), dtype), empty((heads, length, dim), dtype)
                    attention_bwd_preprocess[(2, heads)](out, do, delta, length, 64, dim)
                    attention_bwd_dkdv[(2, heads)](q, k, v, do, dk, dv, m, delta, 0.3, length * dim, length, 32, 64, dim)
    with recording(corpus, "07"):
        asin_kernel[(4,)](random(1000, 15, low=-1, high=1), empty(1000), 1000, BLOCK_SIZE=256)
    with recording(corpus, "08", tolerance=(5e-3, 4e-3)):
        a, b, c = random((128, 64), 16, F16), random((64, 128), 17, F16), empty((128, 128), F16)
        persistent_matmul[(3,)](a, b, c, 128, 128, 64, 3, 64, 64, 32)
    with recording(corpus, "09", tolerance=(5e-3, 4e-3)):
        for block in ((64, 64, 64), (128, 64, 32)):
            a, b, c = random((128, 128), 18, F16), random((128, 128), 19, F16), empty((128, 128), F16)
            matmul_descriptors[(128 // block[0], 128 // block[1])](a, b, c, 128, 128, 128, *block)


def language(corpus):
    for op in ("exp", "log", "sin", "sqrt_rn", "rsqrt", "erf", "floor", "sigmoid", "div_rn"):
        with recording(corpus, f"unary.{op}"):
            unary[(1,)](random(512, 1), empty(512), op, 512)
    for op, low, high in (("sum", -2, 2), ("prod", 0.5, 1.5)):
        for reverse in (False, True):
            with recording(corpus, f"scan.{op}.{'reverse' if reverse else 'forward'}"):
                scan_kernel[(1,)](random((16, 64), 2, low=low, high=high), empty((16, 64)), op, 16, 64, reverse)
    for dtype, ops in ((F32, ("sum", "max", "min", "argmax", "argmin")), (I32, ("sum", "max", "xor"))):
        for op in ops:
            for axis in (0, 1):
                with recording(corpus, f"reduce.{op}.{record.TYPES[dtype]}.axis{axis}"):
                    out = empty(64 if axis == 0 else 32, I32 if "arg" in op else dtype)
                    reduce_kernel[(1,)](random((32, 64), 3, dtype), out, op, axis, 32, 64)
    for dtype in (F32, I32):
        for descending in (False, True):
            with recording(corpus, f"sort.{record.TYPES[dtype]}"):
                sort_kernel[(1,)](random((8, 64), 4, dtype), empty((8, 64), dtype), 8, 64, descending)
    for op, size in (("trans", 512), ("reshape", 512), ("interleave", 1024), ("split", 256), ("flip", 512)):
        with recording(corpus, f"shapes.{op}"):
            shapes_kernel[(1,)](random((16, 32), 5), empty(size), op, 16, 32)
    with recording(corpus, "histogram"):
        histogram_kernel[(1,)](random(1024, 6, I32, 0, 64), empty(64, I32), 1024, 64)
    with recording(corpus, "gather"):
        gather_kernel[(1,)](random((8, 64), 7), random((8, 64), 8, I32, 0, 64), empty((8, 64)), 8, 64)
    for op in ("add", "max", "min", "or", "xor"):
        with recording(corpus, f"atomics.{op}"):
            atomics_kernel[(3,)](random(768, 9, I32, -1000 if op == "min" else 0, 1000), torch.zeros(32, dtype=I32), op, 256, 32)
    with recording(corpus, "atomics.add.f32"):
        atomics_kernel[(3,)](random(768, 10), torch.zeros(32), "add", 256, 32)
    casts = ((F32, F16), (F32, BF16), (F16, F32), (BF16, F32), (F32, torch.float8_e4m3fn), (F32, torch.float8_e5m2),
             (torch.float8_e5m2, F32), (torch.float8_e4m3fn, F16), (F32, I32), (I32, F32), (torch.int8, F32),
             (torch.int64, F32), (F32, torch.float64), (I32, torch.int8))
    for source, target in casts:
        # The interpreter loses the carry of a mantissa that rounds up to the next power of two in 8 bits.
        by_torch = (lambda values: values["y_ptr"].copy_(values["x_ptr"])) if target.itemsize == 1 and target.is_floating_point \
            else None
        with recording(corpus, f"cast.{record.TYPES[source]}.{record.TYPES[target]}", override=by_torch):
            cast_kernel[(1,)](random(512, 11, source), empty(512, target), 512)
    dots = (("f16", F16, F32, tl.float32, "ieee"), ("bf16", BF16, F32, tl.float32, "ieee"), ("tf32", F32, F32, tl.float32, "tf32"),
            ("tf32x3", F32, F32, tl.float32, "tf32x3"), ("f32", F32, F32, tl.float32, "ieee"),
            ("s8", torch.int8, I32, tl.int32, "ieee"), ("e5m2", torch.float8_e5m2, F32, tl.float32, "ieee"),
            ("e4m3", torch.float8_e4m3fn, F32, tl.float32, "ieee"), ("f64", torch.float64, torch.float64, tl.float64, "ieee"))
    for name, dtype, out, acc, precision in dots:
        for m, n, k in ((64, 64, 64), (16, 16, 32)):
            with recording(corpus, f"dot.{name}.{m}", tolerance=(5e-3, 2e-3) if precision == "tf32" else None):
                a, b = (random(s, i, dtype) if dtype != torch.int8 else random(s, i, dtype, -9, 9)
                        for i, s in ((12, (m, k)), (13, (k, n))))
                try:
                    dot_kernel[(1,)](a, b, empty((m, n), out), m, n, k, acc, precision)
                except Exception as error:
                    print(f"dot.{name}.{m}: {str(error)[:200]}")
    with recording(corpus, "philox"):
        philox_kernel[(1,)](empty(512, I32), 42, 256)
    with recording(corpus, "integers"):
        integers_kernel[(1,)](random(256, 14, I32, 0, 100000), random(256, 15, I32, 1, 300), empty(1024, I32), 256)


def main(path):
    corpus = corpora.Corpus("Triton", f"Triton's tutorials 01 to 09 and a kernel for each operator of its language; "
                            f"PyPI triton {version('triton')}, for sm_90", "MIT")
    for part in (tutorials, language):
        try:
            part(corpus)
        except Exception:
            traceback.print_exc()
    corpus.write(path)


if __name__ == "__main__":
    main(sys.argv[1])
