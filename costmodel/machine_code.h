#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "base/device_spec.h"
#include "base/result.h"
#include "costmodel/machine_instruction.h"

namespace stitch::costmodel {

/// Cycles from issue to result of what the scoreboard tracks.
struct CodeLatencies {
  double memory = 600;
  double shared = 30;
  double special = 20;  ///< and whatever else sets a scoreboard

  static CodeLatencies of(const DeviceSpec& device) { return {device.dram_latency, device.shared_latency, 20}; }
};

/// What the machine code of one kernel shows. "Hot" is the innermost loop that loads from device memory (the largest of
/// several; any innermost loop where none loads), or all of the code where there is no loop.
struct MachineCodeFeatures {
  int instructions = 0;  ///< without padding and the trap behind the end
  PipeCounts by_pipe;
  int loads = 0, stores = 0;            ///< of device memory
  int load_bytes = 0, store_bytes = 0;  ///< of one lane, over all of those
  std::array<int, 5> load_widths{};     ///< loads of 1, 2, 4, 8, 16 bytes
  int local_accesses = 0;               ///< of spilled registers and local arrays
  int local_bytes = 0;                  ///< of one lane, over all of those
  /// Of that, what stands in loops: by the innermost loop that holds it.
  struct LocalLoop {
    int local_bytes = 0;
    int load_bytes = 0;  ///< that an iteration loads from device memory, loops inside it once
    bool operator==(const LocalLoop&) const = default;
  };
  std::vector<LocalLoop> local_loops;
  int barriers = 0;  ///< of the block
  int loops = 0;
  /// Waits for the launch before (griddepcontrol.wait) before any instruction that touches device memory, but for loads
  /// past L1; by the order of the addresses, since such kernels begin with it.
  bool awaits = false;
  int unwaited_loads = 0;   ///< of device memory, before that wait
  double stall_cycles = 0;  ///< as of Hot, of all of the code executed once, in order
  double cycles = 0;

  struct Hot {
    bool loop = false;
    int instructions = 0;
    PipeCounts by_pipe;
    int loads = 0;
    int load_bytes = 0;       ///< of one lane, over all of those
    int local_bytes = 0;      ///< of one lane: spilled registers and local arrays
    int waits = 0;            ///< instructions that wait for what a scoreboard tracks
    int load_waits = 0;       ///< of them those that then wait for a load from device memory
    int barriers = 0;         ///< of the block, and arrivals and waits of the cluster's
    double stall_cycles = 0;  ///< Σ of the stall counts: issue alone, results all there
    double cycles = 0;        ///< of a warp by itself for one iteration, waits for memory included
    bool operator==(const Hot&) const = default;
  } loop;

  int loads_before_wait = 0;  ///< device-memory loads outstanding when one is first waited for; most over the hot
                              ///< code, or over all of it where that does not load
  int bytes_before_wait = 0;  ///< the same in bytes of a lane
};

/// How often a byte of local memory is accessed where a lane loads so many bytes from device memory: those outside
/// loops once, those of a loop as often as its loads need it, at least once and at most `iterations` times. That is
/// also how often those of a loop are that does not load: it walks what is kept. A loop around the tiles loads all of
/// one tile.
double local_trips(const MachineCodeFeatures& code, double loaded_bytes, double iterations);

/// Of the instructions of one kernel in the order of their addresses. Errors: parse: a branch to where no instruction
/// begins.
Result<MachineCodeFeatures> code_features(std::vector<MachineInstruction> code, const CodeLatencies& latencies = {});

/// Of a kernel in a cubin for sm_70 or later (costmodel/cubin_kernel.h): a few µs, and no tool of NVIDIA's. Errors:
/// parse: no cubin, no such kernel in it, an architecture whose encoding is another one.
Result<MachineCodeFeatures> read_machine_code(std::string_view cubin, std::string_view entry,
                                              const CodeLatencies& latencies = {});

/// A warp's cycles for one iteration of the hot loop, alone on its scheduler: MachineCodeFeatures::Hot::cycles.
inline double warp_cycles(const MachineCodeFeatures& code) { return code.loop.cycles; }

}  // namespace stitch::costmodel
