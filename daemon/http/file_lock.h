#pragma once

#include <filesystem>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace stitch::daemon {

/// A file that one process holds, for as long as it lives: the kernel lets go of it when the holder dies, however it
/// dies. The file stays behind and holds the process id of the last holder, for people.
class FileLock {
 public:
  /// Makes the folder (mode 0700) and the file when they are missing. Errors: already_exists (held by another, whom it
  /// names after `taken`: what that means), io.
  static Result<FileLock> acquire(const std::filesystem::path& path, std::string_view taken);

  /// The same with a file that is there and stays as it is, by whatever name: a hard link, or a mount of the one file,
  /// has the same lock. Errors besides: not_found.
  static Result<FileLock> acquire_existing(const std::filesystem::path& path, std::string_view taken);

  FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FileLock& operator=(FileLock&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~FileLock();

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_ = -1;
};

}  // namespace stitch::daemon
