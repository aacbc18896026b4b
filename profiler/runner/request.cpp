// Requests of the runner's protocol as documents; replies are in profiler/runner/reply.cpp.
#include <algorithm>
#include <array>

#include "profiler/runner/documents.h"
#include "profiler/runner/protocol.h"

namespace stitch::profiler {
namespace {

using documents::Json;

constexpr std::array<std::string_view, 11> request_names = {"hello", "open",  "close",  "load",    "allocate", "free",
                                                            "read",  "write", "launch", "measure", "shutdown"};

Json document_of(const LaunchShape& shape) {
  return {{"blocks", shape.blocks},
          {"threads", shape.threads},
          {"cluster", shape.cluster},
          {"shared_bytes", shape.shared_bytes},
          {"cooperative", shape.cooperative}};
}

LaunchShape shape_from(const Json& document) {
  return {document.at("blocks").get<std::int64_t>(), document.at("threads").get<int>(),
          document.at("cluster").get<int>(), document.at("shared_bytes").get<std::int64_t>(),
          document.at("cooperative").get<bool>()};
}

Json document_of(const LaunchValue& value) {
  if (const auto* buffer = std::get_if<BufferHandle>(&value)) return documents::document_of(*buffer);
  return std::get<std::int64_t>(value);
}

LaunchValue value_from(const Json& document) {
  if (document.is_object()) return documents::buffer_from(document);
  return document.get<std::int64_t>();
}

Json document_of(const PlannedLaunch& launch) {
  Json arguments = Json::array();
  for (const LaunchValue& value : launch.arguments) arguments.push_back(document_of(value));
  return {{"kernel", launch.kernel.id}, {"shape", document_of(launch.shape)}, {"arguments", std::move(arguments)}};
}

PlannedLaunch launch_from(const Json& document) {
  PlannedLaunch launch{{document.at("kernel").get<int>()}, shape_from(document.at("shape")), {}};
  for (const Json& value : document.at("arguments")) launch.arguments.push_back(value_from(value));
  return launch;
}

Json document_of(const PlanStep& step) {
  if (const auto* launch = std::get_if<PlannedLaunch>(&step)) return {{"launch", document_of(*launch)}};
  const auto& copy = std::get<PlannedCopy>(step);
  return {
      {"copy",
       {{"from", documents::document_of(copy.from)}, {"to", documents::document_of(copy.to)}, {"bytes", copy.bytes}}}};
}

PlanStep step_from(const Json& document) {
  if (document.contains("launch")) return launch_from(document.at("launch"));
  const Json& copy = document.at("copy");
  return PlannedCopy{documents::buffer_from(copy.at("from")), documents::buffer_from(copy.at("to")),
                     copy.at("bytes").get<std::int64_t>()};
}

Json document_of(const SentFill& fill) {
  if (const auto* poison = std::get_if<Poison>(&fill)) return {{"poison", static_cast<int>(poison->pattern)}};
  if (std::holds_alternative<Zero>(fill)) return {{"zero", true}};
  if (const auto* bytes = std::get_if<std::string>(&fill)) return {{"bytes", documents::binary_of(*bytes)}};
  const auto& source = std::get<InputSource>(fill);
  Json values = {
      {"type", to_string(source.type())}, {"distribution", to_string(source.distribution())}, {"seed", source.seed()}};
  if (source.range()) values["range"] = {source.range()->low, source.range()->high};
  return {{"values", std::move(values)}};
}

Result<SentFill> fill_from(const Json& document) {
  if (document.contains("poison")) return SentFill(Poison{std::byte{document.at("poison").get<std::uint8_t>()}});
  if (document.contains("zero")) return SentFill(Zero{});
  if (document.contains("bytes")) return SentFill(documents::bytes_from(document.at("bytes")));
  const Json& values = document.at("values");
  STITCH_ASSIGN(auto type, graph::parse_tensor_type(values.at("type").get<std::string>()));
  const auto name = values.at("distribution").get<std::string>();
  const auto all = default_distributions();
  const auto named = std::find_if(all.begin(), all.end(), [&](Distribution one) { return to_string(one) == name; });
  if (named == all.end()) return make_error(ErrorKind::invalid_argument, "no distribution '{}'", name);
  std::optional<InputSource::Range> range;
  if (values.contains("range")) {
    range = {values.at("range").at(0).get<std::int64_t>(), values.at("range").at(1).get<std::int64_t>()};
    if (range->low > range->high) return make_error(ErrorKind::invalid_argument, "an empty range of values");
  }
  return SentFill(InputSource(std::move(type), *named, values.at("seed").get<std::uint64_t>(), range));
}

Json document_of(const HelloRequest& hello) { return {{"protocol", hello.protocol}, {"tool", hello.tool}}; }
Json document_of(const OpenRequest&) { return Json::object(); }
Json document_of(const CloseRequest&) { return Json::object(); }
Json document_of(const ShutdownRequest&) { return Json::object(); }
Json document_of(const LoadRequest& load) {
  return {{"name", load.image.name},
          {"ptx", documents::binary_of(load.image.ptx)},
          {"cubin", documents::binary_of(load.image.cubin)},
          {"architecture", load.image.architecture}};
}
Json document_of(const AllocateRequest& allocate) {
  return {{"name", allocate.name},
          {"bytes", allocate.bytes},
          {"fill", document_of(allocate.fill)},
          {"read_only", allocate.access == Access::read_only}};
}
Json document_of(const FreeRequest& free) { return {{"buffer", documents::document_of(free.buffer)}}; }
Json document_of(const ReadRequest& read) {
  return {{"buffer", documents::document_of(read.buffer)}, {"offset", read.offset}, {"bytes", read.bytes}};
}
Json document_of(const WriteRequest& write) {
  return {{"buffer", documents::document_of(write.buffer)},
          {"offset", write.offset},
          {"data", documents::binary_of(write.data)}};
}
Json document_of(const LaunchRequest& launch) {
  return {{"launch", document_of(launch.launch)}, {"blocks", launch.blocks}};
}
Json document_of(const MeasureRequest& measure) {
  Json rotations = Json::array();
  for (const auto& steps : measure.task.rotations) {
    Json list = Json::array();
    for (const PlanStep& step : steps) list.push_back(document_of(step));
    rotations.push_back(std::move(list));
  }
  return {{"rotations", std::move(rotations)},
          {"cuda_graph", measure.task.cuda_graph},
          {"options", to_document(measure.task.options)}};
}

using Body = decltype(Request::body);

Result<Body> allocate_from(const Json& document) {
  AllocateRequest allocate{document.at("name").get<std::string>(), document.at("bytes").get<std::int64_t>(), {}, {}};
  STITCH_ASSIGN(allocate.fill, fill_from(document.at("fill")));
  if (document.at("read_only").get<bool>()) allocate.access = Access::read_only;
  std::int64_t held = allocate.bytes;
  if (const auto* source = std::get_if<InputSource>(&allocate.fill)) held = source->type().bytes();
  if (const auto* bytes = std::get_if<std::string>(&allocate.fill)) held = static_cast<std::int64_t>(bytes->size());
  if (allocate.bytes < 0 || held != allocate.bytes) {
    return make_error(ErrorKind::invalid_argument, "buffer '{}' of {} bytes, filled with {}", allocate.name,
                      allocate.bytes, held);
  }
  return Body(std::move(allocate));
}

Result<Body> read_from(const Json& document) {
  ReadRequest read{documents::buffer_from(document.at("buffer")), document.at("offset").get<std::int64_t>(),
                   document.at("bytes").get<std::int64_t>()};
  if (read.bytes < 0 || read.bytes > most_data_bytes) {
    return make_error(ErrorKind::invalid_argument, "{} bytes to read, at most {} in one message", read.bytes,
                      most_data_bytes);
  }
  return Body(read);
}

Result<Body> measure_from(const Json& document) {
  MeasureTask task;
  for (const Json& list : document.at("rotations")) {
    auto& steps = task.rotations.emplace_back();
    for (const Json& step : list) steps.push_back(step_from(step));
  }
  document.at("cuda_graph").get_to(task.cuda_graph);
  STITCH_ASSIGN(task.options, measure_options_from(document.at("options")));
  STITCH_TRY(check_task(task));
  return Body(MeasureRequest{std::move(task)});
}

Result<Body> launch_request_from(const Json& document) {
  LaunchRequest request{launch_from(document.at("launch")), document.at("blocks").get<std::vector<std::uint64_t>>()};
  STITCH_TRY(check_shape(request.launch.shape));
  return Body(std::move(request));
}

Result<Body> body_from(std::string_view name, const Json& document) {
  if (name == "hello") {
    return Body(HelloRequest{document.at("protocol").get<int>(), document.at("tool").get<std::string>()});
  }
  if (name == "open") return Body(OpenRequest{});
  if (name == "close") return Body(CloseRequest{});
  if (name == "load") {
    return Body(
        LoadRequest{{document.at("name").get<std::string>(), documents::bytes_from(document.at("ptx")),
                     documents::bytes_from(document.at("cubin")), document.at("architecture").get<std::string>()}});
  }
  if (name == "allocate") return allocate_from(document);
  if (name == "free") return Body(FreeRequest{documents::buffer_from(document.at("buffer"))});
  if (name == "read") return read_from(document);
  if (name == "write") {
    return Body(WriteRequest{documents::buffer_from(document.at("buffer")), document.at("offset").get<std::int64_t>(),
                             documents::bytes_from(document.at("data"))});
  }
  if (name == "launch") return launch_request_from(document);
  if (name == "measure") return measure_from(document);
  if (name == "shutdown") return Body(ShutdownRequest{});
  return make_error(ErrorKind::parse, "no such request");
}

}  // namespace

std::string_view name_of(const Request& request) { return request_names[request.body.index()]; }

std::string encode(const Request& request) {
  Json document = std::visit([](const auto& body) { return document_of(body); }, request.body);
  document["request"] = name_of(request);
  document["id"] = request.id;
  document["session"] = request.session;
  return documents::cbor_of(document);
}

Result<Request> decode_request(std::string_view bytes) {
  std::string name = "unnamed";
  try {
    STITCH_ASSIGN(const Json document, documents::parse(bytes));
    name = document.at("request").get<std::string>();
    Request request{document.at("id").get<std::int64_t>(), document.at("session").get<int>(), {}};
    auto body = body_from(name, document);
    if (!body) return body.error().within(fmt::format("request '{}'", name));
    request.body = std::move(*body);
    return request;
  } catch (const Json::exception& exception) {
    return make_error(ErrorKind::parse, "request '{}': {}", name, exception.what());
  }
}

}  // namespace stitch::profiler
