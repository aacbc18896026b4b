#include "daemon/http/event_stream.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "api/protocol.h"
#include "tuning/plans/plan_record.h"

namespace stitch::daemon {
namespace {

constexpr int most_events_at_once = 256;

/// Some events after a position, as they are sent.
struct Page {
  std::string text;
  bool full = false;   ///< more events are there already
  bool ended = false;  ///< no event comes any more
};

std::string error_text(const Error& error) {
  return fmt::format("event: error\ndata: {}\n\n",
                     api::encode_document(api::to_document(error), graph::Encoding::json));
}

std::string event_text(const db::JobEvent& event) {
  return fmt::format("id: {}\nevent: {}\ndata: {}\n\n", event.sequence, event.kind,
                     api::encode_document(api::to_document(tuning::to_wire(event)), graph::Encoding::json));
}

/// Reads the events of a job (0: of all) after a position, and moves the position behind them.
Page next_page(const Service& service, std::int64_t job, std::int64_t& after) {
  // Asked before the events are read: of a job seen to have ended, no event comes later.
  bool ended = false;
  if (job != 0) {
    const auto state = service.store().get_job(job);
    ended = !state || state->finished();
  }
  const auto events = service.store().list_job_events(job, {.limit = most_events_at_once, .after = after});
  if (!events) return {error_text(events.error()), false, true};
  Page page;
  for (const db::JobEvent& event : events->items) {
    after = event.sequence;
    page.text += event_text(event);
  }
  page.full = std::ssize(events->items) >= most_events_at_once;
  page.ended = ended && !page.full;
  return page;
}

boost::asio::awaitable<void> follow(Service& service, std::int64_t job, std::int64_t after,
                                    http::StreamWriter& writer) {
  while (true) {
    const std::int64_t seen = service.changes().count();
    Page page;
    co_await writer.work([&] { page = next_page(service, job, after); });
    if (!page.text.empty()) {
      const bool taken = co_await writer.send(std::move(page.text));
      if (!taken) co_return;
    }
    if (page.ended) co_return;
    if (page.full) continue;
    const bool awaited = co_await writer.wait(service.changes(), seen, Notifier::Deadline::max());
    if (!awaited) co_return;
  }
}

}  // namespace

Result<std::int64_t> event_position(std::string_view last_event_id) {
  if (last_event_id.empty()) return std::int64_t{0};
  std::int64_t position = 0;
  const char* const end = last_event_id.data() + last_event_id.size();
  const auto [stop, error] = std::from_chars(last_event_id.data(), end, position);
  if (error != std::errc() || stop != end || position < 0) {
    return make_error(ErrorKind::invalid_argument, "Last-Event-ID: '{}' is not an event's number", last_event_id);
  }
  return position;
}

http::Stream event_stream(Service& service, std::int64_t job, std::int64_t after) {
  http::Stream stream;
  stream.idle = ": still here\n\n";
  stream.run = [&service, job, after](http::StreamWriter& writer) { return follow(service, job, after, writer); };
  return stream;
}

}  // namespace stitch::daemon
