#include "kernel/program/schedule.h"

#include <functional>
#include <numeric>

namespace stitch::kernel {

std::string_view to_string(Level level) {
  constexpr std::array<std::string_view, level_count> names = {"vector", "lane",    "warp", "register",
                                                               "loop",   "cluster", "grid"};
  return names[static_cast<std::size_t>(level)];
}

std::string_view to_string(Hold hold) {
  constexpr std::array<std::string_view, 4> names = {"registers", "shared", "reload", "shared, least"};
  return names[static_cast<std::size_t>(hold)];
}

std::string_view to_string(Sync sync) {
  constexpr std::array<std::string_view, 5> names = {"last-block", "barrier", "block", "gate", "open"};
  return names[static_cast<std::size_t>(sync)];
}

std::int64_t AxisMapping::step(Level level) const {
  std::int64_t product = 1;
  for (std::size_t i = 0; i < static_cast<std::size_t>(level); ++i) product *= extent[i];
  if (!interleaved || level < Level::loop) return product;
  return level == Level::loop ? product * at(Level::cluster) * at(Level::grid) : product / at(Level::loop);
}

std::int64_t AxisMapping::covered() const {
  return std::accumulate(extent.begin(), extent.end(), std::int64_t{1}, std::multiplies<>{});
}

}  // namespace stitch::kernel
