#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>

namespace stitch {
namespace {

Error io_error(std::string_view what, const std::filesystem::path& path, int code) {
  return make_error(code == ENOENT ? ErrorKind::not_found : ErrorKind::io, "cannot {} {}: {}", what, path.string(),
                    std::strerror(code));
}

/// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

Status write_all(int fd, std::string_view contents, const std::filesystem::path& path) {
  while (!contents.empty()) {
    const ssize_t written = ::write(fd, contents.data(), contents.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return io_error("write", path, errno);
    contents.remove_prefix(written);
  }
  if (::fsync(fd) != 0) return io_error("sync", path, errno);
  return {};
}

Result<std::string> read_all(int fd, std::int64_t most_bytes, const std::filesystem::path& path) {
  std::string contents;
  char chunk[1 << 16];
  while (true) {
    const ssize_t got = ::read(fd, chunk, sizeof chunk);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return io_error("read", path, errno);
    if (got == 0) return contents;
    if (got > most_bytes - std::ssize(contents))
      return make_error(ErrorKind::resource_exhausted, "cannot read {}: longer than {} bytes", path.string(),
                        most_bytes);
    contents.append(chunk, got);
  }
}

std::filesystem::path temporary_beside(const std::filesystem::path& path) {
  static std::atomic<unsigned> counter{0};
  return path.parent_path() / fmt::format(".{}.{}.{}", path.filename().string(), ::getpid(), counter++);
}

}  // namespace

Result<std::string> FileSystem::read_own(const std::filesystem::path& path, std::int64_t most_bytes) const {
  Result<std::string> contents = read(path);
  if (contents && std::ssize(*contents) > most_bytes)
    return make_error(ErrorKind::resource_exhausted, "cannot read {}: longer than {} bytes", path.string(), most_bytes);
  return contents;
}

Result<std::string> RealFileSystem::read(const std::filesystem::path& path) const {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return io_error("open", path, errno);
  return read_all(file.get(), std::numeric_limits<std::int64_t>::max(), path);
}

Result<std::string> RealFileSystem::read_own(const std::filesystem::path& path, std::int64_t most_bytes) const {
  // Without O_NONBLOCK a pipe that nobody writes to would hold us here for ever.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file.get() < 0) return io_error("open", path, errno);
  struct stat found {};
  if (::fstat(file.get(), &found) != 0) return io_error("look at", path, errno);
  if (!S_ISREG(found.st_mode)) return make_error(ErrorKind::io, "cannot read {}: not a regular file", path.string());
  return read_all(file.get(), most_bytes, path);
}

Status RealFileSystem::publish(const std::filesystem::path& path, std::string_view contents) {
  const std::filesystem::path temporary = temporary_beside(path);
  Status status;
  {
    const Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (file.get() < 0) return io_error("create", temporary, errno);
    status = write_all(file.get(), contents, temporary);
  }
  if (status && ::rename(temporary.c_str(), path.c_str()) != 0) status = io_error("publish", path, errno);
  if (!status) ::unlink(temporary.c_str());
  return status;
}

Status RealFileSystem::remove(const std::filesystem::path& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return io_error("remove", path, errno);
  return {};
}

Status RealFileSystem::set_modified(const std::filesystem::path& path, std::int64_t modified_us) {
  constexpr std::int64_t second = 1'000'000;
  const timespec time{modified_us / second, modified_us % second * 1000};
  const timespec times[2] = {{0, UTIME_OMIT}, time};
  if (::utimensat(AT_FDCWD, path.c_str(), times, 0) != 0) return io_error("set the time of", path, errno);
  return {};
}

Status RealFileSystem::make_directories(const std::filesystem::path& path) {
  std::error_code code;
  std::filesystem::create_directories(path, code);
  if (code) return make_error(ErrorKind::io, "cannot create folder {}: {}", path.string(), code.message());
  return {};
}

bool RealFileSystem::exists(const std::filesystem::path& path) const {
  std::error_code code;
  return std::filesystem::exists(path, code);
}

std::vector<FileSystem::Entry> RealFileSystem::list(const std::filesystem::path& folder) const {
  std::vector<Entry> entries;
  std::error_code code;
  // Stepping by hand: the range-based loop throws when the folder becomes unreadable on the way.
  for (std::filesystem::directory_iterator at(folder, code), end; !code && at != end; at.increment(code)) {
    const auto& item = *at;
    std::error_code ignored;  // a file that vanishes while we look is simply not listed
    if (!item.is_regular_file(ignored)) continue;
    const auto size = item.file_size(ignored);
    if (ignored) continue;
    const auto modified = std::chrono::file_clock::to_sys(item.last_write_time(ignored));
    if (ignored) continue;
    entries.push_back({item.path(), static_cast<std::int64_t>(size),
                       std::chrono::duration_cast<std::chrono::microseconds>(modified.time_since_epoch()).count()});
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.path < b.path; });
  return entries;
}

Result<TemporaryFolder> TemporaryFolder::make(std::string_view purpose) {
  std::error_code code;
  const auto parent = std::filesystem::temp_directory_path(code);
  if (code) return make_error(ErrorKind::io, "no folder for temporary files: {}", code.message());
  std::string name = (parent / fmt::format("stitch-{}-XXXXXX", purpose)).string();
  if (::mkdtemp(name.data()) == nullptr) return io_error("make", name, errno);
  return TemporaryFolder(name);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

TemporaryFolder::TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::move(other.path_)) {
  other.path_.clear();
}

}  // namespace stitch
