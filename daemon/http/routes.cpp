#include "daemon/http/routes.h"

#include <algorithm>
#include <array>

#include "daemon/http/admission.h"
#include "daemon/http/route_handlers.h"

namespace stitch::daemon {
namespace {

using namespace handlers;

constexpr std::array table = {
    Route{"GET", "/v1/health", "Whether the server answers and its store can be read", health},
    Route{"GET", "/v1/version", "Version, protocol, and what plans are made for", version},
    Route{"GET", "/metrics", "Prometheus metrics", metrics},
    Route{"POST", "/v1/lookup", "Look a fragment's plan up, with a deadline", lookup},
    Route{"POST", "/v1/fragments", "Submit a fragment to be tuned", submit_fragment},
    Route{"GET", "/v1/fragments", "List fragments", list_fragments},
    Route{"GET", "/v1/fragments/{key}", "One fragment with its graph", get_fragment},
    Route{"GET", "/v1/fragments/{key}/fault", "Kernels of a fragment that were wrong, to be sent in", get_fault},
    Route{"POST", "/v1/models", "Submit a model file to be tuned", submit_model},
    Route{"GET", "/v1/models", "List models that were tuned", list_models},
    Route{"GET", "/v1/models/{key}", "One model's report and fragments", get_model},
    Route{"GET", "/v1/programs", "List programs of models", list_programs},
    Route{"POST", "/v1/programs", "The program of a model that need not have been tuned", outline_program},
    Route{"GET", "/v1/programs/{key}", "A model's program with its plans, and their code", get_program},
    Route{"GET", "/v1/jobs", "List jobs", list_jobs},
    Route{"GET", "/v1/jobs/{id}", "State, progress and result of a job", get_job},
    Route{"POST", "/v1/jobs/{id}/cancel", "Cancel a job", cancel_job},
    Route{"GET", "/v1/jobs/{id}/events", "A job's events as they happen (server-sent events)", job_events},
    Route{"GET", "/v1/events", "All jobs' events as they happen (server-sent events)", all_events},
    Route{"GET", "/v1/plans", "List plans", list_plans},
    Route{"GET", "/v1/plans/{id}", "One plan", get_plan},
    Route{"GET", "/v1/promotions", "What changed in what is served, with long poll", promotions},
    Route{"GET", "/v1/artifacts/{hash}", "Bytes by content: cubin, PTX, source", get_artifact},
    Route{"GET", "/v1/devices", "List devices", list_devices},
    Route{"GET", "/v1/cost-models", "List trained cost models", list_cost_models},
    Route{"GET", "/v1/cost-models/report", "How well cost models order candidates", report_cost_models},
};

/// Whether the pattern matches, with what its names stand for.
bool match(std::string_view pattern, std::string_view path, std::map<std::string, std::string, std::less<>>& names) {
  names.clear();
  while (true) {
    const std::string_view part = pattern.substr(0, pattern.find('/'));
    const std::string_view given = path.substr(0, path.find('/'));
    if (part.starts_with('{')) {
      if (given.empty()) return false;
      names.emplace(part.substr(1, part.size() - 2), given);
    } else if (part != given) {
      return false;
    }
    const bool pattern_ends = part.size() == pattern.size(), path_ends = given.size() == path.size();
    if (pattern_ends || path_ends) return pattern_ends && path_ends;
    pattern.remove_prefix(part.size() + 1);
    path.remove_prefix(given.size() + 1);
  }
}

struct Routed {
  std::string_view route = "none";
  http::Reply reply;
};

Routed route(Service& service, const http::Request& request) {
  const graph::Encoding encoding = http::wanted_encoding(request.accept);
  Result<http::Target> target = http::parse_target(request.target);
  if (!target) return {"none", http::error_response(target.error(), encoding)};
  Call call{service, request, *std::move(target), {}, encoding};
  std::string allowed;
  for (const Route& row : table) {
    if (!match(row.pattern, call.target.path, call.path)) continue;
    if (row.method == "POST" && request.method == row.method) {
      const Status typed =
          check_content_type(request.content_type, row.handle == submit_model || row.handle == outline_program);
      if (!typed) return {row.pattern, http::error_response(415, typed.error(), encoding)};
    }
    if (row.method == request.method) return {row.pattern, row.handle(call)};
    allowed += fmt::format("{}{}", allowed.empty() ? "" : ", ", row.method);
  }
  if (allowed.empty()) {
    return {"none",
            http::error_response(make_error(ErrorKind::not_found, "no such path: {}", call.target.path), encoding)};
  }
  http::Response refused = http::error_response(
      405, make_error(ErrorKind::invalid_argument, "{} {}: only {}", request.method, call.target.path, allowed),
      encoding);
  refused.headers.emplace_back("Allow", allowed);
  return {"none", std::move(refused)};
}

/// Counts a reply that comes later. `wait` and `count` live longer than the coroutine.
boost::asio::awaitable<std::optional<http::Response>> counted(const http::Pending& wait,
                                                              const std::function<void(int status)>& count,
                                                              http::Waiter& waiter) {
  std::optional<http::Response> response = co_await wait(waiter);
  if (response) count(response->status);
  co_return response;
}

}  // namespace

std::span<const Route> routes() { return table; }

http::Reply dispatch(Service& service, const Clock& clock, const http::Request& request) {
  const std::int64_t begun = clock.now_us();
  auto [name, reply] = route(service, request);
  const std::function<void(int)> count = [&service, &clock, begun, name = name](int status) {
    service.metrics().count_request(name, status, (clock.now_us() - begun) * 1e-6);
  };
  if (auto* pending = std::get_if<http::Pending>(&reply)) {
    return http::Pending(
        [count, wait = std::move(*pending)](http::Waiter& waiter) { return counted(wait, count, waiter); });
  }
  const auto* response = std::get_if<http::Response>(&reply);
  count(response != nullptr ? response->status : 200);
  return std::move(reply);
}

std::optional<http::Response> dispatch_quickly(Service& service, const Clock& clock, const http::Request& request) {
  constexpr std::string_view target = "/v1/lookup";
  if (request.method != "POST" || request.target != target) return std::nullopt;
  const std::int64_t begun = clock.now_us();
  std::optional<http::Response> response = lookup_at_once(service, request);
  if (response) service.metrics().count_request(target, response->status, (clock.now_us() - begun) * 1e-6);
  return response;
}

}  // namespace stitch::daemon
