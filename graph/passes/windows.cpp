#include "graph/passes/windows.h"

#include <algorithm>
#include <vector>

#include "graph/evaluate_box.h"
#include "graph/passes/rewriter.h"

namespace stitch::graph {
namespace {

constexpr std::int64_t most_window_elements = 64;  // each becomes five operators

/// Places in a window, row-major.
std::vector<Dims> places_of(const Dims& sizes) {
  const Box window = Box::whole(sizes);
  std::vector<Dims> places = {window.start};
  for (Dims place = window.start; next_index(window, place);) places.push_back(place);
  return places;
}

bool overlaps(const SelectAndScatterAttributes& a) {
  for (std::size_t d = 0; d < a.sizes.size(); ++d) {
    if (a.sizes[d] > a.strides[d]) return true;
  }
  return false;
}

/// Whether all windows lie inside `extents`.
bool lies_inside(const SelectAndScatterAttributes& a, const Dims& windows, const Dims& extents) {
  for (std::size_t d = 0; d < extents.size(); ++d) {
    if (a.low[d] != 0 || windows[d] == 0 || (windows[d] - 1) * a.strides[d] + a.sizes[d] > extents[d]) return false;
  }
  return true;
}

class Decomposition {
 public:
  Decomposition(Rewriter& graph, const Node& node)
      : graph_(graph),
        a_(node.as<SelectAndScatterAttributes>()),
        x_(node.operands[0]),
        source_(node.operands[1]),
        windows_(graph.dims(source_)),
        places_(places_of(a_.sizes)) {}

  Value result() {
    const Value pick = selected_places();
    const Value zero = graph_.filled(graph_.type(source_), 0);
    Value sum;
    for (std::size_t i = 0; i < places_.size(); ++i) {
      const Value chosen = graph_.compare(Comparison::eq, pick, number(i));
      const Value part = spread(graph_.select(chosen, source_, zero), places_[i]);
      sum = i == 0 ? part : graph_.binary(Op::add, sum, part);
    }
    return sum;
  }

 private:
  Value number(std::size_t i) { return graph_.filled({DType::u8, windows_}, static_cast<double>(i)); }

  /// The first of the extreme elements of every window; NaN is more extreme than any number.
  Value selected_places() {
    Value best = elements(places_[0]), pick = number(0);
    for (std::size_t i = 1; i < places_.size(); ++i) {
      const Value next = elements(places_[i]), better = is_better(next, best);
      pick = graph_.select(better, number(i), pick);
      best = graph_.select(better, next, best);
    }
    return pick;
  }

  Value is_better(Value next, Value best) {
    const bool largest = a_.select == ReduceKind::max;
    if (!is_floating(graph_.dtype(x_))) return graph_.compare(largest ? Comparison::gt : Comparison::lt, next, best);
    const Value holds = graph_.compare(largest ? Comparison::ge : Comparison::le, best, next);
    return graph_.binary(Op::bit_and, graph_.unary(Op::bit_not, holds), graph_.compare(Comparison::eq, best, best));
  }

  /// The elements of x that are at `place` in their windows.
  Value elements(const Dims& place) {
    Dims limits;
    for (std::size_t d = 0; d < place.size(); ++d) limits.push_back(place[d] + (windows_[d] - 1) * a_.strides[d] + 1);
    return graph_.slice(x_, place, limits, a_.strides);
  }

  /// A value per window where the elements at `place` are in x.
  Value spread(Value value, const Dims& place) {
    PadAttributes pad{place, {}, {}};
    for (std::size_t d = 0; d < place.size(); ++d) {
      pad.high.push_back(graph_.dims(x_)[d] - place[d] - (windows_[d] - 1) * a_.strides[d] - 1);
      pad.interior.push_back(a_.strides[d] - 1);
    }
    return graph_.add(Op::pad, {value, graph_.scalar(graph_.dtype(value), 0)}, pad);
  }

  Rewriter& graph_;
  const SelectAndScatterAttributes& a_;
  Value x_, source_;
  Dims windows_;
  std::vector<Dims> places_;
};

Replacement rule(Rewriter& graph, const Node& node) {
  if (node.op != Op::select_and_scatter) return {};
  const auto& a = node.as<SelectAndScatterAttributes>();
  const bool decomposes = overlaps(a) && lies_inside(a, graph.dims(node.operands[1]), graph.dims(node.operands[0])) &&
                          element_count(a.sizes) <= most_window_elements;
  if (!decomposes) return {};
  return Decomposition(graph, node).result();
}

}  // namespace

Result<int> simplify_windows(Graph& graph, const PassContext&) {
  const auto is_candidate = [](const Node& node) { return node.op == Op::select_and_scatter; };
  if (std::none_of(graph.nodes().begin(), graph.nodes().end(), is_candidate)) return 0;
  return rewrite(graph, rule);
}

}  // namespace stitch::graph
