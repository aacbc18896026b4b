#include "api/protocol.h"

#include <unistd.h>

#include <cstdlib>

namespace stitch::api {

std::string_view to_string(LaunchArgument::Kind kind) {
  switch (kind) {
    case LaunchArgument::Kind::parameter: return "parameter";
    case LaunchArgument::Kind::result: return "result";
    case LaunchArgument::Kind::workspace: return "workspace";
    case LaunchArgument::Kind::integer: return "integer";
  }
  return "unknown";
}

std::string_view to_string(LookupAnswer::Source source) {
  switch (source) {
    case LookupAnswer::Source::store: return "store";
    case LookupAnswer::Source::predicted: return "predicted";
    case LookupAnswer::Source::pending: return "pending";
  }
  return "unknown";
}

std::filesystem::path default_socket_path() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && *runtime == '/') return std::filesystem::path(runtime) / "stitch" / "stitchd.sock";
  return fmt::format("/tmp/stitch-{}/stitchd.sock", ::getuid());
}

std::filesystem::path default_token_path(int port) {
  return default_socket_path().parent_path() / fmt::format("token-{}", port);
}

}  // namespace stitch::api
