#include "emulator/lanes/lane_ops.h"

#include <unordered_map>

#include "emulator/lanes/lane_isa.h"

namespace stitch::emulator {
namespace {

struct NameHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view name) const { return std::hash<std::string_view>{}(name); }
};

LaneTable make_table(void (*fill)(LaneTable&)) {
  LaneTable table;
  table.reserve(1600);
  fill(table);
  return table;
}

const LaneTable& portable_table() {
  static const LaneTable table = make_table(fill_lane_table_portable);
  return table;
}

#if defined(__x86_64__)
bool host_has(HostIsa isa) {
  const bool avx2 =
      __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 && __builtin_cpu_supports("bmi2") != 0;
  if (isa == HostIsa::avx2) return avx2;
  return avx2 && __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
         __builtin_cpu_supports("avx512cd") != 0;
}
const LaneTable& avx2_table() {
  static const LaneTable table = make_table(fill_lane_table_avx2);
  return table;
}
const LaneTable& avx512_table() {
  static const LaneTable table = make_table(fill_lane_table_avx512);
  return table;
}
#endif

}  // namespace

std::span<const LaneOp> lane_ops(HostIsa isa) {
#if defined(__x86_64__)
  if (isa != HostIsa::portable) {
    if (isa != HostIsa::avx2 && host_has(HostIsa::avx512)) return avx512_table();
    if (host_has(HostIsa::avx2)) return avx2_table();
  }
#endif
  static_cast<void>(isa);
  return portable_table();
}

int find_lane_op(std::string_view name) {
  static const auto index = [] {
    std::unordered_map<std::string, int, NameHash, std::equal_to<>> map;
    const LaneTable& table = portable_table();
    for (std::size_t i = 0; i < table.size(); ++i) map.emplace(table[i].name, static_cast<int>(i));
    return map;
  }();
  const auto found = index.find(name);
  return found == index.end() ? -1 : found->second;
}

}  // namespace stitch::emulator
