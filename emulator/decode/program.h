#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "emulator/decode/kernel_parameter.h"
#include "emulator/dim3.h"

namespace stitch::emulator {

struct Code;

/// One kernel of a PTX module, decoded and ready to launch. A cheap handle to immutable data: copy it, share it
/// between threads, launch it as often as wanted.
///
///   Result<Program> program = Program::load(ptx_text, "kernel_0");
///   if (!program) return program.error();      // "PTX line 210: instruction 'tcgen05.mma' is not supported: `…`"
///   program->parameters();                     // where each argument lies in the parameter block
///
/// A kernel that loads can be executed: whatever the emulator does not know is an error here. Whoever launches makes it
/// (the profiler's emulated device, tests); launch() reads it, by way of Code (decode/code.h).
class Program {
 public:
  /// Parses a PTX module (as NVRTC or nvcc print it: PTX ISA 7.0 – 9.0) and decodes the kernel named `entry` with the
  /// functions that it calls; an empty name takes the module's only kernel.
  ///
  /// Errors: parse (malformed text, undeclared names, wrong operands), unsupported (an instruction or a form of one
  /// that is not implemented), not_found (no such kernel). Each names the PTX line and quotes it.
  static Result<Program> load(std::string_view ptx, std::string_view entry = {});

  [[nodiscard]] const std::string& name() const;
  [[nodiscard]] const std::string& target() const;  ///< "sm_90a"
  [[nodiscard]] const std::vector<KernelParameter>& parameters() const;
  [[nodiscard]] std::uint32_t parameter_bytes() const;

  [[nodiscard]] std::uint32_t static_shared_bytes() const;
  [[nodiscard]] std::uint32_t local_bytes() const;             ///< per thread
  [[nodiscard]] std::uint32_t register_bytes() const;          ///< per thread, of the emulated register file
  [[nodiscard]] std::optional<Dim3> required_block() const;    ///< .reqntid
  [[nodiscard]] std::optional<Dim3> maximum_block() const;     ///< .maxntid
  [[nodiscard]] std::optional<Dim3> required_cluster() const;  ///< .reqnctapercluster

  [[nodiscard]] const Code& code() const { return *code_; }

 private:
  explicit Program(std::shared_ptr<const Code> code) : code_(std::move(code)) {}
  std::shared_ptr<const Code> code_;
};

/// Names of the kernels of a module, in order of appearance. Error: parse.
Result<std::vector<std::string>> entry_names(std::string_view ptx);

}  // namespace stitch::emulator
