#include "kernel/contraction/contraction_sides.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "graph/dot_dimensions.h"
#include "kernel/structure/kernel_graph.h"

namespace stitch::kernel {
namespace {

using graph::ConvolutionAttributes;
using graph::Dims;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Op;
using graph::StridedView;
using graph::Value;

constexpr std::int64_t position_limit = std::int64_t{1} << 31;

void append(ContractionDigits& to, const ContractionDigits& digits) {
  to.insert(to.end(), digits.begin(), digits.end());
}

ContractionDigits joined(const StridedView& view, const Dims& dimensions) {
  ContractionDigits all;
  for (const std::int64_t d : dimensions) append(all, view.dims[d]);
  return graph::collapsed(all);
}

/// The parameter that an operand of the root is a view of.
Result<ContractionOperand> read_from(const Graph& graph, NodeId root, const StridedView& view) {
  const Node& source = graph.node(view.source.node);
  const std::optional<int> parameter = parameter_number(graph, view.source.node);
  if (!parameter) {
    return make_error(ErrorKind::unsupported, "operand {} '{}' of a {} is computed, not read from memory",
                      to_string(source.op), source.name, to_string(graph.node(root).op));
  }
  ContractionOperand operand;
  operand.parameter = *parameter;
  operand.dtype = graph.type(view.source).dtype;
  operand.offset = view.offset;
  return operand;
}

Result<ContractionOperand> operand_of_dot(const Graph& graph, NodeId root, int number, const Dims& batch,
                                          const Dims& contracting) {
  const StridedView view = graph::view_of(graph, graph.node(root).operands[number]);
  STITCH_ASSIGN(ContractionOperand operand, read_from(graph, root, view));
  operand.batch = joined(view, batch);
  operand.free = joined(view, graph::free_dimensions(view.dims.size(), batch, contracting));
  operand.contracted = joined(view, contracting);
  return operand;
}

/// Orders in which what two operands contract can be joined: as the dot says, as it lies in either.
std::vector<std::pair<Dims, Dims>> contracting_orders(const graph::DotAttributes& a) {
  std::vector<std::pair<Dims, Dims>> orders = {{a.lhs_contracting, a.rhs_contracting}};
  for (const bool by_left : {true, false}) {
    std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
    for (std::size_t i = 0; i < a.lhs_contracting.size(); ++i)
      pairs.emplace_back(a.lhs_contracting[i], a.rhs_contracting[i]);
    std::ranges::sort(pairs, {}, [&](const auto& pair) { return by_left ? pair.first : pair.second; });
    auto& [left, right] = orders.emplace_back();
    for (const auto& [of_left, of_right] : pairs) {
      left.push_back(of_left);
      right.push_back(of_right);
    }
  }
  return orders;
}

Result<ContractionSides> sides_of_dot(const Graph& graph, NodeId id) {
  const Node& root = graph.node(id);
  const auto& a = root.as<graph::DotAttributes>();
  const Dims &left = graph.type(root.operands[0]).dims, &right = graph.type(root.operands[1]).dims;
  ContractionSides sides;
  sides.batch = graph::product_of(left, a.lhs_batch);
  sides.contracted = graph::product_of(left, a.lhs_contracting);
  sides.rows = graph::product_of(left, graph::free_dimensions(left.size(), a.lhs_batch, a.lhs_contracting));
  sides.columns = graph::product_of(right, graph::free_dimensions(right.size(), a.rhs_batch, a.rhs_contracting));
  // The dot's own order first: another one only where more is copied at once, or follows one another.
  int best = 0;
  for (const auto& [left_order, right_order] : contracting_orders(a)) {
    STITCH_ASSIGN(ContractionOperand of_left, operand_of_dot(graph, id, 0, a.lhs_batch, left_order));
    STITCH_ASSIGN(ContractionOperand of_right, operand_of_dot(graph, id, 1, a.rhs_batch, right_order));
    const int width = widest_access(of_left) + widest_access(of_right);
    const int found = 4 * width + (runs(of_left.contracted) ? 1 : 0) + (runs(of_right.contracted) ? 1 : 0);
    if (found <= best) continue;
    best = found;
    sides.left = std::move(of_left);
    sides.right = std::move(of_right);
  }
  sides.sums = StridedView::of(graph, {id, 0});
  return sides;
}

// ---- convolutions

void run_backwards(StridedView& view, std::size_t dimension) {
  for (auto& [extent, stride] : view.dims[dimension]) {
    view.offset += (extent - 1) * stride;
    stride = -stride;
  }
}

/// As graph::view_of, through transposes and reversals that are nearest.
StridedView reversible_view(const Graph& graph, Value value) {
  const std::size_t rank = graph.type(value).dims.size();
  std::vector<std::int64_t> place(rank);  // of the value's dimensions, among those of what is looked at
  for (std::size_t d = 0; d < rank; ++d) place[d] = static_cast<std::int64_t>(d);
  std::vector<bool> backwards(rank, false);
  for (bool more = true; more;) {
    const Node& node = graph.node(value.node);
    more = node.op == Op::transpose || node.op == Op::reverse;
    for (std::size_t d = 0; more && d < rank; ++d) {
      if (node.op == Op::transpose) {
        place[d] = node.as<graph::TransposeAttributes>().permutation[place[d]];
      } else if (std::ranges::count(node.as<graph::ReverseAttributes>().dimensions, place[d]) > 0) {
        backwards[d] = !backwards[d];
      }
    }
    if (more) value = node.operands[0];
  }
  const StridedView found = graph::view_of(graph, value);
  StridedView view = found;
  for (std::size_t d = 0; d < rank; ++d) view.dims[d] = found.dims[place[d]];
  for (std::size_t d = 0; d < rank; ++d) {
    if (backwards[d]) run_backwards(view, d);
  }
  return view;
}

/// A dimension as `count` groups: over them, and within one of them.
struct Grouped {
  ContractionDigits over, within;
};
std::optional<Grouped> grouped(const ContractionDigits& digits, std::int64_t count) {
  const ContractionDigits joined_up = graph::collapsed(digits);
  if (count == 1) return Grouped{{}, joined_up};
  if (joined_up.size() != 1) return std::nullopt;
  const std::int64_t within = joined_up[0].extent / count, stride = joined_up[0].stride;
  return Grouped{{{count, stride * within}}, graph::collapsed({{within, stride}})};
}

class ConvolutionReader {
 public:
  ConvolutionReader(const Graph& graph, NodeId root)
      : graph_(graph),
        root_(root),
        a_(graph.node(root).as<ConvolutionAttributes>()),
        input_(reversible_view(graph, graph.node(root).operands[0])),
        kernel_(reversible_view(graph, graph.node(root).operands[1])),
        input_dims_(graph.type(graph.node(root).operands[0]).dims),
        kernel_dims_(graph.type(graph.node(root).operands[1]).dims),
        dims_(graph.node(root).type().dims) {}

  Result<ContractionSides> read() {
    for (const Dims* steps : {&a_.strides, &a_.kernel_dilation, &a_.input_dilation, &a_.low}) {
      if (std::ranges::any_of(*steps, [](std::int64_t step) { return std::abs(step) >= position_limit; }))
        return too_many_positions();
    }
    const std::int64_t groups = std::max(a_.feature_groups, a_.batch_groups);
    const auto images = grouped(input_.dims[a_.input_batch], a_.batch_groups);
    const auto features = grouped(input_.dims[a_.input_feature], a_.feature_groups);
    const auto results = grouped(kernel_.dims[a_.kernel_output_feature], groups);
    if (!images || !features || !results) return unreadable("groups");
    for (std::size_t s = 0; s < a_.input_spatial.size(); ++s) {
      if (a_.window_reversal.size() > s && a_.window_reversal[s]) run_backwards(kernel_, a_.kernel_spatial[s]);
      if (graph::collapsed(input_.dims[a_.input_spatial[s]]).size() > 1) return unreadable("a spatial dimension");
    }
    STITCH_ASSIGN(sides_.left, read_from(graph_, root_, input_));
    STITCH_ASSIGN(sides_.right, read_from(graph_, root_, kernel_));
    sides_.batch = groups;
    sides_.columns = kernel_dims_[a_.kernel_output_feature] / groups;
    sides_.left.batch = a_.batch_groups > 1 ? images->over : features->over;
    sides_.right.batch = results->over;
    sides_.right.free = results->within;
    add_rows(images->within);
    add_contracted(features->within);
    if (sides_.rows >= position_limit || sides_.contracted >= position_limit || highest_ >= position_limit)
      return too_many_positions();
    add_windows();
    place_sums();
    return std::move(sides_);
  }

 private:
  [[nodiscard]] Error unreadable(std::string_view what) const {
    const Node& node = graph_.node(root_);
    return make_error(ErrorKind::unsupported, "{} '{}': {} that no strides describe", to_string(node.op), node.name,
                      what);
  }
  [[nodiscard]] Error too_many_positions() const {
    const Node& node = graph_.node(root_);
    return make_error(ErrorKind::unsupported, "{} '{}': positions beyond 2³¹", to_string(node.op), node.name);
  }
  [[nodiscard]] std::int64_t result_extent(std::size_t s) const { return dims_[a_.output_spatial[s]]; }
  [[nodiscard]] std::int64_t window_extent(std::size_t s) const { return kernel_dims_[a_.kernel_spatial[s]]; }
  /// Elements between neighbours of a spatial dimension.
  [[nodiscard]] std::int64_t stride(std::size_t s) const {
    const ContractionDigits digits = graph::collapsed(input_.dims[a_.input_spatial[s]]);
    return digits.empty() ? 0 : digits[0].stride;
  }
  /// What a step of a window costs in memory, where one is a step of the input; holes are looked up (covers).
  [[nodiscard]] std::int64_t reach(std::size_t s) const { return a_.input_dilation[s] == 1 ? stride(s) : 0; }

  /// The positions of the result, in its own order; where a spatial dimension's index is among them.
  void add_rows(const ContractionDigits& images) {
    ContractionDigits all;
    sides_.rows = 1;
    for (std::int64_t d = std::ssize(dims_); d-- > 0;) {
      if (d == a_.output_feature) continue;
      const auto spatial = std::ranges::find(a_.output_spatial, d);
      if (spatial == a_.output_spatial.end()) {
        all.insert(all.begin(), images.begin(), images.end());
      } else {
        const std::size_t s = spatial - a_.output_spatial.begin();
        all.insert(all.begin(), {dims_[d], a_.strides[s] * reach(s)});
      }
      row_steps_.resize(dims_.size());
      row_steps_[d] = sides_.rows;
      sides_.rows *= dims_[d];
    }
    sides_.left.free = graph::collapsed(all);
  }

  /// A window's positions and features, in the order in which they lie in the operand that gains more by it: features
  /// last where they are side by side in the input, else as the kernel has them.
  void add_contracted(const ContractionDigits& features) {
    struct Dimension {
      std::optional<std::size_t> spatial;  ///< nothing: features
      ContractionDigits left, right;
      std::int64_t extent;
    };
    const std::int64_t feature_count = kernel_dims_[a_.kernel_input_feature];
    std::vector<Dimension> order = {
        {std::nullopt, features, graph::collapsed(kernel_.dims[a_.kernel_input_feature]), feature_count}};
    for (std::size_t s = 0; s < a_.kernel_spatial.size(); ++s) {
      order.push_back({s,
                       {{window_extent(s), a_.kernel_dilation[s] * reach(s)}},
                       graph::collapsed(kernel_.dims[a_.kernel_spatial[s]]),
                       window_extent(s)});
    }
    const bool side_by_side = !features.empty() && features.back().stride == 1;
    const auto rank = [&](const Dimension& each) -> std::int64_t {
      if (!each.spatial && side_by_side) return 0;
      return each.right.empty() ? position_limit * position_limit / 2 : std::abs(each.right.back().stride);
    };
    std::ranges::stable_sort(order, [&](const auto& a, const auto& b) { return rank(a) > rank(b); });
    sides_.contracted = 1;
    contracted_of_.resize(a_.kernel_spatial.size());
    ContractionDigits left, right;
    for (auto each = order.rbegin(); each != order.rend(); ++each) {
      if (each->spatial) contracted_of_[*each->spatial] = sides_.contracted;
      sides_.contracted *= each->extent;
      left.insert(left.begin(), each->left.begin(), each->left.end());
      right.insert(right.begin(), each->right.begin(), each->right.end());
    }
    sides_.left.contracted = graph::collapsed(left);
    sides_.right.contracted = graph::collapsed(right);
    for (std::size_t s = 0; s < a_.kernel_spatial.size(); ++s) {
      const std::int64_t last = (result_extent(s) - 1) * a_.strides[s] + (window_extent(s) - 1) * a_.kernel_dilation[s];
      highest_ = std::max({highest_, last, std::abs(a_.low[s]) + last});
    }
  }

  void add_windows() {
    for (std::size_t s = 0; s < a_.input_spatial.size(); ++s) {
      const std::int64_t extent = input_dims_[a_.input_spatial[s]], holes = a_.input_dilation[s];
      sides_.left.offset -= a_.low[s] * reach(s);
      WindowDimension window;
      window.free = position(row_steps_[a_.output_spatial[s]], result_extent(s), sides_.rows, a_.strides[s]);
      window.contracted = position(contracted_of_[s], window_extent(s), sides_.contracted, a_.kernel_dilation[s]);
      window.base = -a_.low[s];
      // No coordinate is beyond the limit.
      window.extent = extent == 0 ? 0 : std::min(position_limit, (extent - 1) * holes + 1);
      window.holes = holes;
      window.stride = holes == 1 ? 0 : stride(s);
      const std::int64_t last = window.base + (window.free.extent - 1) * window.free.step +
                                (window.contracted.extent - 1) * window.contracted.step;
      if (window.base >= 0 && last < window.extent && holes == 1) continue;
      sides_.left.windows.push_back(window);
    }
  }

  static WindowDimension::Position position(std::int64_t divisor, std::int64_t extent, std::int64_t all,
                                            std::int64_t step) {
    return {divisor, extent, divisor * extent == all, step};
  }

  void place_sums() {
    sides_.sums = StridedView::of(graph_, {root_, 0});
    for (std::int64_t d = 0; d < std::ssize(dims_); ++d) {
      if (d != a_.output_feature) sides_.sums.dims[d] = {{dims_[d], row_steps_[d] * sides_.columns}};
    }
    ContractionDigits& features = sides_.sums.dims[a_.output_feature];
    features = {{sides_.columns, 1}};
    if (sides_.batch > 1) features.insert(features.begin(), {sides_.batch, sides_.rows * sides_.columns});
  }

  const Graph& graph_;
  const NodeId root_;
  const ConvolutionAttributes& a_;
  StridedView input_, kernel_;
  const Dims &input_dims_, &kernel_dims_, &dims_;
  ContractionSides sides_;
  std::vector<std::int64_t> row_steps_;      // of the result's dimensions, among the rows
  std::vector<std::int64_t> contracted_of_;  // of the spatial dimensions, in what is contracted
  std::int64_t highest_ = 0;
};

}  // namespace

std::vector<NodeId> contraction_roots(const Graph& graph) {
  std::vector<NodeId> roots;
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (graph::is_contraction(graph.node(id).op)) roots.push_back(id);
  }
  return roots;
}

Result<ContractionSides> sides_of(const Graph& graph, NodeId root) {
  if (graph.node(root).op == Op::dot) return sides_of_dot(graph, root);
  return ConvolutionReader(graph, root).read();
}

bool is_in_own_order(const Graph& graph, NodeId root, const ContractionSides& sides) {
  const auto& a = graph.node(root).as<graph::DotAttributes>();
  const auto left = operand_of_dot(graph, root, 0, a.lhs_batch, a.lhs_contracting);
  const auto right = operand_of_dot(graph, root, 1, a.rhs_batch, a.rhs_contracting);
  return left && right && *left == sides.left && *right == sides.right;
}

}  // namespace stitch::kernel
