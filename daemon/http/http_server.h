#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "daemon/http/http.h"
#include "daemon/http/http_limits.h"

namespace stitch::daemon {

struct HttpServerOptions {
  std::filesystem::path socket;    ///< Unix-domain socket, mode 0600; empty: none
  std::optional<std::string> tcp;  ///< "8080", "127.0.0.1:8080", "[::1]:0" (any port); loopback addresses only
  std::string secret;              ///< that requests over TCP must carry (daemon/http/admission.h)
  int io_threads = 2;              ///< each serves the connections that it was given, alone
  int handler_threads = 4;
  HttpLimits limits;
};

/// HTTP/1.1 over sockets: keep-alive, chunked streams, bounded in everything a peer can make us hold. Handlers run on
/// threads of their own.
class HttpServer {
 public:
  using Handler = http::Handler;

  /// Binds and starts to serve. A socket file that a dead server left is replaced; a live one is already_exists.
  /// Errors: invalid_argument (an address that is not loopback, a path that is too long, no endpoint), io.
  /// `quick` is asked first, where there is one.
  static Result<std::unique_ptr<HttpServer>> start(HttpServerOptions options, Handler handler,
                                                   http::QuickHandler quick = {});
  ~HttpServer();

  /// Port that TCP was bound to; 0 without TCP.
  [[nodiscard]] int port() const;

  /// Stops accepting, lets requests that have arrived finish (for at most `grace_seconds`; followers of streams and
  /// long polls are sent away), and closes everything. May be called again.
  void stop(double grace_seconds = 10);

 private:
  struct State;
  explicit HttpServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace stitch::daemon
