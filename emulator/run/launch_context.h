#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "emulator/decode/code.h"
#include "emulator/finding.h"
#include "emulator/lanes/lane_op.h"
#include "emulator/memory/early_accesses.h"
#include "emulator/memory/memory.h"
#include "emulator/memory/unit_clock.h"
#include "emulator/run/launch_config.h"
#include "emulator/run/unit.h"

namespace stitch::emulator {

/// What all host threads of a launch share. Everything but the atomics and the tables with locks of their own is
/// constant while blocks run.
struct LaunchContext {
  const Code* code = nullptr;
  LaunchConfig config;
  Memory* memory = nullptr;
  Checks checks = Checks::all();
  std::uint32_t generation = 0;
  std::vector<std::byte> parameters;
  std::vector<LaneFunction> lane_functions;  ///< by row of the lane table
  RowStorage constants;            ///< constant rows with this memory's addresses filled in, for each rank of a cluster
  std::size_t constant_bytes = 0;  ///< of one rank's; 0: all ranks share them
  std::vector<std::uint64_t> blocks;  ///< linear indices of the blocks to run, in the order in which they start
  std::uint32_t blocks_per_unit = 1;
  std::uint32_t threads_per_block = 1;
  std::uint32_t warps_per_block = 1;
  std::uint32_t shared_bytes = 0;  ///< static and dynamic
  std::uint64_t grid_workspace =
      0;  ///< of a cooperative launch whose kernel asks for it: two words, of which the second is its barrier
  std::function<void()> wait_for_host;
  EarlyAccesses* early = nullptr;  ///< LaunchOptions::early
  bool single_threaded = false;
  bool times_matter = false;  ///< blocks can synchronise: see GlobalAccessor

  SyncTable sync;
  std::atomic<std::uint64_t> version{0};  ///< advances when a unit did something that others can see
  std::atomic<std::uint64_t> instructions{0};
  std::uint64_t instruction_budget = 0;
  std::atomic<bool> stop{false};  ///< after a trap, a deadlock or an exhausted budget, or told to
  std::atomic<bool> out_of_budget{false};
  std::atomic<const char*> refused{nullptr};  ///< what a block came to that is not emulated and only operands tell
};

}  // namespace stitch::emulator
