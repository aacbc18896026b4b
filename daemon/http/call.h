#pragma once

#include <map>
#include <string>

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

}  // namespace stitch::daemon
