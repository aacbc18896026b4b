#include "api/plan_document.h"

#include "api/message_fields.h"
#include "graph/codec/document_reader.h"
#include "graph/codec/document_writer.h"

// What must hold between the fields of a plan. Its fields are listed in api/message_fields.h.
namespace stitch::api {

using graph::fields::Json;
using graph::fields::Place;
using graph::fields::Reader;

void finish_reading(Reader& reader, const LaunchArgument& argument) {
  reader.require(argument.kind == LaunchArgument::Kind::integer || argument.value >= 0, "value", "negative");
}

void finish_reading(Reader& reader, const KernelLaunch& launch) {
  reader.require(launch.cluster > 0 && launch.blocks % launch.cluster == 0, "cluster", "does not divide blocks");
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

Status check_in_place(const Plan& plan, const InPlace& pair, const std::string& path) {
  STITCH_TRY(check_argument(plan, {LaunchArgument::Kind::parameter, pair.parameter}, path));
  STITCH_TRY(check_argument(plan, {LaunchArgument::Kind::result, pair.result}, path));
  if (plan.parameters[pair.parameter] == plan.results[pair.result]) return {};
  return make_error(ErrorKind::parse, "{}: parameter {} and result {} are not of one type", path, pair.parameter,
                    pair.result);
}

/// What the parts of a plan say about each other: a client launches by it without looking again.
Status check_references(const Plan& plan, const Place& place) {
  const auto path = [&](std::string_view name, std::size_t i) {
    const Place list{&place, name};
    return Place{&list, {}, static_cast<std::ptrdiff_t>(i)}.path();
  };
  for (std::size_t i = 0; i < plan.launches.size(); ++i) {
    const auto& arguments = plan.launches[i].arguments;
    for (std::size_t j = 0; j < arguments.size(); ++j) {
      STITCH_TRY(check_argument(plan, arguments[j], fmt::format("{}.arguments[{}]", path("launches", i), j)));
    }
  }
  for (std::size_t i = 0; i < plan.copies.size(); ++i) {
    STITCH_TRY(check_copy(plan, plan.copies[i], path("copies", i)));
  }
  for (std::size_t i = 0; i < plan.in_place.size(); ++i) {
    STITCH_TRY(check_in_place(plan, plan.in_place[i], path("in_place", i)));
  }
  for (std::size_t i = 0; i < plan.zeroed.size(); ++i) {
    const ZeroedRange& range = plan.zeroed[i];
    const bool inside = range.offset >= 0 && range.bytes >= 0 && range.bytes <= plan.workspace_bytes &&
                        range.offset <= plan.workspace_bytes - range.bytes;
    if (!inside) return make_error(ErrorKind::parse, "{}: outside the workspace", path("zeroed", i));
  }
  return {};
}

}  // namespace

void finish_reading(Reader& reader, const Plan& plan) {
  if (const Status sound = check_references(plan, reader.place()); !sound) reader.fail(sound.error());
}

std::string plan_document(const Plan& plan) {
  graph::fields::Writer writer;
  visit_fixed_part(writer, plan);
  return encode_document(std::move(writer).finish(), graph::Encoding::json);
}

Status read_fixed_part(const Json& document, Plan& plan) {
  graph::fields::Reading reading{graph::fields::message_dialect(), {}};
  const Place whole;
  Reader reader(graph::fields::Found(document, whole, reading), false);
  visit_fixed_part(reader, plan);
  if (reader.ok()) finish_reading(reader, plan);
  return reading.status;
}

}  // namespace stitch::api
