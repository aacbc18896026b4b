#pragma once

#include <cstdint>
#include <string_view>

#include "daemon/http/http.h"
#include "daemon/jobs/service.h"

namespace stitch::daemon {

/// The position to go on from: the Last-Event-ID that a reconnecting client sends, 0 without one. Error:
/// invalid_argument.
Result<std::int64_t> event_position(std::string_view last_event_id);

/// Events of one job (0: of all) after a sequence number as server-sent events: `id` is the sequence number, `event`
/// the kind, `data` a JobEvent as JSON. The stream of one job ends when the job has ended and all is told.
/// `service` must outlive it.
http::Stream event_stream(Service& service, std::int64_t job, std::int64_t after);

}  // namespace stitch::daemon
