#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

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

inline constexpr int scoreboards = 6;
inline constexpr int no_scoreboard = 7;

/// An instruction of sm_70 and later as far as its time follows from it: what it is, where it goes, and the control
/// fields, by which the compiler tells the hardware when it may issue.
struct MachineInstruction {
  std::int64_t address = 0;  ///< bytes from the beginning of the kernel's code
  std::string_view name;     ///< "LDG" of LDG.E.128; empty for an operation that is not known
  Pipe pipe = Pipe::other;
  int width = 4;  ///< bytes of a lane, of what loads or stores
  bool predicated = false;
  bool passes_l1 = false;  ///< of LDG: ordered with the whole GPU (LDG.STRONG.GPU: ld.global.cg, ld.relaxed.gpu)
  std::optional<std::int64_t> target;  ///< address that a branch goes to
  int stall = 0;                       ///< cycles until the next instruction may issue
  int sets_result = no_scoreboard;     ///< raised until the result is there
  int sets_read = no_scoreboard;       ///< raised until the operands were read
  unsigned waits = 0;                  ///< mask of scoreboards that must be down before it issues
  int waits_on = no_scoreboard;        ///< of DEPBAR.LE: until no more than so many of those that raise it are left
  int waits_for_all_but = 0;

  [[nodiscard]] bool is_load() const { return name == "LDG" || name == "LD" || name == "LDGSTS"; }
  [[nodiscard]] bool is_store() const {
    return name == "STG" || name == "ST" || name == "RED" || name == "REDG" || name.starts_with("ATOMG");
  }
  [[nodiscard]] bool is_local() const { return name == "LDL" || name == "STL"; }
};

/// Takes the control fields from the upper half of an encoding: bits 105 to 121, the same since Volta.
void read_control(std::uint64_t high, MachineInstruction& instruction);

/// Reads the code of a kernel for an architecture (90: sm_90, sm_90a), 16 bytes an instruction, without a tool of
/// NVIDIA's. Operations are known by the low bits of their encodings: those that nvdisasm 13.5 names in 900 kernels of
/// others for sm_80, sm_90a, sm_100a and sm_120a; tests/golden/machine_code_test.cpp compares the two on kernels of
/// ours where there is an nvdisasm. An operation that is not known has no name and Pipe::other. Errors: parse: no
/// instruction, or a rest of less than 16 bytes.
Result<std::vector<MachineInstruction>> decode_instructions(std::string_view code, int architecture);

}  // namespace stitch::costmodel
