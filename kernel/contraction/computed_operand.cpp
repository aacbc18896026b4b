#include "kernel/contraction/computed_operand.h"

#include <algorithm>

#include "graph/subgraph.h"
#include "kernel/contraction/contraction_sides.h"
#include "kernel/contraction/shown_depth.h"
#include "kernel/structure/items.h"
#include "kernel/structure/kernel_graph.h"

namespace stitch::kernel {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::Op;
using graph::Value;

template <class... Arguments>
Error uncomputable(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  return make_error(ErrorKind::unsupported, format, std::forward<Arguments>(arguments)...);
}

bool is_view(Op op) {
  return op == Op::reshape || op == Op::transpose || op == Op::broadcast || op == Op::slice || op == Op::reverse;
}

/// Empty where every operator that leads to the value is element-wise, moves elements, or has no operands.
Status check_element_wise(const Graph& graph, Value value) {
  const std::vector<Value> wanted = {value};
  const std::vector<bool> needed = graph::needed_for(graph, wanted);
  for (NodeId id = 0; id <= value.node; ++id) {
    if (!needed[id]) continue;
    const graph::Node& node = graph.node(id);
    const graph::OpCategory category = graph::info(node.op).category;
    const bool fits = category == graph::OpCategory::elementwise || category == graph::OpCategory::layout ||
                      category == graph::OpCategory::source;
    if (!fits || graph::makes_random_bits(node.op))
      return uncomputable("an operand computed by {} '{}'", to_string(node.op), node.name);
  }
  return {};
}

/// Which side of every product the parameter is, where it is the same one of all and only that.
std::optional<bool> side_of(const ContractionProblem& problem, int parameter) {
  const auto all = [&](const std::vector<const ContractionOperand*>& operands, bool is) {
    return std::ranges::all_of(operands, [&](const auto* each) { return (each->parameter == parameter) == is; });
  };
  std::vector<const ContractionOperand*> right = right_operands(problem);
  if (problem.other_right) right.push_back(&*problem.other_right);
  const auto left = left_operands(problem);
  if (left.size() == 1 && all(left, true) && all(right, false)) return true;
  if (right.size() == 1 && all(right, true) && all(left, false)) return false;
  return std::nullopt;
}

/// Tensors of at most this share of an operand's elements are found in caches.
constexpr std::int64_t small_share = 16;

/// What loading an element takes, and making it of that.
Status describe(const ContractionProblem& problem, ComputedOperand& computed) {
  STITCH_ASSIGN(const ComputedElement made, computed_element(problem, computed));
  const ScalarProgram& program = made.program;
  const Graph& graph = *problem.computing;
  const ContractionOperand& operand = computed.left ? problem.left : problem.right;
  const int along = copied_axis(operand), run = widest_access(operand) / graph::byte_size(operand.dtype);
  const std::vector<bool> used = needed_by(program, made.element);
  for (ItemId id = 0; id <= made.element; ++id) {
    const Item& item = program.at(id);
    if (!used[id] || item.kind == Item::Kind::literal) continue;
    if (item.kind != Item::Kind::load) {
      computed.instructions += item.kind == Item::Kind::compute ? graph::info(item.op).instructions.narrow : 1;
      continue;
    }
    if (std::ranges::count(computed.reads, item.buffer.number) == 0) computed.reads.push_back(item.buffer.number);
    const int bytes = graph::byte_size(item.dtype);
    ComputedOperand::Loads& loads = differs_in_run(program, id, along, run) ? computed.each : computed.together;
    ++loads.count;
    loads.bytes += bytes;
    loads.narrow += bytes < 4 ? 1 : 0;
    // Of groups of rows and depths there are few, too.
    const graph::TensorType& whole = graph.node(graph.parameters()[item.buffer.number]).type();
    const bool is_small = whole.elements() * small_share <= graph.type(computed.value).elements();
    if (item.axes.contains(1) && item.axes.contains(2) && !is_small) {
      computed.tensor_bytes += bytes;
    } else {
      computed.small_bytes += std::min(whole.bytes(), program.loaded_bytes(item));
    }
  }
  std::ranges::sort(computed.reads);
  computed.condition = condition_of(program, made.element, operand);
  return {};
}

}  // namespace

std::vector<Value> computed_operands(const Graph& graph) {
  std::vector<Value> found;
  for (const NodeId root : contraction_roots(graph)) {
    for (Value value : graph.node(root).operands) {
      while (is_view(graph.node(value.node).op)) value = graph.node(value.node).operands[0];
      if (graph.node(value.node).op != Op::parameter && std::ranges::count(found, value) == 0) found.push_back(value);
    }
  }
  return found;
}

Result<ContractionProblem> derive_computed(Graph graph,
                                           const std::function<Result<ContractionProblem>(Graph)>& derive) {
  const std::vector<Value> values = computed_operands(graph);
  if (values.empty()) return uncomputable("no operand is computed");
  std::vector<Value> sources;
  for (const NodeId id : graph.parameters()) sources.push_back({id, 0});
  const auto parameters = static_cast<int>(sources.size());
  for (const Value value : values) {
    STITCH_TRY(check_element_wise(graph, value));
    sources.push_back(value);
  }
  STITCH_ASSIGN(Graph loaded, graph::subgraph(graph, sources, {graph.results().begin(), graph.results().end()}));
  // Nobody stores it, so that nobody else has it.
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Value stands_for{loaded.parameters()[parameters + i], 0};
    const std::vector<Value> results(loaded.results().begin(), loaded.results().end());
    if (std::ranges::count(results, stands_for) > 0) return uncomputable("a result that is an operand");
  }
  STITCH_ASSIGN(ContractionProblem problem, derive(std::move(loaded)));
  problem.computing = std::make_shared<const Graph>(std::move(graph));
  for (std::size_t i = 0; i < values.size(); ++i) {
    ComputedOperand computed;
    computed.parameter = parameters + static_cast<int>(i);
    computed.value = values[i];
    const std::optional<bool> left = side_of(problem, computed.parameter);
    if (!left) return uncomputable("a computed operand that products do not share");
    computed.left = *left;
    STITCH_TRY(describe(problem, computed));
    problem.computed.push_back(std::move(computed));
  }
  return problem;
}

ContractionProblem without_computing(ContractionProblem problem) {
  problem.computed.clear();
  problem.computing.reset();
  return problem;
}

Result<ComputedElement> computed_element(const ContractionProblem& problem, const ComputedOperand& computed) {
  const ContractionOperand& operand = computed.left ? problem.left : problem.right;
  const std::int64_t free = computed.left ? problem.rows : problem.columns;
  if (!operand.windows.empty()) return uncomputable("windows over a computed operand");
  ComputedElement made{{*problem.computing, {0, 1, 2}, {problem.batch, free, problem.contracted}}};
  ScalarProgram& program = made.program;
  IndexPool& pool = program.pool();
  Index place = pool.constant(operand.offset);
  const ContractionDigits* digits[] = {&operand.batch, &operand.free, &operand.contracted};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    std::int64_t step = 1;
    for (auto each = digits[axis]->rbegin(); each != digits[axis]->rend(); step *= each->extent, ++each) {
      Index digit = pool.divide(program.axes().variables[axis], step);
      if (each != digits[axis]->rend() - 1) digit = pool.remainder(digit, each->extent);
      place = pool.add(place, pool.scale(digit, each->stride));
    }
  }
  STITCH_ASSIGN(made.element,
                program.item(computed.value, pool.delinearise(place, problem.computing->type(computed.value).dims)));
  const std::vector<bool> used = needed_by(program, made.element);
  for (ItemId id = 0; id <= made.element; ++id) {
    const Item& item = program.at(id);
    if (!used[id]) continue;
    const bool loads = item.kind == Item::Kind::load;
    const bool fits = item.kind == Item::Kind::literal || item.kind == Item::Kind::index ||
                      item.kind == Item::Kind::in_range || item.kind == Item::Kind::compute ||
                      (loads && item.buffer.kind == Buffer::Kind::input && item.guard < 0);
    // Elements that are copied together are looked up together.
    const bool looked_up = item.index >= 0 && !program.items_of(item.index).empty();
    if (!fits || (looked_up && (!loads || program.looked_up_axes(item.index).contains(copied_axis(operand)))))
      return uncomputable("an operand that is more than element-wise (item {})", id);
  }
  return made;
}

const ComputedOperand* computed_side(const ContractionProblem& problem, bool left) {
  const auto found = std::ranges::find(problem.computed, left, &ComputedOperand::left);
  return found == problem.computed.end() ? nullptr : &*found;
}

int copied_axis(const ContractionOperand& operand) { return contiguity(operand) == Contiguity::free ? 1 : 2; }

bool differs_in_run(const ScalarProgram& program, ItemId load, int axis, int run) {
  const Item& item = program.at(load);
  if (!item.axes.contains(axis)) return false;
  if (program.looked_up_axes(item.index).contains(axis)) return true;
  const IndexPool::Run found = program.pool().run(item.index, program.axes().variables[axis], run);
  return !found.regular || found.step != 0;
}

int held_registers(const ComputedOperand& computed, int elements) {
  return (computed.each.bytes * elements + computed.together.bytes + 3) / 4;
}

}  // namespace stitch::kernel
