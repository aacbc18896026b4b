#pragma once

#include <cstdint>
#include <string>

namespace stitch::emulator {

/// A kernel parameter as it lies in the parameter block.
struct KernelParameter {
  std::string name;
  std::uint32_t offset = 0;
  std::uint32_t bytes = 0;
  std::uint32_t alignment = 1;

  bool operator==(const KernelParameter&) const = default;
};

}  // namespace stitch::emulator
