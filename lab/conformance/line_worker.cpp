#include "lab/conformance/line_worker.h"

namespace stitch::lab {
namespace {

/// The last line that says something.
std::string_view last_line(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  const std::size_t start = text.rfind('\n');
  return start == std::string_view::npos ? text : text.substr(start + 1);
}

}  // namespace

Error LineWorker::bury(const Error& cause, double seconds) {
  const bool late = cause.kind == ErrorKind::timeout;
  if (late) process_->kill();
  constexpr double reaping_seconds = 10;
  const Result<ExitStatus> status = process_->wait(deadline_in(reaping_seconds));
  const std::string said(last_line(process_->standard_error()));
  process_.reset();
  pending_.clear();
  if (late) return make_error(ErrorKind::timeout, "no answer within {:g} s", seconds);
  return make_error(ErrorKind::runtime, "the worker died: {}{}{}", status ? status->describe() : status.error().message,
                    said.empty() ? "" : ": ", said);
}

Result<std::string> LineWorker::ask(std::string_view question, double seconds) {
  if (!process_) {
    STITCH_ASSIGN(process_, launcher_.start(options_));
  }
  const Deadline deadline = deadline_in(seconds);
  if (const Status sent = process_->write(std::string(question) + "\n", deadline); !sent) {
    return bury(sent.error(), seconds);
  }
  constexpr std::size_t chunk = 64 * 1024;
  for (;;) {
    if (const std::size_t end = pending_.find('\n'); end != std::string::npos) {
      std::string answer = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      return answer;
    }
    const Result<std::string> more = process_->read_some(chunk, deadline);
    if (!more) return bury(more.error(), seconds);
    if (more->empty()) return bury(make_error(ErrorKind::io, "end of output"), seconds);
    pending_ += *more;
  }
}

}  // namespace stitch::lab
