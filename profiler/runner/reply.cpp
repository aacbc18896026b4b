// Replies of the runner's protocol as documents; requests are in profiler/runner/request.cpp.
#include <algorithm>
#include <array>

#include "profiler/device/device_document.h"
#include "profiler/runner/documents.h"
#include "profiler/runner/protocol.h"

namespace stitch::profiler {
namespace {

using documents::Json;
using emulator::Counters;

constexpr std::array<std::string_view, 9> reply_names = {"done", "welcome",  "opened",   "loaded", "allocated",
                                                         "data", "launched", "measured", "error"};

Json document_of(const emulator::GlobalTraffic& traffic) {
  return {traffic.requests, traffic.sectors, traffic.unique_sectors, traffic.l2_sectors};
}

emulator::GlobalTraffic traffic_from(const Json& document) {
  return {document.at(0).get<std::uint64_t>(), document.at(1).get<std::uint64_t>(), document.at(2).get<std::uint64_t>(),
          document.at(3).get<std::uint64_t>()};
}

Json document_of(const Counters& counters) {
  Json document = {{"global_loads", document_of(counters.global_loads)},
                   {"global_stores", document_of(counters.global_stores)}};
  Json instructions = Json::array();
  for (const emulator::InstructionCount& count : counters.instructions) {
    instructions.push_back({count.warps, count.lanes});
  }
  document["instructions"] = std::move(instructions);
  for (const emulator::NamedCounter& counter : emulator::named_counters()) {
    document[counter.name] = counters.*counter.value;
  }
  return document;
}

Counters counters_from(const Json& document) {
  Counters counters;
  counters.global_loads = traffic_from(document.at("global_loads"));
  counters.global_stores = traffic_from(document.at("global_stores"));
  for (std::size_t i = 0; i < counters.instructions.size(); ++i) {
    const Json& count = document.at("instructions").at(i);
    counters.instructions[i] = {count.at(0).get<std::uint64_t>(), count.at(1).get<std::uint64_t>()};
  }
  for (const emulator::NamedCounter& counter : emulator::named_counters()) {
    document.at(counter.name).get_to(counters.*counter.value);
  }
  return counters;
}

Json document_of(const DoneReply&) { return Json::object(); }
Json document_of(const WelcomeReply& welcome) {
  return {{"protocol", welcome.protocol}, {"tool", welcome.tool}, {"identity", to_document(welcome.identity)}};
}
Json document_of(const OpenedReply& opened) {
  return {{"session", opened.session}, {"samples_blocks", opened.samples_blocks}};
}
Json document_of(const LoadedReply& loaded) { return {{"kernel", loaded.kernel.id}}; }
Json document_of(const AllocatedReply& allocated) { return {{"buffer", documents::document_of(allocated.buffer)}}; }
Json document_of(const DataReply& data) { return {{"data", documents::binary_of(data.data)}}; }
Json document_of(const LaunchedReply& launched) {
  Json document = {{"findings", launched.result.findings}};
  if (launched.result.counters) document["counters"] = document_of(*launched.result.counters);
  Json written = Json::array();
  for (const auto& [buffer, ranges] : launched.written) {
    // Offsets and lengths in turns: a launch may have written thousands of runs.
    std::vector<std::int64_t> flat;
    for (const WrittenRange& range : ranges) flat.insert(flat.end(), {range.offset, range.bytes});
    written.push_back({{"buffer", buffer}, {"ranges", std::move(flat)}});
  }
  document["written"] = std::move(written);
  return document;
}
Json document_of(const MeasuredReply& measured) { return {{"measurement", to_document(measured.measurement)}}; }
Json document_of(const Error& error) { return {{"kind", to_string(error.kind)}, {"message", error.message}}; }

using Body = decltype(Reply::body);

Body launched_from(const Json& document) {
  LaunchedReply launched;
  document.at("findings").get_to(launched.result.findings);
  if (document.contains("counters")) launched.result.counters = counters_from(document.at("counters"));
  for (const Json& one : document.at("written")) {
    const auto flat = one.at("ranges").get<std::vector<std::int64_t>>();
    auto& [buffer, ranges] = launched.written.emplace_back();
    buffer = one.at("buffer").get<int>();
    for (std::size_t i = 0; i + 1 < flat.size(); i += 2) ranges.push_back({flat[i], flat[i + 1]});
  }
  return launched;
}

/// A kind that this side does not know (the other is newer) is a bug between the two: they agreed on a version.
Error error_from(const Json& document) {
  const auto name = document.at("kind").get<std::string>();
  const int last = static_cast<int>(ErrorKind::internal);
  for (int kind = 0; kind <= last; ++kind) {
    if (to_string(static_cast<ErrorKind>(kind)) != name) continue;
    return {static_cast<ErrorKind>(kind), document.at("message").get<std::string>()};
  }
  return {ErrorKind::internal, document.at("message").get<std::string>()};
}

Result<Body> body_from(std::string_view name, const Json& document) {
  if (name == "done") return Body(DoneReply{});
  if (name == "welcome") {
    return Body(WelcomeReply{document.at("protocol").get<int>(), document.at("tool").get<std::string>(),
                             identity_from(document.at("identity"))});
  }
  if (name == "opened") {
    return Body(OpenedReply{document.at("session").get<int>(), document.at("samples_blocks").get<bool>()});
  }
  if (name == "loaded") return Body(LoadedReply{{document.at("kernel").get<int>()}});
  if (name == "allocated") return Body(AllocatedReply{documents::buffer_from(document.at("buffer"))});
  if (name == "data") return Body(DataReply{documents::bytes_from(document.at("data"))});
  if (name == "launched") return launched_from(document);
  if (name == "measured") {
    STITCH_ASSIGN(auto measurement, measurement_from(document.at("measurement")));
    return Body(MeasuredReply{std::move(measurement)});
  }
  if (name == "error") return Body(error_from(document));
  return make_error(ErrorKind::parse, "no such reply");
}

}  // namespace

std::string encode(const Reply& reply) {
  Json document = std::visit([](const auto& body) { return document_of(body); }, reply.body);
  document["reply"] = reply_names[reply.body.index()];
  document["id"] = reply.id;
  document["lost"] = reply.lost;
  return documents::cbor_of(document);
}

Result<Reply> decode_reply(std::string_view bytes) {
  std::string name = "unnamed";
  try {
    STITCH_ASSIGN(const Json document, documents::parse(bytes));
    name = document.at("reply").get<std::string>();
    Reply reply{document.at("id").get<std::int64_t>(), document.at("lost").get<bool>(), {}};
    auto body = body_from(name, document);
    if (!body) return body.error().within(fmt::format("reply '{}'", name));
    reply.body = std::move(*body);
    return reply;
  } catch (const Json::exception& exception) {
    return make_error(ErrorKind::parse, "reply '{}': {}", name, exception.what());
  }
}

}  // namespace stitch::profiler
