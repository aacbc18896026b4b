#include "daemon/http/token_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "api/protocol.h"
#include "base/file.h"
#include "base/private_folder.h"

namespace stitch::daemon {
namespace {

Error token_error(const std::filesystem::path& path, std::string_view doing) {
  return make_error(ErrorKind::io, "token file {}: cannot {}: {}", path.string(), doing, std::strerror(errno));
}

/// Makes the file with its contents; nobody else can have opened it before it was there.
Status write_new(const std::filesystem::path& path, std::string_view text) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor < 0) return token_error(path, "create it");
  const ssize_t written = ::write(descriptor, text.data(), text.size());
  const bool whole = written == std::ssize(text);
  if (::close(descriptor) == 0 && whole) return {};
  const Error failed = token_error(path, "write it");
  ::unlink(path.c_str());
  return failed;
}

}  // namespace

Result<TokenFile> TokenFile::write(const std::filesystem::path& path, const std::string& secret) {
  const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
  std::error_code code;
  if (folder == api::default_socket_path().parent_path() || !std::filesystem::exists(folder, code))
    STITCH_TRY(make_private_folder(folder));
  // Renamed into its place: a link that lies there is replaced, not followed.
  const std::filesystem::path beside = folder / fmt::format(".{}.{}", path.filename().string(), ::getpid());
  ::unlink(beside.c_str());
  STITCH_TRY(write_new(beside, secret + "\n"));
  if (::rename(beside.c_str(), path.c_str()) != 0) {
    const Error failed = token_error(path, "put it in its place");
    ::unlink(beside.c_str());
    return failed;
  }
  return TokenFile(path, secret);
}

TokenFile::~TokenFile() {
  if (path_.empty()) return;
  const auto there = RealFileSystem().read_own(path_, 4096);
  if (there && *there == secret_ + "\n") ::unlink(path_.c_str());
}

}  // namespace stitch::daemon
