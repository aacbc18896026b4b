#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/file.h"
#include "base/result.h"
#include "base/sha256.h"

namespace stitch::client {

/// Artifacts that were fetched before, one file each, named by the hash of its contents. Files appear atomically and
/// are checked when they are read: a damaged one is deleted and is a miss. Safe to use from many threads and several
/// processes at once.
class ArtifactFolder {
 public:
  /// `files` and `clock` must outlive it. The least recently used artifacts go when all take more than `max_bytes`;
  /// what else is in the folder stays.
  ArtifactFolder(FileSystem& files, const Clock& clock, std::filesystem::path folder, std::int64_t max_bytes);

  std::optional<std::string> find(const Sha256& hash);
  /// `bytes` must be what `hash` names. Errors: io.
  Status store(const Sha256& hash, std::string_view bytes);

  /// $XDG_CACHE_HOME/stitch/artifacts, or ~/.cache/stitch/artifacts.
  static std::filesystem::path default_path();

 private:
  void evict();

  FileSystem& files_;
  const Clock& clock_;
  const std::filesystem::path folder_;
  const std::int64_t max_bytes_;
  std::mutex mutex_;               ///< guards unseen_bytes_
  std::int64_t unseen_bytes_ = 0;  ///< stored since the folder was looked at
  bool seen_ = false;
};

}  // namespace stitch::client
