#include "daemon/http/http_session.h"

#include <poll.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <exception>

#include "daemon/http/admission.h"
#include "daemon/http/http_messages.h"

namespace stitch::daemon {

namespace asio = boost::asio;
namespace beast = boost::beast;
using boost::system::error_code;
using ByteStream = beast::basic_stream<asio::generic::stream_protocol>;
using RequestParser = wire::request_parser<wire::string_body>;

namespace {

std::chrono::steady_clock::duration seconds(double value) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(value));
}

/// Runs `work` on the pool and comes back with its result.
template <class Work>
asio::awaitable<std::invoke_result_t<Work>> on_pool(asio::thread_pool& pool, Work work) {
  using Value = std::invoke_result_t<Work>;
  auto initiation = [&pool](auto handler, Work task) {
    asio::post(pool, [handler = std::move(handler), task = std::move(task)]() mutable {
      Value value = task();
      auto executor = asio::get_associated_executor(handler);
      asio::post(executor, [handler = std::move(handler), value = std::move(value)]() mutable {
        std::move(handler)(std::move(value));
      });
    });
  };
  co_return co_await asio::async_initiate<const asio::use_awaitable_t<>&, void(Value)>(initiation, asio::use_awaitable,
                                                                                       std::move(work));
}

http::Response internal_error(const char* what) {
  return http::error_response({ErrorKind::internal, what}, graph::Encoding::json);
}

/// Holds part of the memory that bodies may take together.
class BodyBudget {
 public:
  explicit BodyBudget(HttpShared& shared) : shared_(shared) {}
  BodyBudget(const BodyBudget&) = delete;
  BodyBudget& operator=(const BodyBudget&) = delete;
  ~BodyBudget() { shared_.buffered_bytes -= held_; }

  bool take(std::int64_t bytes) {
    held_ += bytes;
    return (shared_.buffered_bytes += bytes) <= shared_.limits.buffered_bytes;
  }

 private:
  HttpShared& shared_;
  std::int64_t held_ = 0;
};

}  // namespace

/// All its coroutines, and what they are woken by, run on one strand.
class HttpSession final : public std::enable_shared_from_this<HttpSession>, private http::StreamWriter {
 public:
  HttpSession(asio::generic::stream_protocol::socket socket, HttpShared& shared, bool check_sender)
      : stream_(std::move(socket)),
        shared_(shared),
        check_sender_(check_sender),
        buffer_(shared.limits.header_bytes + most_read_ahead),
        alarm_(stream_.get_executor()) {}

  asio::awaitable<void> run();
  asio::awaitable<void> turn_away();

  /// From any thread.
  void close(bool only_idle) {
    asio::post(stream_.get_executor(), [self = shared_from_this(), only_idle] {
      if (!only_idle || self->idle_) self->stream_.close();
      self->alarm_.cancel();
    });
  }
  [[nodiscard]] auto executor() { return stream_.get_executor(); }

 private:
  asio::awaitable<bool> wait_for_request();
  asio::awaitable<bool> serve_one();
  asio::awaitable<error_code> read_body(RequestParser& parser, BodyBudget& budget, bool& over_budget);
  asio::awaitable<bool> answer(http::Reply reply, unsigned version, bool keep_alive, bool is_head);
  asio::awaitable<std::optional<http::Response>> await_response(const http::Pending& pending);
  asio::awaitable<bool> send(http::Response response, unsigned version, bool keep_alive, bool is_head);
  asio::awaitable<bool> send_stream(const http::Stream& stream);
  asio::awaitable<bool> send_chunk(const std::string& bytes);
  void watch_peer();
  void stop_watching();
  [[nodiscard]] bool peer_is_gone();

  asio::awaitable<bool> wait(Notifier& notifier, std::int64_t seen, Notifier::Deadline until) override;
  asio::awaitable<void> work(std::function<void()> task) override;
  asio::awaitable<bool> send(std::string bytes) override;

  ByteStream stream_;
  HttpShared& shared_;
  const bool check_sender_;
  beast::flat_buffer buffer_;
  bool idle_ = false;
  asio::steady_timer alarm_;  ///< what a waiting reply sleeps by; cancelled to wake it
  std::int64_t round_ = 0;    ///< number of the wait: a wake that comes late is not taken for one of the next
  bool woken_ = false;        ///< by the notifier, in this round
  bool watching_ = false;     ///< whether the peer is watched, by this reply
  const std::string* heartbeat_ = nullptr;      ///< what a stream sends as a sign of life; null: there is no stream
  std::chrono::steady_clock::time_point sent_;  ///< when a part of the stream was last sent
  bool broken_ = false;                         ///< the peer takes no more of the stream
};

asio::awaitable<void> HttpSession::run() {
  while (!shared_.stopping) {
    if (!co_await wait_for_request()) break;
    if (!co_await serve_one()) break;
  }
  error_code ignored;
  stream_.socket().shutdown(asio::socket_base::shutdown_both, ignored);
}

asio::awaitable<void> HttpSession::turn_away() {
  const auto error = make_error(ErrorKind::resource_exhausted, "{} connections are open", shared_.limits.connections);
  co_await send(http::error_response(503, error, graph::Encoding::json), 11, false, false);
}

/// Waits for a request's first bytes; false when the peer has gone or has been silent for too long.
asio::awaitable<bool> HttpSession::wait_for_request() {
  if (buffer_.size() > 0) co_return true;
  error_code error;
  idle_ = true;
  stream_.expires_after(seconds(shared_.limits.idle_seconds));
  const std::size_t size =
      co_await stream_.async_read_some(buffer_.prepare(4096), asio::redirect_error(asio::use_awaitable, error));
  idle_ = false;
  buffer_.commit(size);
  co_return !error;
}

/// Reads the rest of a request whose header has arrived.
asio::awaitable<error_code> HttpSession::read_body(RequestParser& parser, BodyBudget& budget, bool& over_budget) {
  error_code error;
  const auto length = parser.content_length();
  const std::int64_t expected = length             ? static_cast<std::int64_t>(*length)
                                : parser.chunked() ? shared_.limits.body_bytes
                                                   : 0;
  over_budget = !budget.take(expected);
  if (over_budget) co_return error;
  if (beast::iequals(parser.get()[wire::field::expect], "100-continue")) {
    const wire::response<wire::empty_body> go_on(wire::status::continue_, parser.get().version());
    co_await wire::async_write(stream_, go_on, asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return error;
  }
  stream_.expires_after(seconds(shared_.limits.body_seconds));
  co_await wire::async_read(stream_, buffer_, parser, asio::redirect_error(asio::use_awaitable, error));
  co_return error;
}

/// One request and its answer; whether the connection goes on.
asio::awaitable<bool> HttpSession::serve_one() {
  RequestParser parser;
  parser.header_limit(static_cast<std::uint32_t>(shared_.limits.header_bytes));
  parser.body_limit(static_cast<std::uint64_t>(shared_.limits.body_bytes));
  error_code error;
  stream_.expires_after(seconds(shared_.limits.header_seconds));
  co_await wire::async_read_header(stream_, buffer_, parser, asio::redirect_error(asio::use_awaitable, error));
  if (!error && check_sender_) {
    // Before the body: who may not ask is not listened to.
    if (std::optional<http::Response> refusal = refusal_of(parser.get(), shared_.secret)) {
      co_await send(*std::move(refusal), parser.get().version(), false, parser.get().method() == wire::verb::head);
      co_return false;
    }
  }
  BodyBudget budget(shared_);
  bool over_budget = false;
  if (!error) error = co_await read_body(parser, budget, over_budget);
  if (error) {
    http::Response refusal = refusal_of(error, shared_.limits);
    if (refusal.status != 0) co_await send(std::move(refusal), 11, false, false);
    co_return false;
  }
  const unsigned version = parser.get().version();
  if (over_budget) {
    const auto full = make_error(ErrorKind::resource_exhausted, "too many large requests at once");
    co_await send(http::error_response(503, full, graph::Encoding::json), version, false, false);
    co_return false;
  }
  const bool keep_alive = parser.get().keep_alive();
  const bool is_head = parser.get().method() == wire::verb::head;
  auto work = [&handler = shared_.handler, request = request_of(parser.release())]() -> http::Reply {
    try {
      return handler(request);
    } catch (const std::exception& exception) {
      return internal_error(exception.what());
    }
  };
  http::Reply reply = co_await on_pool(shared_.pool, std::move(work));
  co_return co_await answer(std::move(reply), version, keep_alive, is_head);
}

asio::awaitable<bool> HttpSession::answer(http::Reply reply, unsigned version, bool keep_alive, bool is_head) {
  if (const auto* pending = std::get_if<http::Pending>(&reply)) {
    std::optional<http::Response> response = co_await await_response(*pending);
    if (!response && (!shared_.stopping || peer_is_gone())) co_return false;
    reply = response
                ? *std::move(response)
                : http::error_response({ErrorKind::unavailable, "the server is shutting down"}, graph::Encoding::json);
  }
  if (const auto* stream = std::get_if<http::Stream>(&reply)) {
    if (version >= 11 && !is_head) co_return co_await send_stream(*stream);
    const auto old = make_error(ErrorKind::unsupported, "streams need HTTP/1.1");
    reply = http::error_response(400, old, graph::Encoding::json);
  }
  co_return co_await send(std::get<http::Response>(std::move(reply)), version, keep_alive, is_head);
}

asio::awaitable<std::optional<http::Response>> HttpSession::await_response(const http::Pending& pending) {
  std::optional<http::Response> response;
  try {
    response = co_await pending(*this);
  } catch (const std::exception& exception) {
    response = internal_error(exception.what());
  }
  stop_watching();
  co_return response;
}

// ---- waiting for something other than the peer

/// Nothing is read while an answer is awaited, so that only asking shows a peer that waits no longer.
bool HttpSession::peer_is_gone() {
  pollfd closed{stream_.socket().native_handle(), POLLRDHUP, 0};
  return ::poll(&closed, 1, 0) == 1;
}

/// Wakes the waiting reply when the peer closes its end. It is also woken when the peer sends its next request, and is
/// not told of the end behind that.
void HttpSession::watch_peer() {
  if (watching_) return;
  watching_ = true;
  stream_.socket().async_wait(asio::socket_base::wait_read,
                              [self = shared_from_this()](const error_code&) { self->alarm_.cancel(); });
}

/// To be called before anything is read again.
void HttpSession::stop_watching() {
  error_code ignored;
  if (watching_) stream_.socket().cancel(ignored);
  watching_ = false;
}

/// Who has sent something that is not read yet is asked once a second whether it is still there.
asio::awaitable<bool> HttpSession::wait(Notifier& notifier, std::int64_t seen, Notifier::Deadline until) {
  woken_ = false;
  const auto wake = [self = shared_from_this(), round = ++round_] {
    asio::post(self->stream_.get_executor(), [self, round] {
      if (round != self->round_) return;
      self->woken_ = true;
      self->alarm_.cancel();
    });
  };
  const Notifier::Subscription subscription = notifier.subscribe(seen, wake);
  watch_peer();
  while (true) {
    if (shared_.stopping || broken_ || peer_is_gone()) co_return false;
    const auto now = std::chrono::steady_clock::now();
    if (woken_ || now >= until) co_return true;
    auto next = std::min(until, now + seconds(1));
    if (heartbeat_ != nullptr) {
      const auto beat = sent_ + seconds(shared_.limits.heartbeat_seconds);
      if (now >= beat) {
        broken_ = !co_await send_chunk(*heartbeat_);
        continue;
      }
      next = std::min(next, beat);
    }
    alarm_.expires_at(next);
    error_code ignored;
    co_await alarm_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
}

asio::awaitable<void> HttpSession::work(std::function<void()> task) {
  std::exception_ptr thrown;
  auto guarded = [&task, &thrown] {
    try {
      task();
    } catch (...) {
      thrown = std::current_exception();
    }
    return true;
  };
  co_await on_pool(shared_.pool, std::move(guarded));
  if (thrown) std::rethrow_exception(thrown);
}

asio::awaitable<bool> HttpSession::send(std::string bytes) {
  if (!broken_) broken_ = !co_await send_chunk(bytes);
  co_return !broken_ && !shared_.stopping && !peer_is_gone();
}

// ---- answers

asio::awaitable<bool> HttpSession::send(http::Response response, unsigned version, bool keep_alive, bool is_head) {
  wire::response<wire::string_body> message = message_of(std::move(response), version, keep_alive && !shared_.stopping);
  if (is_head) message.body().clear();
  stream_.expires_after(seconds(shared_.limits.write_seconds));
  error_code error;
  wire::response_serializer<wire::string_body> serializer(message);
  if (is_head) {
    co_await wire::async_write_header(stream_, serializer, asio::redirect_error(asio::use_awaitable, error));
  } else {
    co_await wire::async_write(stream_, serializer, asio::redirect_error(asio::use_awaitable, error));
  }
  co_return message.keep_alive() && !error;
}

asio::awaitable<bool> HttpSession::send_chunk(const std::string& bytes) {
  sent_ = std::chrono::steady_clock::now();
  stream_.expires_after(seconds(shared_.limits.write_seconds));
  error_code error;
  co_await asio::async_write(stream_, wire::make_chunk(asio::buffer(bytes)),
                             asio::redirect_error(asio::use_awaitable, error));
  co_return !error;
}

asio::awaitable<bool> HttpSession::send_stream(const http::Stream& stream) {
  wire::response<wire::empty_body> head = stream_head(stream);
  error_code error;
  wire::response_serializer<wire::empty_body> serializer(head);
  stream_.expires_after(seconds(shared_.limits.write_seconds));
  co_await wire::async_write_header(stream_, serializer, asio::redirect_error(asio::use_awaitable, error));
  if (error) co_return false;
  heartbeat_ = &stream.idle;
  sent_ = std::chrono::steady_clock::now();
  try {
    co_await stream.run(*this);
  } catch (const std::exception&) {
    broken_ = true;  // what is told so far may be half of it: no proper end
  }
  stop_watching();
  if (broken_ || peer_is_gone()) co_return false;
  co_await asio::async_write(stream_, wire::make_chunk_last(), asio::redirect_error(asio::use_awaitable, error));
  co_return false;
}

// ---- all of them

void HttpSessions::add(const std::shared_ptr<HttpSession>& session) {
  const std::lock_guard lock(mutex_);
  sessions_.insert(session);
}

void HttpSessions::remove(const std::shared_ptr<HttpSession>& session) {
  const std::lock_guard lock(mutex_);
  sessions_.erase(session);
  ended_.notify_all();
}

bool HttpSessions::wait_for_end(std::chrono::steady_clock::time_point until) const {
  std::unique_lock lock(mutex_);
  return ended_.wait_until(lock, until, [&] { return sessions_.empty(); });
}

int HttpSessions::count() const {
  const std::lock_guard lock(mutex_);
  return std::ssize(sessions_);
}

void HttpSessions::close_idle() {
  const std::lock_guard lock(mutex_);
  for (const auto& session : sessions_) session->close(true);
}

void HttpSessions::close_all() {
  const std::lock_guard lock(mutex_);
  for (const auto& session : sessions_) session->close(false);
}

void serve_connection(asio::generic::stream_protocol::socket socket, HttpShared& shared, HttpSessions& sessions,
                      bool check_sender, bool full) {
  auto session = std::make_shared<HttpSession>(std::move(socket), shared, check_sender);
  sessions.add(session);
  asio::co_spawn(
      session->executor(), [session, full] { return full ? session->turn_away() : session->run(); },
      [session, &sessions](std::exception_ptr) { sessions.remove(session); });
}

}  // namespace stitch::daemon
