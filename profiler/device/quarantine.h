#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "profiler/device/device.h"

namespace stitch::profiler {

/// Something that hung or killed a runner and is not to be run on that device again.
struct QuarantineEntry {
  Hash128 key;         ///< quarantine_key of what ran
  std::string device;  ///< DeviceIdentity::key
  std::string kernel;  ///< entry point (of a plan: all of them) and launch shape, for people
  std::string reason;  ///< what happened
  std::string tool;    ///< version that recorded it; another one's code generator makes other kernels
  std::int64_t when_us = 0;

  bool operator==(const QuarantineEntry&) const = default;
};

/// Identity of an image: everything that a device might run of it.
Hash128 hash_of(const KernelImage& image);
/// Identity of launches made together: one for a kernel, all of a plan's, in order.
Hash128 quarantine_key(std::span<const std::pair<Hash128, LaunchShape>> launches);

/// The list of what is quarantined, kept in one file that is replaced atomically with every change, so that it
/// outlives every process that reads it. Safe to use from several threads; of several processes that add at the same
/// moment one may lose its entry, and will add it again when the kernel strikes again.
class Quarantine {
 public:
  /// An empty path: kept in memory only.
  Quarantine(FileSystem& files, const Clock& clock, std::filesystem::path path)
      : files_(files), clock_(clock), path_(std::move(path)) {}

  /// Reads the file; one that is not there is an empty list, and entries of other tool versions are left out. Errors:
  /// io, corrupt (naming the path; clear() makes a new file), version_mismatch.
  Status load();

  [[nodiscard]] std::optional<QuarantineEntry> find(const Hash128& key, const std::string& device) const;
  /// Why a launch is refused: error `runtime` that names kernel, reason and day, when it is quarantined.
  [[nodiscard]] Status check(const Hash128& key, const std::string& device) const;
  /// `when` and `tool` are filled in; what is listed already is replaced. Errors: io; the entry holds nevertheless, for
  /// this process.
  Status add(QuarantineEntry entry);
  Status clear();
  [[nodiscard]] std::vector<QuarantineEntry> entries() const;

 private:
  Status load_locked();

  FileSystem& files_;
  const Clock& clock_;
  std::filesystem::path path_;
  mutable std::mutex mutex_;
  std::vector<QuarantineEntry> entries_;
  bool unsaved_ = false;  ///< entries_ holds what the file could not be made to hold
};

}  // namespace stitch::profiler
