#include <algorithm>
#include <map>

#include "import/hlo/attribute.h"
#include "import/hlo/lowering.h"
#include "import/hlo/rules.h"

namespace stitch::import::hlo {
namespace {

using graph::Graph;
using graph::Value;

/// Branch i of a conditional as a region over the operands of all branches: its own arguments are at `places`.
std::shared_ptr<const Graph> over_all_operands(const Graph& branch, const std::vector<graph::TensorType>& types,
                                               const std::vector<std::size_t>& places) {
  Graph region;
  region.name = branch.name;
  std::vector<std::string> names(types.size());
  for (std::size_t i = 0; i < places.size(); ++i) names[places[i]] = branch.node(branch.parameters()[i]).name;
  for (std::size_t i = 0; i < types.size(); ++i) {
    region.add_unchecked({graph::Op::parameter, {}, graph::ParameterAttributes{types[i]}, {types[i]}, {}, names[i]});
  }
  std::vector<graph::NodeId> image(branch.size());
  std::size_t next_parameter = 0;
  const auto mapped = [&](Value value) { return Value{image[value.node], value.result}; };
  for (graph::NodeId id = 0; id < branch.size(); ++id) {
    graph::Node node = branch.node(id);
    if (node.op == graph::Op::parameter) {
      image[id] = region.parameters()[places[next_parameter++]];
      continue;
    }
    for (Value& operand : node.operands) operand = mapped(operand);
    image[id] = region.add_unchecked(std::move(node)).node;
  }
  for (const Value& result : branch.results()) region.add_result(mapped(result));
  return std::make_shared<const Graph>(std::move(region));
}

/// The branches in the order of the selector's numbers; a truth value selects 0 for false.
Result<std::vector<const Computation*>> branches_of(const Site& site) {
  if (find_attribute(site.instruction, "branch_computations") != nullptr) {
    return site.lowering.called_list(site, "branch_computations");
  }
  STITCH_ASSIGN(const Computation* yes, site.lowering.called(site, "true_computation"));
  STITCH_ASSIGN(const Computation* no, site.lowering.called(site, "false_computation"));
  return std::vector<const Computation*>{no, yes};
}

/// What a composite is called ("chlo.erf_inv"), where the call is one: XLA keeps the name beside a computation that
/// writes the operator out.
std::string_view composite_name(const Instruction& instruction) {
  constexpr std::string_view key = "composite.name=\"";
  const std::string_view attributes = text_attribute(instruction, "frontend_attributes");
  const std::size_t at = attributes.find(key);
  if (text_attribute(instruction, "is_composite") != "true" || at == std::string_view::npos) return {};
  const std::string_view rest = attributes.substr(at + key.size());
  return rest.substr(0, rest.find('"'));
}

/// A composite that is one of our operators.
std::optional<graph::Op> composite_function(const Site& site) {
  const std::optional<graph::Op> op = function_named(composite_name(site.instruction));
  if (!op || site.types.size() != 1 || std::ssize(site.operands) != graph::info(*op).max_operands) return std::nullopt;
  const auto is_floating_array = [&](const Values* operand) {
    return operand->size() == 1 && graph::is_floating(site.builder.dtype(operand->front()));
  };
  return std::ranges::all_of(site.operands, is_floating_array) ? op : std::nullopt;
}

}  // namespace

Result<Values> lower_call(const Site& site) {
  if (const auto op = composite_function(site)) return lower_function(site, *op);
  const bool top_k = composite_name(site.instruction) == "chlo.top_k" && site.operands.size() == 1 &&
                     site.types.size() == 2 && site.types[0].rank() > 0;
  if (top_k) return top_of_lines(site, site.types[0].dims.back(), true);
  const std::string_view key = find_attribute(site.instruction, "to_apply") != nullptr ? "to_apply" : "calls";
  STITCH_ASSIGN(const Computation* computation, site.lowering.called(site, key));
  if (!site.lowering.is_threefry(*computation)) {
    Result<Values> values = site.lowering.inlined(site.builder, *computation, site.operands);
    if (!values && values.error().kind == ErrorKind::invalid_argument) return site.error(values.error().message);
    return values;
  }
  Values words;
  for (std::size_t i = 0; i < site.operands.size(); ++i) {
    if (site.operands[i]->size() != 1) return site.error("an argument is no array");
    words.push_back(site.builder.broadcast_to(site.operand(i), site.types[0].dims));
  }
  if (words.size() != 4) return site.error(fmt::format("{} arguments for 4 parameters", words.size()));
  const Value block = site.builder.add(graph::Op::threefry2x32, std::move(words));
  return Values{{block.node, 0}, {block.node, 1}};
}

Result<Values> lower_while(const Site& site) {
  STITCH_ASSIGN(const Computation* body, site.lowering.called(site, "body"));
  STITCH_ASSIGN(const Computation* condition, site.lowering.called(site, "condition"));
  STITCH_ASSIGN(std::shared_ptr<const Graph> body_graph, site.lowering.region(*body));
  STITCH_ASSIGN(std::shared_ptr<const Graph> condition_graph, site.lowering.region(*condition));
  const Value loop = site.builder.add(site.op, *site.operands[0], graph::LoopAttributes{},
                                      {std::move(body_graph), std::move(condition_graph)});
  Values results;
  for (std::size_t i = 0; i < site.operands[0]->size(); ++i) {
    results.push_back({loop.node, static_cast<std::int32_t>(i)});
  }
  return results;
}

Result<Values> lower_conditional(const Site& site) {
  STITCH_ASSIGN(std::vector<const Computation*> branches, branches_of(site));
  if (branches.size() + 1 != site.operands.size() || site.operands[0]->size() != 1) {
    return site.error(fmt::format("{} branches, {} operands", branches.size(), site.operands.size()));
  }
  std::vector<const Values*> arguments(site.operands.begin() + 1, site.operands.end());
  const bool truth = find_attribute(site.instruction, "branch_computations") == nullptr;
  if (truth) std::swap(arguments[0], arguments[1]);  // in the text the true branch comes first
  // Each branch sees the operands of all, each value once.
  std::vector<Value> operands = {site.builder.convert(site.operand(0), graph::DType::s32)};
  std::map<Value, std::size_t> place;
  std::vector<graph::TensorType> types;
  for (const Values* values : arguments) {
    for (const Value& value : *values) {
      if (!place.emplace(value, types.size()).second) continue;
      types.push_back(site.builder.type(value));
      operands.push_back(value);
    }
  }
  std::vector<std::shared_ptr<const Graph>> regions;
  for (std::size_t i = 0; i < branches.size(); ++i) {
    STITCH_ASSIGN(const std::shared_ptr<const Graph> branch, site.lowering.region(*branches[i]));
    std::vector<std::size_t> places;
    for (const Value& value : *arguments[i]) places.push_back(place.at(value));
    bool fits = branch->parameters().size() == places.size();
    for (std::size_t k = 0; fits && k < places.size(); ++k) {
      fits = branch->node(branch->parameters()[k]).type() == types[places[k]];
    }
    if (!fits) return site.error(fmt::format("the operand of branch {} is not what it takes", i));
    regions.push_back(over_all_operands(*branch, types, places));
  }
  const Value node = site.builder.add(site.op, std::move(operands), {}, std::move(regions));
  Values results;
  for (std::size_t i = 0; i < site.types.size(); ++i) results.push_back({node.node, static_cast<std::int32_t>(i)});
  return results;
}

}  // namespace stitch::import::hlo
