#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "daemon/http/http.h"
#include "daemon/jobs/service.h"

namespace stitch::daemon {

/// A request on its way through a handler.
struct Call {
  Service& service;
  const http::Request& request;
  http::Target target;
  std::map<std::string, std::string, std::less<>> path;  ///< what the pattern's {names} matched
  graph::Encoding answer_in = graph::Encoding::json;
};

/// One operation of the API. docs/openapi.yaml lists the same ones; a test compares the two.
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

}  // namespace stitch::daemon
