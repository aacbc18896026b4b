#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/device_spec.h"
#include "base/result.h"

namespace stitch::costmodel {

/// The unit that executes an instruction.
enum class Pipe : std::uint8_t {
  floating,
  half,     ///< packed 16-bit floats
  wide,     ///< f64
  integer,  ///< arithmetic, logic, moves and selects of 32 bits
  special,  ///< MUFU, conversions, bit counts
  memory,   ///< device memory and local memory
  shared,   ///< shared memory and shuffles
  tensor,
  uniform,  ///< once per warp: U…, constants, special registers
  control,  ///< branches, barriers, exits
  other,
};
inline constexpr std::size_t pipe_count = 11;

std::string_view to_string(Pipe pipe);
/// By the first part of the operation's name ("LDG" of LDG.E.128); Pipe::other for names that are not known.
Pipe pipe_of(std::string_view operation);

class PipeCounts {
 public:
  int& operator[](Pipe pipe) { return counts_[static_cast<std::size_t>(pipe)]; }
  int operator[](Pipe pipe) const { return counts_[static_cast<std::size_t>(pipe)]; }
  bool operator==(const PipeCounts&) const = default;

 private:
  std::array<int, pipe_count> counts_{};
};

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
  int barriers = 0;                     ///< of the block
  int loops = 0;
  double stall_cycles = 0;  ///< as of Hot, of all of the code executed once, in order
  double cycles = 0;

  struct Hot {
    bool loop = false;
    int instructions = 0;
    PipeCounts by_pipe;
    int loads = 0;
    int load_bytes = 0;       ///< of one lane, over all of those
    int local_bytes = 0;      ///< of one lane: spilled registers and local arrays
    double stall_cycles = 0;  ///< Σ of the stall counts: issue alone, results all there
    double cycles = 0;        ///< of a warp by itself for one iteration, waits for memory included
    bool operator==(const Hot&) const = default;
  } loop;

  int loads_before_wait = 0;  ///< device-memory loads outstanding when one is first waited for; most over the hot code
  int bytes_before_wait = 0;  ///< the same in bytes of a lane
};

/// Reads what `nvdisasm -c -hex` prints of a cubin with one kernel (codegen/compile/disassembler.h), for sm_70 and
/// later. Errors: parse, with the line: no instruction in it, an instruction without its two words of encoding, an
/// operation that cannot be read, a branch to a label that there is not.
Result<MachineCodeFeatures> parse_machine_code(std::string_view listing, const CodeLatencies& latencies = {});

/// A warp's cycles for one iteration of the hot loop, alone on its scheduler: MachineCodeFeatures::Hot::cycles.
inline double warp_cycles(const MachineCodeFeatures& code) { return code.loop.cycles; }

}  // namespace stitch::costmodel
