#pragma once

#include <cstdint>

namespace stitch::emulator {

/// Which code runs element-wise instructions. Results never depend on it.
enum class HostIsa : std::uint8_t { best, portable, avx2, avx512 };

}  // namespace stitch::emulator
