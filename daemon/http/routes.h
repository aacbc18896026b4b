#pragma once

#include <span>
#include <string_view>

#include "base/clock.h"
#include "daemon/http/call.h"

namespace stitch::daemon {

/// One operation of the API. The table of all of them (daemon/http/routes.cpp) is the API's list of contents:
///
///   Route{"GET", "/v1/jobs/{id}", "State, progress and result of a job", get_job}
///
/// A handler (daemon/http/route_handlers.h) reads the call's path and query (daemon/http/call_fields.h), asks the
/// Service, and answers at once, later (http::Pending) or bit by bit (http::Stream). stitchd's HttpServer calls
/// dispatch for every request, and so do tests. docs/openapi.yaml and docs/api.md list the same operations; a test
/// compares all three.
struct Route {
  std::string_view method;
  std::string_view pattern;  ///< "/v1/jobs/{id}": a name matches one segment that is not empty
  std::string_view summary;
  http::Reply (*handle)(const Call& call);
};

/// Every operation there is.
std::span<const Route> routes();

/// Finds the route and runs it; counts the request with its status and duration when it is answered. Unknown paths are
/// 404, known ones with another method 405 with `Allow`.
http::Reply dispatch(Service& service, const Clock& clock, const http::Request& request);

/// Answers what needs no thread that may block, and leaves everything else to dispatch: a look-up whose answer is kept.
/// Counted likewise.
std::optional<http::Response> dispatch_quickly(Service& service, const Clock& clock, const http::Request& request);

}  // namespace stitch::daemon
