#include "kernel/contraction/contraction_problem.h"

#include <algorithm>

#include "graph/calls/call_leaves.h"
#include "graph/canonical.h"
#include "graph/codec/codec.h"
#include "graph/subgraph.h"
#include "kernel/contraction/contraction_sides.h"
#include "kernel/structure/kernel_graph.h"

namespace stitch::kernel {
namespace {

using graph::DType;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Value;

Result<NodeId> only_root(const Graph& graph) {
  const std::vector<NodeId> roots = contraction_roots(graph);
  if (roots.size() > 1) return make_error(ErrorKind::unsupported, "several dots or convolutions in one contraction");
  if (roots.empty()) return make_error(ErrorKind::unsupported, "no dot or convolution to make a contraction of");
  return roots[0];
}

ContractionExtents extents_of(const ContractionProblem& problem) {
  return {problem.batch, problem.rows, problem.columns};
}

/// Where each of the graph's results is stored.
Status find_results(ContractionProblem& problem, const graph::StridedView& sums) {
  const Graph& graph = *problem.graph;
  std::vector<ContractionResult> results;
  problem.column_sums.clear();
  for (const Value value : graph.results()) {
    if (auto sum = column_sum_of(graph, problem.root, value, extents_of(problem), problem.accumulator, sums)) {
      sum->sum.result = results.size();
      problem.column_sums.push_back(std::move(sum->sum));
      results.push_back(std::move(sum->stored));
      continue;
    }
    STITCH_ASSIGN(const auto path, path_from_root(graph, problem.root, value.node));
    STITCH_ASSIGN(ContractionResult result, result_of(graph, sums, path, problem.root, extents_of(problem)));
    results.push_back(std::move(result));
  }
  const auto first = std::ranges::find_if(results, &ContractionResult::of_elements);
  if (first == results.end() && !problem.column_sums.empty())
    return make_error(ErrorKind::unsupported, "sums of columns of which nothing else is stored");
  problem.result = first == results.end() ? results.front() : *first;
  if (results.size() > 1) problem.results = std::move(results);
  return {};
}

/// With what stands behind the root.
Result<ContractionProblem> completed(ContractionProblem problem, const graph::StridedView& sums) {
  STITCH_TRY(find_results(problem, sums));
  std::vector<NodeId> columns;
  for (const ColumnSum& sum : problem.column_sums) columns.push_back(sum.node);
  STITCH_ASSIGN(problem.row_reductions, row_reductions_of(*problem.graph, problem.root, extents_of(problem),
                                                          problem.accumulator, sums, columns));
  return problem;
}

DType accumulator_of(DType left, DType right, DType result) {
  if (!graph::is_floating(result)) return graph::info(result).accumulator;
  const bool wide = left == DType::f64 || right == DType::f64 || result == DType::f64;
  return wide ? DType::f64 : DType::f32;
}

template <class Extent, class Other>
std::string extents_text(const Extent& a, const Other& b, bool swapped) {
  return swapped ? fmt::format("[{},{}]ᵀ", b, a) : fmt::format("[{},{}]", a, b);
}

/// The types of what a computed operand is made of: "f32, bf16".
std::string sources_of(const ContractionProblem& problem, const ComputedOperand& computed) {
  std::string text;
  for (const int parameter : computed.reads) {
    const graph::TensorType& type = problem.graph->node(problem.graph->parameters()[parameter]).type();
    text += fmt::format("{}{}", text.empty() ? "" : ", ", to_string(type.dtype));
  }
  return text;
}

void hash_digits(Hasher& hasher, const ContractionDigits& digits) {
  hasher.integer(digits.size());
  for (const auto& digit : digits)
    hasher.integer(static_cast<std::uint64_t>(digit.extent)).integer(static_cast<std::uint64_t>(digit.stride));
}

void hash_window(Hasher& hasher, const WindowDimension& window) {
  for (const WindowDimension::Position* position : {&window.free, &window.contracted}) {
    for (const std::int64_t each : {position->divisor, position->extent, position->step})
      hasher.integer(static_cast<std::uint64_t>(each));
  }
  for (const std::int64_t each : {window.base, window.extent, window.holes, window.stride})
    hasher.integer(static_cast<std::uint64_t>(each));
}

void hash_operand(Hasher& hasher, const ContractionOperand& operand) {
  hasher.integer(static_cast<std::uint64_t>(operand.parameter)).text(to_string(operand.dtype));
  hasher.integer(static_cast<std::uint64_t>(operand.offset));
  for (const auto* digits : {&operand.batch, &operand.free, &operand.contracted}) hash_digits(hasher, *digits);
  hasher.integer(operand.windows.size());
  for (const WindowDimension& window : operand.windows) hash_window(hasher, window);
}

}  // namespace

std::span<const ContractionProblem> parts_of(const ContractionProblem& problem) {
  if (problem.members.empty()) return {&problem, 1};
  return problem.members;
}

std::vector<const ContractionOperand*> left_operands(const ContractionProblem& problem) {
  if (problem.terms.empty()) return {&problem.left};
  std::vector<const ContractionOperand*> operands;
  for (const ContractionTerm& term : problem.terms) operands.push_back(&term.left);
  return operands;
}

std::vector<const ContractionOperand*> right_operands(const ContractionProblem& problem) {
  std::vector<const ContractionOperand*> operands;
  for (const ContractionTerm& term : problem.terms) operands.push_back(&term.right);
  if (!operands.empty()) return operands;
  for (const ContractionProblem& part : parts_of(problem)) operands.push_back(&part.right);
  return operands;
}

int widest_access(const std::vector<const ContractionOperand*>& operands) {
  int bytes = widest_bytes;
  for (const ContractionOperand* operand : operands) bytes = std::min(bytes, widest_access(*operand));
  return bytes;
}

std::int64_t depth_tiles(const ContractionProblem& problem, std::int64_t block_depth) {
  const auto tiles = [&](std::int64_t contracted) { return (contracted + block_depth - 1) / block_depth; };
  if (problem.terms.empty()) return tiles(problem.contracted);
  std::int64_t count = 0;
  for (const ContractionTerm& term : problem.terms) count += tiles(term.contracted);
  return count;
}

std::int64_t most_columns(const ContractionProblem& problem) {
  return std::ranges::max(parts_of(problem), {}, &ContractionProblem::columns).columns;
}

bool ContractionProblem::has_epilogue() const {
  if (!members.empty()) return std::ranges::any_of(members, &ContractionProblem::has_epilogue);
  for (NodeId id = root + 1; id < graph->size(); ++id) {
    if (graph::is_elementwise(graph->node(id).op)) return true;
  }
  return false;
}

double ContractionProblem::products() const {
  return static_cast<double>(batch) * static_cast<double>(rows) * static_cast<double>(columns) *
         static_cast<double>(contracted);
}

std::int64_t ContractionProblem::least_bytes() const {
  if (!members.empty() || summed || computing || scaled) return kernel::least_bytes(*whole());
  // A member's graph has the parameters of the others, too.
  const Result<Graph> own = graph::part_of(*graph, graph->results()[0]);
  return kernel::least_bytes(own ? *own : *graph);
}

bool ContractionProblem::operator==(const ContractionProblem& other) const {
  return contraction_hash(*this) == contraction_hash(other);
}

Result<ContractionProblem> derive_contraction(Graph graph) {
  ContractionProblem problem;
  problem.graph = std::make_shared<const Graph>(std::move(graph));
  const Graph& g = *problem.graph;
  STITCH_ASSIGN(problem.root, only_root(g));
  STITCH_ASSIGN(ContractionSides sides, sides_of(g, problem.root));
  problem.batch = sides.batch;
  problem.rows = sides.rows;
  problem.columns = sides.columns;
  problem.contracted = sides.contracted;
  problem.left = std::move(sides.left);
  problem.right = std::move(sides.right);
  const Node& root = g.node(problem.root);
  problem.accumulator = accumulator_of(problem.left.dtype, problem.right.dtype, root.type().dtype);
  if (problem.accumulator == DType::pred)
    return make_error(ErrorKind::unsupported, "a {} of truth values", to_string(root.op));
  auto found = completed(problem, sides.sums);
  if (found || problem.is_convolution()) return found;
  // What is combined may be the columns, seen from the other side.
  auto other = completed(turned(problem), turned(sides.sums, extents_of(problem)));
  const bool combines = other && (!other->row_reductions.empty() || !other->column_sums.empty());
  return combines ? std::move(other) : std::move(found);
}

Result<ContractionProblem> contraction_of(const Graph& graph, const graph::LibraryCall& call) {
  STITCH_ASSIGN(Graph part, graph::own_graph(graph, call));
  auto problem = derive_contraction(std::move(part));
  return problem ? std::move(problem) : problem.error().within(call.description);
}

Result<Graph> without_rows(const ContractionProblem& problem) {
  const Graph& graph = *problem.graph;
  STITCH_ASSIGN(Value last, value_before_rows(graph, problem.root, problem.row_reductions));
  if (problem.gates > 1) {  // with all of them
    STITCH_ASSIGN(const std::vector<NodeId> path, path_from_root(graph, problem.root, last.node));
    last = {problem.root, 0};
    for (const NodeId id : path) {
      if (graph.node(id).op == graph::Op::slice) break;
      last = {id, 0};
    }
  }
  // As narrow as it is made: whoever reads it widens it.
  while (graph.node(last.node).op == graph::Op::convert) {
    const Value narrow = graph.node(last.node).operands[0];
    if (graph.type(narrow).bytes() >= graph.type(last).bytes()) break;
    last = narrow;
  }
  return graph::part_of(graph, last);
}

ContractionProblem turned(ContractionProblem problem) {
  std::swap(problem.left, problem.right);
  if (problem.scales) {
    problem.scales->other_side = !problem.scales->other_side;
    std::swap(problem.scales->same_rows, problem.scales->same_columns);
    std::swap(problem.scales->row_instructions, problem.scales->column_instructions);
  }
  for (ComputedOperand& each : problem.computed) each.left = !each.left;
  for (ContractionTerm& term : problem.terms) std::swap(term.left, term.right);
  std::swap(problem.rows, problem.columns);
  std::swap(problem.result.rows, problem.result.columns);
  for (ContractionResult& result : problem.results) std::swap(result.rows, result.columns);
  return problem;
}

std::span<const ContractionResult> results_of(const ContractionProblem& part) {
  if (part.results.empty()) return {&part.result, 1};
  return part.results;
}

ResultAccess widest_access(const ContractionProblem& part) {
  if (part.result.of_rows) return {};
  ResultAccess access = widest_access(part.result);
  for (const ContractionResult& result : results_of(part)) {
    if (!result.of_elements()) continue;
    const ResultAccess other = widest_access(result);
    access.elements = other.along_rows == access.along_rows ? std::min(access.elements, other.elements) : 1;
  }
  return access;
}

std::int64_t results_of_element(const ContractionProblem& part) {
  return std::ranges::count_if(results_of(part), &ContractionResult::of_elements);
}
std::int64_t results_of_row(const ContractionProblem& part) {
  return std::ranges::count(results_of(part), true, &ContractionResult::of_rows);
}

ResultAccess widest_access(const ContractionResult& result) {
  ResultAccess access;
  access.along_rows = !runs(result.columns) && runs(result.rows);
  if (!access.along_rows && !runs(result.columns)) return access;
  access.elements = widest_bytes / graph::byte_size(result.dtype);
  for (; access.elements > 1; access.elements /= 2) {
    if (multiples(result.batch, access.elements, false) && multiples(result.rows, access.elements, access.along_rows) &&
        multiples(result.columns, access.elements, !access.along_rows))
      break;
  }
  return access;
}

std::string to_string(const ContractionProblem& problem) {
  const bool left_turned = contiguity(problem.left) == Contiguity::free;
  const bool right_turned = contiguity(problem.right) == Contiguity::contracted;
  std::string columns, results, contracted;
  for (const ContractionTerm& term : problem.terms)
    contracted += fmt::format("{}{}", contracted.empty() ? "" : "+", term.contracted);
  if (problem.terms.empty()) contracted = std::to_string(problem.contracted);
  for (const ContractionProblem& part : parts_of(problem)) {
    const std::string gates = part.gates == 1 ? "" : fmt::format("{}×", part.gates);
    columns += fmt::format("{}{}{}", columns.empty() ? "" : "+", gates, part.units());
    for (const ContractionResult& result : results_of(part))
      results += fmt::format("{}{}", results.empty() ? "" : ", ", to_string(result.dtype));
  }
  std::string computed;
  for (const ComputedOperand& each : problem.computed)
    computed += fmt::format(" ({} computed of {})", each.left ? "left" : "right", sources_of(problem, each));
  if (problem.scales) computed += fmt::format(" scaled by {} of depth", problem.scales->depth);
  return fmt::format("{} {}{}×{}·{}{} → {}{}", to_string(problem.left.dtype),
                     problem.is_convolution() ? "convolution " : "", problem.batch,
                     extents_text(problem.rows, contracted, left_turned),
                     extents_text(contracted, columns, right_turned), computed, results,
                     !problem.row_reductions.empty() && !problem.column_sums.empty() ? " with rows and sums of columns"
                     : !problem.row_reductions.empty()                               ? " with rows"
                     : !problem.column_sums.empty()                                  ? " with sums of columns"
                     : problem.has_epilogue()                                        ? " with epilogue"
                                                                                     : "");
}

namespace {

/// Of a graph without names: layers of a model are one problem. Which argument is which parameter is part of the code.
void hash_graph(Hasher& hasher, const Graph& graph) {
  const auto form = graph::canonicalise(graph);
  hasher.text(form ? form->key.hex() : graph::encode(graph, graph::Encoding::cbor));
  for (const int parameter : form ? form->parameter_order : std::vector<int>{})
    hasher.integer(static_cast<std::uint64_t>(parameter));
}

}  // namespace

Hash128 contraction_hash(const ContractionProblem& problem) {
  Hasher hasher;
  hasher.text("stitch-contraction-1");
  if (problem.computing) {
    hasher.text("computed");
    hash_graph(hasher, *problem.computing);
    for (const ComputedOperand& each : problem.computed) hasher.integer(each.left ? 1 : 0);
  }
  // Each with its own graph, whose results are the whole one's.
  for (const ContractionProblem& member : problem.members) hasher.hash(contraction_hash(member));
  if (!problem.members.empty()) return hasher.finish();
  for (const ContractionOperand* operand : {&problem.left, &problem.right}) hash_operand(hasher, *operand);
  if (problem.scales) hasher.text("scaled").integer(problem.scales->other_side ? 1 : 0);
  if (!problem.terms.empty()) hasher.text("terms").integer(problem.terms.size());
  for (const ContractionTerm& term : problem.terms) {
    hasher.integer(static_cast<std::uint64_t>(term.contracted));
    for (const ContractionOperand* operand : {&term.left, &term.right}) hash_operand(hasher, *operand);
  }
  if (problem.gates > 1) hasher.text("gates").integer(static_cast<std::uint64_t>(problem.gates));
  if (problem.other_right) {
    hasher.integer(static_cast<std::uint64_t>(problem.other_right->parameter));
    hasher.integer(static_cast<std::uint64_t>(problem.other_right->offset));
  }
  hasher.text(to_string(problem.result.dtype)).text(to_string(problem.accumulator));
  for (const auto* digits : {&problem.result.batch, &problem.result.rows, &problem.result.columns})
    hash_digits(hasher, *digits);
  if (problem.graph != nullptr && !problem.computing) hash_graph(hasher, *problem.whole());
  return hasher.finish();
}

}  // namespace stitch::kernel
