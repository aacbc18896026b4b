// f16 and bf16 arithmetic, packed forms, conversions, f8.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
using bf16 = __nv_bfloat16;
using bf162 = __nv_bfloat162;
#define BINARY(NAME, T, R, EXPRESSION)                                                                   \
  extern "C" __global__ void NAME(R* __restrict__ y, const T* __restrict__ x, const T* __restrict__ z,   \
                                  int n) {                                                               \
    int i = blockIdx.x * blockDim.x + threadIdx.x;                                                       \
    if (i < n) {                                                                                         \
      T a = x[i], b = z[i];                                                                              \
      y[i] = (EXPRESSION);                                                                               \
    }                                                                                                    \
  }
#define ARITHMETIC(PREFIX, T)                     \
  BINARY(PREFIX##_add, T, T, __hadd(a, b))        \
  BINARY(PREFIX##_sub, T, T, __hsub(a, b))        \
  BINARY(PREFIX##_mul, T, T, __hmul(a, b))        \
  BINARY(PREFIX##_div, T, T, __hdiv(a, b))        \
  BINARY(PREFIX##_fma, T, T, __hfma(a, b, a))     \
  BINARY(PREFIX##_max, T, T, __hmax(a, b))        \
  BINARY(PREFIX##_min_nan, T, T, __hmin_nan(a, b)) \
  BINARY(PREFIX##_neg, T, T, __hneg(a))           \
  BINARY(PREFIX##_abs, T, T, __habs(b))           \
  BINARY(PREFIX##_lt, T, int, __hlt(a, b) ? 1 : 0) \
  BINARY(PREFIX##_float, T, float, static_cast<float>(a) * static_cast<float>(b))
ARITHMETIC(h, half)
ARITHMETIC(b, bf16)
BINARY(h2_fma, half2, half2, __hfma2(a, b, a))
BINARY(h2_add_sat, half2, half2, __hadd2_sat(a, b))
BINARY(h2_fma_relu, half2, half2, __hfma2_relu(a, b, a))
BINARY(b2_fma, bf162, bf162, __hfma2(a, b, a))
BINARY(b2_max, bf162, bf162, __hmax2_nan(a, b))
BINARY(h_exp, half, half, hexp(a))
BINARY(h_rsqrt, half, half, hrsqrt(__habs(a)))
BINARY(h_tanh, half, half, htanh_approx(a))
BINARY(h_floor, half, half, hfloor(a))
BINARY(h_rint, half, half, hrint(a))
BINARY(b_exp2, bf16, bf16, hexp2(a))
BINARY(h_to_int, half, int, __half2int_rn(a) + __half2int_rz(b))
BINARY(b_to_int, bf16, int, __bfloat162int_rn(a) + __bfloat162int_rz(b))
BINARY(f_to_half, float, half, __float2half_rn(a + b))
BINARY(f_to_half_rz, float, half, __float2half_rz(a))
BINARY(f_to_bf16, float, bf16, __float2bfloat16_rn(a + b))
BINARY(f_to_bf16_rz, float, bf16, __float2bfloat16_rz(a))
BINARY(d_to_half, double, half, __double2half(a))
BINARY(d_to_bf16, double, bf16, __double2bfloat16(a))
BINARY(i_to_half, int, half, __int2half_rn(a))
BINARY(l_to_bf16, long long, bf16, __ll2bfloat16_rn(a))
BINARY(f2_to_half2, float2, half2, __float22half2_rn(a))
BINARY(f2_to_bf162, float2, bf162, __float22bfloat162_rn(a))
BINARY(f2_to_e4m3, float2, unsigned short, __nv_cvt_float2_to_fp8x2(a, __NV_SATFINITE, __NV_E4M3))
BINARY(f2_to_e5m2, float2, unsigned short, __nv_cvt_float2_to_fp8x2(a, __NV_SATFINITE, __NV_E5M2))
BINARY(h2_to_e4m3, half2, unsigned short, __nv_cvt_halfraw2_to_fp8x2(a, __NV_SATFINITE, __NV_E4M3))
extern "C" __global__ void e4m3_to_h2(half2* y, const unsigned short* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = half2(__nv_cvt_fp8x2_to_halfraw2(x[i], __NV_E4M3));
}
extern "C" __global__ void e5m2_to_h2(half2* y, const unsigned short* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = half2(__nv_cvt_fp8x2_to_halfraw2(x[i], __NV_E5M2));
}
