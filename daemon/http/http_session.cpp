#include "daemon/http/http_session.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <exception>

#include "daemon/http/admission.h"
#include "daemon/http/http_messages.h"
#include "daemon/http/on_pool.h"

namespace stitch::daemon {

namespace asio = boost::asio;
namespace beast = boost::beast;
using boost::system::error_code;
using RequestParser = wire::request_parser<CountedBody>;

namespace {

std::chrono::steady_clock::duration seconds(double value) {
  return std::chrono::duration_cast<OpenConnection::Duration>(std::chrono::duration<double>(value));
}

http::Response internal_error(const char* what) {
  return http::error_response({ErrorKind::internal, what}, graph::Encoding::json);
}

std::optional<http::Response> quick_answer(const http::QuickHandler& quick, const http::Request& request) {
  try {
    return quick(request);
  } catch (const std::exception& exception) {
    return internal_error(exception.what());
  }
}

}  // namespace

/// All its coroutines, and what they are woken by, run on one thread: that of its socket's executor.
class HttpSession final : public OpenConnection,
                          public std::enable_shared_from_this<HttpSession>,
                          private http::StreamWriter {
 public:
  HttpSession(asio::generic::stream_protocol::socket socket, HttpShared& shared, bool check_sender, Admission admission)
      : OpenConnection(admission),
        socket_(std::move(socket)),
        shared_(shared),
        check_sender_(check_sender),
        buffer_(shared.limits.header_bytes + most_read_ahead),
        alarm_(socket_.get_executor()) {
    begin_waiting();
    expire_after(shared.limits.idle_seconds);
  }

  asio::awaitable<void> run();

  void close(Closing which) override {
    asio::post(socket_.get_executor(), [self = shared_from_this(), which] {
      const bool closes = which == Closing::all || (which == Closing::waiting && self->is_waiting()) ||
                          (which == Closing::late && self->is_late(std::chrono::steady_clock::now()));
      error_code ignored;
      if (closes) self->socket_.close(ignored);
      self->set_leaving(false);
      self->alarm_.cancel();
    });
  }
  [[nodiscard]] auto executor() { return socket_.get_executor(); }

 private:
  asio::awaitable<bool> wait_for_request();
  asio::awaitable<bool> serve_one();
  asio::awaitable<error_code> read(RequestParser& parser, bool whole);
  asio::awaitable<error_code> read_body(RequestParser& parser);
  asio::awaitable<error_code> write(std::string_view head, std::string_view body);
  asio::awaitable<bool> answer(http::Reply reply, unsigned version, bool keep_alive, bool is_head);
  asio::awaitable<std::optional<http::Response>> await_response(const http::Pending& pending);
  asio::awaitable<bool> send(const http::Response& response, unsigned version, bool keep_alive, bool is_head);
  asio::awaitable<bool> send_stream(const http::Stream& stream);
  asio::awaitable<bool> send_chunk(const std::string& bytes);
  asio::awaitable<bool> refuse_full(unsigned version, bool is_head);
  void watch_peer();
  void stop_watching();
  [[nodiscard]] bool peer_is_gone();

  asio::awaitable<bool> wait(Notifier& notifier, std::int64_t seen, Notifier::Deadline until) override;
  asio::awaitable<void> work(std::function<void()> task) override;
  asio::awaitable<bool> send(std::string bytes) override;

  asio::generic::stream_protocol::socket socket_;
  HttpShared& shared_;
  const bool check_sender_;
  beast::flat_buffer buffer_;
  std::chrono::steady_clock::time_point arrived_;  ///< first byte of the request that is served
  asio::steady_timer alarm_;                       ///< what a waiting reply sleeps by; cancelled to wake it
  std::int64_t round_ = 0;  ///< number of the wait: a wake that comes late is not taken for one of the next
  bool woken_ = false;      ///< by the notifier, in this round
  bool watching_ = false;   ///< whether the peer is watched, by this reply
  const std::string* heartbeat_ = nullptr;      ///< what a stream sends as a sign of life; null: there is no stream
  std::chrono::steady_clock::time_point sent_;  ///< when a part of the stream was last sent
  bool broken_ = false;                         ///< the peer takes no more of the stream
};

asio::awaitable<void> HttpSession::run() {
  error_code ignored;
  socket_.non_blocking(true, ignored);
  if (admission() == Admission::refused) {
    co_await refuse_full(11, false);
  } else {
    while (!shared_.stopping) {
      if (!co_await wait_for_request()) break;
      arrived_ = std::chrono::steady_clock::now();
      if (!co_await serve_one()) break;
    }
  }
  socket_.shutdown(asio::socket_base::shutdown_both, ignored);
}

asio::awaitable<bool> HttpSession::refuse_full(unsigned version, bool is_head) {
  const auto error = make_error(ErrorKind::resource_exhausted, "{} connections are open", shared_.limits.connections);
  co_return co_await send(http::error_response(503, error, graph::Encoding::json), version, false, is_head);
}

/// Waits for a request's first bytes; false when the peer has gone or has been silent for too long.
asio::awaitable<bool> HttpSession::wait_for_request() {
  constexpr std::size_t usual_request = 16 * 1024;
  if (buffer_.size() > 0) co_return true;
  begin_waiting();
  expire_after(admission() == Admission::open ? shared_.limits.idle_seconds : shared_.limits.header_seconds);
  error_code error;
  const std::size_t size = co_await socket_.async_read_some(buffer_.prepare(usual_request),
                                                            asio::redirect_error(asio::use_awaitable, error));
  buffer_.commit(size);
  co_return !error;
}

/// Feeds the parser with what was read ahead, and reads more while it needs more: until the header has ended, or all.
asio::awaitable<error_code> HttpSession::read(RequestParser& parser, bool whole) {
  error_code error;
  while (whole ? !parser.is_done() : !parser.is_header_done()) {
    if (buffer_.size() > 0) {
      buffer_.consume(parser.put(buffer_.data(), error));
      if (!error) continue;
      if (error != wire::error::need_more) co_return error;
    }
    const std::size_t room = std::min(buffer_.max_size() - buffer_.size(), most_read_ahead);
    if (room == 0) co_return wire::error::buffer_overflow;
    error = {};
    const std::size_t size =
        co_await socket_.async_read_some(buffer_.prepare(room), asio::redirect_error(asio::use_awaitable, error));
    buffer_.commit(size);
    if (error == asio::error::eof && parser.got_some()) {
      error = {};
      parser.put_eof(error);
      if (!error && !parser.is_done()) error = wire::error::partial_message;
    }
    if (error) co_return error;
  }
  co_return error_code();
}

/// Reads the rest of a request whose header has arrived.
asio::awaitable<error_code> HttpSession::read_body(RequestParser& parser) {
  if (parser.is_done()) co_return error_code();
  if (beast::iequals(parser.get()[wire::field::expect], "100-continue")) {
    const error_code error = co_await write("HTTP/1.1 100 Continue\r\n\r\n", {});
    if (error) co_return error;
  }
  expire_after(shared_.limits.body_seconds);
  co_return co_await read(parser, true);
}

/// One request and its answer; whether the connection goes on.
asio::awaitable<bool> HttpSession::serve_one() {
  BodyShare share(shared_.bodies);
  RequestParser parser;
  parser.header_limit(static_cast<std::uint32_t>(shared_.limits.header_bytes));
  parser.body_limit(static_cast<std::uint64_t>(shared_.limits.body_bytes));
  parser.get().body().share = &share;
  begin_waiting();  // it has until now: who is in the midst of a header is not the one who is silent for longest
  expire_after(shared_.limits.header_seconds);
  error_code error = co_await read(parser, false);
  end_waiting();
  if (!error && admission() == Admission::reserved && text_of(parser.get().target()) != reserved_target) {
    co_return co_await refuse_full(parser.get().version(), parser.get().method() == wire::verb::head);
  }
  if (!error && check_sender_) {
    // Before the body: who may not ask is not listened to.
    if (const std::optional<http::Response> refusal = refusal_of(parser.get(), shared_.secret)) {
      co_await send(*refusal, parser.get().version(), false, parser.get().method() == wire::verb::head);
      co_return false;
    }
  }
  if (!error) error = co_await read_body(parser);
  if (error) {
    const http::Response refusal = refusal_of(error, shared_.limits);
    if (refusal.status != 0) co_await send(refusal, 11, false, false);
    co_return false;
  }
  expire_never();
  const unsigned version = parser.get().version();
  const bool keep_alive = parser.get().keep_alive() && admission() == Admission::open;
  const bool is_head = parser.get().method() == wire::verb::head;
  http::Request request = request_of(parser.release());
  request.arrived = arrived_;
  if (shared_.quick) {
    const std::optional<http::Response> response = quick_answer(shared_.quick, request);
    if (response) co_return co_await send(*response, version, keep_alive, is_head);
  }
  auto work = [&handler = shared_.handler, request = std::move(request)]() -> http::Reply {
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
  co_return co_await send(std::get<http::Response>(reply), version, keep_alive, is_head);
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
  pollfd closed{socket_.native_handle(), POLLRDHUP, 0};
  return ::poll(&closed, 1, 0) == 1;
}

/// Wakes the waiting reply when the peer closes its end. It is also woken when the peer sends its next request, and is
/// not told of the end behind that.
void HttpSession::watch_peer() {
  if (watching_) return;
  watching_ = true;
  socket_.async_wait(asio::socket_base::wait_read,
                     [self = shared_from_this()](const error_code&) { self->alarm_.cancel(); });
}

/// To be called before anything is read again.
void HttpSession::stop_watching() {
  error_code ignored;
  if (watching_) socket_.cancel(ignored);
  watching_ = false;
}

/// Who has sent something that is not read yet is asked once a second whether it is still there.
asio::awaitable<bool> HttpSession::wait(Notifier& notifier, std::int64_t seen, Notifier::Deadline until) {
  woken_ = false;
  const auto wake = [self = shared_from_this(), round = ++round_] {
    asio::post(self->socket_.get_executor(), [self, round] {
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

/// Head and body in one system call where the peer takes them at once, as it nearly always does.
asio::awaitable<error_code> HttpSession::write(std::string_view head, std::string_view body) {
  expire_after(shared_.limits.write_seconds);
  const std::array<asio::const_buffer, 2> parts = {asio::buffer(head), asio::buffer(body)};
  error_code error;
  std::size_t sent = socket_.write_some(parts, error);
  if (error && error != asio::error::would_block) co_return error;
  error = {};
  for (const std::string_view part : {head, body}) {
    const std::size_t taken = std::min(sent, part.size());
    sent -= taken;
    if (taken == part.size()) continue;
    co_await asio::async_write(socket_, asio::buffer(part.substr(taken)),
                               asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return error;
  }
  expire_never();
  co_return error;
}

asio::awaitable<bool> HttpSession::send(const http::Response& response, unsigned version, bool keep_alive,
                                        bool is_head) {
  const bool goes_on = keep_alive && !shared_.stopping;
  const std::string head = head_of(response, version, goes_on);
  const error_code error = co_await write(head, is_head ? std::string_view() : response.bytes());
  co_return goes_on && !error;
}

asio::awaitable<bool> HttpSession::send_chunk(const std::string& bytes) {
  sent_ = std::chrono::steady_clock::now();
  const std::string head = fmt::format("{:x}\r\n", bytes.size());
  const std::string body = bytes + "\r\n";
  const error_code error = co_await write(head, body);
  co_return !error;
}

asio::awaitable<bool> HttpSession::send_stream(const http::Stream& stream) {
  const std::string head = head_of(stream);
  if (co_await write(head, {})) co_return false;
  heartbeat_ = &stream.idle;
  sent_ = std::chrono::steady_clock::now();
  try {
    co_await stream.run(*this);
  } catch (const std::exception&) {
    broken_ = true;  // what is told so far may be half of it: no proper end
  }
  stop_watching();
  if (broken_ || peer_is_gone()) co_return false;
  co_await write("0\r\n\r\n", {});
  co_return false;
}

void serve_connection(asio::generic::stream_protocol::socket socket, HttpShared& shared, HttpSessions& sessions,
                      bool check_sender, Admission admission) {
  auto session = std::make_shared<HttpSession>(std::move(socket), shared, check_sender, admission);
  sessions.add(session);
  asio::co_spawn(
      session->executor(), [session] { return session->run(); },
      [session, &sessions](std::exception_ptr) { sessions.remove(session); });
}

}  // namespace stitch::daemon
