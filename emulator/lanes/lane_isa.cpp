#include "emulator/lanes/lane_isa.h"

#include <cfenv>

namespace stitch::emulator {

int set_host_rounding(Rounding rounding) {
  const int previous = std::fegetround();
  constexpr int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
  std::fesetround(modes[static_cast<int>(rounding)]);
  return previous;
}

void restore_host_rounding(int previous) { std::fesetround(previous); }

void add_lane_op(LaneTable& table, const LaneName& name, LaneFunction function, InstructionClass kind, Width d, Width a,
                 Width b, Width c, Width e) {
  std::string joined;
  for (const char* part : name.parts) {
    if (part == nullptr || *part == '\0') continue;
    if (!joined.empty()) joined += '.';
    joined += part;
  }
  table.push_back({std::move(joined), function, kind, d, a, b, c, e});
}

}  // namespace stitch::emulator
