#include "profiler/runner/process.h"

#include <filesystem>

#include "base/version.h"

namespace stitch::profiler {
namespace {

/// The end of what a process wrote to standard error, on one line.
std::string last_words(const std::string& text) {
  constexpr std::size_t most = 400;
  std::string tail = text.size() > most ? text.substr(text.size() - most) : text;
  while (!tail.empty() && (tail.back() == '\n' || tail.back() == ' ')) tail.pop_back();
  for (char& character : tail) {
    if (character == '\n') character = ' ';
  }
  return tail;
}

}  // namespace

std::string default_runner_program(const char* chosen) {
  if (chosen != nullptr && *chosen != '\0') return chosen;
  std::error_code ignored;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", ignored);
  return ignored ? "stitch-runner" : (self.parent_path() / "stitch-runner").string();
}

RunnerProcess::~RunnerProcess() {
  if (!process_) return;
  const auto frame = make_frame(encode(Request{next_id_, 0, ShutdownRequest{}}));
  if (frame && process_->write(*frame, deadline_in(1))) (void)process_->wait(deadline_in(1));
}

Result<WelcomeReply> RunnerProcess::start() {
  if (process_) {
    // One that ended since the last request is noticed by its silence, and is no reason to fail.
    auto welcome = greet();
    if (welcome || process_) return welcome;
  }
  ProcessOptions options;
  options.arguments = {options_.program};
  options.arguments.insert(options.arguments.end(), options_.arguments.begin(), options_.arguments.end());
  // What loader and locale, the driver and its tools, and builds with sanitizers or coverage look at.
  options.inherited = {
      "PATH",          "HOME",         "LANG",        "LC_*",   "LD_LIBRARY_PATH", "TMPDIR",       "XDG_RUNTIME_DIR",
      "CUDA_*",        "NVIDIA_*",     "NVML*",       "CUPTI*", "STITCH_*",        "ASAN_OPTIONS", "LSAN_OPTIONS",
      "UBSAN_OPTIONS", "TSAN_OPTIONS", "GCOV_PREFIX*"};
  options.ends_with_us = true;
  STITCH_ASSIGN(process_, launcher_.start(options));
  ++generation_;
  return greet();
}

Result<WelcomeReply> RunnerProcess::greet() {
  HelloRequest hello;
  hello.tool = tool_version;
  STITCH_ASSIGN(auto body, call(hello, 0, options_.start_seconds));
  if (const auto* welcome = std::get_if<WelcomeReply>(&body)) return *welcome;
  return gone(ErrorKind::corrupt, "did not greet");
}

Result<std::string> RunnerProcess::exchange(const std::string& frame, Deadline deadline) {
  STITCH_TRY(process_->write(frame, deadline));
  STITCH_ASSIGN(const std::string prefix, process_->read_exactly(frame_prefix_bytes, deadline));
  const auto length = frame_length(prefix);
  if (!length) return make_error(ErrorKind::corrupt, "{}", length.error().message);
  return process_->read_exactly(*length, deadline);
}

Result<decltype(Reply::body)> RunnerProcess::call(decltype(Request::body) body, int session, double seconds) {
  if (!process_) return make_error(ErrorKind::unavailable, "no runner: {}", last_end_);
  const Request request{next_id_++, session, std::move(body)};
  STITCH_ASSIGN(const std::string frame, make_frame(encode(request)));
  const auto answer = exchange(frame, deadline_in(seconds));
  if (!answer) return failed(answer.error(), name_of(request), seconds);
  auto reply = decode_reply(*answer);
  if (!reply) {
    return gone(ErrorKind::corrupt,
                fmt::format("answered {} with no message ({})", name_of(request), reply.error().message));
  }
  if (auto* error = std::get_if<Error>(&reply->body)) {
    // Whoever cannot read a request does not know its number.
    if (reply->id == -1)
      return gone(ErrorKind::corrupt, fmt::format("could not read {}: {}", name_of(request), error->message));
    if (reply->lost) (void)gone(error->kind, fmt::format("lost its device: {}", error->message));
    return std::move(*error);
  }
  if (reply->id != request.id) {
    return gone(ErrorKind::corrupt, fmt::format("answered request {} instead of {}", reply->id, request.id));
  }
  if (reply->lost) (void)gone(ErrorKind::runtime, "lost its device");
  return std::move(reply->body);
}

Error RunnerProcess::failed(const Error& error, std::string_view request, double seconds) {
  if (error.kind == ErrorKind::timeout) {
    return gone(ErrorKind::timeout, fmt::format("gave no answer to {} within {:g} s", request, seconds));
  }
  if (error.kind == ErrorKind::corrupt) {
    return gone(ErrorKind::corrupt, fmt::format("answered {} with no message ({})", request, error.message));
  }
  return gone(ErrorKind::runtime, fmt::format("ended during {}", request));
}

Error RunnerProcess::gone(ErrorKind kind, const std::string& what) {
  // One that is on its way out by itself tells more than one that was killed. The others must go now.
  const bool dying = kind != ErrorKind::timeout && kind != ErrorKind::corrupt;
  auto ended = process_->wait(deadline_in(dying ? 2 : 0));
  const bool killed = !ended;
  if (killed) {
    process_->kill();
    ended = process_->wait(deadline_in(2));
  }
  last_end_ = fmt::format("stitch-runner (process {}) {}", process_->id(), what);
  if (killed) last_end_ += ended ? " and was killed" : " and cannot be killed: the driver holds on to it";
  if (!killed) last_end_ += fmt::format(", {}", ended->describe());
  if (const std::string words = last_words(process_->standard_error()); !words.empty()) {
    last_end_ += fmt::format("; its last words: {}", words);
  }
  process_.reset();
  // One that faults has other exit codes (ServeEnd).
  left_ = kind == ErrorKind::runtime && !killed && ended->success();
  return {left_ ? ErrorKind::unavailable : kind, last_end_};
}

}  // namespace stitch::profiler
