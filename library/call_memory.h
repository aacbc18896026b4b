#pragma once

#include <cstddef>
#include <cstdint>

namespace stitch::library {

/// No library's call is made in a way that wants more memory for itself: what NVIDIA recommends for cuBLAS on Hopper
/// and later (cuBLAS library, §2.1.8), and as much for cuDNN, because all calls of a program share one.
inline constexpr std::int64_t most_library_workspace_bytes = std::int64_t{32} << 20;

/// Every parameter and result of a call starts at a multiple of this, as a plan's buffers do.
inline constexpr std::size_t operand_alignment = 16;

}  // namespace stitch::library
