#include "daemon/http/event_stream.h"

#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>

#include "api/protocol.h"
#include "tuning/plans/plan_record.h"

namespace stitch::daemon {
namespace {

constexpr int most_events_at_once = 256;

struct Follower {
  Service& service;
  std::int64_t job = 0, after = 0;

  http::Stream::Part next() {
    http::Stream::Part part;
    // Asked before the events are read: of a job seen to have ended, no event comes later.
    bool ended = false;
    if (job != 0) {
      const auto state = service.store().get_job(job);
      ended = !state || state->finished();
    }
    const auto events = service.store().list_job_events(job, {.limit = most_events_at_once, .after = after});
    if (!events)
      return {fmt::format("event: error\ndata: {}\n\n",
                          api::encode_document(api::to_document(events.error()), graph::Encoding::json)),
              true};
    for (const db::JobEvent& event : events->items) {
      after = event.sequence;
      part.bytes += fmt::format("id: {}\nevent: {}\ndata: {}\n\n", event.sequence, event.kind,
                                api::encode_document(api::to_document(tuning::to_wire(event)), graph::Encoding::json));
    }
    part.finished = ended && std::ssize(events->items) < most_events_at_once;
    return part;
  }
};

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
  const auto follower = std::make_shared<Follower>(Follower{service, job, after});
  http::Stream stream;
  stream.idle = ": still here\n\n";
  stream.next = [follower] { return follower->next(); };
  return stream;
}

}  // namespace stitch::daemon
