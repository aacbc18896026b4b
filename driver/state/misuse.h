#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/counters.h"

namespace stitch::driver {

/// What a program did wrong, or what could not be done for it.
enum class MisuseKind : std::uint8_t {
  kernel,            ///< the emulator's finding in a kernel: out of bounds, a race, a read of unwritten memory, …
  unordered_access,  ///< two operations touch the same bytes, one writes, and no stream, event or wait orders them
  freed_memory,      ///< an operation or a call on memory that was freed
  invalid_call,      ///< a call that the driver refuses: wrong sizes, dead handles, too many blocks, …
  leak,              ///< not freed, destroyed or unloaded when the process ended
  unsupported,       ///< a function of the driver that the emulated one does not have
};
std::string_view to_string(MisuseKind kind);

/// One thing that was found, with how often.
struct Misuse {
  MisuseKind kind = MisuseKind::kernel;
  std::string message;
  std::uint64_t count = 1;
};

/// Collects what is found, says each once on standard error as it is found, and reports at the end of the process:
/// a summary on standard error and, if asked for, a JSON document.
///
///   STITCH_EMULATED_QUIET=1       nothing on standard error
///   STITCH_EMULATED_REPORT=FILE   {"device", "findings": [{"kind", "message", "count"}], "kernels": [{"name",
///                                 "launches", "counters"}]}, written when the process ends; "%p" in FILE is its id
///
/// Safe to use from any thread.
class MisuseLog {
 public:
  MisuseLog();
  void add(MisuseKind kind, std::string message);
  /// A kernel that ran, with what it counted.
  void add_launch(const std::string& kernel, const emulator::Counters& counters);
  [[nodiscard]] std::uint64_t launches() const;
  /// Findings other than refused calls and what is unsupported: these a program may have asked for on purpose.
  [[nodiscard]] std::uint64_t faults() const;
  [[nodiscard]] std::vector<Misuse> findings() const;
  /// Writes the summary and the document. `device`: its name.
  void report(const std::string& device) const;

 private:
  struct Launches {
    std::uint64_t count = 0;
    emulator::Counters counters;
  };
  void write_document(const std::string& path, const std::string& device) const;

  mutable std::mutex mutex_;
  std::vector<Misuse> found_;
  std::map<std::string, Launches> launches_;
  bool quiet_ = false;
};

}  // namespace stitch::driver
