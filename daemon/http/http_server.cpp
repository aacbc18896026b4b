#include "daemon/http/http_server.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

#include "api/protocol.h"
#include "base/private_folder.h"
#include "daemon/http/file_lock.h"
#include "daemon/http/http_session.h"

namespace stitch::daemon {

namespace asio = boost::asio;
using asio::ip::tcp;
using asio::local::stream_protocol;
using boost::system::error_code;

namespace {

using Executor = asio::io_context::executor_type;

/// "8080", "127.0.0.1:8080", "localhost:8080", "[::1]:8080".
Result<tcp::endpoint> parse_endpoint(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  std::string host = colon == std::string::npos ? "127.0.0.1" : text.substr(0, colon);
  const std::string_view digits = std::string_view(text).substr(colon == std::string::npos ? 0 : colon + 1);
  unsigned port = 0;
  const auto [end, wrong] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (wrong != std::errc() || end != digits.data() + digits.size() || port > 65535) {
    return make_error(ErrorKind::invalid_argument, "tcp address '{}': '{}' is not a port", text, digits);
  }
  if (host == "localhost") host = "127.0.0.1";
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  error_code error;
  const asio::ip::address address = asio::ip::make_address(host, error);
  if (error) return make_error(ErrorKind::invalid_argument, "tcp address '{}': '{}' is no IP address", text, host);
  if (!address.is_loopback()) {
    return make_error(
        ErrorKind::invalid_argument,
        "tcp address '{}' is not a loopback address: stitchd does not encrypt and serves this machine only", text);
  }
  return tcp::endpoint(address, static_cast<unsigned short>(port));
}

Error socket_error(std::string_view where, const error_code& error) {
  return make_error(ErrorKind::io, "{}: {}", where, error.message());
}

/// Removes a socket that a dead server left behind; the caller holds the lock beside it.
Status remove_stale(const std::filesystem::path& path) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) return {};
  if (!S_ISSOCK(found.st_mode)) {
    return make_error(ErrorKind::already_exists, "{}: there is a file that is not a socket", path.string());
  }
  if (::unlink(path.c_str()) == 0) return {};
  return make_error(ErrorKind::io, "{}: {}", path.string(), std::strerror(errno));
}

Result<stream_protocol::acceptor> listen_on(const Executor& executor, const std::filesystem::path& path) {
  constexpr std::size_t longest = 107;  // sockaddr_un::sun_path
  if (path.native().size() > longest) {
    return make_error(ErrorKind::invalid_argument, "socket path {} is longer than {} bytes", path.string(), longest);
  }
  STITCH_TRY(remove_stale(path));
  stream_protocol::acceptor acceptor(executor);
  error_code error;
  acceptor.open(stream_protocol(), error);
  // On Linux the file takes the mode of the descriptor, so that at no moment anybody else can connect.
  if (!error && ::fchmod(acceptor.native_handle(), 0600) != 0) error.assign(errno, boost::system::system_category());
  if (!error) acceptor.bind(stream_protocol::endpoint(path.string()), error);
  if (!error && ::chmod(path.c_str(), 0600) != 0) error.assign(errno, boost::system::system_category());
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) return socket_error(path.string(), error);
  return acceptor;
}

Result<tcp::acceptor> listen_on(const Executor& executor, const tcp::endpoint& endpoint) {
  tcp::acceptor acceptor(executor);
  error_code error;
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) return socket_error(fmt::format("{}:{}", endpoint.address().to_string(), endpoint.port()), error);
  return acceptor;
}

}  // namespace

/// A thread with its connections: they share nothing with those of other threads, so that no request waits for a lock
/// or wakes another thread.
struct IoThread {
  asio::io_context context{1};
  asio::executor_work_guard<Executor> work{context.get_executor()};
  std::thread thread;
};

struct HttpServer::State {
  State(HttpServerOptions with, Handler handler, http::QuickHandler quick)
      : options(std::move(with)),
        shared(options.limits, options.secret, std::move(handler), std::move(quick), options.handler_threads),
        io(static_cast<std::size_t>(std::max(1, options.io_threads))),
        look_around(accepting()) {}

  template <class Acceptor>
  void accept(Acceptor& acceptor, bool check_sender);
  void close_late();
  /// All that touches the acceptors, which are closed while they accept, happens on this thread.
  Executor accepting() { return io.front().context.get_executor(); }

  HttpServerOptions options;
  HttpShared shared;
  HttpSessions sessions;
  std::vector<IoThread> io;
  std::size_t next_io = 0;         ///< who gets the next connection
  asio::steady_timer look_around;  ///< for connections that have missed a time limit
  std::optional<FileLock> lock;    ///< beside the socket: whoever holds it may replace the socket
  std::optional<stream_protocol::acceptor> local;
  std::optional<tcp::acceptor> network;
  int port = 0;
  bool running = false;
};

template <class Acceptor>
void HttpServer::State::accept(Acceptor& acceptor, bool check_sender) {
  const asio::any_io_executor executor = io[next_io++ % io.size()].context.get_executor();
  acceptor.async_accept(executor, [this, &acceptor, check_sender](const error_code& error, auto socket) {
    if (shared.stopping || error == asio::error::operation_aborted) return;
    if (!error) {
      error_code ignored;  // a Unix-domain socket has no such option, and no such delay
      if (check_sender) socket.set_option(tcp::no_delay(true), ignored);
      serve_connection(asio::generic::stream_protocol::socket(std::move(socket)), shared, sessions, check_sender,
                       sessions.admit(options.limits));
      accept(acceptor, check_sender);
      return;
    }
    // Out of descriptors, most likely: others must close first.
    auto timer = std::make_shared<asio::steady_timer>(accepting(), std::chrono::milliseconds(100));
    timer->async_wait([this, timer, &acceptor, check_sender](const error_code&) {
      if (!shared.stopping) accept(acceptor, check_sender);
    });
  });
}

/// Time limits are kept to a quarter of the shortest, or to a second.
void HttpServer::State::close_late() {
  const HttpLimits& limits = options.limits;
  const double shortest =
      std::min({limits.idle_seconds, limits.header_seconds, limits.body_seconds, limits.write_seconds, 4.0});
  look_around.expires_after(std::chrono::microseconds(std::llround(shortest * 0.25e6) + 1));
  look_around.async_wait([this](const error_code& error) {
    if (error || shared.stopping) return;
    sessions.close_late(std::chrono::steady_clock::now());
    close_late();
  });
}

HttpServer::HttpServer(std::unique_ptr<State> state) : state_(std::move(state)) {}
HttpServer::~HttpServer() { stop(0); }
int HttpServer::port() const { return state_->port; }

Result<std::unique_ptr<HttpServer>> HttpServer::start(HttpServerOptions options, Handler handler,
                                                      http::QuickHandler quick) {
  if (options.socket.empty() && !options.tcp) {
    return make_error(ErrorKind::invalid_argument, "neither a socket path nor a TCP port to serve on");
  }
  std::optional<tcp::endpoint> endpoint;
  if (options.tcp) {
    STITCH_ASSIGN(endpoint, parse_endpoint(*options.tcp));
    if (options.secret.empty())
      return make_error(ErrorKind::invalid_argument, "tcp address '{}': no secret for its clients", *options.tcp);
  }
  auto state = std::make_unique<State>(std::move(options), std::move(handler), std::move(quick));
  if (const auto& path = state->options.socket; !path.empty()) {
    // Without a runtime folder it lies in /tmp, where anybody may have made its folder first.
    if (path == api::default_socket_path()) STITCH_TRY(make_private_folder(path.parent_path()));
    STITCH_ASSIGN(state->lock, FileLock::acquire(path.string() + ".lock", "another stitchd serves here"));
    STITCH_ASSIGN(state->local, listen_on(state->accepting(), path));
  }
  if (endpoint) {
    STITCH_ASSIGN(state->network, listen_on(state->accepting(), *endpoint));
    state->port = state->network->local_endpoint().port();
  }
  if (state->local) state->accept(*state->local, false);
  if (state->network) state->accept(*state->network, true);
  state->close_late();
  for (IoThread& io : state->io) io.thread = std::thread([&io] { io.context.run(); });
  state->running = true;
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(state)));
}

void HttpServer::stop(double grace_seconds) {
  State& state = *state_;
  if (!state.running) return;
  state.running = false;
  state.shared.stopping = true;
  asio::post(state.accepting(), [&state] {
    state.look_around.cancel();
    error_code ignored;
    if (state.local) state.local->close(ignored);
    if (state.network) state.network->close(ignored);
  });
  if (state.local) ::unlink(state.options.socket.c_str());
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                                            std::chrono::duration<double>(grace_seconds));
  state.sessions.close_idle();
  bool ended = state.sessions.wait_for_end(until);
  // Handlers that still run come back to sessions that are closed; then nothing is left to do.
  while (!ended) {
    state.sessions.close_all();
    ended = state.sessions.wait_for_end(std::chrono::steady_clock::now() + std::chrono::milliseconds(100));
  }
  for (IoThread& io : state.io) {
    io.context.stop();
    io.thread.join();
  }
  state.shared.pool.join();
}

}  // namespace stitch::daemon
