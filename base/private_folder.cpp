#include "base/private_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace stitch {

Status check_private_folder(const std::filesystem::path& folder) {
  const auto refused = [&](std::string_view why) {
    return make_error(ErrorKind::unavailable, "{}: {}; it must be this user's alone", folder.string(), why);
  };
  struct stat found {};
  if (::lstat(folder.c_str(), &found) != 0) return {};
  if (!S_ISDIR(found.st_mode)) return refused("not a folder");
  if (found.st_uid != ::geteuid()) return refused(fmt::format("belongs to user {}", found.st_uid));
  if ((found.st_mode & (S_IWGRP | S_IWOTH)) != 0) return refused("others may write to it");
  return {};
}

Status make_private_folder(const std::filesystem::path& folder) {
  std::error_code ignored;  // what is missing then shows below
  std::filesystem::create_directories(folder.parent_path(), ignored);
  if (::mkdir(folder.c_str(), S_IRWXU) != 0 && errno != EEXIST)
    return make_error(ErrorKind::io, "{}: {}", folder.string(), std::strerror(errno));
  return check_private_folder(folder);
}

}  // namespace stitch
