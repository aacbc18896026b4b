#pragma once

#include <cstdint>

#include "emulator/dim3.h"

namespace stitch::emulator {

/// The shape of a launch, as cuLaunchKernelEx takes it.
struct LaunchConfig {
  Dim3 grid;     ///< blocks
  Dim3 block;    ///< threads
  Dim3 cluster;  ///< blocks per cluster; divides the grid
  std::uint32_t dynamic_shared_bytes = 0;
  bool cooperative = false;  ///< promises that all blocks are resident; the emulator always keeps them so
};

}  // namespace stitch::emulator
