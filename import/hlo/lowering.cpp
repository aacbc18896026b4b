#include "import/hlo/lowering.h"

#include <algorithm>
#include <span>

#include "graph/verify.h"
#include "import/donations.h"
#include "import/hlo/attribute.h"
#include "import/hlo/describe.h"
#include "import/hlo/expansion.h"
#include "import/hlo/rules.h"
#include "import/hlo/scanner.h"
#include "import/hlo/threefry.h"
#include "import/hlo/trip_count.h"

namespace stitch::import::hlo {
namespace {

using graph::Builder;
using graph::Graph;
using graph::TensorType;

constexpr int deepest_call = 256;

/// The same kind of error with the instruction's place in front; what inference complains about is a fault of the text.
Error located(const Error& error, const Instruction& instruction) {
  const Error at = parse_error(instruction.at, fmt::format("{}: {}", place_of(instruction), error.message));
  return {error.kind == ErrorKind::invalid_argument ? ErrorKind::parse : error.kind, at.message};
}

/// The builder's error without the name and line that it put in front: ours says that, and the column.
Error failure(Builder& builder, const Instruction& instruction) {
  Error error = builder.finish({}).error();
  const std::string line = fmt::format("(line {}): ", instruction.at.line);
  if (const std::size_t at = error.message.find(line); at != std::string::npos) {
    error.message.erase(0, at + line.size());
  }
  return located(error, instruction);
}

}  // namespace

Lowering::Lowering(const Module& module, const ImportOptions& options) : module_(module), options_(options) {
  for (const Computation& computation : module.computations) by_name_.emplace(computation.name, &computation);
}

namespace {

/// The place, among the leaves of a shape, of the array that a path leads to.
Result<std::int64_t> leaf_at(const Shape& shape, std::span<const std::int64_t> path) {
  if (path.empty()) {
    if (shape.is_array()) return 0;
    return make_error(ErrorKind::invalid_argument, "an index leads to a tuple");
  }
  if (path[0] < 0 || path[0] >= std::ssize(shape.elements))
    return make_error(ErrorKind::invalid_argument, "index {} of {} elements", path[0], shape.elements.size());
  std::int64_t before = 0;
  for (std::int64_t i = 0; i < path[0]; ++i) before += leaf_count(shape.elements[i]);
  STITCH_ASSIGN(const std::int64_t inside, leaf_at(shape.elements[path[0]], path.subspan(1)));
  return before + inside;
}

/// Parameters and results are the leaves of the entry's, in order.
Status donate_alias(Imported& imported, const Computation& entry, const Alias& alias) {
  if (alias.parameter < 0 || alias.parameter >= std::ssize(entry.parameters)) {
    return make_error(ErrorKind::invalid_argument, "parameter {} of {}", alias.parameter, entry.parameters.size());
  }
  graph::Donation donation;
  for (std::int64_t p = 0; p < alias.parameter; ++p)
    donation.parameter += leaf_count(entry.instructions[entry.parameters[p]].shape);
  STITCH_ASSIGN(const std::int64_t element,
                leaf_at(entry.instructions[entry.parameters[alias.parameter]].shape, alias.element));
  donation.parameter += element;
  STITCH_ASSIGN(donation.result, leaf_at(entry.instructions[entry.root].shape, alias.result));
  return donate(imported, donation);
}

}  // namespace

/// The computation being lowered, for as long as it is.
class Lowering::Scope {
 public:
  Scope(Lowering& lowering, const Computation& computation)
      : lowering_(lowering), outer_(std::exchange(lowering.current_, &computation)) {
    ++lowering_.depth_;
  }
  ~Scope() {
    --lowering_.depth_;
    lowering_.current_ = outer_;
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Lowering& lowering_;
  const Computation* outer_;
};

Result<Imported> Lowering::run() {
  // Whatever is written out is counted, too; this is before anything is.
  if (expanded_instructions(module_, options_.max_nodes + 1) > options_.max_nodes) return too_many();
  const Computation& entry = module_.computations[module_.entry];
  Builder builder{std::string(module_.name)};
  main_ = &builder;
  std::vector<Values> parameters;
  std::vector<const Values*> arguments;
  for (const std::int32_t index : entry.parameters) {
    STITCH_ASSIGN(Values leaves, parameters_of(builder, entry.instructions[index]));
    parameters.push_back(std::move(leaves));
  }
  for (const Values& leaves : parameters) arguments.push_back(&leaves);
  STITCH_ASSIGN(const Values results, lower(builder, entry, arguments));
  STITCH_ASSIGN(const Graph graph, builder.finish(results));
  Imported imported;
  imported.format = "hlo";
  imported.graph = with_trip_counts(graph);
  if (const Status status = graph::verify(imported.graph); !status) return status.error();
  imported.boundaries = boundaries(imported.graph);
  for (const graph::NodeId id : imported.graph.parameters()) {
    imported.parameters.push_back(imported.graph.node(id).name);
  }
  for (const graph::Value& value : results) imported.results.push_back(imported.graph.node(value.node).name);
  for (const Alias& alias : module_.aliases) {
    const Status donated = donate_alias(imported, entry, alias);
    if (!donated) return parse_error(alias.at, "input_output_alias: " + donated.error().message);
  }
  return imported;
}

Result<Values> Lowering::parameters_of(Builder& builder, const Instruction& parameter) {
  const Result<std::vector<TensorType>> types = leaf_types(parameter.shape);
  if (!types) return located(types.error(), parameter);
  Values leaves;
  for (std::size_t i = 0; i < types->size(); ++i) {
    const TensorType& type = (*types)[i];
    std::string name(parameter.name);
    if (!parameter.shape.is_array()) name += fmt::format(".{}", i);
    builder.at(name, parameter.at.line);
    leaves.push_back(builder.parameter(type.dtype, type.dims, name));
  }
  if (builder.failed()) return failure(builder, parameter);
  return leaves;
}

Error Lowering::too_many() const {
  return make_error(ErrorKind::resource_exhausted, "inlining makes more than {} instructions", options_.max_nodes);
}

Result<Values> Lowering::lower(Builder& builder, const Computation& computation,
                               std::span<const Values* const> arguments) {
  if (depth_ >= deepest_call) {
    return make_error(ErrorKind::resource_exhausted, "line {}: calls are nested more than {} deep", computation.at.line,
                      deepest_call);
  }
  const Scope scope(*this, computation);
  std::vector<Values> known(computation.instructions.size());
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    known[computation.parameters[i]] = *arguments[i];
  }
  for (std::size_t i = 0; i < computation.instructions.size(); ++i) {
    const Instruction& instruction = computation.instructions[i];
    if (instruction.opcode == "parameter") continue;
    if (++steps_ > options_.max_nodes) {
      return too_many();
    }
    STITCH_ASSIGN(known[i], lower_instruction(builder, instruction, known));
  }
  return std::move(known[computation.root]);
}

Result<Values> Lowering::lower_instruction(Builder& builder, const Instruction& instruction,
                                           const std::vector<Values>& known) {
  const Rule& rule = find_rule(instruction.opcode);
  Result<std::vector<TensorType>> types = leaf_types(instruction.shape);
  if (!types) return located(types.error(), instruction);
  Site site{*this, builder, *current_, instruction, rule.op, rule.reason, {}, std::move(*types)};
  const int given = instruction.operands.size();
  if (given < rule.min_operands || (rule.max_operands >= 0 && given > rule.max_operands)) {
    return site.error(fmt::format("{} operands are given", given));
  }
  for (const std::int32_t operand : instruction.operands) {
    site.operands.push_back(&known[operand]);
    const Instruction& producer = current_->instructions[operand];
    if (rule.shapes != Shapes::any && !producer.shape.is_array()) {
      return site.error(fmt::format("operand '{}' is no array", producer.name));
    }
  }
  if (rule.shapes == Shapes::arrays && !instruction.shape.is_array()) {
    return site.error("the declared shape is no array");
  }
  builder.at(std::string(instruction.name), instruction.at.line);
  STITCH_ASSIGN(Values values, rule.lower(site));
  if (builder.failed()) return failure(builder, instruction);
  if (values.size() != site.types.size()) {
    return site.error(fmt::format("{} results where the declared shape has {}", values.size(), site.types.size()));
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (builder.type(values[i]) == site.types[i]) continue;
    return site.error(fmt::format("declared as {}, but the operands give {}", graph::to_string(site.types[i]),
                                  graph::to_string(builder.type(values[i]))));
  }
  return values;
}

Result<const Computation*> Lowering::find(std::string_view name, Position at) {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return parse_error(at, fmt::format("there is no computation '{}'", name));
  if (found->second >= current_) {
    return parse_error(at, fmt::format("computation '{}' does not come before the one that calls it", name));
  }
  return found->second;
}

Result<const Computation*> Lowering::called(const Site& site, std::string_view key) {
  STITCH_ASSIGN(const std::vector<const Computation*> list, called_list(site, key));
  if (list.size() != 1) return site.error(fmt::format("attribute '{}' names {} computations", key, list.size()));
  return list[0];
}

Result<std::vector<const Computation*>> Lowering::called_list(const Site& site, std::string_view key) {
  STITCH_ASSIGN(const Attribute* attribute, require_attribute(site.instruction, key));
  STITCH_ASSIGN(const std::vector<std::string_view> names, names_attribute(*attribute));
  std::vector<const Computation*> list;
  for (const std::string_view name : names) {
    STITCH_ASSIGN(const Computation* computation, find(name, attribute->at));
    list.push_back(computation);
  }
  return list;
}

Result<Values> Lowering::inlined(Builder& builder, const Computation& computation,
                                 std::span<const Values* const> arguments) {
  if (arguments.size() != computation.parameters.size()) {
    return make_error(ErrorKind::invalid_argument, "'{}' takes {} parameters, {} are given", computation.name,
                      computation.parameters.size(), arguments.size());
  }
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Instruction& parameter = computation.instructions[computation.parameters[i]];
    const Result<std::vector<TensorType>> types = leaf_types(parameter.shape);
    if (!types) return located(types.error(), parameter);
    const bool fits =
        std::equal(types->begin(), types->end(), arguments[i]->begin(), arguments[i]->end(),
                   [&](const TensorType& type, graph::Value value) { return builder.type(value) == type; });
    if (!fits) {
      return make_error(ErrorKind::invalid_argument, "argument {} does not have the shape that '{}' declares", i,
                        computation.name);
    }
  }
  return lower(builder, computation, arguments);
}

Result<std::shared_ptr<const Graph>> Lowering::region(const Computation& computation) {
  Builder builder{std::string(computation.name)};
  std::vector<Values> parameters;
  std::vector<const Values*> arguments;
  for (const std::int32_t index : computation.parameters) {
    STITCH_ASSIGN(Values leaves, parameters_of(builder, computation.instructions[index]));
    parameters.push_back(std::move(leaves));
  }
  for (const Values& leaves : parameters) arguments.push_back(&leaves);
  STITCH_ASSIGN(Values results, lower(builder, computation, arguments));
  STITCH_ASSIGN(Graph graph, builder.finish(std::move(results)));
  return std::make_shared<const Graph>(std::move(graph));
}

Result<std::shared_ptr<const Graph>> Lowering::shared_region(const Computation& computation) {
  if (const auto found = shared_.find(&computation); found != shared_.end()) return found->second;
  STITCH_ASSIGN(std::shared_ptr<const Graph> graph, region(computation));
  return shared_.emplace(&computation, std::move(graph)).first->second;
}

bool Lowering::is_threefry(const Computation& computation) {
  if (!options_.recognise_threefry || computation.parameters.size() != 4) return false;
  if (const auto found = threefry_.find(&computation); found != threefry_.end()) return found->second;
  const Result<std::vector<TensorType>> results = leaf_types(computation.instructions[computation.root].shape);
  bool found = false;
  if (results && results->size() == 2 && (*results)[0].dtype == graph::DType::u32) {
    const Result<std::shared_ptr<const Graph>> graph = region(computation);
    found = graph && is_threefry2x32(with_trip_counts(**graph));
  }
  threefry_.emplace(&computation, found);
  return found;
}

Result<Values> Lowering::opaque(const Site& site, std::string target, std::string_view reason) {
  std::vector<graph::Value> operands;
  for (const Values* values : site.operands) operands.insert(operands.end(), values->begin(), values->end());
  const Instruction& instruction = site.instruction;
  reasons_[{instruction.at.line, std::string(instruction.name)}] = reason;
  graph::OpaqueAttributes attributes{std::move(target), describe_attributes(module_, instruction), site.types};
  const graph::Value node = site.builder.add(graph::Op::opaque, std::move(operands), std::move(attributes));
  Values results;
  for (std::size_t i = 0; i < site.types.size(); ++i) results.push_back({node.node, static_cast<std::int32_t>(i)});
  return results;
}

Result<Values> Lowering::absent_constant(const Site& site) {
  if (&site.builder != main_) {
    return make_error(ErrorKind::unsupported,
                      "line {}, column {}: constant '{}' inside a loop or branch has its data left out",
                      site.instruction.at.line, site.instruction.at.column, site.instruction.name);
  }
  return Values{site.builder.parameter(site.type().dtype, site.type().dims, std::string(site.instruction.name))};
}

std::vector<Boundary> Lowering::boundaries(const Graph& whole) const {
  std::vector<Boundary> found;
  graph::for_each_region(whole, [&](const graph::RegionSite& site) {
    for (const graph::Node& node : site.graph.nodes()) {
      if (node.op != graph::Op::opaque) continue;
      const auto reason = reasons_.find({node.line, node.name});
      found.push_back({node.as<graph::OpaqueAttributes>().target, fmt::format("line {}, {}", node.line, node.name),
                       site.occurrences, reason == reasons_.end() ? std::string() : reason->second});
    }
  });
  return found;
}

}  // namespace stitch::import::hlo
