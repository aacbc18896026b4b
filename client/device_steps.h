#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "api/program_document.h"
#include "base/result.h"

namespace stitch::client {

/// Where a value of a program lies in device memory, before it is known what a run is given.
struct DevicePlace {
  enum class Base : std::uint8_t { input, output, arena };
  Base base = Base::arena;
  std::int64_t number = 0;  ///< of the input or output
  std::int64_t offset = 0;  ///< bytes into it, or into the arena

  [[nodiscard]] DevicePlace behind(std::int64_t bytes) const { return {base, number, offset + bytes}; }

  bool operator==(const DevicePlace&) const = default;
};

struct DeviceStep;

struct PlanStep {
  int fragment = 0;  ///< index into Program::fragments
  std::vector<DevicePlace> parameters, results;
  std::vector<std::uint64_t> from, to;  ///< room for their addresses
};
/// A library's call.
struct CallStep {
  int call = 0;  ///< index into Program::calls
  std::vector<DevicePlace> parameters;
  DevicePlace result;
  std::vector<std::uint64_t> from;  ///< room for their addresses
};
struct DeviceCopy {
  DevicePlace to, from;
  std::int64_t bytes = 0;
};
/// Turns that take the carried values by turns from one half of their memory to the other.
struct TurnsStep {
  std::int64_t turns = 0;
  std::vector<DeviceStep> even, odd;
};

/// A step of a program as a stream takes it.
struct DeviceStep {
  std::string place;       ///< in the program: "while.3, step 2 (level 1)"
  std::size_t number = 0;  ///< of the step in its region
  std::int64_t bytes = 0;  ///< memory moved, as planned; of loops 0, their steps say it
  std::variant<PlanStep, CallStep, DeviceCopy, TurnsStep> work;
};

/// "fragment", "library", "copy", "loop"
std::string_view kind_of(const DeviceStep& step);
/// Memory moved, as planned, loops' turns counted.
std::int64_t bytes_of(const DeviceStep& step);

/// What a library makes of one of a program's calls.
struct DeviceCall {
  Status covered;             ///< whether it computes it; an error is unsupported, and says how there is a way
  std::int64_t launches = 0;  ///< how often it is called for one
};

/// More kernels and copies than these in one run are refused: nobody's queue, and no CUDA graph, is for so many.
inline constexpr std::int64_t most_operations = std::int64_t{1} << 20;

/// The steps of a checked program, loops' turns inside, with all that depends on nothing but the program worked out.
/// `calls`: of every call of the program. Error: unsupported, naming the first step that no stream can take, or how
/// many operations one run would have.
Result<std::vector<DeviceStep>> device_steps(const api::Program& program, const std::vector<DeviceCall>& calls);

/// Kernels, library calls and copies of these steps, loops' turns counted; no more than a little above most_operations.
std::int64_t count_operations(std::span<const DeviceStep> steps, const api::Program& program,
                              const std::vector<DeviceCall>& calls);

}  // namespace stitch::client
