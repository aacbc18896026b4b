#include <nlohmann/json.hpp>

#include "daemon/http/call_fields.h"
#include "daemon/http/route_handlers.h"
#include "tuning/cost_models/cost_model_training.h"
#include "tuning/plans/fault_report.h"
#include "tuning/plans/plan_record.h"
#include "tuning/plans/record_summary.h"

// Handlers that show what the store holds.
namespace stitch::daemon::handlers {
namespace {

using Json = nlohmann::json;

/// {"items": [...], "next": …}: one page of a listing.
template <class T>
http::Reply page_answer(const Call& call, const Result<db::Listing<T>>& listing) {
  if (!listing) return refusal(call, listing.error());
  Json items = Json::array();
  for (const T& item : listing->items) items.push_back(tuning::summarise(item));
  return answer(call, {{"items", std::move(items)}, {"next", listing->next}});
}

Result<db::PlanFilter> plan_filter(const Call& call) {
  STITCH_TRY(only(call, {"fragment", "family", "device", "label", "status", "limit", "after", "newest_first"}));
  db::PlanFilter filter;
  STITCH_ASSIGN(filter.fragment, hash_in_query(call, "fragment"));
  STITCH_ASSIGN(filter.family, hash_in_query(call, "family"));
  filter.device = text_in_query(call, "device");
  STITCH_ASSIGN(filter.label, word_in_query<db::Label>(call, "label", db::label_of));
  STITCH_ASSIGN(filter.status, word_in_query<db::PlanStatus>(call, "status", db::plan_status_of));
  return filter;
}

/// Whether the bytes are what Stitch itself wrote: a graph says what a client sent.
bool is_generated(db::Artifact::Kind kind) {
  using Kind = db::Artifact::Kind;
  return kind == Kind::source || kind == Kind::ptx || kind == Kind::cubin || kind == Kind::log;
}

/// The page of a listing that takes no other fields.
Result<db::Page> plain_page(const Call& call) {
  STITCH_TRY(only(call, {"limit", "after", "newest_first"}));
  return page_in_query(call);
}

}  // namespace

http::Reply list_fragments(const Call& call) {
  const auto page = plain_page(call);
  if (!page) return refusal(call, page.error());
  return page_answer(call, call.service.store().list_fragments(*page));
}

http::Reply get_fragment(const Call& call) {
  const auto key = hash_in_path(call, "key");
  if (!key) return refusal(call, key.error());
  const auto fragment = call.service.store().get_fragment(*key);
  if (!fragment) return refusal(call, fragment.error());
  const auto graph = graph::decode(fragment->graph, graph::Encoding::cbor);
  if (!graph) return refusal(call, Error{ErrorKind::corrupt, graph.error().message}.within("graph"));
  Json document =
      tuning::summarise(db::FragmentSummary{fragment->key, fragment->family, fragment->name, fragment->operator_count,
                                            fragment->parameter_bytes, fragment->provenance});
  document["graph"] = graph::to_document(*graph, call.answer_in);
  return answer(call, document);
}

http::Reply get_fault(const Call& call) {
  const auto key = hash_in_path(call, "key");
  if (!key) return refusal(call, key.error());
  const db::Store& store = call.service.store();
  const auto fragment = store.get_fragment(*key);
  if (!fragment) return refusal(call, fragment.error());
  const auto wrong = tuning::faults_of(store, *key);
  if (!wrong) return refusal(call, wrong.error());
  if (wrong->empty())
    return refusal(call,
                   make_error(ErrorKind::not_found, "no kernel of fragment {} was found to be wrong", key->hex()));
  const auto served = store.find_plan({*key, wrong->front().key.target}, {});
  if (!served) return refusal(call, served.error());
  const auto document = tuning::fault_document(*fragment, *wrong, served->plan.has_value());
  return document ? answer(call, Json::parse(*document)) : refusal(call, document.error());
}

http::Reply list_models(const Call& call) {
  const auto page = plain_page(call);
  if (!page) return refusal(call, page.error());
  return page_answer(call, call.service.store().list_workloads(*page));
}

http::Reply get_model(const Call& call) {
  const auto key = content_name_in_path(call, "key");
  if (!key) return refusal(call, key.error());
  const auto workload = call.service.store().get_workload(*key);
  return workload ? answer(call, tuning::summarise(*workload)) : refusal(call, workload.error());
}

http::Reply list_programs(const Call& call) {
  if (const Status known = only(call, {"name", "limit", "after", "newest_first"}); !known)
    return refusal(call, known.error());
  const auto page = page_in_query(call);
  if (!page) return refusal(call, page.error());
  return page_answer(call, call.service.store().list_programs(text_in_query(call, "name"), *page));
}

/// Its words; 0 and 1 are none and all, as before there were others.
static std::optional<api::CodeInside> code_in_words(std::string_view word) {
  if (word == "0") return api::CodeInside::none;
  return word == "1" ? api::CodeInside::all : api::code_inside(word);
}

http::Reply get_program(const Call& call) {
  if (const Status known = only(call, {"code"}); !known) return refusal(call, known.error());
  const auto key = content_name_in_path(call, "key");
  if (!key) return refusal(call, key.error());
  const auto asked = word_in_query(call, "code", code_in_words);
  if (!asked) return refusal(call, asked.error());
  const api::CodeInside code = asked->value_or(api::CodeInside::none);
  if (code != api::CodeInside::none && call.answer_in != graph::Encoding::cbor)
    return refusal(call, make_error(ErrorKind::invalid_argument, "query: code: it travels in CBOR only"));
  const auto program = call.service.answer_program({*key, code, call.answer_in});
  if (!program) return refusal(call, program.error());
  http::Response response;
  response.content_type = http::content_type_of(call.answer_in);
  response.headers.emplace_back("ETag", fmt::format("\"{}\"", program->tag));
  // Shared caches ask each time: what is served may be better by then.
  response.headers.emplace_back("Cache-Control", "no-cache");
  if (http::has_tag(call.request.if_none_match, program->tag)) {
    response.status = 304;
  } else {
    response.kept = program->body;
  }
  return response;
}

http::Reply list_jobs(const Call& call) {
  if (const Status known = only(call, {"state", "kind", "limit", "after", "newest_first"}); !known) {
    return refusal(call, known.error());
  }
  const auto page = page_in_query(call);
  if (!page) return refusal(call, page.error());
  const auto state = word_in_query<db::JobState>(call, "state", db::job_state_of);
  if (!state) return refusal(call, state.error());
  const db::JobFilter filter{*state, text_in_query(call, "kind").value_or("")};
  return page_answer(call, call.service.store().list_jobs(filter, *page));
}

http::Reply list_plans(const Call& call) {
  const auto filter = plan_filter(call);
  if (!filter) return refusal(call, filter.error());
  const auto page = page_in_query(call);
  if (!page) return refusal(call, page.error());
  return page_answer(call, call.service.store().list_plans(*filter, *page));
}

http::Reply get_plan(const Call& call) {
  const auto id = hash_in_path(call, "id");
  if (!id) return refusal(call, id.error());
  const auto record = call.service.store().get_plan(*id);
  if (!record) return refusal(call, record.error());
  const auto plan = tuning::plan_from_record(*record);
  return plan ? answer(call, api::to_document(*plan)) : refusal(call, plan.error());
}

http::Reply get_artifact(const Call& call) {
  const auto hash = content_name_in_path(call, "hash");
  if (!hash) return refusal(call, hash.error());
  auto artifact = call.service.store().get_artifact(*hash);
  if (!artifact && artifact.error().kind == ErrorKind::corrupt)
    return refusal(call, call.service.mend(*hash, artifact.error()));
  if (!artifact) return refusal(call, artifact.error());
  if (!is_generated(artifact->kind))
    return refusal(call, make_error(ErrorKind::not_found, "artifact {} is a {}, which is not served here", hash->hex(),
                                    db::to_string(artifact->kind)));
  http::Response response;
  response.content_type = "application/octet-stream";
  response.headers.emplace_back("X-Stitch-Kind", db::to_string(artifact->kind));
  response.headers.emplace_back("ETag", fmt::format("\"{}\"", hash->hex()));
  response.headers.emplace_back("Cache-Control", "immutable");
  response.body = std::move(artifact->bytes);
  return response;
}

http::Reply list_devices(const Call& call) {
  if (const Status known = only(call, {}); !known) return refusal(call, known.error());
  const auto devices = call.service.store().list_devices();
  if (!devices) return refusal(call, devices.error());
  Json items = Json::array();
  for (const db::Device& device : *devices) items.push_back(tuning::summarise(device));
  return answer(call, {{"items", std::move(items)}, {"next", 0}});
}

http::Reply list_cost_models(const Call& call) {
  if (const Status known = only(call, {}); !known) return refusal(call, known.error());
  const auto models = call.service.store().list_models();
  if (!models) return refusal(call, models.error());
  Json items = Json::array();
  for (const db::CostModelRecord& model : *models) items.push_back(tuning::summarise(model));
  return answer(call, {{"items", std::move(items)}, {"next", 0}});
}

http::Reply report_cost_models(const Call& call) {
  if (const Status known = only(call, {}); !known) return refusal(call, known.error());
  const auto report = tuning::cost_model_report(call.service.store());
  return report ? answer(call, *report) : refusal(call, report.error());
}

}  // namespace stitch::daemon::handlers
