#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "graph/codec/codec.h"

// Requests and replies as the routes see them: no sockets. daemon/http/http_server.h carries them over HTTP/1.1.
namespace stitch::daemon::http {

struct Request {
  std::string method;  ///< "GET"
  std::string target;  ///< as sent: "/v1/jobs?state=queued"
  std::string content_type;
  std::string accept;
  std::string last_event_id;
  std::string body;
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
};

/// Asked again every few milliseconds until it answers. Never blocks.
using Pending = std::function<std::optional<Response>()>;

/// A reply of unknown length. Asked again every few dozen milliseconds until `finished`. Never blocks for long.
struct Stream {
  struct Part {
    std::string bytes;  ///< empty: nothing new
    bool finished = false;
  };
  std::string content_type = "text/event-stream";
  std::string idle;  ///< sent when nothing was sent for a while, so that a dead peer is noticed
  std::function<Part()> next;
};

using Reply = std::variant<Response, Pending, Stream>;

/// A request's target, taken apart and percent-decoded.
struct Target {
  std::string path;
  std::map<std::string, std::string> query;
};
/// Errors: invalid_argument (not absolute, a bad percent escape, a control character, a field twice).
Result<Target> parse_target(std::string_view target);

/// The encoding of a request's document by Content-Type (absent: JSON). Error: unsupported.
Result<graph::Encoding> encoding_of(std::string_view content_type);
/// The encoding of the answer: CBOR when Accept names application/cbor, else JSON.
graph::Encoding wanted_encoding(std::string_view accept);
std::string_view content_type_of(graph::Encoding encoding);

/// HTTP status for a failure of this kind.
int status_of(ErrorKind kind);
/// A response that carries the error; resource_exhausted and unavailable say when to try again.
Response error_response(int status, const Error& error, graph::Encoding encoding);
Response error_response(const Error& error, graph::Encoding encoding);

}  // namespace stitch::daemon::http
