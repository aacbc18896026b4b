#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "kernel/program/schedule.h"

namespace stitch::search {

/// The least power of two that is not below `n`.
inline std::int64_t power_above(std::int64_t n) {
  const std::uint64_t at_least_one = std::max<std::int64_t>(n, 1);
  return std::bit_ceil(at_least_one);
}
inline std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Hands out a block's threads to axes: lanes until a warp is full, then warps.
class ThreadLayout {
 public:
  explicit ThreadLayout(std::size_t axes) : mapping_(axes) {}

  /// Gives `threads` (a power of two) to an axis.
  void give(int axis, std::int64_t threads) {
    const std::int64_t lane = std::min(threads, 32 / lanes_);
    mapping_[axis].at(kernel::Level::lane) *= lane;
    mapping_[axis].at(kernel::Level::warp) *= threads / lane;
    lanes_ *= lane;
    total_ *= threads;
  }
  [[nodiscard]] std::int64_t total() const { return total_; }
  [[nodiscard]] std::vector<kernel::AxisMapping>& mapping() { return mapping_; }
  [[nodiscard]] const std::vector<kernel::AxisMapping>& mapping() const { return mapping_; }

 private:
  std::vector<kernel::AxisMapping> mapping_;
  std::int64_t lanes_ = 1, total_ = 1;
};

}  // namespace stitch::search
