#include "kernel/contraction/gated_contraction.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "kernel/contraction/contraction_sides.h"

namespace stitch::kernel {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Op;
using graph::StridedView;
using graph::Value;

template <class... Arguments>
Error ungated(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  return make_error(ErrorKind::unsupported, format, std::forward<Arguments>(arguments)...);
}

/// Columns of a dot's right operand as runs of units, gate by gate. `distance`: from one operand to the other where
/// they are in two, or what divides it: only the kernel knows; 0: they are in one.
Result<ContractionDigits> interleaved(const ContractionDigits& columns, std::int64_t units, int gates,
                                      std::int64_t distance) {
  const bool apart = distance != 0;
  const std::int64_t width = apart ? units : units * gates;
  std::optional<std::int64_t> unit, gate;
  if (columns.size() == 1 && columns[0].extent == width) {
    unit = columns[0].stride;
    gate = units * columns[0].stride;
  } else if (!apart && columns.size() == 2 && columns[0].extent == gates) {
    unit = columns[1].stride;
    gate = columns[0].stride;
  }
  if (!unit || *unit == 0) return ungated("columns of gates that do not follow one another");
  return ContractionDigits{{units / gate_run, gate_run * *unit}, {gates, apart ? distance : *gate}, {gate_run, *unit}};
}

/// `view` of the sums, (b · rows + m) · columns + n, as a slice shows one gate of them: (b · rows + m) · units + n.
std::optional<StridedView> gate_of(StridedView view, const Node& slice, std::int64_t columns, std::int64_t units) {
  const auto& a = slice.as<graph::SliceAttributes>();
  int narrowed = 0;
  for (std::size_t d = 0; d < view.dims.size(); ++d) {
    std::int64_t extent = 1;
    for (const auto& digit : view.dims[d]) extent *= digit.extent;
    const std::int64_t start = a.starts[d], count = a.limits[d] - start;
    if (a.strides[d] != 1 && count > 1) return std::nullopt;
    if (count == extent) continue;
    ++narrowed;
    const StridedView::Digit* only = view.dims[d].size() == 1 ? &view.dims[d][0] : nullptr;
    if (only != nullptr && only->extent == columns && only->stride == 1 && count == units && start % units == 0) {
      view.dims[d] = {{units, 1}};
    } else if (only != nullptr && only->extent == columns / units && only->stride == units && count == 1) {
      view.dims[d] = {{1, 1}};
    } else {
      return std::nullopt;
    }
  }
  if (narrowed != 1) return std::nullopt;
  for (auto& dimension : view.dims) {
    for (auto& digit : dimension) {
      if (digit.stride >= columns) digit.stride = digit.stride / columns * units;
    }
  }
  return view;
}

class Gating {
 public:
  explicit Gating(Graph graph) { problem_.graph = std::make_shared<const Graph>(std::move(graph)); }

  Result<ContractionProblem> derive() {
    const Graph& g = *problem_.graph;
    roots_ = contraction_roots(g);
    if (roots_.empty() || roots_.size() > 2) return ungated("{} products with gates", roots_.size());
    STITCH_TRY(find_sides());
    STITCH_TRY(find_results());
    return std::move(problem_);
  }

 private:
  [[nodiscard]] bool apart() const { return roots_.size() == 2; }

  Status find_sides() {
    const Graph& g = *problem_.graph;
    STITCH_ASSIGN(ContractionSides sides, sides_of(g, roots_[0]));
    problem_.root = roots_[0];
    problem_.batch = sides.batch;
    problem_.rows = sides.rows;
    problem_.contracted = sides.contracted;
    sums_ = sides.sums;
    const graph::DType dtype = g.node(roots_[0]).type().dtype;
    if (!graph::is_floating(dtype) || dtype == graph::DType::f64) return ungated("gates of {}", to_string(dtype));
    problem_.accumulator = graph::DType::f32;
    const std::int64_t rows = sides.batch * sides.rows;
    if (rows == 0 || sides.columns == 0 || sides.contracted == 0) return ungated("gates of nothing");
    const std::int64_t units = apart() ? sides.columns : g.type(g.results()[0]).elements() / rows;
    if (units == 0 || (!apart() && sides.columns % units != 0)) return ungated("results of no gate's width");
    problem_.gates = apart() ? 2 : static_cast<int>(std::min<std::int64_t>(sides.columns / units, 1 << 16));
    if (problem_.gates != 2 && problem_.gates != 4) return ungated("{} gates", problem_.gates);
    if (units % gate_run != 0) return ungated("gates of {} columns, no multiple of {}", units, gate_run);
    problem_.columns = units * problem_.gates;
    problem_.left = std::move(sides.left);
    problem_.right = std::move(sides.right);
    if (!problem_.right.windows.empty()) return ungated("windows over gates");
    if (apart()) STITCH_TRY(find_other(g, dtype));
    STITCH_ASSIGN(problem_.right.free, interleaved(problem_.right.free, units, problem_.gates, distance()));
    return {};
  }

  /// Of the second product's operand from the first one's, as far as it is known: memory that a kernel is given begins
  /// at multiples of 256 bytes.
  [[nodiscard]] std::int64_t distance() const {
    if (!apart()) return 0;
    constexpr std::uint64_t known = 32;  // elements of at most 8 bytes
    const auto offset = static_cast<std::uint64_t>(problem_.other_right->offset - problem_.right.offset);
    return std::int64_t{1} << std::countr_zero(offset | known);
  }

  Status find_other(const Graph& g, graph::DType dtype) {
    STITCH_ASSIGN(ContractionSides other, sides_of(g, roots_[1]));
    const ContractionOperand &mine = problem_.right, &its = other.right;
    if (!(other.left == problem_.left)) return ungated("another operand '{}'", g.node(roots_[1]).name);
    const bool alike = its.dtype == mine.dtype && its.free == mine.free && its.contracted == mine.contracted &&
                       its.batch == mine.batch && g.node(roots_[1]).type() == g.node(roots_[0]).type() &&
                       g.node(roots_[1]).type().dtype == dtype;
    if (!alike) return ungated("right operands that lie otherwise than one another");
    problem_.other_right = std::move(other.right);
    problem_.other_root = roots_[1];
    return {};
  }

  Status find_results() {
    const Graph& g = *problem_.graph;
    std::vector<ContractionResult> results;
    for (const Value value : g.results()) {
      STITCH_ASSIGN(ContractionResult result, result_of_units(value));
      results.push_back(std::move(result));
    }
    problem_.result = results[0];
    if (results.size() > 1) problem_.results = std::move(results);
    if (widest_access(problem_).along_rows) return ungated("results along the rows of gates");
    return {};
  }

  Result<ContractionResult> result_of_units(Value value) const {
    const Graph& g = *problem_.graph;
    auto path = path_from_root(g, roots_.front(), value.node);
    if (!path) path = path_from_root(g, roots_.back(), value.node);  // a result of the other gate alone
    if (!path) return path.error();
    const std::int64_t units = problem_.units();
    StridedView view = sums_;
    bool of_units = apart();
    for (const NodeId id : *path) {
      const Node& node = g.node(id);
      if (graph::is_elementwise(node.op)) continue;
      std::optional<StridedView> next;
      if (node.op == Op::slice && !of_units) {
        next = gate_of(view, node, problem_.columns, units);
        of_units = true;
      } else if (node.op == Op::transpose || node.op == Op::reshape) {
        next = graph::apply_layout(view, node);
      }
      if (!next) return ungated("{} '{}' behind gates", to_string(node.op), node.name);
      view = *std::move(next);
    }
    const std::int64_t plane = problem_.rows * units;
    if (!of_units || g.type(value).elements() != problem_.batch * plane) return ungated("a result of no gate's width");
    ContractionResult result;
    result.dtype = g.type(value).dtype;
    STITCH_ASSIGN(result.columns, stored_between(view, 1, units));
    STITCH_ASSIGN(result.rows, stored_between(view, units, plane));
    STITCH_ASSIGN(result.batch, stored_between(view, plane, plane * problem_.batch));
    return result;
  }

  ContractionProblem problem_;
  std::vector<NodeId> roots_;
  StridedView sums_;
};

}  // namespace

Result<ContractionProblem> derive_gated(Graph graph) { return Gating(std::move(graph)).derive(); }

Result<ContractionResult> sums_of_gates(const ContractionProblem& problem) {
  STITCH_ASSIGN(const ContractionSides sides, sides_of(*problem.graph, problem.root));
  const std::int64_t columns = problem.other_right ? problem.units() : problem.columns;
  return result_of(*problem.graph, sides.sums, {}, problem.root, {problem.batch, problem.rows, columns});
}

}  // namespace stitch::kernel
