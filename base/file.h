#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace stitch {

/// Files, as those who keep state on disk see them. Errors name the path and the operating system's reason.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  [[nodiscard]] virtual Result<std::string> read(const std::filesystem::path& path) const = 0;

  /// A file of our own in a folder that others may write to: what is not a regular file (a link, a pipe, a device) is
  /// not followed or waited for, and no more than `most_bytes` are read. Errors besides: io (no regular file),
  /// resource_exhausted (longer). By default: read, and the bound.
  [[nodiscard]] virtual Result<std::string> read_own(const std::filesystem::path& path, std::int64_t most_bytes) const;

  /// Publishes `contents` under `path` atomically: temporary file in the same folder, fsync, rename. A reader sees
  /// the old contents or the new, never a part; losing a race to another writer is success.
  virtual Status publish(const std::filesystem::path& path, std::string_view contents) = 0;

  virtual Status remove(const std::filesystem::path& path) = 0;
  /// Sets a file's modification time, µs since 1970; caches keep the time of the last use there.
  virtual Status set_modified(const std::filesystem::path& path, std::int64_t modified_us) = 0;
  virtual Status make_directories(const std::filesystem::path& path) = 0;
  [[nodiscard]] virtual bool exists(const std::filesystem::path& path) const = 0;

  struct Entry {
    std::filesystem::path path;
    std::int64_t bytes = 0;
    std::int64_t modified_us = 0;  ///< µs since 1970
  };
  /// Regular files directly inside `folder`, by name; empty when the folder is absent.
  [[nodiscard]] virtual std::vector<Entry> list(const std::filesystem::path& folder) const = 0;
};

/// The machine's files.
class RealFileSystem final : public FileSystem {
 public:
  [[nodiscard]] Result<std::string> read(const std::filesystem::path& path) const override;
  [[nodiscard]] Result<std::string> read_own(const std::filesystem::path& path, std::int64_t most_bytes) const override;
  Status publish(const std::filesystem::path& path, std::string_view contents) override;
  Status remove(const std::filesystem::path& path) override;
  Status set_modified(const std::filesystem::path& path, std::int64_t modified_us) override;
  Status make_directories(const std::filesystem::path& path) override;
  [[nodiscard]] bool exists(const std::filesystem::path& path) const override;
  [[nodiscard]] std::vector<Entry> list(const std::filesystem::path& folder) const override;
};

/// A folder of our own among the machine's temporary files, which goes with its contents.
class TemporaryFolder {
 public:
  /// `purpose` is part of its name, for whoever finds one that a killed process left.
  static Result<TemporaryFolder> make(std::string_view purpose);

  ~TemporaryFolder();
  TemporaryFolder(TemporaryFolder&& other) noexcept;
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

 private:
  explicit TemporaryFolder(std::filesystem::path path) : path_(std::move(path)) {}

  std::filesystem::path path_;
};

}  // namespace stitch
