// The lane operations compiled for any host; see lane_rows.inl.
#include <cstdint>

#include "emulator/lanes/lane_isa.h"

namespace stitch::emulator {
namespace portable {
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
}  // namespace portable

void fill_lane_table_portable(LaneTable& table) { portable::fill(table); }

}  // namespace stitch::emulator
