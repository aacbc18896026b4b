#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "client/http/calls_under_way.h"

namespace stitch::client {

/// Where a server is: "unix:///run/user/0/stitch/stitchd.sock", "http://127.0.0.1:8080", "http://[::1]:8080".
struct ServerAddress {
  std::string socket;  ///< path of a Unix-domain socket; empty: TCP
  std::string host;    ///< IP address or "localhost"
  int port = 0;
  /// Whoever answers there sends machine code that this process runs, and nothing protects it on its way: what is not
  /// this machine must be trusted explicitly.
  bool trusted = false;
};
/// Error: invalid_argument.
Result<ServerAddress> parse_address(std::string_view text);

struct HttpAnswer {
  int status = 0;
  std::string content_type;
  std::string body;
  std::string etag = {};  ///< without quotes
};

struct HttpCall {
  std::string method = "GET";
  std::string target;
  std::string content_type = {};  ///< of the body
  std::string accept = {};
  std::string last_event_id = {};
  std::string if_none_match = {};  ///< an entity tag as HttpAnswer::etag has it
  std::string secret = {};         ///< of a server over TCP; sent as a bearer token
  std::string body = {};
  double timeout_seconds = 30;  ///< for all of it; of a followed stream: of silence
};

/// One connection to a server, kept alive between calls. Used by one thread at a time.
class Connection {
 public:
  /// `calls`: what may end this one and all on the connection; null: nobody does. Errors: unavailable (nobody serves
  /// there; the message says where and why), timeout, cancelled, invalid_argument (no IP address, or one of another
  /// machine that is not trusted).
  static Result<std::unique_ptr<Connection>> open(const ServerAddress& address, double timeout_seconds,
                                                  std::shared_ptr<const CallsUnderWay> calls = {});
  ~Connection();

  /// Errors: unavailable (the connection broke; `fresh()` tells whether that may be because it was old), timeout,
  /// cancelled, parse (not HTTP), resource_exhausted (a huge answer).
  Result<HttpAnswer> call(const HttpCall& call);

  /// Calls `sink` with every piece of a stream's body until the stream ends or `sink` returns false. An answer other
  /// than 200 is returned whole instead. Errors as above.
  Result<HttpAnswer> follow(const HttpCall& call, const std::function<bool(std::string_view)>& sink);

  /// Whether no call was answered on it yet.
  [[nodiscard]] bool fresh() const;
  /// Whether another call can be made on it.
  [[nodiscard]] bool reusable() const;

 private:
  struct State;
  explicit Connection(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace stitch::client
