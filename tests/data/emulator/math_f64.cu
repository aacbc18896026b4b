// Double-precision library functions.
#define UNARY(NAME, EXPRESSION)                                                                   \
  extern "C" __global__ void NAME(double* __restrict__ y, const double* __restrict__ x, int n) {  \
    int i = blockIdx.x * blockDim.x + threadIdx.x;                                                \
    if (i < n) {                                                                                  \
      double a = x[i];                                                                            \
      y[i] = (EXPRESSION);                                                                        \
    }                                                                                             \
  }
#define BINARY(NAME, EXPRESSION)                                                                         \
  extern "C" __global__ void NAME(double* __restrict__ y, const double* __restrict__ x,                  \
                                  const double* __restrict__ z, int n) {                                 \
    int i = blockIdx.x * blockDim.x + threadIdx.x;                                                       \
    if (i < n) {                                                                                         \
      double a = x[i], b = z[i];                                                                         \
      y[i] = (EXPRESSION);                                                                               \
    }                                                                                                    \
  }
UNARY(k_exp, exp(a))
UNARY(k_expm1, expm1(a))
UNARY(k_log, log(a))
UNARY(k_log1p, log1p(a))
UNARY(k_sqrt, sqrt(a))
UNARY(k_rsqrt, rsqrt(a))
UNARY(k_cbrt, cbrt(a))
UNARY(k_sin, sin(a))
UNARY(k_cos, cos(a))
UNARY(k_tanh, tanh(a))
UNARY(k_atan, atan(a))
UNARY(k_erf, erf(a))
UNARY(k_floor, floor(a))
UNARY(k_rint, rint(a))
UNARY(k_reciprocal, 1.0 / a)
BINARY(k_divide, a / b)
BINARY(k_pow, pow(a, b))
BINARY(k_fmod, fmod(a, b))
BINARY(k_atan2, atan2(a, b))
BINARY(k_fmax, fmax(a, b))
BINARY(k_add_up, __dadd_ru(a, b))
BINARY(k_mul_zero, __dmul_rz(a, b))
BINARY(k_fma_down, __fma_rd(a, b, 0.1))
BINARY(k_div_up, __ddiv_ru(a, b))
