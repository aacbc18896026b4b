#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "daemon/http/call_fields.h"
#include "daemon/http/event_stream.h"
#include "daemon/http/route_handlers.h"

// Handlers that do something or follow something. Listings are in daemon/http/route_listings.cpp.
namespace stitch::daemon::handlers {

namespace {

using Json = nlohmann::json;
using LaterResponse = boost::asio::awaitable<std::optional<http::Response>>;

http::Response encoded(const Json& document, graph::Encoding encoding, int status = 200) {
  http::Response response;
  response.status = status;
  response.content_type = http::content_type_of(encoding);
  response.body = api::encode_document(document, encoding);
  return response;
}

http::Response lookup_response(const Result<api::LookupAnswer>& found, graph::Encoding encoding) {
  if (!found) return http::error_response(found.error(), encoding);
  return encoded(api::to_document(*found), encoding, found->plan ? 200 : 202);
}

AskedBytes asked_by(const http::Request& request) { return {request.content_type, request.accept, request.body}; }

http::Response kept_response(Service& service, const KeptAnswer& kept) {
  service.metrics().count_lookup(api::LookupAnswer::Source::store);
  http::Response response;
  response.content_type = http::content_type_of(kept.encoding);
  response.kept = kept.body;
  return response;
}

/// Waits for the prediction to land, or for the deadline. `lookup` lives longer than the coroutine.
LaterResponse await_lookup(Service& service, const PendingLookup& lookup, graph::Encoding encoding,
                           http::Waiter& waiter) {
  const bool awaited = co_await waiter.wait(lookup.flight.landing(), 0, lookup.until);
  if (!awaited) co_return std::nullopt;
  http::Response response;
  co_await waiter.work([&] { response = lookup_response(service.end_lookup(lookup), encoding); });
  co_return response;
}

/// Waits for the first promotion after a number, or for the deadline.
LaterResponse await_promotions(Service& service, std::int64_t after, Notifier::Deadline until, graph::Encoding encoding,
                               http::Waiter& waiter) {
  while (true) {
    const std::int64_t seen = service.promoted().count();
    std::optional<Result<api::PromotionFeed>> feed;
    co_await waiter.work([&] { feed = service.promotions(after); });
    if (!*feed) co_return http::error_response(feed->error(), encoding);
    const auto now = std::chrono::steady_clock::now();
    if (!(*feed)->promotions.empty() || now >= until) co_return encoded(api::to_document(**feed), encoding);
    const bool awaited = co_await waiter.wait(service.promoted(), seen, until);
    if (!awaited) co_return std::nullopt;
  }
}

}  // namespace

std::optional<http::Response> lookup_at_once(Service& service, const http::Request& request) {
  const auto kept = service.answers().at_once(asked_by(request));
  if (!kept) return std::nullopt;
  return kept_response(service, *kept);
}

http::Reply health(const Call& call) {
  if (const auto last = call.service.store().last_promotion(); !last) {
    return http::error_response(503, last.error().within("store"), call.answer_in);
  }
  return answer(call, {{"status", "ok"}});
}

http::Reply version(const Call& call) { return answer(call, api::to_document(call.service.version())); }

http::Reply metrics(const Call& call) {
  Result<std::string> text = call.service.metrics_text();
  if (!text) return refusal(call, text.error());
  http::Response response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = *std::move(text);
  return response;
}

http::Reply lookup(const Call& call) {
  const AskedBytes asked = asked_by(call.request);
  if (const auto kept = call.service.answers().checked(asked)) return kept_response(call.service, *kept);
  const auto version = call.service.store().version();
  const auto encoding = http::encoding_of(call.request.content_type);
  if (!encoding) return http::error_response(415, encoding.error(), call.answer_in);
  const auto request = api::decode_message<api::LookupRequest>(call.request.body, *encoding);
  if (!request) return bad_document(call, request.error());
  auto begun = call.service.begin_lookup(*request, call.request.arrived);
  if (!begun) return refusal(call, begun.error());
  if (const auto* answer = std::get_if<api::LookupAnswer>(&*begun)) {
    http::Response response = lookup_response(*answer, call.answer_in);
    if (const auto key = call.service.key_to_keep(*request, *answer)) {
      response.kept = std::make_shared<const std::string>(std::exchange(response.body, {}));
      call.service.answers().keep(asked, version, *key, response.kept, call.answer_in);
    }
    return response;
  }
  return http::Pending(
      [&service = call.service, lookup = std::get<PendingLookup>(*std::move(begun)),
       in = call.answer_in](http::Waiter& waiter) { return await_lookup(service, lookup, in, waiter); });
}

http::Reply submit_fragment(const Call& call) {
  if (const Status known = only(call, {"constraints", "name", "trials"}); !known) return refusal(call, known.error());
  const auto trials = trials_in_query(call);
  if (!trials) return refusal(call, trials.error());
  const auto constraints = constraints_in_query(call);
  if (!constraints) return refusal(call, constraints.error());
  const auto encoding = http::encoding_of(call.request.content_type);
  if (!encoding) return http::error_response(415, encoding.error(), call.answer_in);
  Result<graph::Graph> graph = graph::decode(call.request.body, *encoding, graph::message_limits);
  if (!graph) return bad_document(call, graph.error());
  graph->constraints = graph->constraints | *constraints;
  const auto submitted =
      call.service.submit_fragment(*graph, text_in_query(call, "name").value_or(graph->name), *trials);
  if (!submitted) return refusal(call, submitted.error());
  return answer(call, api::to_document(*submitted), 202);
}

http::Reply submit_model(const Call& call) {
  if (const Status known = only(call, {"constraints", "name", "trials"}); !known) return refusal(call, known.error());
  const auto trials = trials_in_query(call);
  if (!trials) return refusal(call, trials.error());
  const auto constraints = constraints_in_query(call);
  if (!constraints) return refusal(call, constraints.error());
  const auto submitted = call.service.submit_model(call.request.body, text_in_query(call, "name").value_or("model"),
                                                   trials->value_or(0), *constraints);
  if (!submitted) return refusal(call, submitted.error());
  return answer(call, api::to_document(*submitted), 202);
}

http::Reply outline_program(const Call& call) {
  if (const Status known = only(call, {"constraints", "name", "products"}); !known) return refusal(call, known.error());
  const auto constraints = constraints_in_query(call);
  if (!constraints) return refusal(call, constraints.error());
  const auto products = word_in_query(call, "products", tuning::products_of);
  if (!products) return refusal(call, products.error());
  const auto program =
      call.service.outline(call.request.body, text_in_query(call, "name").value_or("model"), *products, *constraints);
  if (!program) return refusal(call, program.error());
  http::Response response;
  response.content_type = http::content_type_of(call.answer_in);
  response.body = api::encode_program(*program, call.answer_in);
  return response;
}

http::Reply get_job(const Call& call) {
  const auto id = number_in_path(call, "id");
  if (!id) return refusal(call, id.error());
  const auto job = call.service.job(*id);
  return job ? answer(call, api::to_document(*job)) : refusal(call, job.error());
}

http::Reply cancel_job(const Call& call) {
  const auto id = number_in_path(call, "id");
  if (!id) return refusal(call, id.error());
  const auto job = call.service.cancel(*id);
  return job ? answer(call, api::to_document(*job), job->finished() ? 200 : 202) : refusal(call, job.error());
}

http::Reply job_events(const Call& call) {
  const auto id = number_in_path(call, "id");
  if (!id) return refusal(call, id.error());
  if (const auto job = call.service.store().get_job(*id); !job) return refusal(call, job.error());
  const auto after = event_position(call.request.last_event_id);
  return after ? http::Reply(event_stream(call.service, *id, *after)) : refusal(call, after.error());
}

http::Reply all_events(const Call& call) {
  const auto after = event_position(call.request.last_event_id);
  return after ? http::Reply(event_stream(call.service, 0, *after)) : refusal(call, after.error());
}

http::Reply promotions(const Call& call) {
  constexpr std::int64_t longest_wait_ms = 60'000;
  if (const Status known = only(call, {"after", "wait_ms"}); !known) return refusal(call, known.error());
  const auto page = page_in_query(call);
  if (!page) return refusal(call, page.error());
  const auto wait_ms = number_in_query(call, "wait_ms", 0, longest_wait_ms, 0);
  if (!wait_ms) return refusal(call, wait_ms.error());
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(*wait_ms);
  return http::Pending([&service = call.service, after = page->after, until, in = call.answer_in](
                           http::Waiter& waiter) { return await_promotions(service, after, until, in, waiter); });
}

}  // namespace stitch::daemon::handlers
