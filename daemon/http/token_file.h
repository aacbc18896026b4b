#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include "base/result.h"

namespace stitch::daemon {

/// The file in which a daemon's own clients find its secret. Only this user reads it (mode 0600), and it goes with the
/// daemon.
class TokenFile {
 public:
  /// Writes the secret; what is there is replaced. A folder that is missing is made, for this user alone; in the
  /// default place (api::default_token_path) one that others may write to is refused. Errors: unavailable (such a
  /// folder), io.
  static Result<TokenFile> write(const std::filesystem::path& path, const std::string& secret);

  TokenFile(TokenFile&& other) noexcept
      : path_(std::exchange(other.path_, {})), secret_(std::exchange(other.secret_, {})) {}
  TokenFile& operator=(TokenFile&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(secret_, other.secret_);
    return *this;
  }
  /// Removes it, unless another daemon has replaced it meanwhile.
  ~TokenFile();

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  TokenFile(std::filesystem::path path, std::string secret) : path_(std::move(path)), secret_(std::move(secret)) {}
  std::filesystem::path path_;
  std::string secret_;
};

}  // namespace stitch::daemon
