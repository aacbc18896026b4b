// Every single-precision library function that generated kernels may call, element by element.
#define UNARY(NAME, EXPRESSION)                                                                   \
  extern "C" __global__ void NAME(float* __restrict__ y, const float* __restrict__ x, int n) {    \
    int i = blockIdx.x * blockDim.x + threadIdx.x;                                                \
    if (i < n) {                                                                                  \
      float a = x[i];                                                                             \
      y[i] = (EXPRESSION);                                                                        \
    }                                                                                             \
  }
#define BINARY(NAME, EXPRESSION)                                                                         \
  extern "C" __global__ void NAME(float* __restrict__ y, const float* __restrict__ x,                    \
                                  const float* __restrict__ z, int n) {                                  \
    int i = blockIdx.x * blockDim.x + threadIdx.x;                                                       \
    if (i < n) {                                                                                         \
      float a = x[i], b = z[i];                                                                          \
      y[i] = (EXPRESSION);                                                                               \
    }                                                                                                    \
  }
UNARY(k_exp, expf(a))
UNARY(k_exp2, exp2f(a))
UNARY(k_exp10, exp10f(a))
UNARY(k_expm1, expm1f(a))
UNARY(k_log, logf(a))
UNARY(k_log2, log2f(a))
UNARY(k_log10, log10f(a))
UNARY(k_log1p, log1pf(a))
UNARY(k_sqrt, sqrtf(a))
UNARY(k_rsqrt, rsqrtf(a))
UNARY(k_cbrt, cbrtf(a))
UNARY(k_sin, sinf(a))
UNARY(k_cos, cosf(a))
UNARY(k_tan, tanf(a))
UNARY(k_asin, asinf(a))
UNARY(k_acos, acosf(a))
UNARY(k_atan, atanf(a))
UNARY(k_sinh, sinhf(a))
UNARY(k_cosh, coshf(a))
UNARY(k_tanh, tanhf(a))
UNARY(k_asinh, asinhf(a))
UNARY(k_acosh, acoshf(a))
UNARY(k_atanh, atanhf(a))
UNARY(k_erf, erff(a))
UNARY(k_erfc, erfcf(a))
UNARY(k_floor, floorf(a))
UNARY(k_ceil, ceilf(a))
UNARY(k_trunc, truncf(a))
UNARY(k_rint, rintf(a))
UNARY(k_round, roundf(a))
UNARY(k_fabs, fabsf(a))
UNARY(k_reciprocal, 1.0f / a)
UNARY(k_sigmoid, 1.0f / (1.0f + expf(-a)))
UNARY(k_fast_exp, __expf(a))
UNARY(k_fast_log, __logf(a))
UNARY(k_fast_sin, __sinf(a))
UNARY(k_fast_cos, __cosf(a))
UNARY(k_saturate, __saturatef(a))
UNARY(k_is_finite, isfinite(a) ? 1.0f : 0.0f)
UNARY(k_is_nan, isnan(a) ? 1.0f : 0.0f)
UNARY(k_is_inf, isinf(a) ? 1.0f : 0.0f)
BINARY(k_divide, a / b)
BINARY(k_fast_divide, __fdividef(a, b))
BINARY(k_pow, powf(a, b))
BINARY(k_atan2, atan2f(a, b))
BINARY(k_fmod, fmodf(a, b))
BINARY(k_remainder, remainderf(a, b))
BINARY(k_hypot, hypotf(a, b))
BINARY(k_fmax, fmaxf(a, b))
BINARY(k_fmin, fminf(a, b))
BINARY(k_copysign, copysignf(a, b))
BINARY(k_add_up, __fadd_ru(a, b))
BINARY(k_add_down, __fadd_rd(a, b))
BINARY(k_add_zero, __fadd_rz(a, b))
BINARY(k_mul_up, __fmul_ru(a, b))
BINARY(k_mul_down, __fmul_rd(a, b))
BINARY(k_div_up, __fdiv_ru(a, b))
BINARY(k_div_zero, __fdiv_rz(a, b))
BINARY(k_fma_down, __fmaf_rd(a, b, 0.1f))
BINARY(k_sqrt_up, __fsqrt_ru(fabsf(a)) + 0 * b)
