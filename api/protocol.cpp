#include "api/protocol.h"

#include <nlohmann/json.hpp>

#include "api/fields.h"

// Plans as documents. The other messages are in api/messages.cpp.
namespace stitch::api {

using fields::Json;
using fields::Members;

std::string_view to_string(LaunchArgument::Kind kind) {
  switch (kind) {
    case LaunchArgument::Kind::parameter: return "parameter";
    case LaunchArgument::Kind::result: return "result";
    case LaunchArgument::Kind::workspace: return "workspace";
    case LaunchArgument::Kind::integer: return "integer";
  }
  return "unknown";
}

// ---- writing

namespace {

Json document_of(const LaunchArgument& argument) {
  return {{"kind", to_string(argument.kind)}, {"value", argument.value}};
}

Json document_of(const KernelLaunch& launch) {
  Json arguments = Json::array();
  for (const LaunchArgument& argument : launch.arguments) arguments.push_back(document_of(argument));
  return {{"cubin", launch.cubin.hex()},
          {"ptx", launch.ptx.hex()},
          {"name", launch.name},
          {"description", launch.description},
          {"blocks", launch.blocks},
          {"threads", launch.threads},
          {"cluster", launch.cluster},
          {"shared_bytes", launch.shared_bytes},
          {"cooperative", launch.cooperative},
          {"arguments", std::move(arguments)},
          {"bytes", launch.bytes},
          {"predicted_us", launch.predicted_us}};
}

Json document_of(const std::vector<graph::TensorType>& types) {
  Json list = Json::array();
  for (const graph::TensorType& type : types) list.push_back(to_string(type));
  return list;
}

/// What never changes: without identity, key, label and times.
Json fixed_part(const Plan& plan) {
  Json launches = Json::array(), copies = Json::array(), zeroed = Json::array();
  for (const KernelLaunch& launch : plan.launches) launches.push_back(document_of(launch));
  for (const ResultCopy& copy : plan.copies) {
    copies.push_back(
        {{"from", document_of(copy.from)}, {"to", copy.to}, {"bytes", copy.bytes}, {"before", copy.before}});
  }
  for (const ZeroedRange& range : plan.zeroed) zeroed.push_back({{"offset", range.offset}, {"bytes", range.bytes}});
  return {{"parameters", document_of(plan.parameters)},
          {"results", document_of(plan.results)},
          {"launches", std::move(launches)},
          {"copies", std::move(copies)},
          {"workspace_bytes", plan.workspace_bytes},
          {"zeroed", std::move(zeroed)}};
}

}  // namespace

std::string plan_document(const Plan& plan) { return encode_document(fixed_part(plan), graph::Encoding::json); }

Json to_document(const PlanTarget& target) {
  return {{"device", target.device},
          {"architecture", target.architecture},
          {"toolkit", target.toolkit},
          {"version", target.version}};
}

Json to_document(const Plan& plan) {
  Json document = fixed_part(plan);
  document["id"] = plan.id.hex();
  document["fragment"] = plan.fragment.hex();
  document["target"] = to_document(plan.target);
  document["label"] = plan.label;
  document["sequence"] = plan.sequence;
  document["bytes"] = plan.bytes;
  document["predicted_us"] = plan.predicted_us;
  if (plan.measured_us) document["measured_us"] = *plan.measured_us;
  document["verified_share"] = plan.verified_share;
  document["judged"] = plan.judged;
  return document;
}

std::string to_json(const Plan& plan) { return encode_document(to_document(plan), graph::Encoding::json); }

// ---- reading. These overloads are found by the templates of api/fields.h.

static Status read(const Json& value, const std::string& path, LaunchArgument& into) {
  return Members(value, path)
      .word("kind", LaunchArgument::Kind::integer, into.kind)
      .required("value", into.value)
      .require(into.kind == LaunchArgument::Kind::integer || into.value >= 0, "value", "negative")
      .status();
}

static Status read(const Json& value, const std::string& path, KernelLaunch& into) {
  return Members(value, path)
      .required("cubin", into.cubin)
      .required("ptx", into.ptx)
      .required("name", into.name)
      .required("description", into.description)
      .required("blocks", into.blocks)
      .required("threads", into.threads)
      .required("cluster", into.cluster)
      .required("shared_bytes", into.shared_bytes)
      .required("cooperative", into.cooperative)
      .required("arguments", into.arguments)
      .required("bytes", into.bytes)
      .required("predicted_us", into.predicted_us)
      .require(!into.name.empty(), "name", "empty")
      .require(into.blocks > 0 && into.blocks <= 0x7fffffff, "blocks", "not between 1 and 2147483647")
      .require(into.threads > 0 && into.threads <= 1024, "threads", "not between 1 and 1024")
      .require(into.cluster > 0 && into.blocks % into.cluster == 0, "cluster", "does not divide blocks")
      .require(into.shared_bytes >= 0, "shared_bytes", "negative")
      .status();
}

static Status read(const Json& value, const std::string& path, ResultCopy& into) {
  return Members(value, path)
      .required("from", into.from)
      .required("to", into.to)
      .required("bytes", into.bytes)
      .required("before", into.before)
      .require(into.bytes >= 0, "bytes", "negative")
      .status();
}

static Status read(const Json& value, const std::string& path, ZeroedRange& into) {
  return Members(value, path).required("offset", into.offset).required("bytes", into.bytes).status();
}

static Status read(const Json& value, const std::string& path, PlanTarget& into) {
  return Members(value, path)
      .required("device", into.device)
      .required("architecture", into.architecture)
      .required("toolkit", into.toolkit)
      .required("version", into.version)
      .status();
}

namespace {

/// Whether an argument names something that the plan has; the message says what it lacks.
Status check_argument(const Plan& plan, const LaunchArgument& argument, const std::string& path) {
  const auto within = [&](std::int64_t limit, std::string_view what) -> Status {
    if (argument.value < limit) return {};
    return make_error(ErrorKind::parse, "{}.value: {} {}, there are {}", path, what, argument.value, limit);
  };
  switch (argument.kind) {
    case LaunchArgument::Kind::parameter: return within(std::ssize(plan.parameters), "parameter");
    case LaunchArgument::Kind::result: return within(std::ssize(plan.results), "result");
    case LaunchArgument::Kind::workspace: return within(plan.workspace_bytes, "workspace offset");
    case LaunchArgument::Kind::integer: return {};
  }
  return {};
}

Status check_copy(const Plan& plan, const ResultCopy& copy, const std::string& path) {
  const bool tensor =
      copy.from.kind == LaunchArgument::Kind::parameter || copy.from.kind == LaunchArgument::Kind::result;
  if (!tensor) return make_error(ErrorKind::parse, "{}.from.kind: neither parameter nor result", path);
  if (copy.before && copy.from.kind != LaunchArgument::Kind::parameter)
    return make_error(ErrorKind::parse, "{}.from.kind: only a parameter is there before the launches", path);
  STITCH_TRY(check_argument(plan, copy.from, path + ".from"));
  STITCH_TRY(check_argument(plan, {LaunchArgument::Kind::result, copy.to}, path + ".to"));
  const auto& sources = copy.from.kind == LaunchArgument::Kind::parameter ? plan.parameters : plan.results;
  const std::int64_t from = sources[copy.from.value].bytes();
  if (copy.to < 0 || copy.bytes > from || copy.bytes > plan.results[copy.to].bytes()) {
    return make_error(ErrorKind::parse, "{}: does not fit its tensors", path);
  }
  return {};
}

/// What the parts of a plan say about each other: a client launches by it without looking again.
Status check_references(const Plan& plan) {
  for (std::size_t i = 0; i < plan.launches.size(); ++i) {
    const auto& arguments = plan.launches[i].arguments;
    for (std::size_t j = 0; j < arguments.size(); ++j) {
      STITCH_TRY(check_argument(plan, arguments[j], fmt::format("launches[{}].arguments[{}]", i, j)));
    }
  }
  for (std::size_t i = 0; i < plan.copies.size(); ++i) {
    STITCH_TRY(check_copy(plan, plan.copies[i], fmt::format("copies[{}]", i)));
  }
  for (std::size_t i = 0; i < plan.zeroed.size(); ++i) {
    const ZeroedRange& range = plan.zeroed[i];
    const bool inside = range.offset >= 0 && range.bytes >= 0 && range.bytes <= plan.workspace_bytes &&
                        range.offset <= plan.workspace_bytes - range.bytes;
    if (!inside) return make_error(ErrorKind::parse, "zeroed[{}]: outside the workspace", i);
  }
  return {};
}

}  // namespace

Status read_fixed_part(const Json& document, Plan& plan) {
  STITCH_TRY(Members(document, "")
                 .required("parameters", plan.parameters)
                 .required("results", plan.results)
                 .required("launches", plan.launches)
                 .required("copies", plan.copies)
                 .required("workspace_bytes", plan.workspace_bytes)
                 .required("zeroed", plan.zeroed)
                 .require(plan.workspace_bytes >= 0, "workspace_bytes", "negative")
                 .status());
  return check_references(plan);
}

Status read_document(const Json& document, PlanTarget& message) { return read(document, "target", message); }

Status read_document(const Json& document, Plan& plan) {
  STITCH_TRY(Members(document, "")
                 .required("id", plan.id)
                 .required("fragment", plan.fragment)
                 .required("target", plan.target)
                 .required("label", plan.label)
                 .required("sequence", plan.sequence)
                 .required("bytes", plan.bytes)
                 .required("predicted_us", plan.predicted_us)
                 .optional("measured_us", plan.measured_us)
                 .required("verified_share", plan.verified_share)
                 .required("judged", plan.judged)
                 .status());
  return read_fixed_part(document, plan);
}

Result<Plan> plan_from_json(std::string_view text) { return decode_message<Plan>(text, graph::Encoding::json); }

std::string encode_document(const Json& document, graph::Encoding encoding) {
  if (encoding == graph::Encoding::json) return document.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string bytes;
  Json::to_cbor(document, bytes);
  return bytes;
}

}  // namespace stitch::api
