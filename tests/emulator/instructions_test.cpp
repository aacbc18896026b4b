// Single instructions, as PTX, against what the PTX ISA says they compute: bit fields, permutations, logic, carries,
// shifts, packed halves, f32 with rounding and flushing, special cases of min and max.
#include <algorithm>
#include <cfenv>
#include <cmath>

#include "emulator/lanes/float_format.h"
#include "emulator/lanes/lane_ops.h"
#include "tests/emulator/ptx_body.h"

namespace stitch::emulator {
namespace {

using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s32 = std::int32_t;
using s64 = std::int64_t;
__extension__ using s128 = __int128;
__extension__ using u128 = unsigned __int128;

struct Row {
  const char* body;  ///< leaves its result in %y
  u64 (*wanted)(u64 a, u64 b);
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.body; }

class Instructions : public testing::TestWithParam<Row> {};

TEST_P(Instructions, MatchTheIsa) {
  const std::vector<test::BodyInput> inputs = test::body_inputs(512);
  const std::vector<u64> y = test::run_clean_body(GetParam().body, inputs, 128);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const u64 wanted = GetParam().wanted(inputs[i].a, inputs[i].b);
    ASSERT_EQ(y[i], wanted) << GetParam().body << fmt::format("\nof 0x{:x} and 0x{:x}", inputs[i].a, inputs[i].b);
  }
}

u32 low(u64 x) { return static_cast<u32>(x); }
float as_float(u64 x) { return std::bit_cast<float>(low(x)); }
u64 bits_of(float x) { return std::isnan(x) ? 0x7FFFFFFF : std::bit_cast<u32>(x); }

constexpr u64 upper_half = 0xFFFFFFFF00000000;
/// The f64 operand and result of rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64: upper halves without subnormals.
double as_flushed_double(u64 x) {
  const double value = std::bit_cast<double>(x & upper_half);
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0, value) : value;
}
u64 flushed_bits(double x) {
  if (std::isnan(x)) return 0x7FFFFFFF00000000;
  return std::bit_cast<u64>(std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0, x) : x) & upper_half;
}

/// PTX ISA, bfe: bits beyond the register repeat its sign (or are zero).
template <class T>
u64 extract(u64 a, u32 position, u32 length) {
  constexpr u32 bits = sizeof(T) * 8;
  constexpr bool is_signed = std::is_signed_v<T>;
  position &= 0xFF;
  length &= 0xFF;
  const auto bit = [&](u32 i) { return i < bits ? (a >> i) & 1 : 0; };
  const u64 sign = !is_signed || length == 0 ? 0 : bit(std::min(position + length - 1, bits - 1));
  u64 result = 0;
  for (u32 i = 0; i < bits; ++i) result |= (i < length && position + i < bits ? bit(position + i) : sign) << i;
  return result;
}
u64 insert(u64 a, u64 into, u32 position, u32 length, u32 bits) {
  position &= 0xFF;
  length &= 0xFF;
  for (u32 i = 0; i < length && position + i < bits; ++i) {
    into = (into & ~(u64{1} << (position + i))) | ((a >> i) & 1) << (position + i);
  }
  return into;
}
/// prmt's special modes (PTX ISA, table of prmt).
u64 permuted(u32 a, u32 b, u32 selector, const char* mode) {
  const std::string_view m = mode;
  const u32 c = selector & 3;
  u32 result = 0;
  for (u32 i = 0; i < 4; ++i) {
    u32 from = 0;
    if (m == "f4e") from = c + i;
    if (m == "b4e") from = (c + 8 - i) % 8;
    if (m == "rc8") from = c;
    if (m == "ecl") from = std::max(i, c);
    if (m == "ecr") from = std::min(i, c);
    if (m == "rc16") from = (c & 1) * 2 + i % 2;
    result |= (low((u64{b} << 32 | a) >> (8 * from)) & 0xFF) << (8 * i);
  }
  return result;
}

const Row rows[] = {
    // Bit fields.
    {"and.b32 %r0, %b32, 31; shr.u32 %r1, %b32, 8; bfe.u32 %r2, %a32, %r0, %r1; cvt.u64.u32 %y, %r2;",
     [](u64 a, u64 b) { return extract<u32>(low(a), b & 31, low(b) >> 8); }},
    {"and.b32 %r0, %b32, 31; shr.u32 %r1, %b32, 8; bfe.s32 %r2, %a32, %r0, %r1; cvt.u64.u32 %y, %r2;",
     [](u64 a, u64 b) { return extract<s32>(low(a), b & 31, low(b) >> 8); }},
    {"and.b32 %r0, %b32, 63; shr.u32 %r1, %b32, 8; bfe.s64 %y, %a, %r0, %r1;",
     [](u64 a, u64 b) { return extract<s64>(a, b & 63, low(b) >> 8); }},
    {"bfi.b32 %r2, %a32, %b32, 5, 11; cvt.u64.u32 %y, %r2;",
     [](u64 a, u64 b) { return insert(low(a), low(b), 5, 11, 32); }},
    {"bfi.b64 %y, %a, %b, 60, 9;", [](u64 a, u64 b) { return insert(a, b, 60, 9, 64); }},
    {"bfind.u32 %r0, %a32; cvt.u64.u32 %y, %r0;",
     [](u64 a, u64) { return low(a) == 0 ? u64{0xFFFFFFFF} : u64{31} - static_cast<u64>(std::countl_zero(low(a))); }},
    {"bfind.shiftamt.u32 %r0, %a32; cvt.u64.u32 %y, %r0;",
     [](u64 a, u64) { return low(a) == 0 ? u64{0xFFFFFFFF} : static_cast<u64>(std::countl_zero(low(a))); }},
    {"bfind.s32 %r0, %a32; cvt.u64.u32 %y, %r0;",
     [](u64 a, u64) {
       const u32 x = static_cast<s32>(a) < 0 ? ~low(a) : low(a);
       return x == 0 ? u64{0xFFFFFFFF} : u64{31} - static_cast<u64>(std::countl_zero(x));
     }},
    {"popc.b64 %r0, %a; clz.b64 %r1, %b; mad.lo.u32 %r0, %r0, 100, %r1; cvt.u64.u32 %y, %r0;",
     [](u64 a, u64 b) { return static_cast<u64>(std::popcount(a) * 100 + std::countl_zero(b)); }},
    // Permutations.
    {"prmt.b32.f4e %r0, %a32, %b32, %b32; cvt.u64.u32 %y, %r0;",
     [](u64 a, u64 b) { return permuted(low(a), low(b), low(b), "f4e"); }},
    {"prmt.b32.b4e %r0, %a32, %b32, %b32; cvt.u64.u32 %y, %r0;",
     [](u64 a, u64 b) { return permuted(low(a), low(b), low(b), "b4e"); }},
    {"prmt.b32.rc8 %r0, %a32, %b32, %b32; cvt.u64.u32 %y, %r0;",
     [](u64 a, u64 b) { return permuted(low(a), low(b), low(b), "rc8"); }},
    {"prmt.b32.ecl %r0, %a32, %b32, %b32; cvt.u64.u32 %y, %r0;",
     [](u64 a, u64 b) { return permuted(low(a), low(b), low(b), "ecl"); }},
    {"prmt.b32.ecr %r0, %a32, %b32, %b32; cvt.u64.u32 %y, %r0;",
     [](u64 a, u64 b) { return permuted(low(a), low(b), low(b), "ecr"); }},
    {"prmt.b32.rc16 %r0, %a32, %b32, %b32; cvt.u64.u32 %y, %r0;",
     [](u64 a, u64 b) { return permuted(low(a), low(b), low(b), "rc16"); }},
    {"prmt.b32 %r0, %a32, %b32, 0xbd80; cvt.u64.u32 %y, %r0;",  // signs of bytes 0, 5 and 3 of the second word
     [](u64 a, u64 b) {
       const auto sign = [](u32 byte) { return (byte & 0x80) != 0 ? u64{0xFF} : u64{0}; };
       return u64{low(a) & 0xFF} | sign(low(a) & 0xFF) << 8 | sign((low(b) >> 8) & 0xFF) << 16 | sign(low(a) >> 24) << 24;
     }},
    // Logic.
    {"lop3.b32 %r0, %a32, %b32, 0x0ff0, 0x96; cvt.u64.u32 %y, %r0;",
     [](u64 a, u64 b) { return u64{low(a) ^ low(b) ^ 0x0FF0}; }},
    {"lop3.b32 %r0, %a32, %b32, 0x0ff0, 0xe8; cvt.u64.u32 %y, %r0;",  // majority
     [](u64 a, u64 b) { return (low(a) & low(b)) | (low(a) & 0x0FF0) | (low(b) & u64{0x0FF0}); }},
    {"lop3.b32 %r0, %a32, %b32, 0x0ff0, 0xca; cvt.u64.u32 %y, %r0;",  // a ? b : c
     [](u64 a, u64 b) { return (low(a) & low(b)) | (~low(a) & u64{0x0FF0}); }},
    {"cnot.b32 %r0, %a32; cvt.u64.u32 %y, %r0;", [](u64 a, u64) { return u64{low(a) == 0 ? 1U : 0U}; }},
    {"not.b64 %t0, %a; xor.b64 %t0, %t0, %b; or.b64 %y, %t0, 5;", [](u64 a, u64 b) { return (~a ^ b) | 5; }},
    // Shifts clamp at the width; shf works on pairs.
    {"shl.b32 %r0, %a32, %b32; cvt.u64.u32 %y, %r0;",
     [](u64 a, u64 b) { return low(b) < 32 ? u64{low(a) << low(b)} : 0; }},
    {"shr.u32 %r0, %a32, %b32; cvt.u64.u32 %y, %r0;",
     [](u64 a, u64 b) { return low(b) < 32 ? u64{low(a) >> low(b)} : 0; }},
    {"shr.s32 %r0, %a32, %b32; cvt.s64.s32 %y, %r0;",
     [](u64 a, u64 b) { return static_cast<u64>(s64{static_cast<s32>(a) >> std::min(low(b), 31U)}); }},
    {"shl.b64 %y, %a, %b32;", [](u64 a, u64 b) { return low(b) < 64 ? a << low(b) : 0; }},
    {"shr.s64 %y, %a, %b32;", [](u64 a, u64 b) { return static_cast<u64>(static_cast<s64>(a) >> std::min(low(b), 63U)); }},
    {"shf.l.wrap.b32 %r0, %a32, %b32, 37; cvt.u64.u32 %y, %r0;",
     [](u64 a, u64 b) { return u64{low(((b << 32 | low(a)) << 5) >> 32)}; }},
    {"shf.r.clamp.b32 %r0, %a32, %b32, 40; cvt.u64.u32 %y, %r0;", [](u64, u64 b) { return u64{low(b)}; }},
    // Products.
    {"mul.wide.s32 %y, %a32, %b32;",
     [](u64 a, u64 b) { return static_cast<u64>(s64{static_cast<s32>(a)} * static_cast<s32>(b)); }},
    {"mad.wide.u32 %y, %a32, %b32, %a;", [](u64 a, u64 b) { return u64{low(a)} * low(b) + a; }},
    {"mad.hi.u32 %r0, %a32, %b32, 7; cvt.u64.u32 %y, %r0;",
     [](u64 a, u64 b) { return u64{low(((u64{low(a)} * low(b)) >> 32) + 7)}; }},
    {"mul.hi.s64 %y, %a, %b;",
     [](u64 a, u64 b) { return static_cast<u64>((s128{static_cast<s64>(a)} * static_cast<s64>(b)) >> 64); }},
    {"mul24.lo.s32 %r0, %a32, %b32; cvt.u64.u32 %y, %r0;",
     [](u64 a, u64 b) {
       const auto cut = [](u64 x) { return s64{static_cast<s32>(low(x) << 8) >> 8}; };
       return u64{low(static_cast<u64>(cut(a) * cut(b)))};
     }},
    // Carries.
    {"add.cc.u32 %r0, %a32, %b32; addc.u32 %r1, 0, 0; mov.b64 %y, {%r0, %r1};",
     [](u64 a, u64 b) { return u64{low(a)} + low(b); }},
    {"sub.cc.u64 %t0, %a, %b; subc.u64 %y, %t0, 0;", [](u64 a, u64 b) { return a - b - (a < b ? 1 : 0); }},
    {"add.sat.s32 %r0, %a32, %b32; cvt.u64.u32 %y, %r0;",
     [](u64 a, u64 b) {
       const s64 sum = s64{static_cast<s32>(a)} + static_cast<s32>(b);
       return u64{low(static_cast<u64>(std::clamp<s64>(sum, -s64{0x80000000}, 0x7FFFFFFF)))};
     }},
    // Selection.
    {"setp.lt.s32 %p0, %a32, %b32; selp.b64 %y, %a, %b, %p0;",
     [](u64 a, u64 b) { return static_cast<s32>(a) < static_cast<s32>(b) ? a : b; }},
    {"setp.hi.u64 %p0, %a, %b; @!%p0 mov.u64 %y, %a; @%p0 mov.u64 %y, 3;", [](u64 a, u64 b) { return a > b ? 3 : a; }},
    {"setp.eq.u32 %p1, %a32, 0; setp.ge.and.u32 %p0|%p2, %a32, %b32, !%p1; selp.b32 %r0, 1, 0, %p0; "
     "selp.b32 %r1, 2, 0, %p2; add.u32 %r0, %r0, %r1; cvt.u64.u32 %y, %r0;",
     [](u64 a, u64 b) { return u64{low(a) == 0 ? 0U : low(a) >= low(b) ? 1U : 2U}; }},
    {"set.lt.u32.s32 %r0, %a32, %b32; cvt.u64.u32 %y, %r0;",
     [](u64 a, u64 b) { return u64{static_cast<s32>(a) < static_cast<s32>(b) ? 0xFFFFFFFFU : 0U}; }},
    {"slct.b32.s32 %r0, %a32, 9, %b32; cvt.u64.u32 %y, %r0;",
     [](u64 a, u64 b) { return u64{static_cast<s32>(b) >= 0 ? low(a) : 9U}; }},
    // Conversions of integers: saturation, sub-words.
    {"cvt.sat.s8.s32 %r0, %a32; cvt.u64.u32 %y, %r0;",
     [](u64 a, u64) { return u64{low(static_cast<u64>(s64{std::clamp(static_cast<s32>(a), -128, 127)}))}; }},
    {"cvt.sat.u8.s32 %r0, %a32; cvt.u64.u32 %y, %r0;",
     [](u64 a, u64) { return static_cast<u64>(std::clamp(static_cast<s32>(a), 0, 255)); }},
    {"cvt.sat.u32.s64 %r0, %a; cvt.u64.u32 %y, %r0;",
     [](u64 a, u64) { return static_cast<u64>(std::clamp<s64>(static_cast<s64>(a), 0, 0xFFFFFFFF)); }},
    {"cvt.s32.s8 %r0, %a32; cvt.u64.u32 %y, %r0;",
     [](u64 a, u64) { return u64{low(static_cast<u64>(s64{static_cast<std::int8_t>(a)}))}; }},
    // f32: fused and unfused, rounding, flushing.
    {"fma.rn.f32 %f0, %fa, %fb, 0f3F800000; mov.b32 %r0, %f0; cvt.u64.u32 %y, %r0;",
     [](u64 a, u64 b) { return bits_of(std::fma(as_float(a), as_float(b), 1.0F)); }},
    // Pairs of f32: the halves do not meet.
    {"fma.rn.f32x2 %y, %a, %b, %a;",
     [](u64 a, u64 b) {
       const u64 high = bits_of(std::fma(as_float(a >> 32), as_float(b >> 32), as_float(a >> 32)));
       return bits_of(std::fma(as_float(a), as_float(b), as_float(a))) | high << 32;
     }},
    {"sub.f32x2 %t1, %a, %b; mul.rn.f32x2 %t2, %t1, %b; add.f32x2 %y, %t2, %a;",
     [](u64 a, u64 b) {
       const auto of = [](float x, float y) { return bits_of((x - y) * y + x); };
       return of(as_float(a), as_float(b)) | of(as_float(a >> 32), as_float(b >> 32)) << 32;
     }},
    {"add.f32 %f0, %fa, %fb; mov.b32 %r0, %f0; cvt.u64.u32 %y, %r0;",
     [](u64 a, u64 b) { return bits_of(as_float(a) + as_float(b)); }},
    {"add.ftz.f32 %f0, %fa, %fb; mov.b32 %r0, %f0; cvt.u64.u32 %y, %r0;",
     [](u64 a, u64 b) {
       const auto flush = [](float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0F, x) : x; };
       return bits_of(flush(flush(as_float(a)) + flush(as_float(b))));
     }},
    {"mul.rz.f32 %f0, %fa, %fb; mov.b32 %r0, %f0; cvt.u64.u32 %y, %r0;",
     [](u64 a, u64 b) {
       const volatile float x = as_float(a), y = as_float(b);
       const int before = std::fegetround();
       std::fesetround(FE_TOWARDZERO);
       const volatile float product = x * y;
       std::fesetround(before);
       return bits_of(product);
     }},
    {"mul.sat.f32 %f0, %fa, %fb; mov.b32 %r0, %f0; cvt.u64.u32 %y, %r0;",
     [](u64 a, u64 b) {
       const float product = as_float(a) * as_float(b);
       return product > 0 ? bits_of(std::min(product, 1.0F)) : u64{0};
     }},
    {"min.f32 %f0, %fa, %fb; mov.b32 %r0, %f0; cvt.u64.u32 %y, %r0;",
     [](u64 a, u64 b) {
       const float x = as_float(a), y = as_float(b);
       if (x == 0 && y == 0) return bits_of(std::signbit(x) ? x : y);
       return bits_of(std::isnan(x) ? y : std::isnan(y) ? x : std::min(x, y));
     }},
    {"max.NaN.f32 %f0, %fa, %fb; mov.b32 %r0, %f0; cvt.u64.u32 %y, %r0;",
     [](u64 a, u64 b) {
       const float x = as_float(a), y = as_float(b);
       if (std::isnan(x) || std::isnan(y)) return u64{0x7FFFFFFF};
       if (x == 0 && y == 0) return bits_of(std::signbit(x) ? y : x);
       return bits_of(std::max(x, y));
     }},
    {"abs.f32 %f0, %fa; neg.f32 %f1, %fb; copysign.f32 %f0, %f1, %f0; mov.b32 %r0, %f0; cvt.u64.u32 %y, %r0;",
     [](u64 a, u64 b) { return u64{(low(a) & 0x7FFFFFFF) | (~low(b) & 0x80000000)}; }},
    {"testp.subnormal.f32 %p0, %fa; testp.notanumber.f32 %p1, %fa; testp.infinite.f32 %p2, %fa; "
     "selp.b32 %r0, 1, 0, %p0; @%p1 mov.b32 %r0, 2; @%p2 mov.b32 %r0, 3; cvt.u64.u32 %y, %r0;",
     [](u64 a, u64) {
       const float x = as_float(a);
       return std::isnan(x) ? u64{2} : std::isinf(x) ? u64{3} : std::fpclassify(x) == FP_SUBNORMAL ? u64{1} : u64{0};
     }},
    {"testp.normal.f32 %p0, %fa; selp.b64 %y, 1, 0, %p0;",  // zeros are, as a special case
     [](u64 a, u64) { return u64{as_float(a) == 0 || std::isnormal(as_float(a)) ? 1U : 0U}; }},
    {"mov.b64 %d0, %a; testp.normal.f64 %p0, %d0; selp.b64 %y, 1, 0, %p0;",
     [](u64 a, u64) {
       const auto x = std::bit_cast<double>(a);
       return u64{x == 0 || std::isnormal(x) ? 1U : 0U};
     }},
    {"slct.ftz.u64.f32 %y, %a, 9, %fb;",  // a subnormal is a zero, whatever its sign
     [](u64 a, u64 b) {
       const float x = as_float(b);
       return x >= 0 || std::fpclassify(x) == FP_SUBNORMAL ? a : 9;
     }},
    {"and.b32 %r0, %a32, 0x80000000; mov.b32 %f0, %r0; sin.approx.f32 %f1, %f0; mov.b32 %r1, %f1; cvt.u64.u32 %y, %r1;",
     [](u64 a, u64) { return a & 0x80000000; }},
    {"mov.b64 %d0, %a; rcp.approx.ftz.f64 %d1, %d0; mov.b64 %y, %d1;",
     [](u64 a, u64) { return flushed_bits(1 / as_flushed_double(a)); }},
    {"mov.b64 %d0, %a; rsqrt.approx.ftz.f64 %d1, %d0; mov.b64 %y, %d1;",
     [](u64 a, u64) { return flushed_bits(1 / std::sqrt(as_flushed_double(a))); }},
    {"setp.gtu.f32 %p0, %fa, %fb; setp.num.f32 %p1, %fa, %fb; selp.b32 %r0, 1, 0, %p0; @%p1 add.u32 %r0, %r0, 2; "
     "cvt.u64.u32 %y, %r0;",
     [](u64 a, u64 b) {
       const float x = as_float(a), y = as_float(b);
       const bool ordered = !std::isnan(x) && !std::isnan(y);
       return u64{!ordered || x > y ? 1U : 0U} + (ordered ? 2 : 0);
     }},
    {"cvt.rna.tf32.f32 %r0, %fa; cvt.u64.u32 %y, %r0;",
     [](u64 a, u64) {
       if (std::isnan(as_float(a))) return u64{0x7FFFFFFF};
       const u32 bits = low(a);
       return (bits & 0x7FFFFFFF) >= 0x7F800000 ? u64{bits} : u64{(bits + 0x1000) & 0xFFFFE000};
     }},
    {"mov.u32 %r1, buffer; shl.b32 %r2, %local, 3; add.u32 %r1, %r1, %r2; st.shared.f32 [%r1], %fa; "
     "atom.shared.add.f32 %f0, [%r1], %fb; ld.shared.u32 %r0, [%r1]; cvt.u64.u32 %y, %r0;",
     [](u64 a, u64 b) { return bits_of(as_float(a) + as_float(b)); }},
    {"mov.u32 %r1, buffer; shl.b32 %r2, %local, 3; add.u32 %r1, %r1, %r2; mov.b64 %d0, %a; st.shared.f64 [%r1], %d0; "
     "mov.b64 %d1, %b; atom.shared.add.f64 %d2, [%r1], %d1; ld.shared.u64 %y, [%r1];",
     [](u64 a, u64 b) {
       const double sum = std::bit_cast<double>(a) + std::bit_cast<double>(b);
       return std::isnan(sum) ? u64{0x7FF8000000000000} : std::bit_cast<u64>(sum);
     }},
    // Packed halves.
    {"cvt.rn.f16x2.f32 %r0, %fa, %fb; cvt.u64.u32 %y, %r0;",
     [](u64 a, u64 b) { return u64{float_to_half(as_float(a))} << 16 | float_to_half(as_float(b)); }},
    {"cvt.rn.bf16x2.f32 %r0, %fa, %fb; cvt.u64.u32 %y, %r0;",
     [](u64 a, u64 b) { return u64{float_to_bfloat(as_float(a))} << 16 | float_to_bfloat(as_float(b)); }},
    {"cvt.rn.relu.bf16.f32 %h0, %fa; cvt.u64.u16 %y, %h0;",
     [](u64 a, u64) {
       const float x = as_float(a);
       return std::isnan(x) ? u64{0x7FFF} : x > 0 ? u64{float_to_bfloat(x)} : u64{0};
     }},
    {"cvt.rz.bf16.f32 %h0, %fa; cvt.u64.u16 %y, %h0;",
     [](u64 a, u64) { return std::isnan(as_float(a)) ? u64{0x7FFF} : u64{low(a) >> 16}; }},
    {"add.f16x2 %r0, %a32, %b32; cvt.u64.u32 %y, %r0;",
     [](u64 a, u64 b) {
       const auto add = [](u64 x, u64 y) {
         return u64{float_to_half(half_to_float(static_cast<u16>(x)) + half_to_float(static_cast<u16>(y)))};
       };
       return add(a >> 16, b >> 16) << 16 | add(a, b);
     }},
    {"fma.rn.bf16x2 %r0, %a32, %b32, %b32; cvt.u64.u32 %y, %r0;",
     [](u64 a, u64 b) {
       const auto fma = [](u64 x, u64 y) {
         const double product = static_cast<double>(bfloat_to_float(static_cast<u16>(x))) *
                                static_cast<double>(bfloat_to_float(static_cast<u16>(y)));
         const double exact = product + static_cast<double>(bfloat_to_float(static_cast<u16>(y)));
         // To odd first, so that the second rounding is right.
         float once = exact;
         if (std::isfinite(once) && static_cast<double>(once) != exact) {
           u32 bits = std::bit_cast<u32>(once);
           if ((static_cast<double>(once) > exact) != std::signbit(once)) --bits;
           once = std::bit_cast<float>(bits | 1);
         }
         return u64{float_to_bfloat(once)};
       };
       return fma(a >> 16, b >> 16) << 16 | fma(a, b);
     }},
    {"mov.b32 {%h0, %h1}, %a32; mov.b32 %r0, {%h1, %h0}; cvt.u64.u32 %y, %r0;",
     [](u64 a, u64) { return u64{std::rotl(low(a), 16)}; }},
    {"cvt.u16.u64 %h0, %a; mov.b16 {%h1, %h2}, %h0; mov.b16 %h3, {%h2, %h1}; cvt.u64.u16 %y, %h3;",
     [](u64 a, u64) { return ((a & 0xFF) << 8) | ((a >> 8) & 0xFF); }},
    {"mov.b64 {%r0, %r1}, %a; mov.b64 %y, {%r1, %r0};", [](u64 a, u64) { return std::rotl(a, 32); }},
    // Dot products of bytes and halves.
    {"dp4a.u32.u32 %r0, %a32, %b32, 3; cvt.u64.u32 %y, %r0;",
     [](u64 a, u64 b) {
       u32 sum = 3;
       for (int i = 0; i < 32; i += 8) sum += ((low(a) >> i) & 0xFF) * ((low(b) >> i) & 0xFF);
       return u64{sum};
     }},
    {"dp2a.lo.u32.u32 %r0, %a32, %b32, 3; cvt.u64.u32 %y, %r0;",
     [](u64 a, u64 b) { return u64{low((a & 0xFFFF) * (b & 0xFF) + (low(a) >> 16) * ((b >> 8) & 0xFF) + 3)}; }},
};
INSTANTIATE_TEST_SUITE_P(Table, Instructions, testing::ValuesIn(rows));

// A row of the lane table computes the same bits on every instruction set of the host.
TEST(HostIsas, ComputeTheSameBits) {
  alignas(64) std::array<u64, 4 * 64> inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = mix(5, i);
  // Small numbers, infinities and NaN among them.
  for (std::size_t i = 0; i < inputs.size(); i += 5) inputs[i] = i % 3 == 0 ? 0x7F80000000000000 : i;
  for (std::size_t i = 1; i < inputs.size(); i += 7) inputs[i] = 0x7FC000003F800000;
  const auto portable = lane_ops(HostIsa::portable);
  for (const HostIsa isa : {HostIsa::avx2, HostIsa::avx512}) {
    const auto table = lane_ops(isa);
    ASSERT_EQ(table.size(), portable.size());
    for (std::size_t i = 0; i < table.size(); ++i) {
      ASSERT_EQ(table[i].name, portable[i].name);
      alignas(64) std::array<std::byte, 512> wanted{}, got{};
      LaneRows at{wanted.data(), inputs.data(), inputs.data() + 64, inputs.data() + 128, inputs.data() + 192, 0xCA};
      portable[i].function(at);
      at.d = got.data();
      table[i].function(at);
      EXPECT_EQ(got, wanted) << table[i].name;
    }
  }
}

}  // namespace
}  // namespace stitch::emulator
