#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/emulate/kernel_argument.h"
#include "emulator/run/launch.h"

namespace stitch::cli {

/// What an argument must hold after the launch: elements 0, stride, 2·stride, … in row-major order. An element is right
/// when it is within absolute + relative × |expected| of what is expected, or both are the same infinity or NaN.
struct Expectation {
  std::string argument;
  graph::DType dtype = graph::DType::f32;
  std::int64_t stride = 1;
  std::vector<std::byte> values;
  double relative = 0;
  double absolute = 0;
};

/// A kernel, how it is launched, and what must come of it.
struct KernelCase {
  std::string name;
  std::string ptx;
  std::string entry;  ///< empty: the module's only kernel
  emulator::LaunchConfig config;
  std::vector<KernelArgument> arguments;
  std::vector<Expectation> expectations;
};

/// How an expectation was met.
struct Comparison {
  std::string argument;
  std::int64_t compared = 0;
  std::int64_t wrong = 0;
  std::string first_wrong;  ///< "element 7 is 1.5, expected 2"
  double worst = 0;         ///< largest difference, as a part of what is allowed (infinite where nothing is)
};

/// A kernel that ran, with the memory that it left.
class ExecutedKernel {
 public:
  emulator::LaunchReport report;
  std::vector<Comparison> comparisons;

  /// The bytes of a buffer argument now. Error: not_found, naming those that there are.
  [[nodiscard]] Result<std::vector<std::byte>> contents(const std::string& argument) const;
  /// Without findings, and everything as expected.
  [[nodiscard]] bool right() const;

 private:
  friend Result<ExecutedKernel> execute(const KernelCase& kernel, const emulator::LaunchOptions& options);
  struct NamedBuffer {
    std::string name;
    emulator::Buffer buffer;
  };
  [[nodiscard]] Result<std::uint64_t> address_of(const std::string& argument) const;
  /// A value's bytes, addresses and tensor maps put in.
  [[nodiscard]] Result<std::vector<std::byte>> value_of(const KernelArgument& argument) const;
  [[nodiscard]] Result<emulator::ParameterBlock> parameters_of(const KernelCase& kernel,
                                                               const emulator::Program& program) const;

  emulator::Memory memory_;
  std::vector<NamedBuffer> buffers_;  ///< in the order of the arguments
};

/// Runs the kernel on the emulated device and compares. Errors: those of Program::load and launch; invalid_argument for
/// arguments that do not fit the kernel's parameters, or expectations that do not fit their arguments.
Result<ExecutedKernel> execute(const KernelCase& kernel, const emulator::LaunchOptions& options = {});

}  // namespace stitch::cli
