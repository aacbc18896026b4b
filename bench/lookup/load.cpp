// One thread that asks a server the same thing on many connections, each as soon as its last answer is there, and tells
// how long that took: the client of bench/lookup/measure, the same for stitchd and for Redis.
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string protocol = "http", socket, request, answer;
  int port = 0, connections = 1;
  double seconds = 2;
  std::int64_t requests = 0;  ///< instead of seconds
};

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what + ": " + std::strerror(errno)); }

int connect_to(const Options& options) {
  sockaddr_un local{};
  sockaddr_in network{};
  local.sun_family = AF_UNIX;
  std::strncpy(local.sun_path, options.socket.c_str(), sizeof local.sun_path - 1);
  network.sin_family = AF_INET;
  network.sin_port = htons(static_cast<std::uint16_t>(options.port));
  network.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool tcp = options.port != 0;
  const int descriptor = ::socket(tcp ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) fail("socket");
  const auto* address = tcp ? reinterpret_cast<const sockaddr*>(&network) : reinterpret_cast<const sockaddr*>(&local);
  if (::connect(descriptor, address, tcp ? sizeof network : sizeof local) != 0) fail("connect");
  const int on = 1;
  if (tcp) ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::fcntl(descriptor, F_SETFL, O_NONBLOCK);
  return descriptor;
}

std::size_t number_at(std::string_view text) {
  std::size_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

struct Extent {
  std::size_t body = 0, end = 0;  ///< of an answer whose header is there; 0: it is not
};

/// Where the first answer's body begins and the answer ends.
Extent extent_of(std::string_view received, bool http) {
  if (!http) {
    const std::size_t line = received.find("\r\n");
    if (line == std::string_view::npos) return {};
    return {line + 2, line + 2 + number_at(received.substr(1, line)) + 2};
  }
  const std::size_t head = received.find("\r\n\r\n");
  if (head == std::string_view::npos) return {};
  constexpr std::string_view length = "Content-Length: ";
  const std::size_t at = received.substr(0, head).find(length);
  if (at == std::string_view::npos) throw std::runtime_error("an answer without a length");
  return {head + 4, head + 4 + number_at(received.substr(at + length.size()))};
}

struct Connection {
  int descriptor = -1;
  std::string received;
  Clock::time_point asked;
};

class Load {
 public:
  explicit Load(const Options& options)
      : options_(options),
        http_(options.protocol == "http"),
        request_(contents(options.request)),
        answer_(contents(options.answer)),
        epoll_(::epoll_create1(EPOLL_CLOEXEC)) {}

  void run() {
    for (int i = 0; i < options_.connections; ++i) {
      connections_.push_back({connect_to(options_), {}, {}});
      epoll_event event{};
      event.events = EPOLLIN;
      event.data.u32 = static_cast<std::uint32_t>(i);
      if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, connections_.back().descriptor, &event) != 0) fail("epoll");
    }
    warm_up();
    const auto begun = Clock::now();
    const auto until = options_.requests > 0 ? Clock::time_point::max()
                                             : begun + std::chrono::nanoseconds(std::llround(options_.seconds * 1e9));
    for (Connection& connection : connections_) ask(connection);
    while (open_ > 0) take_answers(until);
    report(std::chrono::duration<double>(Clock::now() - begun).count());
  }

 private:
  /// One answer on each connection that does not count.
  void warm_up() {
    for (Connection& connection : connections_) ask(connection);
    while (open_ > 0) take_answers(Clock::time_point::min());
    times_.clear();
    bad_ = 0;
  }

  void ask(Connection& connection) {
    connection.asked = Clock::now();
    ++open_;
    std::string_view rest = request_;
    while (!rest.empty()) {
      const ssize_t sent = ::send(connection.descriptor, rest.data(), rest.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EAGAIN) continue;
      if (sent < 0) fail("send");
      rest.remove_prefix(static_cast<std::size_t>(sent));
    }
  }

  void take_answers(Clock::time_point until) {
    epoll_event events[64];
    const int count = ::epoll_wait(epoll_, events, 64, 10'000);
    if (count <= 0) throw std::runtime_error("no answer for 10 s");
    for (int i = 0; i < count; ++i) take_answer(connections_[events[i].data.u32], until);
  }

  void take_answer(Connection& connection, Clock::time_point until) {
    char buffer[65536];
    const ssize_t size = ::recv(connection.descriptor, buffer, sizeof buffer, 0);
    if (size < 0 && errno == EAGAIN) return;
    if (size <= 0) fail("the server closed a connection");
    connection.received.append(buffer, static_cast<std::size_t>(size));
    const Extent extent = extent_of(connection.received, http_);
    if (extent.end == 0 || connection.received.size() < extent.end) return;
    const auto now = Clock::now();
    times_.push_back(std::chrono::duration<float, std::micro>(now - connection.asked).count());
    const std::size_t tail = http_ ? 0 : 2;
    const std::string_view body(connection.received.data() + extent.body, extent.end - extent.body - tail);
    if (body != answer_) ++bad_;
    connection.received.clear();
    --open_;
    const bool enough = options_.requests > 0 && std::ssize(times_) + open_ >= options_.requests;
    if (now < until && !enough) ask(connection);
  }

  void report(double seconds) {
    std::sort(times_.begin(), times_.end());
    const auto quantile = [&](double share) {
      return times_[std::min(times_.size() - 1, static_cast<std::size_t>(share * static_cast<double>(times_.size())))];
    };
    fmt::print("{{\"requests\": {}, \"bad\": {}, \"per_second\": {:.1f}, \"p50_us\": {:.1f}, \"p99_us\": {:.1f}}}\n",
               times_.size(), bad_, static_cast<double>(times_.size()) / seconds, quantile(0.5), quantile(0.99));
  }

  const Options options_;
  const bool http_;
  const std::string request_, answer_;
  const int epoll_;
  std::vector<Connection> connections_;
  std::vector<float> times_;
  std::int64_t bad_ = 0, open_ = 0;
};

}  // namespace

int main(int count, char** words) {
  CLI::App app{"Asks a server the same thing on many connections; prints rate and latency as JSON."};
  Options options;
  app.add_option("--protocol", options.protocol)->check(CLI::IsMember({"http", "redis"}));
  app.add_option("--socket", options.socket, "Unix-domain socket");
  app.add_option("--port", options.port, "of TCP on the loopback address, instead");
  app.add_option("--connections", options.connections);
  app.add_option("--seconds", options.seconds);
  app.add_option("--requests", options.requests, "so many instead of for so long");
  app.add_option("--request", options.request, "file with the bytes to send")->required();
  app.add_option("--answer", options.answer, "file with the body that every answer must have")->required();
  CLI11_PARSE(app, count, words);
  try {
    Load(options).run();
  } catch (const std::exception& exception) {
    fmt::print(stderr, "{}\n", exception.what());
    return 1;
  }
  return 0;
}
