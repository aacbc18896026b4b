// The lane operations compiled for hosts with AVX2 and FMA; see lane_rows.inl.
#if defined(__x86_64__)
#include <cstdint>

#include "emulator/lanes/lane_isa.h"

// Only what follows is compiled for it: the headers above stay callable on every host.
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,bmi,bmi2,lzcnt,popcnt")

namespace stitch::emulator {
namespace avx2 {
namespace {

// Each builds on those before it.
// clang-format off
#include "emulator/lanes/lane_rows.inl"
#include "emulator/lanes/lane_integer.inl"
#include "emulator/lanes/lane_float.inl"
#include "emulator/lanes/lane_half.inl"
#include "emulator/lanes/lane_convert.inl"
#include "emulator/lanes/lane_table.inl"
// clang-format on

}  // namespace
}  // namespace avx2

void fill_lane_table_avx2(LaneTable& table) { avx2::fill(table); }

}  // namespace stitch::emulator

#pragma GCC pop_options
#endif
