#pragma once

#include <cstdint>
#include <string_view>

namespace stitch::daemon {

/// What a peer can make the server hold, and for how long.
struct HttpLimits {
  int connections = 256;         ///< when there are more, the one that has been silent for the longest is closed
  int reserved_connections = 8;  ///< beyond those, while none is silent: only reserved_target is answered on them
  std::int64_t header_bytes = 16 * 1024;                  ///< of request line and header
  std::int64_t body_bytes = std::int64_t{256} << 20;      ///< of one request
  std::int64_t buffered_bytes = std::int64_t{1} << 30;    ///< of all bodies that are being read or worked on, but for
  std::int64_t small_body_bytes = std::int64_t{1} << 20;  ///< the first bytes of each, which are always taken
  double idle_seconds = 120;                              ///< a connection without a request
  double header_seconds = 10;                             ///< from a request's first byte to the end of its header
  double body_seconds = 120;                              ///< from there to the end of its body
  double write_seconds = 60;                              ///< for a reader to take an answer, or a part of a stream
  double heartbeat_seconds = 15;                          ///< silence in a stream after which something is sent
};

/// What is answered however many connections there are.
inline constexpr std::string_view reserved_target = "/v1/health";

}  // namespace stitch::daemon
