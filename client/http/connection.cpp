#include "client/http/connection.h"

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <charconv>
#include <chrono>
#include <thread>

#include "api/protocol.h"
#include "base/private_folder.h"
#include "base/version.h"

namespace stitch::client {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace wire = boost::beast::http;
using boost::system::error_code;

namespace {

constexpr std::uint64_t largest_answer = std::uint64_t{1} << 30;
/// How often a call that waits looks whether it is to end.
constexpr std::chrono::milliseconds glance{100};

std::string describe(const ServerAddress& address) {
  return address.socket.empty() ? fmt::format("http://{}:{}", address.host, address.port)
                                : fmt::format("unix://{}", address.socket);
}

}  // namespace

Result<ServerAddress> parse_address(std::string_view text) {
  constexpr std::string_view local = "unix://", network = "http://";
  ServerAddress address;
  if (text.starts_with(local)) {
    address.socket = text.substr(local.size());
    if (!address.socket.starts_with('/')) {
      return make_error(ErrorKind::invalid_argument, "server '{}': the socket's path is not absolute", text);
    }
    return address;
  }
  if (!text.starts_with(network)) {
    return make_error(ErrorKind::invalid_argument, "server '{}': neither unix://PATH nor http://HOST:PORT", text);
  }
  std::string_view rest = text.substr(network.size());
  if (rest.ends_with('/')) rest.remove_suffix(1);
  const std::size_t colon = rest.rfind(':');
  const std::string_view digits = colon == std::string_view::npos ? "" : rest.substr(colon + 1);
  const auto [end, wrong] = std::from_chars(digits.data(), digits.data() + digits.size(), address.port);
  if (wrong != std::errc() || end != digits.data() + digits.size() || address.port < 1 || address.port > 65535) {
    return make_error(ErrorKind::invalid_argument, "server '{}': no port", text);
  }
  std::string_view host = rest.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  address.host = host == "localhost" ? "127.0.0.1" : host;
  return address;
}

struct Connection::State {
  State(ServerAddress to, std::shared_ptr<const CallsUnderWay> with)
      : address(std::move(to)), calls(std::move(with)), stream(context) {
    buffer.reserve(std::size_t{64} << 10);
  }

  ServerAddress address;
  std::shared_ptr<const CallsUnderWay> calls;  ///< null: nobody ends them
  asio::io_context context;
  beast::basic_stream<asio::generic::stream_protocol> stream;
  beast::flat_buffer buffer;  ///< as large as one read is to be: without room it reads 512 bytes at a time
  bool answered = false;
  bool open = true;

  Status connect(double seconds);
  /// Starts an asynchronous operation and runs it to its end; the stream's expiry bounds it.
  template <class Start>
  error_code wait(double seconds, const Start& start) {
    error_code result;
    stream.expires_after(std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds)));
    start([&result](const error_code& error, auto...) { result = error; });
    context.restart();
    while (!context.stopped()) {
      context.run_for(glance);
      if (context.stopped() || !ended()) continue;
      stream.cancel();
      context.run();
    }
    return result;
  }
  [[nodiscard]] bool ended() const { return calls != nullptr && calls->ended(); }
  Error broken(const error_code& error, const HttpCall& call);
  Status send(const HttpCall& call);
};

Status Connection::State::connect(double seconds) {
  error_code error;
  asio::generic::stream_protocol::endpoint there;
  if (!address.socket.empty()) {
    if (address.socket.size() > 107) {
      return make_error(ErrorKind::invalid_argument, "{}: the path is too long for a socket", describe(address));
    }
    // Whoever serves there sends machine code, and anybody may have made a folder in /tmp first.
    const std::filesystem::path path = address.socket;
    if (path == api::default_socket_path()) STITCH_TRY(check_private_folder(path.parent_path()));
    there = asio::local::stream_protocol::endpoint(address.socket);
  } else {
    const asio::ip::address host = asio::ip::make_address(address.host, error);
    if (error) return make_error(ErrorKind::invalid_argument, "{}: not an IP address", describe(address));
    if (!host.is_loopback() && !address.trusted) {
      return make_error(
          ErrorKind::invalid_argument,
          "{}: not this machine, and plans are machine code that would come over plain HTTP: use a tunnel, "
          "or allow it (ClientOptions::allow_remote, STITCH_ALLOW_REMOTE=1)",
          describe(address));
    }
    there = asio::ip::tcp::endpoint(host, static_cast<unsigned short>(address.port));
  }
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (true) {
    error = wait(seconds, [&](auto done) { stream.async_connect(there, done); });
    if (!error) return {};
    // Linux does not queue a connect to a Unix-domain socket whose backlog is full: it answers EAGAIN, which Asio
    // calls no_buffer_space.
    if (error != asio::error::no_buffer_space) break;
    error = beast::error::timeout;
    if (std::chrono::steady_clock::now() >= until || ended()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  if (ended()) return make_error(ErrorKind::cancelled, "stitchd at {}: calls to servers were ended", describe(address));
  if (error == beast::error::timeout)
    return make_error(ErrorKind::timeout, "stitchd at {}: no connection within {} s", describe(address), seconds);
  return make_error(ErrorKind::unavailable, "no stitchd at {}: {}", describe(address), error.message());
}

Error Connection::State::broken(const error_code& error, const HttpCall& call) {
  open = false;
  const std::string where = fmt::format("{} {} at {}", call.method, call.target, describe(address));
  if (ended()) return make_error(ErrorKind::cancelled, "{}: calls to servers were ended", where);
  if (error == beast::error::timeout) {
    return make_error(ErrorKind::timeout, "{}: no answer within {} s", where, call.timeout_seconds);
  }
  if (error == wire::error::body_limit) return make_error(ErrorKind::resource_exhausted, "{}: huge answer", where);
  static const error_code any = wire::error::bad_method;
  if (error.category() == any.category() && error != wire::error::end_of_stream &&
      error != wire::error::partial_message) {
    return make_error(ErrorKind::parse, "{}: not HTTP/1.1: {}", where, error.message());
  }
  return make_error(ErrorKind::unavailable, "{}: the connection broke: {}", where, error.message());
}

Status Connection::State::send(const HttpCall& call) {
  wire::request<wire::string_body> request(wire::verb::unknown, call.target, 11);
  request.method_string(call.method);
  request.set(wire::field::host, address.socket.empty() ? fmt::format("localhost:{}", address.port) : "localhost");
  request.set(wire::field::user_agent, "libstitch/" + std::string(tool_version));
  if (!call.secret.empty()) request.set(wire::field::authorization, "Bearer " + call.secret);
  if (!call.content_type.empty()) request.set(wire::field::content_type, call.content_type);
  if (!call.accept.empty()) request.set(wire::field::accept, call.accept);
  if (!call.last_event_id.empty()) request.set("Last-Event-ID", call.last_event_id);
  if (!call.if_none_match.empty()) request.set(wire::field::if_none_match, '"' + call.if_none_match + '"');
  request.body() = call.body;
  request.prepare_payload();
  const error_code error = wait(call.timeout_seconds, [&](auto done) { wire::async_write(stream, request, done); });
  // A server that refuses a body stops reading it, and its answer explains why.
  if (error && error != asio::error::broken_pipe && error != asio::error::connection_reset) return broken(error, call);
  return {};
}

Connection::Connection(std::unique_ptr<State> state) : state_(std::move(state)) {}
Connection::~Connection() = default;
bool Connection::fresh() const { return !state_->answered; }
bool Connection::reusable() const { return state_->open; }

Result<std::unique_ptr<Connection>> Connection::open(const ServerAddress& address, double timeout_seconds,
                                                     std::shared_ptr<const CallsUnderWay> calls) {
  auto state = std::make_unique<State>(address, std::move(calls));
  STITCH_TRY(state->connect(timeout_seconds));
  return std::unique_ptr<Connection>(new Connection(std::move(state)));
}

Result<HttpAnswer> Connection::call(const HttpCall& call) {
  State& state = *state_;
  STITCH_TRY(state.send(call));
  wire::response_parser<wire::string_body> parser;
  parser.body_limit(largest_answer);
  const error_code error =
      state.wait(call.timeout_seconds, [&](auto done) { wire::async_read(state.stream, state.buffer, parser, done); });
  if (error) return state.broken(error, call);
  state.answered = true;
  state.open = parser.get().keep_alive();
  auto message = parser.release();
  const auto type = message[wire::field::content_type];
  HttpAnswer answer{static_cast<int>(message.result_int()), {type.data(), type.size()}, std::move(message.body())};
  const auto tag = message[wire::field::etag];
  if (tag.size() >= 2 && tag.front() == '"') answer.etag.assign(tag.data() + 1, tag.size() - 2);
  return answer;
}

Result<HttpAnswer> Connection::follow(const HttpCall& call, const std::function<bool(std::string_view)>& sink) {
  State& state = *state_;
  STITCH_TRY(state.send(call));
  wire::response_parser<wire::string_body> parser;
  parser.body_limit(boost::none);
  error_code error = state.wait(call.timeout_seconds,
                                [&](auto done) { wire::async_read_header(state.stream, state.buffer, parser, done); });
  if (error) return state.broken(error, call);
  state.answered = true;
  const auto type = parser.get()[wire::field::content_type];
  HttpAnswer answer{static_cast<int>(parser.get().result_int()), {type.data(), type.size()}, {}};
  while (!parser.is_done()) {
    error = state.wait(call.timeout_seconds,
                       [&](auto done) { wire::async_read_some(state.stream, state.buffer, parser, done); });
    if (error) return state.broken(error, call);
    if (answer.status != 200) continue;
    const std::string piece = std::move(parser.get().body());
    parser.get().body().clear();
    if (!piece.empty() && !sink(piece)) break;
  }
  state.open = parser.is_done() && parser.get().keep_alive();
  if (answer.status != 200) answer.body = std::move(parser.get().body());
  return answer;
}

}  // namespace stitch::client
