#include "graph/reference/narrow_sums.h"

#include <algorithm>
#include <cmath>

namespace stitch::graph::reference {
namespace {

constexpr int most_steps = 12;  ///< from a product back to what is multiplied

/// Whether a value is a tensor of f8, or made of one by conversions, scales and other layouts.
bool is_of_small_floats(const Graph& graph, Value value, int steps) {
  const DType dtype = graph.type(value).dtype;
  if (dtype == DType::f8e4m3 || dtype == DType::f8e5m2) return true;
  const Node& node = graph.node(value.node);
  const bool passes = node.op == Op::convert || node.op == Op::multiply || node.op == Op::transpose ||
                      node.op == Op::reshape || node.op == Op::broadcast || node.op == Op::slice;
  if (!passes || steps == 0) return false;
  return std::ranges::any_of(node.operands,
                             [&](Value operand) { return is_of_small_floats(graph, operand, steps - 1); });
}

}  // namespace

bool is_narrow_product(const Graph& graph, const Node& node) {
  if (node.op != Op::dot || !is_floating(node.type().dtype) || node.type().dtype == DType::f64) return false;
  return is_of_small_floats(graph, node.operands[0], most_steps) &&
         is_of_small_floats(graph, node.operands[1], most_steps);
}

double narrow_loss(const NarrowTerms& terms, std::int64_t part, double smallest_a, double smallest_b) {
  const auto reach = [](const double* x, const double* e, std::int64_t i, double smallest) {
    const double most = std::fabs(x[i]) + (e == nullptr ? 0 : e[i]);
    return most > 0 ? std::max(most, smallest) : 0;
  };
  double lost = 0;
  for (std::int64_t first = 0; first < terms.k; first += part) {
    const std::int64_t end = std::min(terms.k, first + part);
    double sum = 0, off = 0;  // of this part; how far the kernel's may be from it
    for (std::int64_t at = first; at < end; at += narrow_depth) {
      const std::int64_t last = std::min(end, at + narrow_depth);
      double added = 0, most = std::fabs(sum) + off, doubt = 0;
      for (std::int64_t i = at; i < last; ++i) {
        const double product = terms.a[i] * terms.b[i];
        const double largest = reach(terms.a, terms.ea, i, smallest_a) * reach(terms.b, terms.eb, i, smallest_b);
        added += product;
        doubt += terms.ea == nullptr && terms.eb == nullptr ? 0 : largest - std::fabs(product);
        most = std::max(most, largest);
      }
      sum += added;
      const double aligned = static_cast<double>(last - at + 1) * narrow_unit * most;
      const double kept = narrow_unit * (std::fabs(sum) + off + doubt + aligned);
      off += doubt + aligned + kept;
      lost += aligned + kept;
    }
  }
  return lost;
}

}  // namespace stitch::graph::reference
