#pragma once

#include <utility>  // before the next, which uses std::exchange and in Boost 1.74 does not include it

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "daemon/jobs/notifier.h"
#include "graph/codec/codec.h"

// Requests and replies as the routes see them: no sockets. daemon/http/http_server.h carries them over HTTP/1.1.
namespace stitch::daemon::http {

struct Request {
  std::string method;  ///< "GET"
  std::string target;  ///< as sent: "/v1/jobs?state=queued"
  std::string content_type;
  std::string accept;
  std::string last_event_id;
  std::string if_none_match;  ///< entity tags of what the client has: "\"5f…\""
  std::string body;
  /// When its first byte was there: what a caller is willing to wait begins then.
  std::chrono::steady_clock::time_point arrived = std::chrono::steady_clock::now();
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
  std::shared_ptr<const std::string> kept = {};  ///< the body, where it is kept for others too; `body` is empty then

  [[nodiscard]] const std::string& bytes() const { return kept ? *kept : body; }
};

/// How a reply that is not ready yet waits, without holding a thread. The connection that it is for hands it to the
/// reply's coroutine, which runs on the connection's strand: nothing in it may block outside work().
class Waiter {
 public:
  virtual ~Waiter() = default;
  /// Suspends until the notifier's count is greater than `seen`, or until the deadline has passed. False: nobody waits
  /// for the reply any more (the peer has gone, or the server stops), and the coroutine must end. The notifier must
  /// outlive the wait.
  virtual boost::asio::awaitable<bool> wait(Notifier& notifier, std::int64_t seen, Notifier::Deadline until) = 0;
  /// Suspends until the task has run, on a thread where it may block for a while (the store is asked).
  virtual boost::asio::awaitable<void> work(std::function<void()> task) = 0;
};

/// A reply that waits for something. Nothing: it was told that nobody waits for it. The function object lives until its
/// coroutine has ended.
using Pending = std::function<boost::asio::awaitable<std::optional<Response>>(Waiter&)>;

/// Takes the parts of a stream. While the stream waits, signs of life are sent.
class StreamWriter : public Waiter {
 public:
  /// False: the peer takes nothing any more, and the coroutine must end.
  virtual boost::asio::awaitable<bool> send(std::string bytes) = 0;
};

/// A reply of unknown length: what `run` sends until it ends.
struct Stream {
  std::string content_type = "text/event-stream";
  std::string idle;  ///< sent when nothing was sent for a while, so that a dead peer is noticed
  std::function<boost::asio::awaitable<void>(StreamWriter&)> run;
};

using Reply = std::variant<Response, Pending, Stream>;
/// Called on threads that may block for a while.
using Handler = std::function<Reply(const Request&)>;
/// Answers what can be answered without blocking, and nothing else; called on the threads that read and write. What it
/// leaves is the handler's.
using QuickHandler = std::function<std::optional<Response>(const Request&)>;

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
/// "Application/CBOR; q=1" → "application/cbor".
std::string media_type(std::string_view text);
/// Whether an If-None-Match names the entity tag, or any ("*"); weak tags count (RFC 9110, section 13.1.2).
bool has_tag(std::string_view if_none_match, std::string_view tag);

/// HTTP status for a failure of this kind.
int status_of(ErrorKind kind);
/// A response that carries the error; resource_exhausted and unavailable say when to try again.
Response error_response(int status, const Error& error, graph::Encoding encoding);
Response error_response(const Error& error, graph::Encoding encoding);

}  // namespace stitch::daemon::http
