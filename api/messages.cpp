#include "api/message_fields.h"
#include "api/plan_document.h"
#include "api/protocol.h"
#include "graph/codec/document_reader.h"
#include "graph/codec/document_writer.h"

// The messages as documents and back, by the fields that api/message_fields.h lists.
namespace stitch::api {

using graph::fields::document_of;
using graph::fields::Json;

namespace {

/// Whether `order` is a permutation of 0 … size - 1.
bool permutes(const std::vector<int>& order, std::size_t size) {
  std::vector<bool> seen(order.size());
  for (const int i : order) {
    if (i < 0 || i >= std::ssize(order) || seen[i]) return false;
    seen[i] = true;
  }
  return order.size() == size;
}

/// {"error": …}, so that clients tell an error from whatever else was asked for.
struct ErrorAnswer {
  Error error;
};
void visit_fields(auto& archive, Of<ErrorAnswer> auto& answer) { archive("error", answer.error); }

}  // namespace

void finish_reading(Reader& reader, const LookupAnswer& answer) {
  const bool pending = answer.source == LookupAnswer::Source::pending;
  reader.require(answer.plan.has_value() != pending, "plan", "goes with every source but pending");
  if (!reader.ok()) return;
  const std::size_t parameters = answer.plan ? answer.plan->parameters.size() : answer.parameter_order.size();
  const std::size_t results = answer.plan ? answer.plan->results.size() : answer.result_order.size();
  reader.require(permutes(answer.parameter_order, parameters), "parameter_order",
                 "no permutation of the plan's parameters");
  reader.require(permutes(answer.result_order, results), "result_order", "no permutation of the plan's results");
}

Json to_document(const Plan& message) { return document_of(message); }
Json to_document(const PlanTarget& message) { return document_of(message); }
Json to_document(const LookupRequest& message, graph::Encoding encoding) {
  return document_of(message, {.encoding = encoding});
}
Json to_document(const LookupAnswer& message) { return document_of(message); }
Json to_document(const Submitted& message) { return document_of(message); }
Json to_document(const JobStatus& message) { return document_of(message); }
Json to_document(const JobEvent& message) { return document_of(message); }
Json to_document(const PromotionFeed& message) { return document_of(message); }
Json to_document(const ServerVersion& message) { return document_of(message); }
Json to_document(const Error& message) { return document_of(ErrorAnswer{message}); }

Status read_document(const Json& document, Plan& message) { return graph::fields::read_document(document, message); }
Status read_document(const Json& document, Error& message) {
  ErrorAnswer answer;
  STITCH_TRY(graph::fields::read_document(document, answer));
  message = std::move(answer.error);
  return {};
}

std::string to_json(const Plan& plan) { return encode_document(to_document(plan), graph::Encoding::json); }
Result<Plan> plan_from_json(std::string_view text) { return decode_message<Plan>(text, graph::Encoding::json); }

std::string encode_document(const Json& document, graph::Encoding encoding) {
  if (encoding == graph::Encoding::json) return document.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string bytes;
  Json::to_cbor(document, bytes);
  return bytes;
}

template <class Message>
Result<Message> decode_message(std::string_view bytes, graph::Encoding encoding) {
  STITCH_ASSIGN(const Json document, graph::parse_document(bytes, encoding));
  Message message;
  STITCH_TRY(graph::fields::read_document(document, message));
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
