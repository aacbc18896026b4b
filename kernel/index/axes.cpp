#include "kernel/index/axes.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "kernel/index/searched_updates.h"
#include "kernel/index/sorted_indices.h"

namespace stitch::kernel {
namespace {

using graph::contains;
using graph::Dims;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Op;
using graph::Value;

/// Symbols stand for runs of indices; a symbol is a leaf, an alias of another symbol, or split into two.
class Symbols {
 public:
  int fresh(std::int64_t extent) {
    symbols_.push_back({extent, -1, -1, -1});
    return std::ssize(symbols_) - 1;
  }

  [[nodiscard]] std::int64_t extent(int symbol) const { return symbols_[symbol].extent; }

  /// Leaves of a sequence of symbols, outermost first.
  [[nodiscard]] std::vector<int> leaves(const std::vector<int>& sequence) const {
    std::vector<int> out;
    for (const int symbol : sequence) collect(symbol, out);
    return out;
  }

  /// Makes two sequences with equal products the same axes, splitting where needed; false (and no change beyond
  /// harmless splits) when their factors cannot be aligned.
  bool unify(const std::vector<int>& a, const std::vector<int>& b) {
    if (!alignable(leaves(a), leaves(b))) return false;
    while (true) {
      const std::vector<int> x = leaves(a), y = leaves(b);
      std::size_t i = x.size(), j = y.size();
      bool split_made = false;
      while (i > 0 && j > 0 && !split_made) {
        const int left = x[i - 1], right = y[j - 1];
        if (left == right) {
          --i;
          --j;
        } else if (extent(left) == extent(right)) {
          symbols_[right].alias = left;
          split_made = true;  // aliasing changes leaves everywhere: start over
        } else if (extent(left) > extent(right)) {
          split(left, extent(right));
          split_made = true;
        } else {
          split(right, extent(left));
          split_made = true;
        }
      }
      if (!split_made) return i == 0 && j == 0;
    }
  }

 private:
  struct Symbol {
    std::int64_t extent;
    int alias, outer, inner;
  };

  void collect(int symbol, std::vector<int>& out) const {
    const Symbol& s = symbols_[symbol];
    if (s.alias >= 0) return collect(s.alias, out);
    if (s.outer >= 0) {
      collect(s.outer, out);
      return collect(s.inner, out);
    }
    if (s.extent != 1) out.push_back(symbol);
  }

  void split(int symbol, std::int64_t inner_extent) {
    const std::int64_t outer_extent = extent(symbol) / inner_extent;
    const int outer = fresh(outer_extent), inner = fresh(inner_extent);
    symbols_[symbol].outer = outer;
    symbols_[symbol].inner = inner;
  }

  /// Whether the partial products, from the innermost side, divide one another wherever they interleave. Leaves that
  /// occur more than once make splitting cascade; bounding that is not worth it for shapes that never occur.
  [[nodiscard]] bool alignable(const std::vector<int>& a, const std::vector<int>& b) const {
    std::vector<std::int64_t> x, y;
    for (const int s : a) x.push_back(extent(s));
    for (const int s : b) y.push_back(extent(s));
    while (!x.empty() && !y.empty()) {
      const std::int64_t left = x.back(), right = y.back();
      x.pop_back();
      y.pop_back();
      if (left == right) continue;
      if (left > right) {
        if (left % right != 0) return false;
        x.push_back(left / right);
      } else {
        if (right % left != 0) return false;
        y.push_back(right / left);
      }
    }
    const auto is_one = [](std::int64_t e) { return e == 1; };
    return std::all_of(x.begin(), x.end(), is_one) && std::all_of(y.begin(), y.end(), is_one);
  }

  std::vector<Symbol> symbols_;
};

/// One symbol per dimension of every value, and the equations that each operator gives.
class Equations {
 public:
  /// Operators in `detached` give none: their results have axes of their own.
  Equations(const Graph& graph, const std::vector<std::size_t>& first_value, const std::set<NodeId>& detached)
      : graph_(graph), first_(first_value) {
    for (NodeId id = 0; id < graph.size(); ++id) {
      for (const graph::TensorType& type : graph.node(id).results) {
        dims_.emplace_back();
        for (const std::int64_t extent : type.dims) dims_.back().push_back(symbols.fresh(extent));
      }
    }
    for (NodeId id = 0; id < graph.size(); ++id) {
      detached.contains(id) ? relate_results(id) : relate(id);
    }
  }

  Symbols symbols;

  /// Axes that some value has in two places: x + transpose(x), or one iota along both dimensions of a mask. Taken as
  /// they are, such a value's iteration space would be its diagonal.
  [[nodiscard]] std::set<int> repeated() const {
    std::set<int> found;
    for (const std::vector<int>& value : dims_) {
      std::set<int> seen;
      for (const int leaf : symbols.leaves(value)) {
        if (symbols.extent(leaf) > 1 && !seen.insert(leaf).second) found.insert(leaf);
      }
    }
    return found;
  }

  [[nodiscard]] const std::vector<int>& dims(Value value) const { return dims_[first_[value.node] + value.result]; }

 private:
  void same(Value a, std::size_t i, Value b, std::size_t j) {
    if (graph_.type(a).dims[i] == graph_.type(b).dims[j]) symbols.unify({dims(a)[i]}, {dims(b)[j]});
  }

  void same_shape(Value a, Value b) {
    for (std::size_t d = 0; d < dims(a).size(); ++d) same(a, d, b, d);
  }

  void relate_reshape(Value from, Value to) {
    if (graph_.type(from).elements() == 0) return;  // of no elements none comes from anywhere
    // Regroup by the shortest runs of dimensions with equal products, so that an irregular part spoils only itself.
    const Dims &x = graph_.type(from).dims, &y = graph_.type(to).dims;
    std::size_t i = 0, j = 0;
    while (i < x.size() || j < y.size()) {
      std::vector<int> a, b;
      std::int64_t product_a = 1, product_b = 1;
      do {
        if ((product_a <= product_b && i < x.size()) || j >= y.size()) {
          product_a *= x[i];
          a.push_back(dims(from)[i++]);
        } else {
          product_b *= y[j];
          b.push_back(dims(to)[j++]);
        }
      } while (product_a != product_b);
      symbols.unify(a, b);
    }
  }

  void relate_gather(const Node& node, Value result) {
    const auto& a = node.as<graph::GatherAttributes>();
    const Value operand = node.operands[0], indices = node.operands[1];
    std::size_t window = 0;
    std::int64_t batch = 0;
    std::vector<std::size_t> window_dims;
    for (std::size_t d = 0; d < graph_.type(operand).dims.size(); ++d) {
      if (!contains(a.collapsed_slice_dims, d) && !contains(a.operand_batching_dims, d)) window_dims.push_back(d);
    }
    for (std::size_t d = 0; d < dims(result).size(); ++d) {
      if (contains(a.offset_dims, d)) {
        const std::size_t from = window_dims[window++];
        if (!contains(a.start_index_map, from)) same(result, d, operand, from);
      } else {
        if (batch == a.index_vector_dim) ++batch;
        same(result, d, indices, batch++);
      }
    }
  }

  /// Of a detached operator: whatever its operands are, elements of its results belong together.
  void relate_results(NodeId id) {
    for (std::int32_t r = 1; r < std::ssize(graph_.node(id).results); ++r) {
      if (graph_.type({id, r}).dims == graph_.type({id, 0}).dims) same_shape({id, 0}, {id, r});
    }
  }

  void relate(NodeId id) {
    const Node& node = graph_.node(id);
    const Value result{id, 0};
    switch (node.op) {
      case Op::broadcast: {
        const auto& mapping = node.as<graph::BroadcastAttributes>().mapping;
        for (std::size_t d = 0; d < mapping.size(); ++d) same(node.operands[0], d, result, mapping[d]);
        return;
      }
      case Op::reshape: return relate_reshape(node.operands[0], result);
      case Op::transpose: {
        const auto& permutation = node.as<graph::TransposeAttributes>().permutation;
        for (std::size_t d = 0; d < permutation.size(); ++d) {
          same(node.operands[0], permutation[d], result, d);
        }
        return;
      }
      case Op::slice:
      case Op::dynamic_slice:
      case Op::pad:
      case Op::reduce_window:
      case Op::select_and_scatter: return relate_untouched(node, result);
      case Op::reverse: {
        const auto& reversed = node.as<graph::ReverseAttributes>().dimensions;
        for (std::size_t d = 0; d < dims(result).size(); ++d) {
          if (!contains(reversed, d)) {
            same(node.operands[0], d, result, d);
          }
        }
        return;
      }
      case Op::concatenate: {
        const std::size_t joined = node.as<graph::ConcatenateAttributes>().dimension;
        for (const Value operand : node.operands) {
          for (std::size_t d = 0; d < dims(result).size(); ++d) {
            if (d != joined) same(operand, d, result, d);
          }
        }
        return;
      }
      case Op::dynamic_update_slice: {
        same_shape(node.operands[0], result);
        for (std::size_t d = 0; d < dims(result).size(); ++d) same(node.operands[1], d, result, d);
        return;
      }
      case Op::gather: return relate_gather(node, result);
      case Op::scatter: return same_shape(node.operands[0], result);
      case Op::reduce:
      case Op::arg_reduce:
      case Op::max_exp_sum:
        for (std::int32_t r = 0; r < std::ssize(node.results); ++r)
          relate_reduce(node, {id, r}, *graph::reduced_dimensions(node));
        return;
      case Op::scan: return same_shape(node.operands[0], result);
      case Op::associative_scan:
        for (std::int32_t r = 0; r < std::ssize(node.results); ++r) {
          same_shape(node.operands[r], result);
          same_shape(node.operands[r], {id, r});
        }
        return;
      case Op::sort: {
        const std::size_t sorted = node.as<graph::SortAttributes>().dimension;
        for (std::int32_t r = 0; r < std::ssize(node.results); ++r) {
          same_shape(node.operands[0], node.operands[r]);
          for (std::size_t d = 0; d < dims(result).size(); ++d) {
            if (d != sorted) same(node.operands[0], d, {id, r}, d);
          }
          if (r > 0) same_shape(result, {id, r});
        }
        return;
      }
      default: break;
    }
    if (!graph::is_elementwise(node.op)) return;
    for (const Value operand : node.operands) same_shape(operand, result);
    for (std::int32_t r = 1; r < std::ssize(node.results); ++r) same_shape(result, {id, r});
  }

  /// Dimensions that the operator leaves as they are. Extent alone does not tell: a slice or a window that keeps the
  /// extent keeps the elements too, but padding [1,-1] shifts them.
  void relate_untouched(const Node& node, Value result) {
    for (std::size_t d = 0; d < dims(result).size(); ++d) {
      bool untouched = true;
      if (node.op == Op::pad) {
        const auto& a = node.as<graph::PadAttributes>();
        untouched = a.low[d] == 0 && a.high[d] == 0 && a.interior[d] == 0;
      } else if (node.op == Op::reduce_window) {
        const auto& a = node.as<graph::ReduceWindowAttributes>();
        untouched = a.sizes[d] == 1 && a.strides[d] == 1 && a.low[d] == 0 && a.high[d] == 0 && a.base_dilation[d] == 1;
      } else if (node.op == Op::select_and_scatter) {
        const auto& a = node.as<graph::SelectAndScatterAttributes>();
        untouched = a.sizes[d] == 1 && a.strides[d] == 1 && a.low[d] == 0 && a.high[d] == 0;
        if (untouched) same(node.operands[1], d, result, d);
      }
      if (untouched) same(node.operands[0], d, result, d);
    }
  }

  void relate_reduce(const Node& node, Value result, const Dims& reduced) {
    std::size_t kept = 0;
    for (std::size_t d = 0; d < graph_.type(node.operands[0]).dims.size(); ++d) {
      if (!contains(reduced, d)) {
        same(node.operands[0], d, result, kept++);
      }
    }
  }

  const Graph& graph_;
  const std::vector<std::size_t>& first_;
  std::vector<std::vector<int>> dims_;
};

/// Merges axes that always stand next to each other in the same order, in values (`value_sequences`) and in what is
/// reduced; `apart` merges with none.
std::map<int, std::vector<int>> mergeable_runs(const std::vector<std::vector<int>>& value_sequences,
                                               const std::vector<std::set<int>>& reduced_sets, int apart) {
  // Axis a may merge with the axis b right after it when every value that has one has both, adjacent, and every
  // reduction combines over both or neither.
  std::map<int, std::set<int>> successors;
  std::map<int, std::set<int>> predecessors;
  constexpr int none = -1;
  for (const auto& sequence : value_sequences) {
    for (std::size_t i = 0; i < sequence.size(); ++i) {
      successors[sequence[i]].insert(i + 1 < sequence.size() ? sequence[i + 1] : none);
      predecessors[sequence[i]].insert(i > 0 ? sequence[i - 1] : none);
    }
  }
  std::map<int, int> next;
  for (const auto& [before, after] : successors) {
    if (after.size() != 1 || *after.begin() == none) continue;
    const int axis = before, b = *after.begin();
    if (predecessors[b] != std::set<int>{axis} || axis == apart || b == apart) continue;
    const bool together = std::all_of(reduced_sets.begin(), reduced_sets.end(),
                                      [&](const std::set<int>& set) { return set.contains(axis) == set.contains(b); });
    if (together) next[axis] = b;
  }
  std::set<int> continued;
  for (const auto& [a, b] : next) continued.insert(b);
  std::map<int, std::vector<int>> runs;
  for (const auto& [axis, after] : successors) {
    if (continued.contains(axis)) continue;
    std::vector<int> run = {axis};
    while (next.contains(run.back())) run.push_back(next.at(run.back()));
    runs[axis] = run;
  }
  return runs;
}

/// How readily an operator's result gets axes of its own when two dimensions would share one; 0: never.
int detach_rank(const Graph& graph, NodeId id, const std::vector<bool>& varies) {
  const Node& node = graph.node(id);
  switch (node.op) {
    // Computed anew at any index: nothing is lost.
    case Op::broadcast: return varies[id] ? 3 : 1;
    case Op::transpose:
    case Op::gather:
    case Op::slice:
    case Op::reshape: return 2;
    // Ties no two dimensions together; and its accumulators lie along what is kept of its operand.
    case Op::reduce:
    case Op::arg_reduce:
    case Op::max_exp_sum: return 0;
    default: return node.operands.empty() ? 0 : 4;
  }
}

/// Equations under which no value has one axis twice: the cheapest operators that cause it are detached, their operands
/// reached by index propagation.
Equations consistent_equations(const Graph& graph, const std::vector<std::size_t>& first_value) {
  std::vector<bool> varies(graph.size(), false);
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    varies[id] = node.op == Op::parameter || std::any_of(node.operands.begin(), node.operands.end(),
                                                         [&](Value operand) { return varies[operand.node]; });
  }
  std::set<NodeId> detached;
  for (int rank = 1;; ++rank) {
    Equations equations(graph, first_value, detached);
    const std::set<int> repeated = equations.repeated();
    if (repeated.empty() || rank > 4) return equations;
    for (NodeId id = 0; id < graph.size(); ++id) {
      if (detach_rank(graph, id, varies) != rank) continue;
      const std::vector<int> leaves = equations.symbols.leaves(equations.dims({id, 0}));
      if (std::any_of(leaves.begin(), leaves.end(), [&](int leaf) { return repeated.contains(leaf); }))
        detached.insert(id);
    }
  }
}

/// Makes the slabs an axis of their own; -1: that cannot be.
int cut(Equations& equations, const Slabs& slabs) {
  Symbols& symbols = equations.symbols;
  const std::vector<int>& dims = equations.dims(slabs.value);
  if (slabs.count < 2 || slabs.dimension < 0 || std::cmp_greater_equal(slabs.dimension, dims.size())) return -1;
  const int whole = dims[slabs.dimension];
  if (symbols.extent(whole) % slabs.count != 0) return -1;
  const int outer = symbols.fresh(slabs.count), inner = symbols.fresh(symbols.extent(whole) / slabs.count);
  if (!symbols.unify({whole}, {outer, inner})) return -1;
  const int first = symbols.leaves({whole}).front();
  return symbols.extent(first) == slabs.count ? first : -1;
}

}  // namespace

AxisAnalysis::AxisAnalysis(const Graph& graph, const Slabs& slabs) : graph_(&graph) {
  std::size_t count = 0;
  for (const Node& node : graph.nodes()) {
    first_value_.push_back(count);
    count += node.results.size();
  }
  Equations equations = consistent_equations(graph, first_value_);
  const int slab = slabs.count > 1 ? cut(equations, slabs) : -1;

  std::vector<std::vector<std::vector<int>>> leaves(count);
  std::vector<std::vector<int>> value_sequences;
  std::vector<std::set<int>> reduced_sets;
  for (NodeId id = 0; id < graph.size(); ++id) {
    for (std::int32_t r = 0; r < std::ssize(graph.node(id).results); ++r) {
      auto& dims = leaves[value_index({id, r})];
      std::vector<int> whole;
      for (const int symbol : equations.dims({id, r})) {
        dims.push_back(equations.symbols.leaves({symbol}));
        whole.insert(whole.end(), dims.back().begin(), dims.back().end());
      }
      value_sequences.push_back(std::move(whole));
    }
    if (graph.node(id).op != Op::transpose) continue;
    // The operand as the result walks it: neither stays contiguous along what both would merge into.
    std::vector<int> turned;
    for (const std::int64_t d : graph.node(id).as<graph::TransposeAttributes>().permutation) {
      const auto& axes = leaves[value_index(graph.node(id).operands[0])][d];
      turned.insert(turned.end(), axes.begin(), axes.end());
    }
    value_sequences.push_back(std::move(turned));
  }
  values_ = leaves;
  for (NodeId id = 0; id < graph.size(); ++id) {
    const std::vector<int> axes = reduced(id);
    if (!axes.empty()) reduced_sets.emplace_back(axes.begin(), axes.end());
    // Along an update's windows all elements go by the same index: apart from the rest, they go there as vectors.
    if (graph.node(id).op == Op::scatter) {
      const Value update = graph.node(id).operands[2];
      std::set<int>& placed = reduced_sets.emplace_back();
      for (std::size_t d = 0; d < graph.type(update).dims.size(); ++d) {
        if (contains(graph.node(id).as<graph::ScatterAttributes>().update_window_dims, d)) continue;
        const auto& axes_of_dimension = values_[value_index(update)][d];
        placed.insert(axes_of_dimension.begin(), axes_of_dimension.end());
      }
    }
    // Elements that look for their updates: along a window's dimensions all find the same, and a warp may test for all.
    if (graph.node(id).op == Op::scatter &&
        (graph.constraints.fixes_order() || sorted_line(graph, id) > 0 || searched_by_block(graph, id))) {
      std::set<int>& scattered = reduced_sets.emplace_back();
      for (const std::int64_t d : graph.node(id).as<graph::ScatterAttributes>().scatter_dims_to_operand_dims) {
        const auto& axes_of_dimension = values_[value_index({id, 0})][d];
        scattered.insert(axes_of_dimension.begin(), axes_of_dimension.end());
      }
    }
  }
  const auto runs = mergeable_runs(value_sequences, reduced_sets, slab);

  // Number the merged axes in order of first appearance, and rename.
  std::map<int, int> number;
  std::set<int> absorbed;
  for (const auto& [first, run] : runs) absorbed.insert(run.begin() + 1, run.end());
  for (auto& dims : values_) {
    for (auto& sequence : dims) {
      std::vector<int> renamed;
      for (const int leaf : sequence) {
        if (absorbed.contains(leaf)) continue;
        if (!number.contains(leaf)) {
          number[leaf] = axes_.size();
          if (leaf == slab) slab_axis_ = number[leaf];
          std::int64_t extent = 1;
          for (const int part : runs.at(leaf)) extent *= equations.symbols.extent(part);
          axes_.push_back({extent});
        }
        renamed.push_back(number.at(leaf));
      }
      sequence = std::move(renamed);
    }
  }
}

std::vector<int> AxisAnalysis::of(Value value) const {
  std::vector<int> all;
  for (const auto& dimension : values_[value_index(value)]) all.insert(all.end(), dimension.begin(), dimension.end());
  return all;
}

std::vector<int> AxisAnalysis::reduced(NodeId id) const {
  const Node& node = graph_->node(id);
  // A scan walks its result, whose axes are not the operand's where these would stand in one value twice.
  if (node.op == Op::scan) return of({id, 0}, node.as<graph::ScanAttributes>().dimension);
  if (node.op == Op::associative_scan) return of({id, 0}, node.as<graph::AssociativeScanAttributes>().dimension);
  if (node.op == Op::sort) return of(node.operands[0], node.as<graph::SortAttributes>().dimension);
  std::vector<int> axes;
  for (const std::int64_t d : graph::reduced_dimensions(node).value_or(Dims{})) {
    const auto& of_dimension = of(node.operands[0], d);
    axes.insert(axes.end(), of_dimension.begin(), of_dimension.end());
  }
  return axes;
}

}  // namespace stitch::kernel
