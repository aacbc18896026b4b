#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <stop_token>
#include <string>
#include <type_traits>
#include <vector>

#include "base/result.h"
#include "emulator/counters.h"
#include "emulator/decode/code.h"
#include "emulator/decode/program.h"
#include "emulator/finding.h"
#include "emulator/lanes/host_isa.h"
#include "emulator/memory/early_accesses.h"
#include "emulator/memory/memory.h"
#include "emulator/run/launch_config.h"

/// The emulated device, from PTX text to findings:
///
///   const auto program = Program::load(ptx, "softmax");              // ptx/, decode/
///   Memory memory;                                                   // memory/
///   const auto x = memory.allocate("x", 4096, Contents::bytes(data));
///   const auto y = memory.allocate("y", 4096);
///   ParameterBlock parameters;
///   parameters.add(*x).add(*y).add(1024);
///   LaunchConfig config;
///   config.grid.x = 8;
///   config.block.x = 128;
///   const auto report = launch(*program, config, parameters.bytes(), memory);   // run/
///   for (const Finding& finding : report->findings) log(to_text(finding));
///
/// On the way the text becomes statements (ptx/ptx_parser.h), statements become drafts of instructions
/// (decode/decoder.h), drafts become instructions with places in the register file (decode/assembler.h). A launch makes
/// blocks and warps (run/unit.h), hands them to host threads (run/scheduler.h), and runs a warp's 32 lanes one
/// instruction at a time (run/interpreter.h), what is element-wise by a row of the lane table (lanes/lane_ops.h).
/// Every access to memory asks its shadow who was there before, and clocks whether that is ordered (memory/). The
/// profiler's emulated device is the caller; docs/emulator.md says what is checked and counted.
namespace stitch::emulator {

struct LaunchOptions {
  /// Linear block indices (x fastest) to run, ascending; empty runs the whole grid. Clusters must be complete.
  std::span<const std::uint64_t> blocks;
  int host_threads = 0;  ///< 0: as many as oneTBB would use
  Checks checks = Checks::all();
  std::uint64_t instruction_budget = std::uint64_t{1} << 40;  ///< warp instructions of the launch
  std::size_t max_findings = 64;                              ///< distinct ones that are kept
  HostIsa isa = HostIsa::best;
  /// Not 0: blocks (of clusters: clusters) start in an order that is drawn by this seed, the same on any machine; with
  /// one host thread that is the order in which what they do takes effect. What must not depend on it is run by many.
  std::uint64_t shuffle_seed = 0;
  /// Called when all that is left spins, and something of it on attached memory, which the host may change: waits a
  /// moment, then everybody looks again. Host calls may overlap this call. Empty: a deadlock.
  std::function<void()> wait_for_host;
  /// Notes what is touched before griddepcontrol.wait; null: nobody asks, and the launch begins when all else has
  /// ended.
  EarlyAccesses* early = nullptr;
  std::stop_token stop = {};  ///< ends the launch at the next turn of any warp; error then: cancelled
};

/// What a launch did. There is no time in it: the emulator proves results and counts events.
struct LaunchReport {
  bool completed = false;  ///< every thread ran to its end (not so after a deadlock or a trap)
  Counters counters;
  std::vector<BufferTraffic> buffers;
  std::vector<Finding> findings;     ///< ordered by place
  std::uint64_t total_findings = 0;  ///< occurrences, also of those not kept

  [[nodiscard]] bool clean() const { return completed && total_findings == 0; }
};

/// Runs a kernel on simulated memory. `parameters` is the parameter block as the CUDA driver lays it out (see
/// ParameterBlock). Faulty accesses are reported and have no effect (loads give 0xCD bytes), and the kernel goes on, so
/// that one run shows all its defects.
///
/// The memory's contents afterwards are those of some legal interleaving; for a kernel whose result does not depend on
/// the interleaving they are the same for any number of host threads.
///
/// Errors: invalid_argument (dimensions, parameters or block list that do not fit), constraint (more threads, shared
/// memory or cluster blocks than the target has), timeout (instruction budget spent), cancelled, unsupported.
Result<LaunchReport> launch(const Program& program, const LaunchConfig& config, std::span<const std::byte> parameters,
                            Memory& memory, const LaunchOptions& options = {});

/// Places variables of a module in memory, each once per module: a launch does it with those of its kernel; whoever
/// wants to read or write one before the first launch does it with those of read_module (decode/module_contents.h).
/// Returns their buffers. Error: resource_exhausted.
Result<std::vector<Buffer>> place_variables(const Hash128& module, std::span<const ModuleVariable> variables,
                                            Memory& memory);

/// Packs kernel arguments in order, each at its natural alignment.
class ParameterBlock {
 public:
  template <class T>
  ParameterBlock& add(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    return add_bytes(std::as_bytes(std::span(&value, 1)), alignof(T));
  }
  ParameterBlock& add(const Buffer& buffer) { return add(buffer.address); }
  ParameterBlock& add_bytes(std::span<const std::byte> value, std::size_t alignment);

  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace stitch::emulator
