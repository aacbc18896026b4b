#include <fmt/format.h>

#include "base/clock.h"
#include "tests/daemon/raw_http.h"
#include "tests/daemon/running_service.h"
#include "tests/fuzz/fuzz_target.h"

namespace stitch::fuzz {
namespace {

/// The daemon with its store, behind a real socket. It works on no jobs: what is accepted is queued, up to a bound.
daemon::RunningService& service() {
  static const TestFolder folder;
  static daemon::RunningService running(folder / "stitch.db", [] {
    daemon::RunningOptions options;
    options.work = false;
    options.serve = true;
    options.most_queued = 16;
    options.predictions = 0;
    return options;
  }());
  return running;
}

daemon::raw::Socket connected() {
  daemon::raw::Socket socket(service().socket);
  promise(socket.connected(), "the server takes a connection");
  return socket;
}

/// Whatever came before, an ordinary client is served: at once, or, where the whole machine stood still for as long as
/// this client is patient, when it asks again.
void expect_alive() {
  const auto ask = [] {
    const daemon::raw::Socket socket = connected();
    promise(socket.send("GET /v1/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"), "the server reads");
    return socket.receive_all();
  };
  const Stopwatch watch;
  const std::string answer = ask();
  if (answer.starts_with("HTTP/1.1 200")) return;
  const double seconds = watch.seconds();
  const std::string again = ask();
  const std::string said =
      fmt::format("the server says after {:.3f} s: '{}', and when asked again: '{}'", seconds, answer, again);
  fmt::print(stderr, "{}\n", said);
  promise(answer.empty() && seconds > 10 && again.starts_with("HTTP/1.1 200"), said);
}

}  // namespace

void fuzz_one(std::string_view bytes) {
  static std::uint64_t count = 0;
  {
    const daemon::raw::Socket socket = connected();
    socket.send(bytes);
    socket.end_sending();
    const std::string answer = socket.receive_all();
    promise(answer.empty() || answer.starts_with("HTTP/1."), "an answer is HTTP");
    promise(answer.find("HTTP/1.1 500") != 0, "no input makes an internal error");
  }
  if (++count % 64 == 0) expect_alive();
}

}  // namespace stitch::fuzz
