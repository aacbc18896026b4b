#include "daemon/http/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace stitch::daemon {
namespace {

/// Makes the folders that are missing; the last one is for its owner only.
Status make_folder(const std::filesystem::path& folder) {
  if (folder.empty()) return {};
  std::error_code error;
  if (folder.has_parent_path()) std::filesystem::create_directories(folder.parent_path(), error);
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return make_error(ErrorKind::io, "{}: {}", folder.string(), std::strerror(errno));
  }
  return {};
}

std::string holder(int descriptor) {
  char text[32] = {};
  const ssize_t size = ::pread(descriptor, text, sizeof text - 1, 0);
  return size > 0 ? std::string("process ") + text : std::string("another process");
}

}  // namespace

Result<FileLock> FileLock::acquire(const std::filesystem::path& path, std::string_view taken) {
  STITCH_TRY(make_folder(path.parent_path()));
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor < 0) return make_error(ErrorKind::io, "{}: {}", path.string(), std::strerror(errno));
  FileLock lock(descriptor);
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      return make_error(ErrorKind::already_exists, "{}: {} is held by {}", taken, path.string(), holder(descriptor));
    }
    return make_error(ErrorKind::io, "{}: {}", path.string(), std::strerror(errno));
  }
  const std::string id = std::to_string(::getpid());
  if (::ftruncate(descriptor, 0) != 0 || ::pwrite(descriptor, id.data(), id.size(), 0) < 0) {
    return make_error(ErrorKind::io, "{}: {}", path.string(), std::strerror(errno));
  }
  return lock;
}

Result<FileLock> FileLock::acquire_existing(const std::filesystem::path& path, std::string_view taken) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0)
    return make_error(errno == ENOENT ? ErrorKind::not_found : ErrorKind::io, "{}: {}", path.string(),
                      std::strerror(errno));
  FileLock lock(descriptor);
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno != EWOULDBLOCK) return make_error(ErrorKind::io, "{}: {}", path.string(), std::strerror(errno));
  return make_error(ErrorKind::already_exists, "{}: {} is held by another process, perhaps by another name", taken,
                    path.string());
}

FileLock::~FileLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace stitch::daemon
