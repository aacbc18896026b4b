#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "api/fields.h"
#include "api/plan_document.h"
#include "api/protocol.h"

// The messages around plans as documents.
namespace stitch::api {

using fields::Json;
using fields::Members;

namespace {

constexpr std::int64_t longest_deadline_ms = 600'000;

template <class T>
Json hex_or_null(const std::optional<T>& hash) {
  return hash ? Json(hash->hex()) : Json();
}

Result<ErrorKind> error_kind_of(std::string_view text) {
  for (int i = 0; i <= static_cast<int>(ErrorKind::internal); ++i) {
    if (stitch::to_string(static_cast<ErrorKind>(i)) == text) return static_cast<ErrorKind>(i);
  }
  return make_error(ErrorKind::parse, "error.kind: '{}' is not a word known here", text);
}

}  // namespace

std::string_view to_string(LookupAnswer::Source source) {
  switch (source) {
    case LookupAnswer::Source::store: return "store";
    case LookupAnswer::Source::predicted: return "predicted";
    case LookupAnswer::Source::pending: return "pending";
  }
  return "unknown";
}

std::filesystem::path default_socket_path() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && *runtime == '/') return std::filesystem::path(runtime) / "stitch" / "stitchd.sock";
  return fmt::format("/tmp/stitch-{}/stitchd.sock", ::getuid());
}

// ---- look-ups

Json to_document(const LookupRequest& message, graph::Encoding encoding) {
  return {{"fragment", graph::to_document(message.fragment, encoding)},
          {"name", message.name},
          {"deadline_ms", message.deadline_ms},
          {"improve", message.improve}};
}

Status read_document(const Json& document, LookupRequest& message) {
  Members members(document, "");
  const Json* fragment = members.take("fragment");
  STITCH_TRY(members.optional("name", message.name)
                 .optional("deadline_ms", message.deadline_ms)
                 .optional("improve", message.improve)
                 .require(message.deadline_ms >= 0 && message.deadline_ms <= longest_deadline_ms, "deadline_ms",
                          "not between 0 and 600000")
                 .nothing_else()
                 .status());
  Result<graph::Graph> graph = graph::from_document(*fragment);
  if (!graph) return graph.error().within("fragment");
  message.fragment = *std::move(graph);
  return {};
}

Json to_document(const LookupAnswer& message) {
  Json document = {{"source", to_string(message.source)},
                   {"fragment", message.fragment.hex()},
                   {"family", message.family.hex()},
                   {"target", to_document(message.target)},
                   {"parameter_order", message.parameter_order},
                   {"result_order", message.result_order},
                   {"matched", message.matched},
                   {"differed", message.differed}};
  if (message.plan) document["plan"] = to_document(*message.plan);
  if (message.closest_plan) document["closest_plan"] = message.closest_plan->hex();
  if (message.job) document["job"] = *message.job;
  return document;
}

namespace {

/// Whether `order` is a permutation of 0 … size - 1.
bool permutes(const std::vector<int>& order, std::size_t size) {
  std::vector<bool> seen(order.size());
  for (const int i : order) {
    if (i < 0 || static_cast<std::size_t>(i) >= order.size() || seen[i]) return false;
    seen[i] = true;
  }
  return order.size() == size;
}

}  // namespace

Status read_document(const Json& document, LookupAnswer& message) {
  Members members(document, "");
  Json plan;
  members.word("source", LookupAnswer::Source::pending, message.source)
      .required("fragment", message.fragment)
      .required("family", message.family)
      .required("parameter_order", message.parameter_order)
      .required("result_order", message.result_order)
      .required("matched", message.matched)
      .required("differed", message.differed)
      .optional("closest_plan", message.closest_plan)
      .optional("job", message.job);
  const Json* target = members.take("target");
  STITCH_TRY(members.status());
  STITCH_TRY(read_document(*target, message.target));
  message.plan.reset();
  const auto found = document.find("plan");
  if ((found != document.end()) != (message.source != LookupAnswer::Source::pending)) {
    return make_error(ErrorKind::parse, "plan: goes with every source but pending");
  }
  std::size_t parameters = message.parameter_order.size(), results = message.result_order.size();
  if (found != document.end()) {
    if (Status read = read_document(*found, message.plan.emplace()); !read) return read.error().within("plan");
    parameters = message.plan->parameters.size();
    results = message.plan->results.size();
  }
  if (!permutes(message.parameter_order, parameters)) {
    return make_error(ErrorKind::parse, "parameter_order: no permutation of the plan's parameters");
  }
  if (!permutes(message.result_order, results)) {
    return make_error(ErrorKind::parse, "result_order: no permutation of the plan's results");
  }
  return {};
}

// ---- jobs

Json to_document(const Submitted& message) {
  return {{"job", message.job}, {"joined", message.joined}, {"subject", message.subject.hex()}};
}

Status read_document(const Json& document, Submitted& message) {
  return Members(document, "")
      .required("job", message.job)
      .required("joined", message.joined)
      .required("subject", message.subject)
      .status();
}

Json to_document(const JobStatus& message) {
  Json document = {{"id", message.id},
                   {"kind", message.kind},
                   {"state", message.state},
                   {"progress", message.progress},
                   {"message", message.message},
                   {"attempts", message.attempts},
                   {"cancel_requested", message.cancel_requested},
                   {"created_us", message.created_us},
                   {"started_us", message.started_us},
                   {"finished_us", message.finished_us}};
  if (!message.result.empty()) document["result"] = message.result;
  if (message.error) document["error"] = to_document(*message.error)["error"];
  return document;
}

Status read_document(const Json& document, JobStatus& message) {
  message.error.reset();
  STITCH_TRY(Members(document, "")
                 .required("id", message.id)
                 .required("kind", message.kind)
                 .required("state", message.state)
                 .required("progress", message.progress)
                 .required("message", message.message)
                 .optional("result", message.result)
                 .required("attempts", message.attempts)
                 .required("cancel_requested", message.cancel_requested)
                 .required("created_us", message.created_us)
                 .required("started_us", message.started_us)
                 .required("finished_us", message.finished_us)
                 .status());
  if (document.contains("error")) STITCH_TRY(read_document(document, message.error.emplace()));
  return {};
}

Json to_document(const JobEvent& message) {
  return {{"sequence", message.sequence}, {"job", message.job},           {"wall_us", message.wall_us},
          {"kind", message.kind},         {"progress", message.progress}, {"detail", message.detail}};
}

Status read_document(const Json& document, JobEvent& message) {
  return Members(document, "")
      .required("sequence", message.sequence)
      .required("job", message.job)
      .required("wall_us", message.wall_us)
      .required("kind", message.kind)
      .required("progress", message.progress)
      .required("detail", message.detail)
      .status();
}

// ---- promotions

Json to_document(const PromotionFeed& message) {
  Json promotions = Json::array();
  for (const PromotionNotice& notice : message.promotions) {
    promotions.push_back({{"sequence", notice.sequence},
                          {"fragment", notice.fragment.hex()},
                          {"target", to_document(notice.target)},
                          {"plan", hex_or_null(notice.plan)},
                          {"previous", hex_or_null(notice.previous)},
                          {"reason", notice.reason}});
  }
  return {{"promotions", std::move(promotions)}, {"last", message.last}};
}

static Status read(const Json& value, const std::string& path, PromotionNotice& into) {
  Members members(value, path);
  members.required("sequence", into.sequence)
      .required("fragment", into.fragment)
      .required("plan", into.plan)
      .required("previous", into.previous)
      .required("reason", into.reason);
  const Json* target = members.take("target");
  STITCH_TRY(members.status());
  if (Status read = read_document(*target, into.target); !read) return read.error().within(path);
  return {};
}

Status read_document(const Json& document, PromotionFeed& message) {
  return Members(document, "").required("promotions", message.promotions).required("last", message.last).status();
}

// ---- the server, and errors

Json to_document(const ServerVersion& message) {
  return {{"version", message.version},
          {"protocol", message.protocol},
          {"target", to_document(message.target)},
          {"device", message.device}};
}

Status read_document(const Json& document, ServerVersion& message) {
  Members members(document, "");
  members.required("version", message.version)
      .required("protocol", message.protocol)
      .required("device", message.device);
  const Json* target = members.take("target");
  STITCH_TRY(members.status());
  return read_document(*target, message.target);
}

Json to_document(const Error& message) {
  return {{"error", {{"kind", stitch::to_string(message.kind)}, {"message", message.message}}}};
}

Status read_document(const Json& document, Error& message) {
  Members outer(document, "");
  const Json* error = outer.take("error");
  STITCH_TRY(outer.status());
  std::string kind;
  STITCH_TRY(Members(*error, "error").required("kind", kind).required("message", message.message).status());
  STITCH_ASSIGN(message.kind, error_kind_of(kind));
  return {};
}

// ---- bytes to messages

template <class Message>
Result<Message> decode_message(std::string_view bytes, graph::Encoding encoding) {
  STITCH_ASSIGN(const Json document, graph::parse_document(bytes, encoding));
  Message message;
  STITCH_TRY(read_document(document, message));
  return message;
}

Error decode_error(std::string_view bytes, graph::Encoding encoding) {
  const Result<Json> document = graph::parse_document(bytes, encoding);
  Error message;
  const Status read = document ? read_document(*document, message) : Status(document.error());
  return read ? message : read.error().within("the server's error message");
}

template Result<Plan> decode_message(std::string_view, graph::Encoding);
template Result<LookupRequest> decode_message(std::string_view, graph::Encoding);
template Result<LookupAnswer> decode_message(std::string_view, graph::Encoding);
template Result<Submitted> decode_message(std::string_view, graph::Encoding);
template Result<JobStatus> decode_message(std::string_view, graph::Encoding);
template Result<JobEvent> decode_message(std::string_view, graph::Encoding);
template Result<PromotionFeed> decode_message(std::string_view, graph::Encoding);
template Result<ServerVersion> decode_message(std::string_view, graph::Encoding);

}  // namespace stitch::api
