#include "client/why.h"

namespace stitch::client {
namespace {

KeyDifference difference(const std::string& field, const graph::Graph& fragment, const api::PlanTarget& wanted,
                         const api::Plan& closest) {
  const api::PlanTarget& stored = closest.target;
  if (field == "version") return {field, wanted.version, stored.version};
  if (field == "toolkit") return {field, wanted.toolkit, stored.toolkit};
  if (field == "architecture") return {field, wanted.architecture, stored.architecture};
  if (field == "device") return {field, wanted.device, stored.device};
  return {field, parameter_types(fragment), types_of(closest.parameters)};
}

}  // namespace

std::string types_of(const std::vector<graph::TensorType>& types) {
  std::string text;
  for (const graph::TensorType& type : types)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", graph::to_string(type));
  return text;
}

std::string parameter_types(const graph::Graph& graph) {
  std::vector<graph::TensorType> types;
  for (const graph::NodeId id : graph.parameters()) types.push_back(graph.node(id).type());
  return types_of(types);
}

Result<StoredPlan> why(Client& server, const graph::Graph& fragment, FetchOptions options) {
  options.predict = options.improve = false;
  options.deadline_ms = 0;
  api::LookupRequest question = server.request_for(fragment, options);
  question.explain = true;
  STITCH_ASSIGN(const api::LookupAnswer answer, server.look_up(question));
  StoredPlan found{answer.fragment, answer.target, {}, answer.closest_plan, {}};
  if (answer.source == api::LookupAnswer::Source::store) {
    found.plan = answer.plan->id;
    return found;
  }
  if (!found.closest) {
    found.differs.push_back({"fragment", parameter_types(fragment), ""});
    return found;
  }
  STITCH_ASSIGN(const api::Plan closest, server.plan(*found.closest));
  for (const std::string& field : answer.differed)
    found.differs.push_back(difference(field, fragment, answer.target, closest));
  return found;
}

}  // namespace stitch::client
