// Integer instructions of every width against the host, element by element (tests/data/emulator/integer.cu).
#include <algorithm>
#include <functional>

#include "tests/emulator/apply_kernel.h"

namespace stitch::emulator {
namespace {

using test::apply;
using test::expect_equal;
using test::interesting_pairs;

using s8 = std::int8_t;
using u8 = std::uint8_t;
using s16 = std::int16_t;
using u16 = std::uint16_t;
using s32 = std::int32_t;
using u32 = std::uint32_t;
using s64 = std::int64_t;
using u64 = std::uint64_t;
__extension__ using s128 = __int128;
__extension__ using u128 = unsigned __int128;

template <class R, class T, class F>
void check(const std::string& kernel, F&& f) {
  std::vector<T> x, z;
  interesting_pairs(x, z);
  expect_equal(kernel, x, z, apply<R>("integer", kernel, x, z), f);
}

template <class T>
void check_arithmetic(const std::string& type) {
  constexpr int bits = sizeof(T) * 8;
  const auto row = [&](const char* name, auto f) {
    check<T, T>(std::string("k_") + name + "_" + type, [f](T a, T b) { return static_cast<T>(f(a, b)); });
  };
  // Through unsigned 128-bit numbers nothing overflows.
  row("add", [](u128 a, u128 b) { return a + b; });
  row("sub", [](u128 a, u128 b) { return a - b; });
  row("mul", [](u128 a, u128 b) { return a * b; });
  row("div", [](s128 a, s128 b) { return b == 0 ? s128{0} : a / b; });
  row("rem", [](s128 a, s128 b) { return b == 0 ? s128{0} : a % b; });
  row("min", [](s128 a, s128 b) { return a < b ? a : b; });
  row("max", [](s128 a, s128 b) { return a > b ? a : b; });
  row("and", [](s128 a, s128 b) { return a & b; });
  row("or", [](s128 a, s128 b) { return a | b; });
  row("xor", [](s128 a, s128 b) { return (a ^ b) & ~(a + 1); });
  row("shl", [](u128 a, u128 b) { return a << (b & (bits - 1)); });
  row("shr", [](s128 a, s128 b) { return a >> (static_cast<int>(b) & (bits - 1)); });
}

TEST(Integer, EightBits) {
  check_arithmetic<s8>("s8");
  check_arithmetic<u8>("u8");
}
TEST(Integer, SixteenBits) {
  check_arithmetic<s16>("s16");
  check_arithmetic<u16>("u16");
}
TEST(Integer, ThirtyTwoBits) {
  check_arithmetic<s32>("s32");
  check_arithmetic<u32>("u32");
}
TEST(Integer, SixtyFourBits) {
  check_arithmetic<s64>("s64");
  check_arithmetic<u64>("u64");
}

u64 pair(u32 high, u32 low) { return u64{high} << 32 | low; }
s32 extend24(s32 x) { return static_cast<s32>(static_cast<u32>(x) << 8) >> 8; }
u32 reversed(u32 x) {
  u32 result = 0;
  for (int i = 0; i < 32; ++i) result |= ((x >> i) & 1) << (31 - i);
  return result;
}
/// __byte_perm: each of the low four nibbles of the selector picks a byte of b:a, its top bit spreads the sign.
u32 permuted(u32 a, u32 b, u32 selector) {
  u32 result = 0;
  for (int i = 0; i < 4; ++i) {
    const u32 nibble = (selector >> (4 * i)) & 0x7;
    const auto byte = static_cast<u32>(pair(b, a) >> (8 * nibble)) & 0xFF;
    result |= byte << (8 * i);
  }
  return result;
}
template <class Byte, class T>
T dot4(T a, T b, T c) {
  for (int i = 0; i < 4; ++i) {
    c += static_cast<T>(static_cast<Byte>(static_cast<u32>(a) >> (8 * i))) *
         static_cast<T>(static_cast<Byte>(static_cast<u32>(b) >> (8 * i)));
  }
  return c;
}

TEST(Integer, HighProducts) {
  check<s32, s32>("k_mulhi_s32", [](s32 a, s32 b) { return static_cast<s32>((s64{a} * b) >> 32); });
  check<u32, u32>("k_mulhi_u32", [](u32 a, u32 b) { return static_cast<u32>((u64{a} * b) >> 32); });
  check<s64, s64>("k_mulhi_s64", [](s64 a, s64 b) { return static_cast<s64>((s128{a} * b) >> 64); });
  check<u64, u64>("k_mulhi_u64", [](u64 a, u64 b) { return static_cast<u64>((u128{a} * b) >> 64); });
  check<s32, s32>("k_mul24",
                  [](s32 a, s32 b) { return static_cast<s32>(static_cast<u64>(s64{extend24(a)} * extend24(b))); });
  check<u32, u32>("k_umul24", [](u32 a, u32 b) { return static_cast<u32>(u64{a & 0xFFFFFF} * (b & 0xFFFFFF)); });
}

TEST(Integer, Bits) {
  check<s32, u32>("k_clz", [](u32 a, u32 b) { return std::countl_zero(a ^ b); });
  check<s32, u64>("k_clzll", [](u64 a, u64 b) { return std::countl_zero(a ^ b); });
  check<s32, u32>("k_popc", [](u32 a, u32 b) { return std::popcount(a) - std::popcount(b); });
  check<s32, u64>("k_popcll", [](u64 a, u64 b) { return std::popcount(a ^ b); });
  check<u32, u32>("k_brev", [](u32 a, u32 b) { return reversed(a) ^ b; });
  check<u64, u64>("k_brevll", [](u64 a, u64 b) {
    return pair(reversed(static_cast<u32>(a)), reversed(static_cast<u32>(a >> 32))) ^ b;
  });
  check<s32, s32>("k_ffs", [](s32 a, s32 b) { return __builtin_ffs(a) + __builtin_ffs(b); });
  check<s32, s64>("k_ffsll", [](s64 a, s64 b) { return __builtin_ffsll(a & b); });
}

TEST(Integer, FunnelShiftsAndPermutations) {
  check<u32, u32>("k_funnel_left",
                  [](u32 a, u32 b) { return static_cast<u32>((pair(b, a) << ((b >> 7) & 31)) >> 32); });
  check<u32, u32>("k_funnel_right", [](u32 a, u32 b) { return static_cast<u32>(pair(b, a) >> ((b >> 7) & 31)); });
  check<u32, u32>("k_funnel_left_clamp", [](u32 a, u32 b) {
    const u32 shift = std::min(b & 63, 32U);
    return static_cast<u32>((u128{pair(b, a)} << shift) >> 32);
  });
  check<u32, u32>("k_byte_perm", [](u32 a, u32 b) { return permuted(a, b, b >> 3); });
}

TEST(Integer, SumsAndDifferences) {
  check<u32, s32>("k_sad", [](s32 a, s32 b) { return static_cast<u32>(a > b ? s64{a} - b : s64{b} - a) + 7; });
  check<u32, u32>("k_usad", [](u32 a, u32 b) { return (a > b ? a - b : b - a) + 7; });
  check<s32, s32>("k_dp4a_s", [](s32 a, s32 b) { return dot4<s8>(a, b, 11); });
  check<u32, u32>("k_dp4a_u", [](u32 a, u32 b) { return dot4<u8>(a, b, 11U); });
  check<s32, s32>("k_hadd", [](s32 a, s32 b) { return static_cast<s32>((s64{a} + b) >> 1); });
  check<u32, u32>("k_urhadd", [](u32 a, u32 b) { return static_cast<u32>((u64{a} + b + 1) >> 1); });
  check<s32, s32>("k_abs", [](s32 a, s32 b) {
    return static_cast<s32>(static_cast<u32>(std::abs(s64{a})) + static_cast<u32>(std::abs(s64{b})));
  });
}

TEST(Integer, DivisionByConstants) {
  check<s32, s32>("k_divide_by_constant", [](s32 a, s32 b) { return a / 7 + b % 1000; });
  check<u64, u64>("k_divide_by_constant_u64", [](u64 a, u64 b) { return a / 10 + b % 12345; });
}

TEST(Integer, CarriesThroughAWideProduct) {
  check<u64, u64>("k_wide_product", [](u64 a, u64 b) {
    const u128 difference = u128{a} * b - a;
    return static_cast<u64>(difference >> 64) ^ static_cast<u64>(difference);
  });
}

TEST(Integer, Threefry) {
  check<u32, u32>("k_threefry", [](u32 a, u32 b) {
    u32 keys[3] = {0x1234567, 0x89abcdef, 0x1234567U ^ 0x89abcdefU ^ 0x1bd11bdaU};
    const int rotations[8] = {13, 15, 26, 6, 17, 29, 16, 24};
    a += keys[0];
    b += keys[1];
    for (u32 group = 0; group < 5; ++group) {
      for (u32 j = 0; j < 4; ++j) {
        a += b;
        b = std::rotl(b, rotations[(group & 1) * 4 + j]) ^ a;
      }
      std::rotate(keys, keys + 1, keys + 3);
      a += keys[0];
      b += keys[1] + group + 1;
    }
    return a ^ b;
  });
}

}  // namespace
}  // namespace stitch::emulator
